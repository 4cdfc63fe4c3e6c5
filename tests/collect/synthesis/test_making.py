from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collect.benchmarks.local import LocalBenchmark, read_local_bugs
from collect.benchmarks.marks import verify
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.config import RunnerConfig, RuntimeConfig
from collect.errors import ConfigError
from collect.synthesis.making import CARD_FILE, Card, make_bugs
from sandbox import SandboxConfig
from tests.collect.synthesis.sample import FILES, write_project

WANTED = 3


def config(*folders: Path, **settings: object) -> FactoryConfig:
    values: dict[str, object] = {"min_tests": 5, "bugs_per_project": WANTED, **settings}
    projects = [ProjectConfig(folder=str(folder), name="shop") for folder in folders]
    return FactoryConfig.model_validate({"projects": projects, **values})


def runtime() -> RuntimeConfig:
    return RuntimeConfig(runner=RunnerConfig(concurrency=2))


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is known of these bugs is kept nowhere else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bugs."""
    folder = tmp_path_factory.mktemp("factory")
    project = write_project(folder / "shop")
    card = make_bugs(runtime(), config(project), folder / "run").card
    assert card is not None
    assert card.bugs == WANTED
    return folder


def test_a_finished_folder_stays(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bugs = made / "run" / "factory" / "bugs.jsonl"
    written = bugs.stat().st_mtime_ns
    again = make_bugs(runtime(), config(made / "shop"), made / "run").card
    assert again is not None
    assert again.bugs == WANTED
    assert bugs.stat().st_mtime_ns == written
    assert "remove it to make the bugs again" in capsys.readouterr().err


def test_bugs_of_other_settings_are_not_replaced(made: Path) -> None:
    bugs = (made / "run" / "factory" / "bugs.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="has bugs that were made with other settings"):
        make_bugs(runtime(), config(made / "shop", seed=9), made / "run")
    assert (made / "run" / "factory" / "bugs.jsonl").read_bytes() == bugs


def test_every_bug_is_what_it_claims(made: Path) -> None:
    benchmark = LocalBenchmark(made / "run" / "factory")
    instances = benchmark.instances()
    verified = verify(benchmark, instances, SandboxConfig())
    assert [each.problems for each in verified] == [()] * WANTED
    for instance in instances:
        assert instance.repository == "shop"
        assert instance.environment.import_paths == ("src", ".")
        assert instance.pass_to_pass
        changed = {path for path in instance.files if path in instance.gold_patch}
        assert changed <= {"src/shop/stock.py", "src/shop/prices.py"}


def test_a_bug_says_how_it_was_made_and_how_hard_it_is(made: Path) -> None:
    for bug in read_local_bugs(made / "run" / "factory" / "bugs.jsonl"):
        assert bug.failure is not None
        assert bug.failure.type
        assert bug.difficulty is not None
        assert bug.difficulty.failing_tests == len(bug.fail_to_pass)
        assert bug.difficulty.covering_tests >= len(bug.fail_to_pass)
        assert bug.difficulty.call_depth is not None
        assert bug.difficulty.call_depth >= 1
        for edit in bug.edits:
            # An edit in code that no test runs can't be caught.
            assert edit.scope != "unused"


def test_the_card_counts_every_edit_once(made: Path) -> None:
    card = Card.model_validate_json((made / "run" / "factory" / CARD_FILE).read_text("utf-8"))
    [project] = card.projects
    assert project.tests == 12
    assert project.edits_found > project.edits_reached >= project.edits_tried
    assert sum(step.dropped for step in card.steps) + card.bugs == project.edits_tried
    assert card.steps[-1].remaining == card.bugs
    assert project.license == "MIT"


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_bugs(made: Path, tmp_path: Path) -> None:
    text = f"""\
run: shop
runs_folder: {tmp_path}
runner: {{concurrency: 1}}
factory:
  min_tests: 5
  bugs_per_project: {WANTED}
  projects: [{{folder: {made / "shop"}, name: shop}}]
"""
    config_file = tmp_path / "shop.yaml"
    config_file.write_text(text)
    command = [sys.executable, "-m", "stepinto", "bench", "make", str(config_file)]
    outcomes = tmp_path / "shop" / "factory" / ".work"
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 120
    while _lines(outcomes) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    before = _lines(outcomes)
    assert before >= 2
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stderr
    bugs = (tmp_path / "shop" / "factory" / "bugs.jsonl").read_text("utf-8")
    assert bugs == (made / "run" / "factory" / "bugs.jsonl").read_text("utf-8")
    assert not outcomes.exists()


def _lines(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.glob("*.work.jsonl"))


@pytest.mark.slow
def test_a_project_that_can_not_be_used_is_on_the_card(made: Path, tmp_path: Path) -> None:
    files = {path: text for path, text in FILES.items() if "test_stock" not in path}
    poor = write_project(tmp_path / "poor", files)
    wanted = config(poor, made / "shop", min_tests=8, bugs_per_project=1)
    card = make_bugs(runtime(), wanted, tmp_path / "run").card
    assert card is not None
    refused, used = card.projects
    assert refused.refused is not None
    assert "only 5 tests pass, fewer than factory.min_tests (8)" in refused.refused
    assert used.bugs == card.bugs == 1


def test_no_usable_project_is_an_error(tmp_path: Path) -> None:
    bare = write_project(tmp_path / "bare", {"shop.py": "x = 1\n"})
    with pytest.raises(ConfigError, match=r"not one bug could be made: shop: .*no tests among"):
        make_bugs(runtime(), config(bare), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"factory\.projects is empty"):
        make_bugs(runtime(), FactoryConfig(), tmp_path / "run")


@pytest.mark.slow
def test_work_of_other_settings_is_not_taken_over(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = made / "shop"
    make_bugs(runtime(), config(project, bugs_per_project=1), tmp_path)
    assert re.search(r"shop \S+: 1 bug of \d+ edits?, with \d+ tests?, in", capsys.readouterr().err)
    work = tmp_path / "factory" / ".work"
    work.mkdir()
    (tmp_path / "factory" / "bugs.jsonl").unlink()
    slug = next((tmp_path / "factory" / "repositories").iterdir()).name
    (work / f"{slug}.work.jsonl").write_text(json.dumps({"settings": "other"}) + "\n")
    with pytest.raises(ConfigError, match="of a run with other factory or sandbox settings"):
        make_bugs(runtime(), config(project, bugs_per_project=1), tmp_path)


def test_a_project_that_the_test_runner_is_made_of_is_refused(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop")
    (folder / "packaging").mkdir()
    (folder / "packaging" / "__init__.py").write_text("def parse(text):\n    return text\n")
    with pytest.raises(ConfigError, match="each sandbox needs packaging, so the correct code"):
        make_bugs(runtime(), config(folder), tmp_path / "run")
