"""The text that a model reads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from sandbox.debugger import (
    Action,
    Breakpoint,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    ExceptionInfo,
    Frame,
    Hit,
    RelatedException,
    Snapshot,
    State,
    StopReason,
    ThreadStack,
    Value,
)
from sandbox.debugger.rendering import CLOSED, read_state, render, render_snapshot
from sandbox.debugger.session import STILL_OPEN, WHY

STOP = DebugEvent(
    action=Action.CONTINUE,
    arguments="{}",
    state=State.RUNTIME,
    stop_reason=StopReason.BREAKPOINT,
    file="shop/cart.py",
    line=42,
    function="Cart.total",
    depth=2,
    output="one\ntwo\n",
    breakpoints=(Breakpoint(2, "shop/cart.py", 42, condition="n > 1", hits=3),),
    source=("-> *    42      total = 0",),
)


FAILED = DebugEvent(
    Action.START, "{}", State.START, error_kind=ErrorKind.NO_SUCH_TEST, error="no test a.py::b"
)


@pytest.mark.parametrize(
    ("event", "start", "state"),
    [
        (STOP, False, State.RUNTIME),
        (
            replace(STOP, state=State.POST_MORTEM, stop_reason=StopReason.EXCEPTION),
            False,
            State.POST_MORTEM,
        ),
        (replace(STOP, stop_reason=StopReason.EXITED), False, State.DONE),
        (replace(STOP, stop_reason=StopReason.KILLED), False, State.DONE),
        (FAILED, True, State.START),
        (FAILED, False, State.DONE),
        (replace(FAILED, notes=(STILL_OPEN,)), True, None),
        (replace(FAILED, error_kind=ErrorKind.BAD_REQUEST), False, None),
    ],
)
def test_the_state_is_read_from_the_text(
    event: DebugEvent, start: bool, state: State | None
) -> None:
    assert read_state(render(event), start) is state


def test_no_error_or_output_is_taken_for_the_state() -> None:
    error = replace(FAILED, error_kind=ErrorKind.EVALUATION, error="E: a\nKilled: b")
    assert read_state(render(error), start=False) is None
    printed = replace(STOP, output="Program ended\nKilled: b", notes=("a\nKilled: b",))
    assert read_state(render(printed), start=False) is State.RUNTIME


@pytest.mark.parametrize("break_", ["\n", "\r", "\x85", "\u2028"])
def test_no_name_of_the_programs_is_a_line_of_the_debuggers(break_: str) -> None:
    name = f"a{break_}y = 99  (int)"
    frame = Frame(0, name, 1, name, source="go()")
    value = Value(name, name, "1")
    stop = replace(
        STOP,
        function=name,
        thread=name,
        exception=ExceptionInfo(name, "no"),
        return_value=value,
        values=(value,),
        frames=(frame,),
        threads=(ThreadStack(name, True, "running", (frame,)),),
        breakpoints=(Breakpoint(2, name, 42, function=name),),
    )
    events = [
        stop,
        replace(stop, action=Action.START),
        replace(stop, stop_reason=None, action=Action.LOCALS),
        replace(stop, action=Action.COLLECT, collected=(Hit(1, name, 1, name, (value,)),)),
        replace(FAILED, error_kind=ErrorKind.EVALUATION, error="E: a\ny = 99  (int)"),
        replace(STOP, notes=("the test was skipped: a\ny = 99  (int)",)),
    ]
    snapshot = Snapshot(State.RUNTIME, (frame,), stop.breakpoints)
    for text in [*map(render, events), render_snapshot(snapshot)]:
        assert not [line for line in text.splitlines() if line.startswith("y = 99")], text


def test_the_state_is_read_from_refusals_and_the_end() -> None:
    assert read_state(CLOSED, start=False) is State.START
    for state, why in WHY.items():
        error = f"this is not possible {why}; nothing changed"
        refused = DebugEvent(
            Action.LOCALS, "{}", state, error_kind=ErrorKind.NOT_ALLOWED, error=error
        )
        assert read_state(render(refused), start=False) is state


def test_a_stop() -> None:
    assert render(STOP).splitlines() == [
        "Paused at shop/cart.py:42 in Cart.total (breakpoint 2, hit 3)",
        "Program output:",
        "    one",
        "    two",
        "-> *    42      total = 0",
    ]


def test_the_first_line_names_every_kind_of_stop() -> None:
    def first(**changes: object) -> str:
        return render(replace(STOP, **changes)).splitlines()[0]  # type: ignore[arg-type]

    place = "Paused at shop/cart.py:42 in Cart.total"
    assert first(stop_reason=StopReason.STEP) == f"{place} (step)"
    assert first(thread="worker") == f"{place} (breakpoint 2, hit 3, in thread worker)"
    interrupted = first(stop_reason=StopReason.INTERRUPTED, error_kind=ErrorKind.TIMEOUT)
    assert interrupted.startswith(f"{place} (interrupted")
    dead = first(state=State.POST_MORTEM, stop_reason=StopReason.EXCEPTION)
    assert dead.startswith(f"{place} (post mortem")
    assert first(stop_reason=StopReason.EXITED, exit_code=3) == "Program ended with exit code 3"
    killed = first(stop_reason=StopReason.KILLED, error="it hung")
    assert killed == "Killed: it hung"


def test_values_frames_and_errors() -> None:
    event = DebugEvent(
        action=Action.LOCALS,
        arguments="{}",
        state=State.RUNTIME,
        values=(Value("a", "int", "1"), Value("b", "str", "'x\ny'...", truncated=True)),
    )
    assert render(event) == "Local variables:\na = 1  (int)\nb = 'x\n    y'...  (str, cut)"
    event = replace(event, action=Action.EVALUATE, values=event.values[:1])
    assert render(event) == "a = 1  (int)"
    frames = (Frame(0, "a.py", 3, "f", "return 1"), Frame(1, "b.py", 9, "<module>", ""))
    event = replace(event, action=Action.STACK, values=(), frames=frames)
    assert render(event).splitlines()[1:] == ["#0 a.py:3 in f | return 1", "#1 b.py:9 in <module>"]
    event = replace(
        event,
        frames=(),
        error_kind=ErrorKind.NOT_ALLOWED,
        error="no",
        allowed=(Action.START, Action.CLOSE),
    )
    assert render(event) == "Error (not_allowed): no\nCall start first."


def test_long_expressions_are_told_apart_by_their_ends() -> None:
    names = [
        f"[item.price for item in cart.items if item.price and item.count > {n}]" for n in "12"
    ]
    values = tuple(Value(name, "list", "[]") for name in names)
    first, second = render(replace(STOP, values=values)).splitlines()[-2:]
    assert first == "[item.price for item in car ... m.price and item.count > 1] = []  (list)"
    assert second != first


def test_a_frame_that_repeats_is_shown_once() -> None:
    places = [("deep", 3)] * 40 + [("twice", 5)] * 3 + [("main", 9)]
    frames = tuple(
        Frame(index, "a.py", line, function, "")
        for index, (function, line) in enumerate(places, start=10)
    )
    event = DebugEvent(Action.STACK, "{}", State.RUNTIME, frames=frames, next_start=54)
    assert render(event).splitlines()[1:] == [
        "#10 a.py:3 in deep",
        "    ... the same frame 39 more times, up to #49",
        "#50 a.py:5 in twice",
        "#51 a.py:5 in twice",
        "#52 a.py:5 in twice",
        "#53 a.py:9 in main",
        "Note: there is more; ask again with start=54",
    ]


def test_an_exception_without_a_message() -> None:
    event = replace(STOP, exception=ExceptionInfo("java.lang.StackOverflowError", ""))
    assert "Exception: java.lang.StackOverflowError" in render(event).splitlines()


def test_a_return_and_an_exception() -> None:
    event = replace(
        STOP,
        stop_reason=StopReason.STEP,
        return_value=Value("total", "int", "7"),
        exception=ExceptionInfo("ValueError", "a\nb"),
        breakpoints=(),
        output="",
    )
    assert render(event).splitlines()[1:4] == [
        "Exception: ValueError: a",
        "    b",
        "Returned from total: 7  (int)",
    ]


def test_an_exception_breakpoint() -> None:
    other = Breakpoint(1, "a.py", 3)
    point = Breakpoint(2, "", 0, exception="KeyError", hits=1)
    event = replace(STOP, stop_reason=StopReason.EXCEPTION, breakpoints=(point,), output="")
    assert render(event).splitlines()[0].endswith("in Cart.total (exception, breakpoint 2)")
    assert "Breakpoints:" not in render(event)
    again = replace(event, breakpoints=(replace(point, hits=3),))
    assert render(again).splitlines()[0].endswith("(exception, breakpoint 2, hit 3)")
    ended = replace(event, state=State.POST_MORTEM, action=Action.START, breakpoints=(other, point))
    lines = render(ended).splitlines()
    assert lines[0].endswith("(post mortem: an exception ended the run, breakpoint 2)")
    assert lines[-2:] == ["1: a.py:3, hit 0 times", "2: exception KeyError, hit 1 time"]


def test_a_start_names_only_the_breakpoints_that_were_hit() -> None:
    there = Breakpoint(1, "shop/cart.py", 42, condition="n > 2")
    other = Breakpoint(2, "a.py", 3)
    overload = Breakpoint(3, "shop/cart.py", 40, function="Cart.total", hits=1)
    event = replace(STOP, action=Action.START, breakpoints=(there, other, overload))
    assert render(event).splitlines()[0].endswith("(breakpoint 3)")


def test_the_breakpoints_of_a_start_that_fails_have_a_heading() -> None:
    point = Breakpoint(1, "a.py", 3)
    failed = DebugEvent(
        Action.RESTART,
        "",
        State.DONE,
        breakpoints=(point,),
        error_kind=ErrorKind.LAUNCH_FAILED,
        error="no",
    )
    told = ["Error (launch_failed): no", "Breakpoints:", "1: a.py:3, hit 0 times"]
    assert render(failed).splitlines() == told


@pytest.mark.parametrize("name", ["start_timeout", "action_timeout", "value_chars", "max_frames"])
def test_limits_that_leave_nothing_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}\n  Input should be greater than 0"):
        TypeAdapter(DebugLimits).validate_python({name: 0})


def test_a_type_or_a_line_that_is_not_known_is_left_out() -> None:
    values = (Value("a", "", "1"), Value("b", "", "2...", truncated=True))
    event = DebugEvent(Action.EVALUATE, "", State.RUNTIME, values=values)
    assert render(event).splitlines()[-2:] == ["a = 1", "b = 2...  (cut)"]
    point = Breakpoint(1, "Bank.java", 0, function="Bank.pay")
    event = DebugEvent(Action.LIST_BREAKPOINTS, "", State.RUNTIME, breakpoints=(point,))
    assert "1: Bank.java in Bank.pay, hit 0 times" in render(event)


def test_the_tree_of_an_exception_is_a_few_lines() -> None:
    forged = "x\nPaused at a.py:1 in f (step)"
    related = (
        RelatedException("caused by", 1, forged, forged, (forged,), forged, 7, forged, 4),
        RelatedException("member 2 of 2", 2, "ValueError", ""),
    )
    info = ExceptionInfo("KeyError", "'b'", notes=("of b",), related=related, unlisted=3)
    lines = render(replace(STOP, exception=info)).splitlines()
    at = lines.index("Exception: KeyError: 'b'")
    shown = forged.replace("\n", "\\n")
    assert lines[at + 1 : at + 6] == [
        "    note: of b",
        f"    caused by {shown}: {shown}, raised at {shown}:7 in {shown} (frame 4)",
        f"        note: {shown}",
        "    ... 3 more, and the last:",
        "        member 2 of 2 ValueError",
    ]
