"""`--preflight` of collect, eval and run: what is looked at before rollouts, and none of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collect.models.budget import SPENT
from collect.store.run_store import RunStore
from tests.collect.models.chat_server import ChatServer, error, reply
from tests.interpreters import find_interpreter
from tests.sandbox.image import TAG

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "debug2fix.yaml"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        arguments = json.dumps({"expression": "total"})
        function = {"name": "evaluate", "arguments": arguments}
        running.will_answer(reply(None, tool_calls=[{"id": "1", "function": function}]))
        yield running


def preflight(
    server: ChatServer, folder: Path, *overrides: str, command: str = "collect"
) -> tuple[int, str]:
    """The status, and the rows of the tables, each in one line."""
    words = [
        *(sys.executable, "-m", "stepinto", command, str(CONFIG)),
        f"runs_folder={folder}",
        "run=test",
        f"models.frontier.base_url={server.url}",
        "models.frontier.api_key_env=TEST_KEY",
        "models.frontier.retries={max_retries: 0}",
        "collect.benchmark.limit=3",
        *overrides,
        "--preflight",
    ]
    environment = os.environ | {"COLUMNS": "400", "TEST_KEY": "sk-secret"}
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, "\n".join(" ".join(line.split()) for line in done.stdout.splitlines())


@pytest.mark.slow
def test_all_is_looked_at_and_nothing_done(server: ChatServer, tmp_path: Path) -> None:
    status, table = preflight(server, tmp_path)
    assert status == 0
    model = f"│ ok │ model frontier │ gpt-5 at {server.url}, key of $TEST_KEY; called a tool after"
    assert model in table
    for row in (
        "│ ok │ rollouts │ 3 of 3 to do │",
        "│ ok │ dollars │ $0.00 spent; budget_dollars is 20 │",
        "│ ok │ images │ none are needed │",
        "│ ok │ sandbox │ local, one test of calrules__course_stops_after_a_week was run in it │",
        f"free in {tmp_path}/test, about 0.6 MB needed for the rows of 3 rollouts │",
        "needed for sandboxes, 4 at once │",
    ):
        assert row in table, row
    assert "sk-secret" not in table
    assert len(server.requests) == 1
    assert not list(RunStore(tmp_path / "test").read_rollouts())
    assert float((tmp_path / "test" / SPENT).read_text()) > 0, "it was paid for"


@pytest.mark.slow
def test_every_check_is_made_also_after_one_that_fails(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(error(401, "wrong key"))
    floor = "runner.min_free_disk_gb=1000000000"
    status, table = preflight(server, tmp_path, floor)
    assert status == 2
    assert "│ no │ disk of the run │ the disk is too full: " in table
    assert "│ no │ disk of sandboxes │ the disk is too full: " in table
    assert "│ no │ model frontier │ a first request failed: model gpt-5 at " in table
    assert "HTTP 401: wrong key. What to do: check the key" in table
    assert "│ ok │ sandbox │" in table


@pytest.mark.slow
def test_an_old_python_is_told(server: ChatServer, tmp_path: Path) -> None:
    old = find_interpreter("3.7")
    if old is None:
        pytest.skip("CPython 3.7 is not on this machine")
    paths = json.dumps(old.readable_paths)
    sandbox = f"sandbox={{python: {old.path}, readable_paths: {paths}}}"
    status, table = preflight(server, tmp_path, sandbox)
    assert status == 2
    assert "│ no │ sandbox │ the debugger needs CPython 3.8 or later, and " in table


@pytest.mark.slow
@pytest.mark.docker
def test_images_are_counted(server: ChatServer, tmp_path: Path, image: str) -> None:
    sandbox = f"sandbox={{backend: docker, image: {TAG}}}"
    _, table = preflight(server, tmp_path, sandbox)
    assert "│ ok │ images │ 1 of 1 are on this machine │" in table
    _, table = preflight(server, tmp_path, "sandbox={backend: docker, image: not-there:1}")
    assert "│ no │ images │ 1 of the 1 images that these bugs need are not on this" in table


@pytest.mark.slow
def test_an_evaluation_is_looked_at_part_by_part(server: ChatServer, tmp_path: Path) -> None:
    pairs = (
        "eval.pairs=[{main: frontier}]",
        "eval.variants=[baseline]",
        "eval.benchmark={name: bundled, limit: 2}",
    )
    questions = "eval.questions={models: [frontier], limit: 4}"
    status, tables = preflight(server, tmp_path, *pairs, questions, command="eval")
    assert status == 0
    assert "│ ok │ rollouts │ 2 of 2 to do │" in tables
    assert f"│ ok │ model frontier │ gpt-5 at {server.url}, key of $TEST_KEY; called" in tables
    assert "│ ok │ questions │ the start makes them, in " in tables
    assert not list(RunStore(tmp_path / "test" / "eval").read_rollouts())


@pytest.mark.slow
def test_of_all_stages_what_can_be_looked_at_is(server: ChatServer, tmp_path: Path) -> None:
    pairs = "eval.pairs=[{main: frontier}]"
    whole = "stages=[collect, format, train, eval]"
    status, tables = preflight(server, tmp_path, pairs, whole, command="run")
    assert status == 0
    assert tables.count("│ ok │ rollouts │") == 1, "eval needs the model of train"
    assert "eval: more can be looked at once the stages before it are done" in tables
    _, tables = preflight(server, tmp_path, pairs, "stages=[collect, eval]", command="run")
    assert tables.count("│ ok │ rollouts │") == 2
    assert "eval: more" not in tables
    status, tables = preflight(server, tmp_path, "eval.pairs=[{main: other}]", command="run")
    assert (status, tables) == (2, "")


@pytest.mark.slow
def test_it_changes_nothing_of_a_run(server: ChatServer, tmp_path: Path) -> None:
    config = tmp_path / "test" / "config.yaml"
    assert preflight(server, tmp_path)[0] == 0
    assert not config.exists()
    config.write_text("run: test\n")
    preflight(server, tmp_path, "agents.sub_max_steps=12")
    assert config.read_text() == "run: test\n"
