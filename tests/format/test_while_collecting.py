"""`stepinto format` on a run whose rollouts are still being done."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from collect.errors import ConfigError
from collect.rollouts.progress import Progress
from collect.rollouts.status import NAME, beating
from collect.store.run_store import RunStore
from format.config import FormatConfig
from format.stage import run_format
from stepinto import main
from tests.format.conversations import make_rollouts, write_run

ROOT = Path(__file__).parents[2]
ALL_TRAIN = FormatConfig(test_fraction=0)


def progress(done: int, total: int) -> Progress:
    return Progress(total, done_before=done)


def test_it_says_how_many_are_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rollouts = make_rollouts()
    with closing(RunStore.open(tmp_path)) as store:
        for rollout, conversations in rollouts[:2]:
            store.add(rollout, conversations)
        with beating(tmp_path, progress(done=2, total=5)):
            report = run_format(ALL_TRAIN, tmp_path)
        assert report.splits["train"].rows == 2
        told = f"the collect in {tmp_path} is still running: 2 of its 5 rollouts are done. The "
        assert f"{told}rows are made from the 2 rollouts" in caplog.text
        for rollout, conversations in rollouts[2:]:
            store.add(rollout, conversations)
    caplog.clear()
    assert run_format(ALL_TRAIN, tmp_path).splits["train"].rows == 5
    assert caplog.text == ""


def test_it_says_so_of_runs_that_are_added(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = write_run(tmp_path / "other", make_rollouts(1))
    with beating(other, progress(done=1, total=3)):
        run_format(FormatConfig(test_fraction=0, runs=(other,)), tmp_path / "run")
    assert f"the collect in {other} is still running: 1 of its 3" in caplog.text


def test_a_run_that_has_finished_none_yet_is_to_be_waited_for(tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    with beating(tmp_path, progress(done=0, total=3)), pytest.raises(ConfigError, match="wait"):
        run_format(ALL_TRAIN, tmp_path)


def test_what_has_died_or_is_unreadable_is_not_running(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = write_run(tmp_path / "run", make_rollouts(1))
    with beating(run, progress(done=1, total=3)):
        alive = (run / NAME).read_text()
    long_ago = alive.replace('"seen_at": ', '"seen_at": 1').replace('"host": "', '"host": "not-')
    for text in (long_ago, "{}"):
        (run / NAME).write_text(text)
        run_format(ALL_TRAIN, run)
    assert caplog.text == ""


@pytest.mark.slow
def test_of_a_real_collect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "test"
    overrides = [f"runs_folder={tmp_path}", "run=test", "collect.benchmark.limit=4"]
    command = [sys.executable, "-m", "stepinto", "collect", "configs/quickstart.yaml", *overrides]
    with subprocess.Popen([*command, "runner.concurrency=1"], cwd=ROOT) as collecting:
        while not any((run / "rollouts").glob("part-*.parquet")):
            assert collecting.poll() is None
            time.sleep(0.1)
        collecting.send_signal(signal.SIGSTOP)
        status = main(["format", str(run), "format.test_fraction=0"])
        collecting.send_signal(signal.SIGCONT)
        assert status == 0
        told = " ".join(capsys.readouterr().err.split())
        assert f"the collect in {run} is still running" in told
        assert "of its 4 rollouts are done" in told
        assert collecting.wait(200) == 0
    assert main(["format", str(run), "format.test_fraction=0"]) == 0
    assert "still running" not in capsys.readouterr().err
