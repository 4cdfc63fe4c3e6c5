"""Conversations are judged in several processes as in one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from collect.errors import ConfigError
from collect.store.run_store import CONVERSATIONS
from format.candidates import Candidate, Chunk
from format.config import FormatConfig
from format.judging import judge_all
from format.report import FormatReport
from format.stage import run_format

ROOT = Path(__file__).parents[2]
DEMONSTRATIONS = ROOT / "demonstrations"


def formatted(run: Path, processes: int) -> tuple[FormatReport, list[dict[str, object]]]:
    report = run_format(FormatConfig(runs=(DEMONSTRATIONS,), processes=processes), run)
    files = sorted((run / "sft" / "data").glob("*.parquet"))
    return report, [row for file in files for row in pq.read_table(file).to_pylist()]


def test_rows_and_funnel_are_the_same_in_several_processes(tmp_path: Path) -> None:
    alone, alone_rows = formatted(tmp_path / "alone", 1)
    shared, shared_rows = formatted(tmp_path / "shared", 2)
    assert shared_rows == alone_rows != []
    assert shared.funnel == alone.funnel


class Killed(Chunk):
    """Its process dies, as if the machine's memory had run out."""

    def rollouts(self) -> Iterator[Sequence[Candidate]]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield []


def test_the_end_of_a_process_is_told(tmp_path: Path) -> None:
    chunk = Killed(FormatConfig(), tmp_path, "", CONVERSATIONS.empty_table(), {}, {})
    with pytest.raises(ConfigError, match="a process of format ended"):
        list(judge_all([chunk], 2))


class Endless(Chunk):
    """Names its process, and is not done."""

    def rollouts(self) -> Iterator[Sequence[Candidate]]:
        (self.folder / f"{os.getpid()}.pid").touch()
        time.sleep(600)
        yield []


def judge_endlessly(folder: str) -> None:
    chunk = Endless(FormatConfig(), Path(folder), "", CONVERSATIONS.empty_table(), {}, {})
    list(judge_all([chunk, chunk], 2))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_one_that_began_them(tmp_path: Path, number: int) -> None:
    code = f"from {__name__} import judge_endlessly; judge_endlessly({str(tmp_path)!r})"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as caller:
        try:
            await_that(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
        finally:
            caller.send_signal(number)
    await_that(lambda: not any(is_running(path.stem) for path in tmp_path.glob("*.pid")))


def is_running(process: str) -> bool:
    try:
        # That of a process that has ended is empty until somebody waits for it.
        return bool((Path("/proc") / process / "cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def await_that(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
