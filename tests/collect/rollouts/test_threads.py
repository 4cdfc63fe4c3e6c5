"""How a run of many rollouts is stopped from outside."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collect.store.run_store import RunStore
from collect.threads import run_in_threads

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 120
HEARS_HANG_UPS = ("env", "--default-signal=HUP")
"""Starts a command that hears SIGHUP even if these tests run under `nohup`."""


@pytest.mark.slow
def test_a_run_stops_cleanly_when_its_terminal_goes_away(tmp_path: Path) -> None:
    settings = [f"runs_folder={tmp_path}", "run=test", "collect.benchmark.split=all"]
    command = [sys.executable, "-m", "stepinto", "collect", "configs/quickstart.yaml", *settings]
    ours, theirs = pty.openpty()
    driver = subprocess.Popen(
        [*HEARS_HANG_UPS, "setsid", "--ctty", *command],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while not re.search(rb"resolved [1-9].* running 2", shown):
        shown += os.read(ours, 65536)
    os.close(ours)
    assert driver.wait(SECONDS) == 130
    assert list(RunStore(tmp_path / "test").read_rollouts())
    assert not list((tmp_path / "test").rglob(".tmp-*"))


HANGING = """
import os, signal, sys, threading
from collect.threads import run_in_threads

stop = threading.Event()

def do(job):
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGHUP)
    if stop.wait(float(sys.argv[1])):
        print("said to nobody", flush=True)
        os.write(2, b"nor this")

run_in_threads(range(3), do, 1, stop)
print("stopped" if stop.is_set() else "done", file=open(sys.argv[2], "w"))
"""


def hung_up(folder: Path, seconds: float, *before: str) -> tuple[str, str]:
    """What a run said, and how it ended, whose jobs last so long and are sent SIGHUP each."""
    ended = folder / "ended"
    command = [*before, sys.executable, "-c", HANGING, str(seconds), str(ended)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout, ended.read_text().strip()


def test_a_hang_up_stops_and_what_is_printed_then_goes_nowhere(tmp_path: Path) -> None:
    assert hung_up(tmp_path, SECONDS, *HEARS_HANG_UPS) == ("", "stopped")


def test_a_hang_up_that_is_ignored_does_not_stop(tmp_path: Path) -> None:
    assert hung_up(tmp_path, 0.1, "nohup") == ("", "done")


def test_handlers_are_put_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    run_in_threads([1], lambda job: None, 1, threading.Event())
    assert [signal.getsignal(number) for number in numbers] == before


def test_jobs_at_once_are_bounded_and_no_thread_is_left() -> None:
    before = threading.active_count()
    taken: list[int] = []
    done: list[int] = []
    at_once: list[int] = []
    together = threading.Barrier(3, timeout=SECONDS)

    def jobs() -> Iterator[int]:
        for number in range(9):
            at_once.append(len(taken) - len(done))
            taken.append(number)
            yield number

    def do(job: int) -> None:
        together.wait()
        done.append(job)

    run_in_threads(jobs(), do, 3, threading.Event())
    assert sorted(done) == list(range(9))
    assert max(at_once) < 3
    assert threading.active_count() == before


def test_the_first_exception_stops_the_others_and_is_raised() -> None:
    stop = threading.Event()
    ended: list[bool] = []

    def do(job: int) -> None:
        if job == 1:
            raise ValueError("no")
        ended.append(stop.wait(SECONDS))

    with pytest.raises(ValueError, match="no"):
        run_in_threads(range(5), do, 2, stop)
    assert ended == [True]
