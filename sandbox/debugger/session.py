"""One debug session in any language: the state machine, the deadlines, the records."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Protocol

from sandbox.base import Sandbox
from sandbox.debugger.channel import Channel, Json
from sandbox.debugger.limits import DebugLimits
from sandbox.debugger.records import (
    CONTROL_ACTIONS,
    Action,
    Breakpoint,
    BreakpointRequest,
    DebugEvent,
    ErrorKind,
    ExceptionInfo,
    Frame,
    KillReason,
    Launch,
    Snapshot,
    State,
    StopReason,
    ThreadStack,
    Value,
)
from sandbox.debugger.watching import Watching
from sandbox.errors import DebuggerError, SandboxDead

CHANGED_LIVE = (
    "code that you ran in the program may have changed this run; the files are as they were"
)
CHOICES = (
    "the program is paused where it was: look around, step to see what it does, continue to let "
    "it run on, or restart"
)
ADVICE = {
    KillReason.ENDLESS_LOOP: "step a few lines, and look at what should end the loop",
    KillReason.WAITING_FOR_STDIN: "what a program is to read must be given when it is started",
    KillReason.DEADLOCK: "look at who holds the lock: the threads' stacks show it",
    KillReason.NATIVE_CODE: "look at the arguments of the call it was in",
    KillReason.OUT_OF_MEMORY: "restart, and stop before it allocates",
}
"""Advice on how to find out more, by reason."""


def event_from_answer(action: Action, arguments: str, answer: Json, seconds: float) -> DebugEvent:
    """Convert one answer of the probe. Raises DebuggerError."""
    stop: Json = answer.get("stop") or {}
    kind, message = _error(action, answer, stop)
    reason = KillReason(answer["kill_reason"]) if answer.get("kill_reason") else None
    if reason is None and "lost" in answer:
        reason = KillReason.EXITED
    elif reason is None and stop.get("exception", {}).get("type") == "MemoryError":
        reason = KillReason.OUT_OF_MEMORY
    notes = [*answer.get("notes", ())]
    if stop.get("reason") == "interrupted":
        notes.append(CHOICES)
    if reason in ADVICE and stop.get("reason") != "exited":
        notes.append(ADVICE[reason])
    exception, returned = stop.get("exception"), stop.get("return_value")
    return DebugEvent(
        action=action,
        arguments=arguments,
        state=State(answer["state"]),
        stop_reason=StopReason(stop["reason"]) if stop else None,
        file=stop.get("file"),
        line=stop.get("line"),
        function=stop.get("function"),
        depth=stop.get("depth"),
        thread=stop.get("thread"),
        exception=ExceptionInfo(**exception) if exception else None,
        return_value=Value(**returned) if returned else None,
        exit_code=stop.get("exit_code"),
        output=answer.get("output", ""),
        output_truncated=answer.get("output_truncated", False),
        frames=tuple(Frame(**frame) for frame in answer.get("frames", ())),
        values=tuple(Value(**value) for value in answer.get("values", ())),
        breakpoints=tuple(breakpoint_record(fields) for fields in answer.get("breakpoints", ())),
        threads=tuple(
            ThreadStack(**{**fields, "frames": tuple(Frame(**each) for each in fields["frames"])})
            for fields in answer.get("threads", ())
        ),
        next_start=answer.get("next_start"),
        source=tuple(stop.get("source", ())),
        notes=tuple(notes),
        error_kind=kind,
        error=message,
        kill_reason=reason,
        seconds=seconds,
    )


def breakpoint_record(fields: Json) -> Breakpoint:
    """Convert a breakpoint as a probe describes it."""
    names = Breakpoint.__dataclass_fields__
    known = {name: value for name, value in fields.items() if name in names}
    return Breakpoint(**{**known, "watch": tuple(fields.get("watch", ()))})


def _error(action: Action, answer: Json, stop: Json) -> tuple[ErrorKind | None, str | None]:
    error: dict[str, Any] | None = answer.get("error")
    if error is not None and error["kind"] == "internal":
        raise DebuggerError(f"the debugger failed inside the program: {error['message']}")
    if error is not None:
        return ErrorKind(error["kind"]), error["message"] + _diagnosis(answer)
    if stop.get("reason") == "killed":
        return ErrorKind.UNRESPONSIVE, answer.get("lost") or _killed(answer)
    if "signal" in answer:
        place = f" at {stop['file']}:{stop['line']} in {stop['function']}" if "file" in stop else ""
        memory = ", out of memory" if answer.get("kill_reason") == "out_of_memory" else ""
        return ErrorKind.CRASHED, f"the interpreter died of {answer['signal']}{place}{memory}"
    if stop.get("reason") == "interrupted":
        message = f"{action} ran past its time-out; the program was interrupted where it was"
        return ErrorKind.TIMEOUT, message + _diagnosis(answer)
    return None, None


def _diagnosis(answer: Json) -> str:
    return f": it {answer['diagnosis']}" if "diagnosis" in answer else ""


def _killed(answer: Json) -> str:
    """Describe why the program had to be killed, and where it was."""
    where = "".join(
        f"\n  {frame['file']}:{frame['line']} in {frame['function']}"
        for frame in answer.get("frames", ())[:5]
    )
    return (
        f"the program did not answer the interrupt and was killed{_diagnosis(answer)}"
        f"{where and ', at'}{where}"
    )


INSPECTIONS = (
    Action.LOCALS,
    Action.EVALUATE,
    Action.STACK,
    Action.THREADS,
    Action.FIELDS,
    Action.RUN_CODE,
)
BREAKPOINTS = (Action.SET_BREAKPOINT, Action.REMOVE_BREAKPOINT, Action.LIST_BREAKPOINTS)
ALWAYS = (Action.START, Action.CLOSE)
PAUSED = (*CONTROL_ACTIONS, Action.RESTART, *INSPECTIONS, *BREAKPOINTS, *ALWAYS)

ALLOWED: Mapping[State, tuple[Action, ...]] = {
    State.START: ALWAYS,
    State.RUNTIME: PAUSED,
    State.RUNTIME_ERROR: PAUSED,
    State.POST_MORTEM: (Action.RESTART, *INSPECTIONS, *BREAKPOINTS, *ALWAYS),
    State.DONE: (Action.RESTART, Action.LIST_BREAKPOINTS, *ALWAYS),
}
"""InspectWare's state machine (InspectCoder, section 2.5.1).

InspectCoder forbids setting breakpoints post mortem, since pdb loses them with the program. Here
the session keeps them, so they can be changed for the next restart, and the answer says so. Nothing
can run on post mortem, but the frames still hold their variables, so expressions and code work as
in a paused program.
"""


CHILD_PROCESSES = (
    "the program has started child processes, which are not debugged: a breakpoint neither stops "
    "nor counts there, so one that was hit 0 times may have been reached in one"
)
LAUNCHES = (Action.START, Action.RESTART)
LAUNCH_ERRORS = (ErrorKind.LAUNCH_FAILED, ErrorKind.BUILD_FAILED, ErrorKind.NO_SUCH_TEST)


class LaunchRefused(Exception):
    """The launch names nothing that can be run, or the build fails; the message says what to do."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.LAUNCH_FAILED) -> None:
        super().__init__(message)
        self.kind = kind


class Launcher(Protocol):
    """The language-specific part: the probe, and what a launch means to it."""

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        """What the probe is to run, built if needed. Raises LaunchRefused, SandboxDead."""

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> Channel:
        """Start a probe in the sandbox. Raises DebuggerError, SandboxDead."""


class DebugSession:
    """Implements `Debugger` over a probe."""

    def __init__(
        self, sandbox: Sandbox, launcher: Launcher, limits: DebugLimits | None = None
    ) -> None:
        self._sandbox = sandbox
        self._launcher = launcher
        self._limits = limits or DebugLimits()
        self._channel: Channel | None = None
        self._launch: Launch | None = None
        self._state = State.START
        self._requested: list[Json] = []
        """The launch's breakpoints, until the probe has reported them."""
        self._points: dict[int, Json] | None = None
        self._records: dict[int, Breakpoint] = {}
        """Breakpoints by number. There may be thousands."""
        self._child_processes = False
        """Whether the program is known to have started child processes."""
        self._test = ""
        """The test, if only its runner's exit code says whether it failed."""
        self._ran_code = False
        """Whether code was run in the program since its start."""
        self._watching = Watching(
            partial(self._look_at, seconds=self._limits.watch_timeout),
            partial(self._ask, Action.CONTINUE, {}),
            self._watched_at,
            self._limits,
        )

    @property
    def state(self) -> State:
        return self._state

    def start(self, launch: Launch) -> DebugEvent:
        self.close()
        self._launch = launch
        self._requested = [asdict(request) for request in launch.breakpoints]
        arguments: Json = {"test": launch.test, "breakpoints": self._requested}
        if launch.watch:
            arguments["watch"] = launch.watch
        return self._watching.shown(self._start(Action.START, arguments))

    def restart(self) -> DebugEvent:
        if self._launch is None or Action.RESTART not in ALLOWED[self._state]:
            return self._refuse(Action.RESTART, {})
        self._end_program()
        return self._watching.shown(self._start(Action.RESTART, {}))

    def control(self, action: Action, timeout: float | None = None) -> DebugEvent:
        if action not in CONTROL_ACTIONS:
            message = f"{action} is no control action; use one of {', '.join(CONTROL_ACTIONS)}"
            return self._error(action, {}, ErrorKind.BAD_REQUEST, message)
        return self._watching.shown(self._ask(action, {}, timeout))

    def collect(self, request: BreakpointRequest, hits: int) -> DebugEvent:
        asked, began = {**_given(request), "hits": hits}, time.monotonic()
        if Action.CONTINUE not in ALLOWED[self._state]:
            return self._refuse(Action.COLLECT, asked)
        earlier = {number for number, point in self._records.items() if not point.temporary}
        given = _given(replace(request, temporary=False, watch=()))
        answer = self._send(Action.SET_BREAKPOINT, given, self._limits.action_timeout)
        event = self._event(Action.SET_BREAKPOINT, given, answer, 0.0)
        if event.error_kind is None:
            number = answer["breakpoints"][0]["number"]
            found = self._watching.collect(number, request.watch, hits)
            event = replace(found, notes=(*event.notes, *found.notes))
            if number not in earlier:
                # From the next start too, if the program has ended.
                if self._state is not State.DONE and number in self._records:
                    self.remove_breakpoint(number)
                self._records.pop(number, None)
                if self._points is not None:
                    self._points.pop(number, None)
        return replace(
            event,
            action=Action.COLLECT,
            arguments=json.dumps(asked),
            state=self._state,
            seconds=time.monotonic() - began,
        )

    def locals(self, frame: int = 0, start: int = 0) -> DebugEvent:
        return self._ask(Action.LOCALS, {"frame": frame, **_page(start)})

    def evaluate(self, expression: str, frame: int = 0, start: int = 0) -> DebugEvent:
        return self._look_at(expression, frame, start)

    def fields(self, expression: str, frame: int = 0, start: int = 0) -> DebugEvent:
        arguments = {"expression": expression, "frame": frame, **_page(start)}
        return self._ask(Action.FIELDS, arguments)

    def stack(self, start: int = 0) -> DebugEvent:
        return self._ask(Action.STACK, _page(start))

    def threads(self) -> DebugEvent:
        return self._ask(Action.THREADS, {})

    def run_code(self, code: str, frame: int = 0) -> DebugEvent:
        return self._ask(Action.RUN_CODE, {"code": code, "frame": frame})

    def set_breakpoint(self, request: BreakpointRequest) -> DebugEvent:
        return self._ask(Action.SET_BREAKPOINT, _given(request))

    def remove_breakpoint(self, number: int) -> DebugEvent:
        return self._ask(Action.REMOVE_BREAKPOINT, {"number": number})

    def list_breakpoints(self) -> DebugEvent:
        if self._state is State.DONE:
            return self._event(Action.LIST_BREAKPOINTS, {}, {"state": "done"}, 0.0)
        return self._ask(Action.LIST_BREAKPOINTS, {})

    def snapshot(self) -> Snapshot:
        frames = self.stack().frames if Action.STACK in ALLOWED[self._state] else ()
        points = self.list_breakpoints().breakpoints if self._state is not State.START else ()
        return Snapshot(self._state, frames, points)

    def close(self) -> None:
        self._end_program()
        self._state = State.START
        self._launch = None
        self._requested, self._points, self._records = [], None, {}

    def _end_program(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _start(self, action: Action, arguments: Json) -> DebugEvent:
        assert self._launch is not None
        began = time.monotonic()
        self._child_processes = self._ran_code = False
        try:
            target = self._launcher.target(self._sandbox, self._launch, self._limits)
            self._test = target.get("test") or ""
            try:
                self._channel = self._launcher.connect(self._sandbox, self._limits)
            except DebuggerError:  # on a busy machine the first start may time out
                self._channel = self._launcher.connect(self._sandbox, self._limits)
            points = self._requested if self._points is None else [*self._points.values()]
            message = {
                "target": target,
                "stop_at_entry": self._launch.stop_at_entry,
                "stdin": self._launch.stdin,
                "breakpoints": points,
                "limits": asdict(self._limits),
            }
            timeout, grace = self._limits.start_timeout, self._limits.interrupt_grace
            answer = self._channel.request("launch", message, timeout, grace)
        except (LaunchRefused, DebuggerError) as error:
            self._end_program()
            self._state = failed_state(action)
            kind = error.kind if isinstance(error, LaunchRefused) else ErrorKind.LAUNCH_FAILED
            return self._error(action, arguments, kind, str(error))
        if answer.get("error", {}).get("kind") in LAUNCH_ERRORS:
            self._end_program()
            answer = {**answer, "state": failed_state(action)}
            answer |= {"all_breakpoints": None, "breakpoint_news": None}
        return self._event(action, arguments, answer, time.monotonic() - began)

    def _ask(self, action: Action, arguments: Json, timeout: float | None = None) -> DebugEvent:
        if action not in ALLOWED[self._state] or self._channel is None:
            return self._refuse(action, arguments)
        began = time.monotonic()
        seconds = self._limits.action_timeout if timeout is None else timeout
        answer = self._send(action, arguments, seconds)
        return self._event(action, arguments, answer, time.monotonic() - began)

    def _send(self, action: Action, arguments: Json, seconds: float) -> Json:
        assert self._channel is not None
        try:
            return self._channel.request(action, arguments, seconds, self._limits.interrupt_grace)
        except DebuggerError as error:
            return {"state": "done", "stop": {"reason": "killed"}, "lost": str(error)}
        except SandboxDead:
            self._end_program()
            self._state = State.DONE
            raise

    def _look_at(
        self, expression: str, frame: int = 0, start: int = 0, seconds: float | None = None
    ) -> DebugEvent:
        arguments = {"expression": expression, "frame": frame, **_page(start)}
        return self._ask(Action.EVALUATE, arguments, seconds)

    def _watched_at(self, stop: DebugEvent) -> Iterable[str]:
        session = self._launch.watch if self._launch is not None else ()
        return dict.fromkeys([*session, *(each for point in stop.hit for each in point.watch)])

    def _event(self, action: Action, arguments: Json, answer: Json, seconds: float) -> DebugEvent:
        """Convert the answer to a record and update the session's state."""
        self._learn_breakpoints(action, answer)
        event = event_from_answer(action, json.dumps(arguments), answer, seconds)
        if action in (*LAUNCHES, *BREAKPOINTS):
            # All of them, and temporary ones just hit.
            gone = [point for point in event.breakpoints if point.number not in self._records]
            event = replace(event, breakpoints=(*self._records.values(), *gone))
        self._child_processes |= bool(answer.get("child_processes"))
        self._ran_code |= action is Action.RUN_CODE and event.error_kind is None
        if event.stop_reason is StopReason.EXITED:
            if self._test and event.error_kind is None:
                failed = "it failed" if event.exit_code else "no test failed in this run"
                event = replace(event, notes=(*event.notes, f"{self._test} has ended: {failed}"))
            if self._ran_code:
                event = replace(event, notes=(*event.notes, CHANGED_LIVE))
        listed = event.action is Action.LIST_BREAKPOINTS or event.state is State.POST_MORTEM
        unseen = listed and any(not point.hits for point in self._records.values())
        if self._child_processes and (unseen or event.stop_reason is StopReason.EXITED):
            event = replace(event, notes=(*event.notes, CHILD_PROCESSES))
        self._state = event.state
        if event.state is State.DONE and event.stop_reason is not None:
            self._end_program()
        return event

    def _learn_breakpoints(self, action: Action, answer: Json) -> None:
        """Update the known breakpoints: all of them, or the changes since the launch."""
        known = answer.get("all_breakpoints")
        news = answer.get("breakpoint_news") if known is None else {"changed": known, "gone": ()}
        if news is None:
            return
        if known is not None or action in LAUNCHES or self._points is None:
            self._points, self._records = {}, {}
        for point in news["changed"]:
            self._points[point["number"]] = point
            self._records[point["number"]] = breakpoint_record(point)
        for number in news["gone"]:
            self._points.pop(number, None)
            self._records.pop(number, None)

    def _refuse(self, action: Action, arguments: Json) -> DebugEvent:
        message = f"{action} is not possible {WHY[self._state]}; nothing changed"
        event = self._error(action, arguments, ErrorKind.NOT_ALLOWED, message)
        return replace(event, allowed=ALLOWED[self._state])

    def _error(self, action: Action, arguments: Json, kind: ErrorKind, message: str) -> DebugEvent:
        return DebugEvent(
            action=action,
            arguments=json.dumps(arguments),
            state=self._state,
            error_kind=kind,
            error=message,
        )


def failed_state(action: Action) -> State:
    """The state after a failed launch: a restart can be tried again, and breakpoints are kept."""
    return State.DONE if action is Action.RESTART else State.START


def _given(request: BreakpointRequest) -> Json:
    """What a request says, without what it leaves open."""
    return {
        name: value for name, value in asdict(request).items() if value not in (None, False, ())
    }


def _page(start: int) -> Json:
    return {"start": start} if start else {}


WHY: Mapping[State, str] = {
    State.START: "before a session is started",
    State.RUNTIME: "while the program is paused",
    State.RUNTIME_ERROR: "while the program is paused at an exception",
    State.POST_MORTEM: "post mortem: an exception has ended the test",
    State.DONE: "after the program has ended",
}
