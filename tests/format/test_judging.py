"""Conversations are judged in several processes as in one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
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

DEMONSTRATIONS = Path(__file__).parents[2] / "demonstrations"


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
