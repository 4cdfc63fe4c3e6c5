"""The benchmark of debug tools over MCP drives our server, and its table has every row."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from benchmarks.mcp import FILE, ROOT, STOPS, TESTS, Results, Tools, endless, serving, table


def test_a_row_that_a_server_lacks_is_seen() -> None:
    ours, peers = Results(list, {"step, ms": [3.0, 1.0, 2.0]}), Results(list, {"start, ms": [4.0]})
    assert [*table({"ours": ours, "peer": peers}).columns[1].cells] == [
        "2 (1 to 3)",
        "nan (nan to nan)",
    ]


def test_sessions_stop_at_lines_of_their_tests() -> None:
    lines = TESTS.split("\n")
    assert [lines[line - 1].split()[0] for line in STOPS.values()] == [
        *("result", "count", "assert", "assert")
    ]


@pytest.mark.slow
def test_our_server_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(TESTS)
    command = [sys.executable, str(ROOT / "stepinto.py")]
    results = Results(list)

    async def work() -> None:
        async with serving(Tools, command, tmp_path) as tools:
            await endless(tools, results)

    asyncio.run(work())
    assert [len(values) for values in results.values()] == [1]
