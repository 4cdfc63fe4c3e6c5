"""The four debug tools (Debug2Fix, section 4.2) for a debug session, and a fifth that runs code.

The paper's tools can't change a running program; InspectCoder's Inspector does little else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import Field

from collect.agents.tools import Answered, Arguments, CallsTogether, Tool, ToolReply
from collect.store.messages import ToolCall, arguments_object
from collect.store.records import ToolOutcome
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    Debugger,
    DebugLimits,
    ErrorKind,
    Launch,
)
from sandbox.debugger.records import CONTROL_ACTIONS
from sandbox.debugger.rendering import CLOSED, one_line, render

TOOL_CALLS = {
    Action.START: "debug_start_session",
    Action.CLOSE: "debug_control terminate",
    **{action: f"debug_control {action}" for action in (*CONTROL_ACTIONS, Action.RESTART)},
    **dict.fromkeys(
        (Action.LOCALS, Action.EVALUATE, Action.STACK, Action.THREADS, Action.FIELDS),
        "debug_inspect",
    ),
    **dict.fromkeys(
        (Action.SET_BREAKPOINT, Action.REMOVE_BREAKPOINT, Action.LIST_BREAKPOINTS),
        "debug_breakpoint set/remove/list",
    ),
    Action.COLLECT: "debug_breakpoint collect",
}
"""The actions as every agent calls them; few have the tool that runs code."""
LINE_LOCATION = re.compile(r"(?P<file>.+):(?P<line>[0-9]{1,9})(?P<range>-[0-9]{1,9})?$")
"""Of a range, as questions name them, the first line."""
EXCEPTION_LOCATION = re.compile(r"(?P<uncaught>uncaught )?exception[: ]\s*(?P<name>[\w.$]+)$")


def debug_tools(debugger: Debugger, run_code: bool = False, test: str | None = None) -> list[Tool]:
    """The four tools for one session, with `run_code` also the fifth.

    With `test`, the agent need not say which test to debug.
    """
    shown = ShownSource()
    start = StartArguments if test is None else DefaultStartArguments
    tools: list[Tool] = [
        StartSession(debugger, shown, start, test or ""),
        Inspect(debugger),
        Control(debugger, shown),
        SetBreakpoint(debugger, shown),
    ]
    return [*tools, RunCode(debugger)] if run_code else tools


@dataclass(frozen=True)
class ShownSource:
    """The source lines that a conversation has shown. A stop at one of them shows that line alone,
    any other stop the lines around it that are new.
    """

    lines: set[tuple[str | None, str]] = field(default_factory=set)
    """Files and numbered lines, without the marks of the current line and of breakpoints."""

    def reply(self, event: DebugEvent) -> ToolReply:
        """The answer to an action that ran the program; the recorded event keeps every line."""
        numbered = {line: (event.file, line.lstrip("->* ")) for line in event.source}
        current = [line for line in numbered if line.startswith("->")]
        if current and numbered[current[0]] in self.lines:
            fresh = current
        else:
            fresh = [
                line for line, key in numbered.items() if line in current or key not in self.lines
            ]
            self.lines.update(numbered.values())
        return replace(reply(replace(event, source=tuple(fresh))), event=event)


def breakpoint_request(
    location: str,
    condition: str | None = None,
    temporary: bool = False,
    watch: tuple[str, ...] = (),
) -> BreakpointRequest:
    """Read `file:line`, `exception Name`, `uncaught exception Name`, or a function's name; each may
    end in ` if CONDITION`.
    """
    location, _, given = location.partition(" if ")
    condition = condition or given.strip() or None
    request = BreakpointRequest(condition=condition, temporary=temporary, watch=watch)
    raised = EXCEPTION_LOCATION.match(location.strip())
    if raised:
        return replace(request, exception=raised["name"], uncaught=bool(raised["uncaught"]))
    line = LINE_LOCATION.match(location.strip())
    if line:
        return replace(request, file=line["file"], line=int(line["line"]))
    return replace(request, function=location.strip().removesuffix("()"))


Location = Annotated[
    str, Field(description="'{location}', or a function: 'name' or 'Class.name'{lambda}.")
]


class DefaultStartArguments(Arguments):
    test: Annotated[
        str | None,
        Field(description="The test to debug, e.g. {test_id}. Default: the question's test."),
    ] = None
    breakpoints: Annotated[
        tuple[Location, ...],
        Field(
            description="Initial breakpoints: '{location}', function names, or 'exception "
            "{exception}'; each may end in ' if CONDITION'."
        ),
    ] = ()
    watch: Annotated[
        tuple[str, ...], Field(description="Expressions whose values every stop shows.")
    ] = ()
    stop_at_test: Annotated[bool, Field(description="Also stop where the test begins.")] = True


class StartArguments(DefaultStartArguments):
    test: Annotated[str, Field(description="The test to debug, e.g. {test_id}.")]


@dataclass(frozen=True)
class StartSession:
    debugger: Debugger
    shown: ShownSource
    arguments: type[DefaultStartArguments]
    test: str
    """The test if the call names none."""
    started: dict[str, ErrorKind | None] = field(default_factory=dict)
    """By test, why its last start failed; the latest last."""
    name: str = "debug_start_session"
    description: str = (
        "Start a debug session on a test: launches it under the debugger, sets the breakpoints, "
        "and runs to the first stop. An open session is ended. A test that fails "
        "stays paused where its exception was raised, so that you can look at its frames."
    )

    def call(self, arguments: DefaultStartArguments, call_id: str) -> ToolReply:
        points = tuple(breakpoint_request(location) for location in arguments.breakpoints)
        test = arguments.test or self._default()
        launch = Launch(
            test,
            points,
            stop_at_entry=arguments.stop_at_test,
            watch=arguments.watch,
        )
        event = self.debugger.start(launch)
        self.started.pop(test, None)
        self.started[test] = event.error_kind
        return self.shown.reply(event)

    def _default(self) -> str:
        """The question's test, or if there is no such test, the last one that was started."""
        known = [test for test, failure in self.started.items() if failure is None]
        missing = self.started.get(self.test) is ErrorKind.NO_SUCH_TEST
        return known[-1] if missing and known else self.test


class ControlArguments(Arguments):
    action: Annotated[
        Literal["continue", "step_over", "step_into", "step_out", "restart", "terminate"],
        Field(description="What to do. restart: run to the first stop, as the start did."),
    ]


@dataclass(frozen=True)
class Control:
    debugger: Debugger
    shown: ShownSource
    name: str = "debug_control"
    description: str = (
        "Run the paused program: continue to the next breakpoint, step over or into the current "
        "line, step out of the function, restart the test, or terminate the session."
    )
    arguments: type[Arguments] = ControlArguments

    def call(self, arguments: ControlArguments, call_id: str) -> ToolReply:
        if arguments.action == "terminate":
            self.debugger.close()
            return ToolReply(CLOSED)
        if arguments.action == "restart":
            return self.shown.reply(self.debugger.restart())
        return self.shown.reply(self.debugger.control(Action(arguments.action)))


class InspectArguments(Arguments):
    what: Annotated[
        Literal["locals", "evaluate", "stack", "fields", "threads"],
        Field(
            description="locals: the frame's variables. evaluate: the value of an expression. "
            "stack: the call stack. fields: what is inside the object an expression gives. "
            "threads: all threads' stacks."
        ),
    ]
    expression: Annotated[str | None, Field(description="For evaluate and fields.")] = None
    frame: Annotated[int, Field(ge=0, description="Stack frame, 0 the innermost.")] = 0
    start: Annotated[int, Field(ge=0, description="Where to go on in what was cut.")] = 0


@dataclass(frozen=True)
class Inspect:
    debugger: Debugger
    name: str = "debug_inspect"
    description: str = (
        "Inspect the paused program: local variables, an expression, the stack, fields, threads."
    )
    arguments: type[Arguments] = InspectArguments

    def call(self, arguments: InspectArguments, call_id: str) -> ToolReply:
        what, expression = arguments.what, arguments.expression
        frame, start = arguments.frame, arguments.start
        if what == "locals":
            return reply(self.debugger.locals(frame, start))
        if what == "stack":
            return reply(self.debugger.stack(start))
        if what == "threads":
            return reply(self.debugger.threads())
        if not expression:
            return ToolReply(f"Error: {what} needs an expression.", ToolOutcome.INVALID)
        if what == "fields":
            return reply(self.debugger.fields(expression, frame, start))
        return reply(self.debugger.evaluate(expression, frame, start))


class BreakpointArguments(Arguments):
    action: Annotated[
        Literal["set", "remove", "list", "collect"],
        Field(
            description="What to do. collect: run on past the next hits of a location, not the "
            "stop it is at, without stopping at other lines' breakpoints, and answer with a table "
            "of the values of `watch` at each."
        ),
    ]
    location: Annotated[
        str | None,
        Field(
            description="For set and collect: '{location}', a function 'name' or "
            "'Class.name'{lambda}, or 'exception {exception}', which stops at every raise, caught "
            "or not; 'uncaught exception {exception}' only at those that nothing catches."
        ),
    ] = None
    condition: Annotated[
        str | None, Field(description="Only hits at which this expression is true count.")
    ] = None
    watch: Annotated[
        tuple[str, ...],
        Field(
            description="Expressions whose values each of its hits shows, but no step from there."
        ),
    ] = ()
    hits: Annotated[
        int,
        Field(
            ge=1,
            description="For collect: pause at the last of so many further hits; a table has at "
            f"most {DebugLimits().max_values}.",
        ),
    ] = 20
    temporary: Annotated[bool, Field(description="For set: remove it once hit.")] = False
    number: Annotated[int | None, Field(description="For remove: the breakpoint's number.")] = None


@dataclass(frozen=True)
class SetBreakpoint:
    debugger: Debugger
    shown: ShownSource
    name: str = "debug_breakpoint"
    description: str = (
        "Set a line, function or exception breakpoint, remove one, or list all; or collect values "
        "at many hits of a location in one call."
    )
    arguments: type[Arguments] = BreakpointArguments

    def call(self, arguments: BreakpointArguments, call_id: str) -> ToolReply:
        if arguments.action == "list":
            return reply(self.debugger.list_breakpoints())
        if arguments.action == "remove":
            if arguments.number is None:
                return ToolReply("Error: remove needs a number.", ToolOutcome.INVALID)
            return reply(self.debugger.remove_breakpoint(arguments.number))
        if not arguments.location:
            return ToolReply(f"Error: {arguments.action} needs a location.", ToolOutcome.INVALID)
        request = breakpoint_request(
            arguments.location, arguments.condition, arguments.temporary, arguments.watch
        )
        if arguments.action == "collect":
            return self.shown.reply(self.debugger.collect(request, arguments.hits))
        event = self.debugger.set_breakpoint(request)
        notes = list(event.notes)
        place = LINE_LOCATION.match(arguments.location)
        if place and place["range"]:
            notes.append(f"set at line {place['line']} of the range alone")
        if "hits" in arguments.model_fields_set:
            notes.append("`hits` is for collect alone: every hit stops")
        return reply(event if event.error_kind else replace(event, notes=tuple(notes)))


class RunCodeArguments(Arguments):
    code: Annotated[str, Field(min_length=1, description="Statements, of any number of lines.")]
    frame: Annotated[int, Field(ge=0, description="Stack frame, 0 the innermost.")] = 0


@dataclass(frozen=True)
class RunCode:
    debugger: Debugger
    name: str = "debug_run_code"
    description: str = (
        "Run code in the paused program: print values, or assign to variables and let it run on to "
        "see what follows. The files stay as they are; a restart undoes it."
    )
    arguments: type[Arguments] = RunCodeArguments

    def call(self, arguments: RunCodeArguments, call_id: str) -> ToolReply:
        return reply(self.debugger.run_code(arguments.code, arguments.frame))


def reply(event: DebugEvent, names: Mapping[Action, str] = TOOL_CALLS) -> ToolReply:
    """A debugger event as a tool's answer; `names` is how the agent calls the actions."""
    outcome = ToolOutcome.OK if event.error_kind is None else ToolOutcome.ERROR
    if event.error_kind is ErrorKind.NOT_ALLOWED:
        outcome = ToolOutcome.REFUSED
    return ToolReply(render(event, names), outcome, event)


CHANGING = (StartSession.name, Control.name, SetBreakpoint.name)
LOOKING = (Inspect.name, RunCode.name)
RUNNING = (*CONTROL_ACTIONS, Action.COLLECT, Action.RESTART)


class DebugCallsTogether(CallsTogether):
    """What a debugger's calls in one message mean for each other."""

    def refusal(self, call: ToolCall, earlier: Sequence[Answered]) -> ToolReply | None:
        """Refuses a call that would let the program run on although a start, a run or setting a
        breakpoint before it in the same message failed, and no start after that succeeded. A
        restart waits only for breakpoints: it is the remedy for a run that failed.
        """
        action, failed = call.text("action"), list[ToolCall]()
        for each in earlier:
            done = each.call.text("action")
            if each.call.name not in CHANGING or done in ("remove", "list"):
                continue
            if each.reply.outcome is not ToolOutcome.OK:
                failed.append(each.call)
            elif each.call.name == StartSession.name or done == Action.RESTART:
                failed.clear()
        if action == Action.RESTART:
            failed = [each for each in failed if each.text("action") == "set"]
        if call.name not in CHANGING or action not in RUNNING or not failed:
            return None
        return ToolReply(
            f"Not carried out, since {failed[0].name} failed before it in this message: see its "
            "answer first.",
            ToolOutcome.REFUSED,
        )

    def completed(self, call: ToolCall, reply: ToolReply, earlier: Sequence[Answered]) -> ToolReply:
        """Says where an inspection looked if the program ran on before it in the same message."""
        events = [each.reply.event for each in earlier if each.reply.event is not None]
        ran = [event for event in events if event.stop_reason is not None]
        if call.name not in LOOKING or not ran or not ran[-1].file or not ran[-1].stops_program:
            return reply
        stop, frame = ran[-1], arguments_object(call.arguments).get("frame")
        seen = f", in frame #{frame} of its stack" if frame else ""
        place = one_line(f"At {stop.file}:{stop.line} in {stop.function}{seen}")
        return replace(reply, text=f"{place}:\n{reply.text}")
