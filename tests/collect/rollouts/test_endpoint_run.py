"""`stepinto collect` against a real HTTP endpoint: budgets, failures, second starts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from collect.errors import FailureKind
from collect.replay import verified_conversations
from collect.rollouts import batch
from collect.store.records import Rollout
from collect.store.run_store import RunStore
from configs.command_line.shared import FAILED, STOPPED
from stepinto import main
from tests.collect.models.chat_server import Answer, ChatServer, collect_from, error, reply

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "configs" / "debug2fix.yaml"
KEY = "sk-secret-of-the-test"
TWO = "collect.benchmark.limit=2"


def command(server: ChatServer, folder: Path, *overrides: str) -> list[str]:
    return collect_from(server, folder, "collect.benchmark.limit=3", *overrides)


def collect(server: ChatServer, folder: Path, *overrides: str) -> tuple[int, list[Rollout]]:
    status = main(command(server, folder, *overrides))
    return status, list(RunStore(folder / "test").read_rollouts())


def bash(script: str) -> Answer:
    return tool("bash", command=script)


def tool(name: str, said: str = "Hello.", **arguments: Any) -> Answer:
    call = {"name": name, "arguments": json.dumps(arguments)}
    return reply(said, tool_calls=[{"id": "c", "function": call}])


HALF = r"""cat >test_half.py <<'END'
def test_it():
    raise ValueError("cannot decode \ud83d")
END"""


def test_a_model_whose_calls_are_not_parsed_is_told(
    server: ChatServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(batch, "SILENT", 1)
    one = "collect.benchmark.limit=1"
    assert collect(server, tmp_path / "silent", one)[0] == 0
    told = "no tool was called in 1 rollouts: check that the server of frontier parses tool calls"
    assert told in capsys.readouterr().err
    server.will_answer(bash("ls"), reply())
    assert collect(server, tmp_path / "called", one)[0] == 0
    assert "no tool was called" not in capsys.readouterr().err


@pytest.mark.slow
def test_tokens_and_dollars_are_the_servers(server: ChatServer, tmp_path: Path) -> None:
    status, rows = collect(server, tmp_path, TWO)
    assert status == 0
    assert len(rows) == 2
    for row in rows:
        assert (row.main_prompt_tokens, row.main_completion_tokens) == (100, 20)
        assert row.dollars == pytest.approx(100 * 1.25e-6 + 20 * 10e-6)
        assert (row.teacher, row.main_model) == ("model", "frontier")
        assert not row.resolved
        assert len(row.tests) >= 20


@pytest.mark.slow
def test_a_spent_budget_stops_the_run_and_a_larger_one_goes_on(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dear = "models.frontier.prices={input: 10000}"
    status, rows = collect(server, tmp_path, dear, "runner.budget_dollars=1.5")
    assert status == STOPPED
    told = [line for line in capsys.readouterr().err.splitlines() if "stepinto: " in line]
    assert told == [
        "stepinto: the budget of $1.50 is spent ($2.00); the same command goes on with a higher "
        "runner.budget_dollars"
    ]
    assert Counter(row.failure_kind for row in rows) == {None: 2, FailureKind.BUDGET: 1}
    status, rows = collect(server, tmp_path, dear, "runner.budget_dollars=10")
    assert status == 0
    assert Counter(row.failure_kind for row in rows) == {None: 3}


@pytest.mark.slow
def test_the_budget_counts_what_was_replied_to_a_failed_rollout(
    server: ChatServer, tmp_path: Path
) -> None:
    settings = ["models.frontier.prices={input: 10000}", "collect.benchmark.limit=1"]
    for starts in (1, 2):
        server.will_answer(bash("true"), error(500, "down"))
        _, rows = collect(server, tmp_path, *settings)
        assert [row.dollars for row in rows] == [starts], "it goes on with one reply more"
    status, rows = collect(server, tmp_path, *settings, "runner.budget_dollars=1.5")
    assert status == STOPPED
    assert [row.failure_kind for row in rows] == [FailureKind.BUDGET]


@pytest.mark.slow
def test_infrastructure_failures_are_rows_and_are_tried_again(
    server: ChatServer, tmp_path: Path
) -> None:
    server.will_answer(error(500, "overloaded"), reply())
    status, rows = collect(server, tmp_path, TWO, "runner.again=0")
    assert status == 0
    assert Counter(row.failure_kind for row in rows) == {None: 1, FailureKind.INFRASTRUCTURE: 1}
    [failed] = [row for row in rows if row.failure_kind is not None]
    assert "overloaded" in (failed.failure_message or "")
    _, rows = collect(server, tmp_path, TWO)
    assert Counter(row.failure_kind for row in rows) == {None: 2}
    assert len({row.rollout_id for row in rows}) == 2


def test_what_failed_is_done_again_at_the_end(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(error(500, "overloaded"), reply())
    status, rows = collect(server, tmp_path, TWO)
    assert (status, Counter(row.failure_kind for row in rows)) == (0, {None: 2})
    assert len(server.requests) == 3
    told = capsys.readouterr().err.splitlines()
    assert re.match(r"\S+: EndpointDown: ", told.pop(1))
    assert [line.split()[0] for line in told] == ["1/2", "2/2", "2/2", "2/2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "asked_again"),
    [("cat setup.cfg; date", 0), ("head -c 8 /dev/urandom | od -x", 1)],
    ids=["shows-the-same", "shows-something-else"],
)
def test_a_killed_rollout_goes_on_where_it_was(
    server: ChatServer, tmp_path: Path, script: str, asked_again: int
) -> None:
    server.will_answer(bash(script), bash("ls"), reply(hold=True))
    limit = "collect.benchmark.limit=1"
    killed = subprocess.Popen(
        [sys.executable, "-m", "stepinto", *command(server, tmp_path, limit)], cwd=ROOT
    )
    for _ in range(3):
        assert server.arrived.acquire(timeout=60)
    killed.kill()
    killed.wait()
    server.released.set()
    server.will_answer(*[bash("ls")] * asked_again, reply("Done."))
    status, (row,) = collect(server, tmp_path, limit)
    assert (status, row.main_steps, row.failure_kind) == (0, 3, None)
    assert len(server.requests) == 3 + asked_again + 1
    (held,) = RunStore(tmp_path / "test").read_conversations()
    called = [call.text("command") for each in held.messages for call in each.message.tool_calls]
    assert called == [script, "ls"]
    assert not list((tmp_path / "test" / "journal").iterdir())


@pytest.mark.slow
def test_half_a_character_is_sent_as_it_is_stored(server: ChatServer, tmp_path: Path) -> None:
    """By a rollout that goes on where it was, and then is replayed."""
    start = {"test": "test_half.py::test_it", "stop_at_test": False}
    debug = tool("debug_start_session", "half \ud83d", **start)
    settings = ["collect.benchmark.limit=1", "collect.variants=[debug_tools_only]"]
    server.will_answer(bash(HALF), debug, error(500, "down"))
    _, (row,) = collect(server, tmp_path, *settings, "runner.again=0")
    assert row.failure_type == "EndpointDown"
    server.will_answer(reply("Done."))
    status, (row,) = collect(server, tmp_path, *settings)
    assert (status, row.failure_kind, row.main_steps) == (0, None, 3)
    assert len(server.requests) == 4, "two replies were kept"
    (held,) = RunStore(tmp_path / "test").read_conversations()
    sent = [message["content"] for message in server.requests[-1]["messages"]]
    assert sent == [each.message.content for each in held.messages[:-1]]
    assert sent[-2] == "half \ufffd"
    assert "ValueError: cannot decode \ufffd" in sent[-1]
    assert main(["replay", str(tmp_path / "test")]) == 0
    assert list(verified_conversations(tmp_path / "test").values()) == [True]


@pytest.mark.slow
def test_replies_under_other_settings_are_asked_for_again(
    server: ChatServer, tmp_path: Path
) -> None:
    limit = "collect.benchmark.limit=1"
    server.will_answer(bash("ls"), error(500, "down"))
    collect(server, tmp_path, limit, "runner.again=0")
    server.will_answer(reply("Done."))
    (tmp_path / "test" / "rollouts").rename(tmp_path / "rollouts")
    _, (row,) = collect(server, tmp_path, limit, "agents.bash_timeout=7")
    assert row.main_steps == 1
    assert len(server.requests) == 3


@pytest.mark.slow
def test_a_context_that_is_too_long_is_the_models_failure(
    server: ChatServer, tmp_path: Path
) -> None:
    server.will_answer(error(400, "too many tokens", "context_length_exceeded"))
    _, rows = collect(server, tmp_path)
    assert {row.failure_kind for row in rows} == {FailureKind.MODEL}
    assert all(row.tests for row in rows), "its patch is judged all the same"
    calls = len(server.requests)
    collect(server, tmp_path)
    assert len(server.requests) == calls, "a model's failure is final"


@pytest.mark.slow
def test_a_run_in_which_nothing_works_gives_up(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(error(401, "wrong key"))
    status, rows = collect(server, tmp_path, "runner.give_up_after=2")
    assert status == FAILED
    assert len(rows) == 2
    assert "2 rollouts in a row failed" in (told := capsys.readouterr().err)
    assert "wrong key" in told
    status, rows = collect(server, tmp_path)
    assert (status, len(rows)) == (FAILED, 3)
    assert "all 3 rollouts failed" in capsys.readouterr().err


@pytest.mark.slow
def test_tests_that_a_time_out_cut_off_say_so(server: ChatServer, tmp_path: Path) -> None:
    call = {
        "name": "bash",
        "arguments": json.dumps(
            {"command": "echo 'import time; time.sleep(60)' | tee -a */__init__.py"}
        ),
    }
    server.will_answer(reply(tool_calls=[{"id": "c", "function": call}]), reply())
    _, rows = collect(
        server, tmp_path, "collect.benchmark.limit=1", "collect.benchmark.test_timeout=4"
    )
    assert {test.after for test in rows[0].tests} == {"timed_out"}


@pytest.mark.slow
def test_no_key_lands_in_a_runs_folder(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    tired = error(500, f"the key {KEY} is tired")
    server.will_answer(tired, tired, bash("env; set"), reply("Done."))
    named = "models.frontier.api_key_env=TEST_KEY"
    retries = "models.frontier.retries={max_retries: 1, backoff_base: 0.01}"
    limit = ("collect.benchmark.limit=2", "runner.again=0")
    _, rows = collect(server, tmp_path, named, retries, *limit)
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert any("the key [key] is tired" in (row.failure_message or "") for row in rows)
    assert main(["view", str(tmp_path / "test")]) == 0
    tables = RunStore(tmp_path / "test")
    assert KEY not in str([list(tables.rollouts.rows()), list(tables.conversations.rows())])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".html", ".parquet", ".yaml", ".json", ".jsonl"}
    logs = "".join(path.read_text() for path in (tmp_path / "test" / "logs").iterdir())
    assert logs.count("the key [key] is tired") == 2, "retried, and failed in the end"
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


@pytest.mark.slow
def test_a_key_that_a_server_echoes_is_stored_nowhere(
    server: ChatServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    key = "sk-Echoed/by+the_server"
    monkeypatch.setenv("TEST_KEY", key)
    forms = [key, quote(key, safe="")]
    echo = f"Authorization: Bearer {' '.join(forms)}"
    call = {"name": "bash", "arguments": json.dumps({"command": echo})}
    said = reply(echo, tool_calls=[{"id": key, "function": call}], reasoning=echo)
    refused = error(500, f"{'x' * (600 - len(key))} {echo}")
    server.will_answer(refused, said, error(500, echo), said, reply(echo, finish_reason=key))
    named = "models.frontier.api_key_env=TEST_KEY"
    retries = "models.frontier.retries={max_retries: 1, backoff_base: 0.01}"
    _, (row,) = collect(server, tmp_path, named, retries, "collect.benchmark.limit=1")
    assert (row.failure_kind, row.main_steps) == (None, 3)
    assert server.keys[0] == f"Bearer {key}"
    assert main(["view", str(tmp_path / "test")]) == 0
    tables = RunStore(tmp_path / "test")
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    values = str([list(tables.rollouts.rows()), list(tables.conversations.rows())])
    assert values.count("Bearer [key] [key]") >= 5
    told = "".join(capfd.readouterr())
    for form in (*forms, key[:12]):
        assert form not in values
        assert form not in told
        assert all(form.encode() not in data for data in files)


def test_a_budget_that_nothing_counts_against_is_refused(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, rows = collect(server, tmp_path, "models.frontier.prices={}", "runner.budget_dollars=1")
    assert (status, rows) == (2, [])
    assert "no model has prices" in capsys.readouterr().err
