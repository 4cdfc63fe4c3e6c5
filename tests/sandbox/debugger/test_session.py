"""The state machine, restart, and what carries over."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from sandbox import Command
from sandbox.debugger import Action, BreakpointRequest, ErrorKind, Launch, State, StopReason
from sandbox.debugger.rendering import render
from tests.interpreters import find_interpreter
from tests.sandbox.debugger.conftest import Workbench

PROGRAM = """
    def work(n):
        square = n * n  # @square
        return square

    for n in range(3):
        work(n)  # @call
"""


@pytest.fixture
def one(open_bench: Callable[..., Workbench]) -> Workbench:
    """A bench on the interpreter that runs the tests."""
    interpreter = find_interpreter("3.11")
    if interpreter is None:
        pytest.skip("CPython 3.11 is not on this machine")
    return open_bench(interpreter)


def test_before_the_start_only_a_start_is_allowed(one: Workbench) -> None:
    debugger = one.debugger
    events = [
        debugger.control(Action.CONTINUE),
        debugger.restart(),
        debugger.locals(),
        debugger.evaluate("1"),
        debugger.stack(),
        debugger.fields("x"),
        debugger.run_code("x = 1"),
        debugger.set_breakpoint(BreakpointRequest(file="a.py", line=1)),
        debugger.remove_breakpoint(1),
        debugger.list_breakpoints(),
    ]
    for event in events:
        assert (event.error_kind, event.state) == (ErrorKind.NOT_ALLOWED, State.START)
        assert event.allowed == (Action.START, Action.CLOSE)


def test_after_the_end_a_restart_is_allowed(one: Workbench) -> None:
    one.script(PROGRAM, "square")
    one.debugger.remove_breakpoint(1)
    assert one.debugger.control(Action.CONTINUE).state is State.DONE
    event = one.debugger.evaluate("1")
    assert (event.error_kind, event.state) == (ErrorKind.NOT_ALLOWED, State.DONE)
    assert Action.RESTART in event.allowed
    assert one.debugger.restart().state is State.DONE


def test_after_the_end_breakpoints_are_changed_for_a_restart(one: Workbench) -> None:
    """Also of a program that ended before its first stop."""
    one.write({"program.py": PROGRAM})
    one.start(one.at("square", condition="n > 9"))
    assert one.debugger.state is State.DONE
    event = one.debugger.set_breakpoint(one.at("call", watch=("n",)))
    assert (event.error_kind, event.state) == (None, State.DONE)
    assert event.notes == ("the test has ended: it takes effect after a restart",)
    text = render(one.debugger.set_breakpoint(BreakpointRequest(function="work"))).splitlines()
    place = f"program.py:{one.line('square')} in work"
    assert text[-2:] == [f"3: {place}, hit 0 times", f"Note: {event.notes[0]}"]
    refused = one.debugger.remove_breakpoint(7)
    assert (refused.error_kind, refused.state) == (ErrorKind.BAD_REQUEST, State.DONE)
    assert refused.error == "there is no breakpoint 7; set: 1, 2, 3"
    one.debugger.remove_breakpoint(3)
    listed = one.debugger.list_breakpoints().breakpoints
    assert [point.number for point in listed] == [1, 2]
    event = one.debugger.restart()
    assert event.line == one.line("call")
    assert [point.number for point in event.breakpoints] == [1, 2]
    assert [value.name for value in event.values] == ["n"]


def test_a_breakpoint_that_can_not_be_is_refused_in_every_state_with_the_same_words(
    one: Workbench,
) -> None:
    one.script(PROGRAM + "    assert False\n")
    requests = [
        BreakpointRequest(file="progam.py", line=2),
        BreakpointRequest(file="program.py", line=99),
        BreakpointRequest(function="wrok"),
        BreakpointRequest(exception="NoSuchError"),
        BreakpointRequest(file="program.py", line=2, condition="1 +"),
    ]

    def refusals() -> list[str | None]:
        events = [one.debugger.set_breakpoint(request) for request in requests]
        assert {event.error_kind for event in events} == {ErrorKind.BAD_REQUEST}
        return [event.error for event in events]

    paused = refusals()
    assert one.debugger.control(Action.CONTINUE).state is State.POST_MORTEM
    assert refusals() == paused
    one.write({"program.py": PROGRAM})
    one.debugger.restart()
    assert one.debugger.control(Action.CONTINUE).state is State.DONE
    ended = refusals()
    assert [ended[0], *ended[2:]] == [paused[0], *paused[2:]]
    assert (
        ended[1] == f"line 99 of program.py holds no code; the last that does is {one.line('call')}"
    )
    assert one.debugger.list_breakpoints().breakpoints == ()
    moved = one.debugger.set_breakpoint(one.at_line(5))
    assert moved.notes[0] == "breakpoint 1 moved from line 5 to 6, in <module>"
    assert one.debugger.restart().breakpoints == moved.breakpoints


def test_a_restart_without_its_test_leaves_the_program_or_says_that_it_ended(
    one: Workbench,
) -> None:
    one.script(PROGRAM, "square")
    one.sandbox.run(Command(["mv", "program.py", "gone.py"]))
    refused = one.debugger.restart()
    assert (refused.error_kind, refused.state) == (ErrorKind.NO_SUCH_TEST, State.RUNTIME)
    assert refused.notes == ("the session that was open goes on",)
    assert one.text_of("n") == "0"
    one.write({"test_work.py": "def test_work():\n    assert 1\n"})
    one.start(test="test_work.py::test_work")
    one.write({"test_work.py": "def test_other():\n    assert 1\n"})
    ended = one.debugger.restart()
    assert (ended.error_kind, ended.state) == (ErrorKind.NO_SUCH_TEST, State.DONE)
    assert ended.notes == ("the session that was open has ended",)


def test_only_control_actions_are_control_actions(one: Workbench) -> None:
    one.script(PROGRAM)
    event = one.debugger.control(Action.LOCALS)
    assert (event.error_kind, event.state) == (ErrorKind.BAD_REQUEST, State.RUNTIME)


def test_a_restart_keeps_breakpoints_with_conditions(one: Workbench) -> None:
    one.write({"program.py": PROGRAM})
    one.start(one.at("square", condition="n == 2"), BreakpointRequest(function="work"))
    one.debugger.set_breakpoint(one.at("call"))
    one.debugger.remove_breakpoint(2)
    event = one.debugger.restart()
    assert event.line == one.line("call")
    assert [point.number for point in event.breakpoints] == [1, 3]
    one.debugger.remove_breakpoint(3)
    event = one.debugger.control(Action.CONTINUE)
    assert event.line == one.line("square")
    assert one.text_of("n") == "2"
    assert [(point.number, point.hits) for point in event.breakpoints] == [(1, 1)]


def test_a_start_tells_of_the_temporary_breakpoint_it_stopped_at(one: Workbench) -> None:
    one.write({"program.py": PROGRAM})
    event = one.start(one.at("call", temporary=True), one.at("square"))
    assert event.line == one.line("call")
    assert [(point.number, point.hits) for point in event.breakpoints] == [(2, 0), (1, 1)]
    assert "(breakpoint 1)" in render(event).splitlines()[0]
    listed = one.debugger.list_breakpoints().breakpoints
    assert [point.number for point in listed] == [2]


def test_breakpoints_follow_an_edit_over_a_restart(one: Workbench) -> None:
    one.script(PROGRAM, "square")
    line = one.line("square")
    one.write({"program.py": "# new\n# lines\n" + one.files["program.py"]})
    event = one.debugger.restart()
    assert event.line == one.line("square")
    assert f"breakpoint 1 moved from line {line} to {line + 2}, in work" in event.notes


def test_a_breakpoint_says_that_calls_of_its_lambda_do_not_count(one: Workbench) -> None:
    text = "double = lambda x: 2 * x  # @made\nprint(double(1), double(2))\n"
    note = "breakpoint 1 stops when line 1 runs, not when its lambda is called: to stop in it, set "
    assert note + "program.py:<lambda>" in one.script(text, "made").notes
    assert one.debugger.control(Action.CONTINUE).state is State.DONE


def test_a_function_on_one_line_stops_at_each_call(bench: Workbench) -> None:
    bench.script("def double(n): return 2 * n\n\nfor n in range(2):\n    double(n)\n")
    bench.debugger.set_breakpoint(BreakpointRequest(function="double"))
    lines = [bench.debugger.control(Action.CONTINUE).line for _ in range(3)]
    assert lines == [1, 1, None]


def test_a_functions_first_line_can_be_a_loop_that_counts_apart_from_its_calls(
    bench: Workbench,
) -> None:
    program = (
        "def spin(n):\n    # Down.\n    while n:  # @head\n        n -= 1\n\nspin(1)\nspin(1)\n"
    )
    bench.script(program)
    called = bench.debugger.set_breakpoint(BreakpointRequest("program.py", 1))
    moved = "moved from line {} to 3, in spin, and stops once in each call"
    assert called.notes == (f"breakpoint 1 {moved.format(1)}",)
    again = bench.debugger.set_breakpoint(BreakpointRequest("program.py", 2))
    assert again.notes == (f"breakpoint 1 {moved.format(2)}", "breakpoint 1 is there already")
    visited = bench.debugger.set_breakpoint(BreakpointRequest("program.py", 3))
    assert visited.notes == ("breakpoints 1 and 2 are at line 3",)
    stops = [bench.debugger.control(Action.CONTINUE) for _ in range(4)]
    hit = [{point.number for point in stop.hit} for stop in stops]
    assert hit == [{1, 2}, {2}, {1, 2}, {2}]


LAMBDAS = """
    def build(n):
        double = lambda x: 2 * x  # @double
        even = lambda x: all(half * 2 == x for half in [n])  # @even
        return double, even

    double, even = build(3)
    for n in range(2):
        double(n)
    even(6)
"""


def test_a_lambda_can_be_a_breakpoint(bench: Workbench) -> None:
    """Under the name that a stop in it has, which is that of all lambdas of its function."""
    bench.script(LAMBDAS, "double")
    event = bench.debugger.set_breakpoint(BreakpointRequest(function="build.<lambda>"))
    assert [point.number for point in event.breakpoints] == [1, 2], "another than the line's"
    event = bench.debugger.set_breakpoint(BreakpointRequest(function="build.<locals>.<lambda>"))
    assert "breakpoint 2 is there already" in event.notes
    bench.debugger.remove_breakpoint(1)
    inner = BreakpointRequest(function="program.py:build.<lambda>.<genexpr>")
    assert bench.debugger.set_breakpoint(inner).error_kind is None
    missing = bench.debugger.set_breakpoint(BreakpointRequest(function="gone.<lambda>"))
    assert (missing.error or "").startswith("the program has no function gone.<lambda>; for one")
    double, even = bench.line("double"), bench.line("even")
    event = bench.debugger.restart()
    assert f"breakpoint 2 stops in each build.<lambda>: at lines {double} and {even}" in event.notes
    for line, number in ((double, 2), (double, 2), (even, 2), (even, 3)):
        assert (event.line, [point.number for point in event.hit]) == (line, [number])
        event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.DONE


def test_breakpoints_find_their_lines_in_an_edited_file(one: Workbench) -> None:
    """Lines above, the line itself, and what looks the same elsewhere."""
    repeated = """
        def first(n):
            n += 1
            return n  # first

        def second(n):
            n += 1  # @second
            n += 1
            return n

        def third(n):
            n -= 1  # @third
            return n

        def fourth(n):
            a = n
            gone = a  # @gone
            return a  # @left

        for n in range(2):
            first(n), second(n), third(n), fourth(n)
        """
    one.script(repeated, "second", "third", "gone")
    one.debugger.set_breakpoint(one.at("left", condition="n == 1"))
    text = "import os\n\n\n\n\n" + one.files["program.py"].replace("# @second", "", 1)
    text = text.replace("n -= 1  # @third", "n = n - 1  # @third").replace(
        "    gone = a  # @gone\n", ""
    )
    one.files["program.py"] = text
    one.sandbox.write_file("program.py", text.encode())
    event = one.debugger.restart()
    second = text.splitlines().index("    n += 1  ") + 1
    assert [point.number for point in event.breakpoints] == [1, 2, 3, 4]
    assert [point.line for point in event.breakpoints[:2]] == [second, one.line("third")]
    assert event.breakpoints[3].line == one.line("left")
    assert event.breakpoints[3].condition == "n == 1"
    notes = "\n".join(event.notes)
    assert "breakpoint 2, `n -= 1  # @third`, is gone" in notes
    assert "breakpoint 3, `gone = a  # @gone`, is gone" in notes


def test_a_breakpoint_whose_line_is_gone_is_told_with_that_line(one: Workbench) -> None:
    one.script(
        """
        def months(n):
            text = str(n)

            a = n + 1
            b = n + 2
            c = n + 3
            return a + b + c  # @gone

        months(1)
        """,
        "gone",
    )
    line = one.line("gone")
    lines = one.files["program.py"].splitlines()
    lines[line - 4 : line] = ["    total = sum(n + k for k in (1, 2, 3))", "    return total"]
    one.write({"program.py": "\n".join(lines)})
    event = one.debugger.restart()
    assert event.line != line
    assert f"breakpoint 1 moved from line {line} to {event.line}, in months" in event.notes


def test_a_restart_that_fails_can_be_tried_again(one: Workbench) -> None:
    one.script(PROGRAM, "square")
    one.debugger.set_breakpoint(BreakpointRequest(exception="KeyError", condition="n"))
    one.sandbox.write_file("program.py", b"def work(:\n")
    event = one.debugger.restart()
    assert (event.error_kind, event.state) == (ErrorKind.LAUNCH_FAILED, State.DONE)
    assert len(one.debugger.list_breakpoints().breakpoints) == 2
    one.write({"program.py": PROGRAM})
    event = one.debugger.restart()
    assert event.line == one.line("square")
    assert [(p.line, p.exception) for p in event.breakpoints] == [
        (one.line("square"), None),
        (0, "KeyError"),
    ]


def test_breakpoints_set_post_mortem_are_for_the_restart(one: Workbench) -> None:
    one.write({"program.py": PROGRAM + "\n    [][1]\n"})
    event = one.start(stop_at_entry=False)
    assert event.state is State.POST_MORTEM
    event = one.debugger.set_breakpoint(one.at("square"))
    assert (event.error_kind, event.state) == (None, State.POST_MORTEM)
    assert "after a restart" in event.notes[0]
    assert one.debugger.run_code("n = 40").error_kind is None
    assert one.text_of("n + 2") == "42"
    assert one.debugger.restart().line == one.line("square")


def test_a_breakpoint_in_a_file_written_since_says_so(one: Workbench) -> None:
    one.script(PROGRAM)
    one.write({"program.py": "# new\n" + one.files["program.py"]})
    event = one.debugger.set_breakpoint(one.at("square"))
    assert "was written after the program started" in event.notes[0]


def test_a_breakpoint_set_after_an_edit_is_at_the_line_of_the_edited_file(one: Workbench) -> None:
    one.script(PROGRAM)
    one.write({"program.py": "# new\n# lines\n" + one.files["program.py"]})
    event = one.debugger.set_breakpoint(one.at("square"))
    line = one.line("square")
    written = "program.py was written after the program started: "
    assert event.notes == (f"{written}line {line} is line {line - 2} of the version that runs",)
    assert event.breakpoints[0].line == line
    stop = one.debugger.control(Action.CONTINUE)
    assert (stop.line, one.text_of("n")) == (line - 2, "0")
    one.write({"program.py": one.files["program.py"] + "print(n)  # @print\n"})
    event = one.debugger.set_breakpoint(one.at("print"))
    assert event.notes == (f"{written}breakpoint 2 takes effect after a restart",)
    restarted = one.debugger.restart()
    assert [point.line for point in restarted.breakpoints] == [line, one.line("print")]
    assert restarted.notes == ()
    assert one.debugger.control(Action.CONTINUE).line == line


def test_a_breakpoint_set_post_mortem_after_an_edit_keeps_its_line(one: Workbench) -> None:
    one.script(PROGRAM + "\n    assert n == 3, n  # @assert\n")
    assert one.debugger.control(Action.CONTINUE).state is State.POST_MORTEM
    one.write({"program.py": "import sys\n" + one.files["program.py"]})
    for mark in ("square", "assert"):
        assert one.debugger.set_breakpoint(one.at(mark)).breakpoints[-1].line == one.line(mark)
    event = one.debugger.restart()
    assert [point.line for point in event.breakpoints] == [one.line("square"), one.line("assert")]
    assert event.notes == ()


def test_breakpoints_at_one_line_are_named_once(one: Workbench) -> None:
    one.script(PROGRAM, "call", "square")
    event = one.debugger.set_breakpoint(one.at("call", condition="n == 2"))
    assert event.notes == (f"breakpoints 1 and 3 are at line {one.line('call')}",)
    text = f"Breakpoint set:\n3: program.py:{one.line('call')} if n == 2, hit 0 times\nNote: "
    assert render(event).startswith(text)
    again = one.debugger.set_breakpoint(one.at("call"))
    assert again.breakpoints[-1].number == 1, "the one that was there comes last"
    assert "are at line" not in render(one.debugger.restart())


def test_a_breakpoint_that_no_longer_fits_is_dropped_and_told(one: Workbench) -> None:
    one.script(PROGRAM)
    one.debugger.set_breakpoint(BreakpointRequest(function="work"))
    one.write({"rates.py": "RATE = 1\n"})
    one.debugger.set_breakpoint(one.at_line(1, "rates.py"))
    one.write({"program.py": "done = 1\n"})
    one.sandbox.run(Command(["mv", "rates.py", "prices.py"]))
    event = one.debugger.restart()
    assert event.breakpoints == ()
    assert "the program has no function program.py:work" in event.notes[0]
    assert event.notes[1].startswith("breakpoint not set: there is no file rates.py; nearest: ")


def test_launch_breakpoints_that_are_unknown_do_not_stop_the_start(one: Workbench) -> None:
    one.write({"program.py": PROGRAM})
    event = one.debugger.start(
        Launch("program.py", (BreakpointRequest(function="wrok"), one.at("call")))
    )
    assert event.stop_reason is StopReason.ENTRY
    assert [point.line for point in event.breakpoints] == [one.line("call")]
    assert "program.py:work" in event.notes[0]


def test_a_program_that_ends_at_the_start_says_which_breakpoints_it_missed(one: Workbench) -> None:
    one.write({"program.py": PROGRAM})
    missed = replace(one.at("call"), condition="False")
    event = one.debugger.start(Launch("program.py", (missed,), stop_at_entry=False))
    assert event.stop_reason is StopReason.EXITED
    line = one.line("call")
    assert f"\nBreakpoints:\n1: program.py:{line} if False, hit 0 times" in render(event)
    unknown = BreakpointRequest(function="wrok")
    event = one.debugger.start(Launch("program.py", (unknown,), stop_at_entry=False))
    assert event.stop_reason is StopReason.EXITED
    assert event.breakpoints == ()


def test_a_refused_breakpoint_hides_no_other_when_the_program_ends(some_bench: Workbench) -> None:
    some_bench.write({"program.py": PROGRAM})
    missed = replace(some_bench.at("call"), condition="False")
    points = (BreakpointRequest(function="wrok"), missed, some_bench.at_line(99))
    event = some_bench.debugger.start(Launch("program.py", points, stop_at_entry=False))
    assert event.stop_reason is StopReason.EXITED
    text = render(event)
    place = f"program.py:{some_bench.line('call')} if False"
    assert f"\nBreakpoints:\n1: {place}, hit 0 times\n" in text
    assert text.count("Note: breakpoint not set: ") == 2
    for answer in (some_bench.debugger.list_breakpoints(), some_bench.debugger.restart()):
        assert [(each.number, each.condition) for each in answer.breakpoints] == [(1, "False")]


OVERLOADS = """
    import typing as t
    from typing import TYPE_CHECKING, overload

    class Cart:
        @overload
        def total(self, rate: int) -> int: ...
        @t.overload
        def total(self, rate: str) -> str: ...
        def total(self, rate):
            return rate  # @total

    if TYPE_CHECKING:
        class Part:
            def made(self): ...
        def made(): ...
    else:
        def made():
            return 1  # @made

    Cart().total(1)
    made()
"""


def test_functions_that_never_run_are_no_choice(some_bench: Workbench) -> None:
    some_bench.write({"program.py": OVERLOADS})
    points = [BreakpointRequest(function=name) for name in ("total", "made")]
    event = some_bench.start(*points)
    assert event.notes == ()
    assert event.line == some_bench.line("total")
    assert some_bench.debugger.control(Action.CONTINUE).line == some_bench.line("made")


def test_a_second_start_replaces_the_session(one: Workbench) -> None:
    one.script(PROGRAM, "square")
    one.write({"other.py": "x = 1\ny = 2\n"})
    event = one.start(test="other.py")
    assert (event.file, event.breakpoints) == ("other.py", ())
    one.debugger.close()
    one.debugger.close()
    assert one.debugger.state is State.START


def test_events_carry_what_was_asked(one: Workbench) -> None:
    one.script(PROGRAM, "square")
    event = one.debugger.evaluate("n", 1)
    assert json.loads(event.arguments) == {"expression": "n", "frame": 1}
    assert event.seconds > 0


def test_the_source_shows_where_and_the_breakpoints(one: Workbench) -> None:
    event = one.script(PROGRAM, "square")
    assert event.source[1:4] == (
        "         2  def work(n):",
        "-> *     3      square = n * n  # @square",
        "         4      return square",
    )


def test_the_workspace_stays_as_it_was(one: Workbench) -> None:
    one.script(PROGRAM, "square")
    assert set(one.sandbox.read_tree()) == {"program.py"}


def test_modules_of_the_workspace_do_not_replace_the_debuggers(one: Workbench) -> None:
    broken = "raise RuntimeError('shadowed')\n"
    one.write({f"{name}.py": broken for name in ("json", "ast", "difflib", "ctypes", "select")})
    event = one.script(PROGRAM, "square")
    assert event.line == one.line("square")
    assert one.debugger.run_code("n = 5").error_kind is None
    event = one.debugger.set_breakpoint(BreakpointRequest(function="wrok"))
    assert "program.py:work" in (event.error or "")
