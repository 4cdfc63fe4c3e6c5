"""Unusual source files: every line is shown as CPython runs it."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, BreakpointRequest, StopReason
from tests.sandbox.debugger.conftest import Workbench

PROGRAM = (
    "# one\f two \v three \x1c four \x1d five \x1e six \x85 seven \u2028 eight \u2029 nine\n"
    "\f\n"
    "text = 'a\u2028b\x85c'\n"
    "def double(n):\n"
    "    '''Doc\f\x1c\u2028string.'''\n"
    "    return n * 2  # \x1c {word}\n"
    "\f\n"
    "result = double(4)  # {word}\n"
    "done = 1\n"
)
LATIN = "# -*- coding: latin-1 -*- \f\n" + PROGRAM.format(word="é").split("\n", 1)[1].replace(
    "\u2028", "\x1e"
)
FILES = {
    "odd characters": PROGRAM.format(word="é").encode(),
    "a BOM": b"\xef\xbb\xbf" + PROGRAM.format(word="é").encode(),
    "CRLF": PROGRAM.format(word="é").replace("\n", "\r\n").encode(),
    "CR": PROGRAM.format(word="é").replace("\n", "\r").encode(),
    "Latin-1": LATIN.encode("latin-1"),
    "Latin-1 in the cookie's line": LATIN.replace("\f", "\x85", 1).encode("latin-1"),
}


@pytest.mark.parametrize("kind", FILES)
def test_the_line_that_runs_is_the_one_shown(some_bench: Workbench, kind: str) -> None:
    bench = some_bench
    bench.sandbox.write_file("program.py", FILES[kind])
    event = bench.start(BreakpointRequest(function="double"), stop_at_entry=False)
    assert (event.line, event.function) == (6, "double")
    assert [line.strip() for line in event.source if line.startswith("->")] == [
        "-> *     6      return n * 2  # \\x1c é"
    ]
    assert [(frame.line, frame.source) for frame in bench.debugger.stack().frames] == [
        (6, "return n * 2  # \\x1c é"),
        (8, "result = double(4)  # é"),
    ]
    event = bench.debugger.set_breakpoint(BreakpointRequest(file="program.py", line=9))
    assert event.breakpoints[-1].line == 9
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, 9)
    assert bench.text_of("result") == "8"
