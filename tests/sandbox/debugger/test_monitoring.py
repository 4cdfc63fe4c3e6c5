"""Programs that use `sys.monitoring`, as the debugger does from CPython 3.12 on."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, State
from tests.sandbox.debugger.conftest import Workbench

PROGRAM = """
    import sys

    mon = sys.monitoring

    def squares(n):
        total = 0
        for i in range(n):
            total += i * i
        return total  # @return

    def fail():
        raise KeyError(1)  # @raise

    def lines_of(tool, *args):
        seen = []

        def on_line(code, line):
            seen.append(line - code.co_firstlineno)
            return mon.DISABLE

        assert mon.get_tool(tool) is None
        mon.use_tool_id(tool, "mine")
        try:
            mon.register_callback(tool, mon.events.LINE, on_line)
            mon.set_local_events(tool, squares.__code__, mon.events.LINE)
            squares(*args)
            squares(*args)
        finally:
            mon.set_local_events(tool, squares.__code__, 0)
            mon.register_callback(tool, mon.events.LINE, None)
            mon.free_tool_id(tool)
        return list(dict.fromkeys(seen))

    squares(1)
    for tool in (mon.DEBUGGER_ID, 5, 0):
        assert lines_of(tool, 3) == [1, 2, 3, 4]  # @loop
    unused = mon.free_tool_id(mon.DEBUGGER_ID), mon.free_tool_id(4), mon.free_tool_id(3)
    started = []
    mon.use_tool_id(0, "all")
    mon.register_callback(0, mon.events.PY_START, lambda code, _: started.append(code))
    mon.set_events(0, mon.events.PY_START)
    squares(2)
    mon.set_events(0, 0)
    assert [code.co_name for code in started if code.co_filename == __file__] == ["squares"]
    assert mon.register_callback(0, mon.events.PY_START, None) is not None
    try:
        fail()
    except KeyError:
        pass
    """


def monitored(bench: Workbench) -> Workbench:
    if bench.interpreter.version in ("3.8", "3.9", "3.10", "3.11"):
        pytest.skip(f"CPython {bench.interpreter.version} has no sys.monitoring")
    return bench


def test_the_program_may_have_any_tool(bench: Workbench) -> None:
    bench = monitored(bench)
    bench.script(PROGRAM, "return", "loop", "raise")
    event = bench.debugger.control(Action.CONTINUE)
    while event.state is State.RUNTIME:
        assert event.notes == ()
        event = bench.debugger.control(Action.CONTINUE)
    assert event.exit_code == 0
    points = bench.debugger.list_breakpoints().breakpoints
    assert [point.hits for point in points] == [8, 3, 1]


def test_a_step_goes_past_where_the_program_takes_one(bench: Workbench) -> None:
    bench = monitored(bench)
    bench.script(PROGRAM, "loop")
    event = bench.debugger.control(Action.STEP_OVER)
    assert (event.line, event.notes) == (bench.line("loop") - 1, ())


def test_a_program_that_takes_all_is_told_why_it_fails(bench: Workbench) -> None:
    bench = monitored(bench)
    text = "import sys\nfor tool in range(6):\n    sys.monitoring.use_tool_id(tool, 'mine')\n"
    bench.write({"program.py": text})
    event = bench.start(stop_at_entry=False)
    assert event.state is State.POST_MORTEM
    assert "the program uses all tools of `sys.monitoring`" in " ".join(event.notes)


def test_a_program_that_asks_for_the_last_tool_again_and_again_takes_no_memory(
    some_bench: Workbench,
) -> None:
    bench = monitored(some_bench)
    text = """
        import resource
        import sys

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        for tool in (4, 3, 5, 2, 1):
            sys.monitoring.use_tool_id(tool, "mine")
        last = next(t for t in (0, 4, 3, 5, 2, 1) if sys.monitoring.get_tool(t) != "mine")
        before = peak()
        for _ in range(200_000):
            sys.monitoring.get_tool(last)
        grown = peak() - before
        print(grown)  # @here
    """
    event = bench.script(text, "here")
    assert sum("uses all tools" in note for note in event.notes) == 1
    assert int(bench.text_of("grown")) < 10_000
