"""Program Inspectors' work made up by hypothesis, and the conversations it stands for."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import strategies as st

from collect.store.messages import Message
from collect.store.records import Conversation, MessageRow, Role, StopReason
from format.translation import Conclusion, Inspection, Step, Turn
from sandbox.debugger import (
    Action,
    Breakpoint,
    DebugEvent,
    ErrorKind,
    ExceptionInfo,
    State,
)
from sandbox.debugger import StopReason as DebugStopReason
from tests.records import make_conversations, make_rollout

TEST = "test_solution.py::test_check"
PROGRAM = "solution.py"
CONTEXT = """\
## Coding Task
Say "hello", in any way.

## Buggy Code
```python
   1  def hello():
   2      return "help"
```

## Test Results
Failing test, test_solution.py::test_check:
```python
  11      check(hello)
```
Error message on the failing test:
```
E   assert 'help' == 'hello'
```"""
OPENING = DebugEvent(
    Action.START,
    json.dumps({"test": TEST, "breakpoints": []}),
    State.RUNTIME,
    stop_reason=DebugStopReason.ENTRY,
    file="test_solution.py",
    line=11,
    function="test_check",
    source=("->      11  check(hello)",),
)

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
codes = words | st.sampled_from(
    [
        "print('x =', x)",
        'print("""a\nb""")',
        "if x:\n    y = '\\n'\nprint(y)",
        "print('```')\n```\nprint(1)",
        "a = 1\r\nb = '\x0c\u2028'",
        'interact_code("print(1)")\nset_breakpoint(3)',
        "### OBSERVATION\nnothing",
    ]
)
plans = words.filter(str.strip) | st.sampled_from(
    [
        "The root cause of the bug is that it says help.\nTo fix the bug, consider hello.",
        "Evidence: none\n**Location**: solution.py:2\n  Answer: 'hello'\n",
        " spaces around ",
    ]
)


def event(action: Action, arguments: dict[str, object], **fields: object) -> DebugEvent:
    made = DebugEvent(action, json.dumps(arguments), State.RUNTIME)
    return replace(made, **fields)  # type: ignore[arg-type]


def breakpoint_at(line: int, number: int = 1) -> DebugEvent:
    point = Breakpoint(number, PROGRAM, line, temporary=True)
    arguments: dict[str, object] = {"file": PROGRAM, "line": line, "temporary": True}
    return event(Action.SET_BREAKPOINT, arguments, breakpoints=(point,))


def stop_at(line: int) -> DebugEvent:
    place = {"file": PROGRAM, "line": line, "function": "hello", "depth": 2}
    return event(Action.CONTINUE, {}, stop_reason=DebugStopReason.BREAKPOINT, **place)


def ran(code: str, **fields: object) -> DebugEvent:
    return event(Action.RUN_CODE, {"code": code, "frame": 0}, **fields)


ENDED = event(
    Action.CONTINUE, {}, state=State.DONE, stop_reason=DebugStopReason.EXITED, exit_code=0
)
RESTARTED = replace(OPENING, action=Action.RESTART, arguments="{}")


@st.composite
def breakpoints(draw: st.DrawFn) -> tuple[DebugEvent, ...]:
    made = breakpoint_at(draw(st.integers(1, 999)), draw(st.integers(1, 9)))
    refused = replace(
        made, breakpoints=(), error_kind=ErrorKind.BAD_REQUEST, error="there is no such line"
    )
    return (draw(st.sampled_from([made, refused])),)


@st.composite
def stops(draw: st.DrawFn) -> tuple[DebugEvent, ...]:
    stopped = stop_at(draw(st.integers(1, 999)))
    raised = replace(
        stopped,
        state=State.POST_MORTEM,
        stop_reason=DebugStopReason.EXCEPTION,
        exception=ExceptionInfo("ValueError", draw(words)),
    )
    failed = replace(ENDED, exit_code=1)
    return draw(
        st.sampled_from(
            [(stopped,), (raised,), (ENDED, RESTARTED), (failed, RESTARTED), (RESTARTED,)]
        )
    )


@st.composite
def interactions(draw: st.DrawFn) -> tuple[DebugEvent, ...]:
    failed = {"error_kind": ErrorKind.EVALUATION, "error": "NameError: x"}
    fields = draw(st.sampled_from([{"output": "x = 3\n"}, {}, failed]))
    return (ran(draw(codes), **fields),)


@st.composite
def inspections(draw: st.DrawFn, by_tools: bool) -> Inspection:
    """With the ids that calls have in the form, and errors where the form has room for them."""
    turns = []
    thoughts = words.map(str.strip)
    for number in range(1, draw(st.integers(1, 4)) + 1):
        found = draw(st.lists(breakpoints() | stops() | interactions(), min_size=1, max_size=4))
        if not by_tools:
            failures = [i for i, events in enumerate(found) if events[0].error_kind is not None]
            found = found[: failures[0] + 1] if failures else found
        prefix = f"call_{number}" if by_tools else f"action_{number}"
        steps = tuple(Step(f"{prefix}_{i}", events) for i, events in enumerate(found))
        turns.append(Turn(draw(thoughts), steps, MessageRow(Message("assistant"), 10, 5)))
    reply = MessageRow(Message("assistant"), 9, 4)
    conclusion = Conclusion(draw(thoughts), draw(plans), False, reply)
    if draw(st.booleans()):
        conclusion = Conclusion("", conclusion.plan.strip(), True, reply)
    return Inspection(CONTEXT, TEST, OPENING, tuple(turns), conclusion)


def conversation_of(inspection: Inspection) -> Conversation:
    """What a conversation has beside its messages, tools, events and answer."""
    rollout = make_rollout("solution-1", variant="inspectcoder", system="inspectcoder")
    forced = inspection.conclusion.forced
    return replace(
        make_conversations(rollout)[1],
        role=Role.INSPECTOR,
        patch_attempt=1,
        stop_reason=StopReason.STEP_LIMIT if forced else StopReason.FINISHED,
    )


PLAN = "The root cause of the bug is that it says help. To fix the bug, consider saying hello."


def inspection_of(*turns: tuple[DebugEvent, ...]) -> Inspection:
    """An Inspector's work by its events, with the ids of the text form. A restart that follows the
    program's end in the same tuple is the one by itself."""
    made = []
    for number, events in enumerate(turns, 1):
        steps: list[Step] = []
        for each in events:
            if each is RESTARTED and steps:
                steps[-1] = replace(steps[-1], events=(*steps[-1].events, each))
            else:
                steps.append(Step(f"action_{number}_{len(steps)}", (each,)))
        made.append(Turn("I look.", tuple(steps), MessageRow(Message("assistant"))))
    conclusion = Conclusion("I have it.", PLAN, False, MessageRow(Message("assistant")))
    return Inspection(CONTEXT, TEST, OPENING, tuple(made), conclusion)
