"""Breakpoints that were not hit: no count of an earlier run, and what "hit 0 times" means."""

from __future__ import annotations

from sandbox.debugger import Action, BreakpointRequest, ErrorKind, State
from sandbox.debugger.zero_hits import NOT_RAISED, NOT_REACHED, NOT_SINCE, NOT_UNHANDLED, OR_FALSE
from tests.sandbox.debugger.conftest import Workbench

FAILS = """
def half(n):
    if n:
        raise ValueError(n)  # @raise
    return n  # @return


half(1)
"""
FIXED = "# Fixed.\n\n" + FAILS.replace("if n:", "if n > 1:")


def test_a_restart_shows_no_count_of_the_run_before(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": FAILS})
    event = bench.start(bench.at("raise"), BreakpointRequest(exception="ValueError"))
    while event.state is not State.POST_MORTEM:
        event = bench.debugger.control(Action.CONTINUE)
    assert [point.hits for point in bench.debugger.list_breakpoints().breakpoints] == [1, 1]
    bench.write({"program.py": FIXED})
    event = bench.debugger.restart()
    assert event.state is State.DONE
    expected = [(bench.line("raise"), 0), (0, 0)]
    for shown in (event, bench.debugger.list_breakpoints()):
        assert [(point.line, point.hits) for point in shown.breakpoints] == expected
    bench.debugger.set_breakpoint(bench.at("return"))
    assert bench.debugger.restart().line == bench.line("return")
    bench.write({"program.py": "half(\n"})
    event = bench.debugger.restart()
    assert event.error_kind is ErrorKind.LAUNCH_FAILED
    for shown in (event, bench.debugger.list_breakpoints()):
        assert [point.hits for point in shown.breakpoints] == [0, 0, 0]


def test_hit_0_times_says_what_it_means(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": FIXED})
    bench.start(
        bench.at("raise"),
        bench.at("return", condition="n > 1"),
        BreakpointRequest(exception="KeyError"),
        BreakpointRequest(exception="ValueError", uncaught=True),
        bench.at("return"),
    )
    assert bench.debugger.list_breakpoints().notes == (), "the program has not come to its end"
    bench.debugger.set_breakpoint(bench.at("raise", condition="n > 5"))
    bench.debugger.control(Action.CONTINUE)
    bench.debugger.set_breakpoint(bench.at("raise", condition="n > 6"))
    assert bench.debugger.list_breakpoints().notes == (
        f"breakpoint 1: {NOT_REACHED}",
        f"breakpoint 2: {NOT_REACHED}{OR_FALSE}",
        f"breakpoint 3: {NOT_RAISED}",
        f"breakpoint 4: {NOT_UNHANDLED}",
        f"breakpoint 6: {NOT_SINCE}{OR_FALSE}",
    )
