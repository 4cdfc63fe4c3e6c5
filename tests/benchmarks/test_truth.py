"""The comparison of the debugger with a plain trace: a part of its programs, and what it finds."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from benchmarks.truth import python
from benchmarks.truth.__main__ import table
from benchmarks.truth.comparison import Comparison, row
from benchmarks.truth.executions import Executions
from tests.interpreters import find_interpreter, some_versions

SOME = ("withs", "finals", "conditions")
LOOP = """\
for n in (1,
          2):
    with open(
        "/dev/null"
    ): pass
"""


def test_it_finds_what_is_wrong() -> None:
    ran = {1: 2, 2: 1}
    right = [(1, "n=1"), (2, ""), (1, "n=2")]
    assert Comparison("a", 2, ran, ran, right, right).problems() == []
    wrong = Comparison("a", 2, {1: 3, 2: 1}, ran, [*right, (1, "n=2")], right)
    assert wrong.problems() == ["a:1: hit 3 times, ran 2 times"]
    late = Comparison("a", 2, ran, ran, [right[0], right[2], right[1]], right)
    assert late.problems() == ["a: stop 2 is not at the line that ran"]
    other = Comparison("a", 2, ran, ran, [*right[:2], (1, "n=7")], right)
    assert other.problems() == ["a:1: no run had n=7"]
    found = row("here", [wrong, other])
    assert (found.wrong_hits, found.wrong_stops, found.wrong_values) == (1, 1, 2)
    assert table([found]).row_count == 1


def test_an_event_in_the_same_execution_is_none_of_its_own() -> None:
    events = [(1, 0), (2, 2), (1, 4), (3, 8), (4, 10), (3, 12), (5, 20), (3, 24), (1, 4), (3, 8)]
    shared: dict[str, Any] = {"frame": 0, "values": "", "name": "NOP", "place": None}
    trace = {
        "events": [{**shared, "line": line, "offset": offset} for line, offset in events],
        "frames": [{"code": ["<module>", 1], "depth": 0}],
    }
    hits = [hit["line"] for hit in Executions(LOOP, trace, inlines=False).hits()]
    assert hits == [1, 2, 3, 4, 5, 1, 3]


@pytest.mark.parametrize("version", some_versions())
def test_the_debugger_tells_the_truth(version: str) -> None:
    if find_interpreter(version) is None:
        pytest.skip(f"CPython {version} is not on this machine")
    for found in python.measure([version], SOME):
        assert found.problems == ()
        assert found.stops > 100


def test_it_runs() -> None:
    command = [sys.executable, "-m", "benchmarks.truth", "--version", "3.11", "--program", "loops"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "| CPython 3.11, settrace |" in result.stdout
