"""One debug session in any language: the state machine, the deadlines, the records."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, replace

from sandbox.base import Command, Sandbox
from sandbox.debugger.channel import (
    BREAKPOINT,
    Channel,
    Interference,
    Json,
    Launcher,
    LaunchRefused,
    event_from_answer,
)
from sandbox.debugger.records import (
    CONTROL_ACTIONS,
    Action,
    Breakpoint,
    BreakpointRequest,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    Hit,
    KillReason,
    Launch,
    Snapshot,
    State,
    StopReason,
    Value,
)
from sandbox.debugger.zero_hits import ZeroHits
from sandbox.errors import DebuggerError, SandboxDead

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
    State.DONE: (Action.RESTART, *BREAKPOINTS, *ALWAYS),
}
"""InspectWare's state machine (InspectCoder, section 2.5.1).

InspectCoder forbids setting breakpoints post mortem, since pdb loses them with the program. Here
the session keeps them, so they can be changed for the next restart, also once the program is gone,
and the answer says so. Nothing
can run on post mortem, but the frames still hold their variables, so expressions and code work as
in a paused program.
"""


MAX_ERROR = 160
"""Characters of the error of a watched expression that fails."""
CHANGED_LIVE = (
    "code that you ran in the program may have changed this run; the files are as they were"
)
TIME_LIMIT = re.compile(r"time.?(?:d.?)?out|time.?limit|deadline|too.?slow|expired", re.I)
"""What an exception's class or message says if it may come of a time limit."""
LONG_PAUSE = 0.5
"""Seconds for which a program is paused that are worth telling."""
WAS_PAUSED = (
    "the program was paused for {:.1f} s in this run, so a time limit may have passed that a run "
    "without stops keeps"
)
NOT_SET = "breakpoint not set: "
SET_FOR_RESTART = "the test has ended: it takes effect after a restart"
STILL_OPEN = "the session that was open goes on"
REFUSAL = "this is not possible {why}; nothing changed"
OPEN_ENDED = "the session that was open has ended"
ALSO_THERE = re.compile(r"(is there already|are at line \d+)$")
"""The end of notes about other breakpoints that mean nothing to one that is set to collect."""
ALREADY_HERE = (
    "the stop you were at does not count, and the place was not reached again; restart, and "
    "evaluate at the stop"
)
REACHED = "breakpoint {} was reached "
"""Begins the note that its condition was false each time."""
NOT_REACHED = "the place was not reached"
NOT_FROM_HERE = "the place was not reached from that stop on; a restart shows if it was before"
LEFT_OUT = "the hit at the stop you were at is not included"
PASSED = (StopReason.ENTRY, StopReason.BREAKPOINT)
"""Stops that collecting runs past."""
TEST_FAILED = "the test failed before the next"
CAME_FIRST: Mapping[StopReason | None, str] = {
    StopReason.BREAKPOINT: "another stop came first",
    StopReason.EXCEPTION: "another stop came first",
    StopReason.EXITED: "the program ended before the next",
}
"""What ended collecting before all hits."""
LAUNCHES = (Action.START, Action.RESTART)
LAUNCH_ERRORS = (ErrorKind.LAUNCH_FAILED, ErrorKind.BUILD_FAILED, ErrorKind.NO_SUCH_TEST)


class Debugger:
    """One debug session in one sandbox, over a probe.

    Every method returns a DebugEvent, even if the action is refused or fails, and if the program
    kills the probe or answers in its place. Raises only SandboxDead, if the sandbox dies.
    """

    def __init__(self, sandbox: Sandbox, launcher: Launcher, limits: DebugLimits) -> None:
        self._sandbox = sandbox
        self._launcher = launcher
        self._limits = limits
        self._channel: Channel | None = None
        self._launch: Launch | None = None
        self.state = State.START
        self.first_stop: DebugEvent | None = None
        """The answer to the last start or restart."""
        self._requested: list[Json] = []
        """The launch's breakpoints, until the probe has reported them."""
        self._points: dict[int, Json] | None = None
        self._records: dict[int, Breakpoint] = {}
        """Breakpoints by number. There may be thousands."""
        self._zero_hits = ZeroHits()
        self._paused_at: float | None = None
        """When the program stopped, if it is stopped."""
        self._paused = 0.0
        """Seconds for which the program has been stopped since its start."""
        self._ran_code = False
        """Whether code was run in the program since its start."""
        self._at: tuple[str | None, int | None] = None, None
        """File and line of the last stop."""
        self._entered = False
        """Whether that was where the test begins."""

    def start(self, launch: Launch) -> DebugEvent:
        """Launch the test suspended, set the breakpoints, run to the first stop. At every stop of
        the session `launch.watch` is evaluated.

        Atomic (Debug2Fix, section 4.2): it returns the first stop, or why there is none. Closes a
        session that is already running, unless the launch names nothing that is there.
        """
        requested = [asdict(request) for request in launch.breakpoints]
        arguments: Json = {"test": launch.test, "breakpoints": requested}
        if launch.watch:
            arguments["watch"] = launch.watch
        refused = self._not_there(Action.START, arguments, launch)
        if refused is not None:
            return refused
        was_open = self._channel is not None
        self.close()
        self._launch, self._requested = launch, requested
        return self._first_stop(Action.START, arguments, was_open)

    def restart(self) -> DebugEvent:
        """Launch the same test again with the breakpoints kept, to its first stop. A program that
        is still there goes on if the test is seen to be gone.
        """
        if self._launch is None or Action.RESTART not in ALLOWED[self.state]:
            return self._refuse(Action.RESTART, {})
        refused = self._not_there(Action.RESTART, {}, self._launch)
        if refused is not None:
            return refused
        was_open = self._channel is not None
        self._end_program()
        return self._first_stop(Action.RESTART, {}, was_open)

    def control(self, action: Action, timeout: float | None = None) -> DebugEvent:
        """Continue, step over, step into or step out, to the next stop.

        After `timeout` seconds (None: the limits' `action_timeout`) the program is interrupted, and
        the event shows where it was.
        """
        if action not in CONTROL_ACTIONS:
            message = f"{action} is no control action; use one of {', '.join(CONTROL_ACTIONS)}"
            return self._error(action, {}, ErrorKind.BAD_REQUEST, message)
        return self._shown(self._ask(action, {}, timeout))

    def collect(self, request: BreakpointRequest, hits: int) -> DebugEvent:
        """Run to the `hits`-th hit of a breakpoint and evaluate `request.watch` at each, by default
        what is watched there. An exception breakpoint, an exception that ends the test, the
        program's end and the limits end it earlier; it passes the test's entry, and other
        breakpoints, which only count their hits.

        The breakpoint is removed afterwards, unless it was there before.
        """
        asked, began = {**_given(request), "hits": hits}, time.monotonic()
        if Action.CONTINUE not in ALLOWED[self.state]:
            return self._refuse(Action.COLLECT, asked)
        earlier = {number for number, point in self._records.items() if not point.temporary}
        given = _given(replace(request, temporary=False, watch=()))
        checked = {**given, "collect": request.watch}
        answer = self._send(Action.SET_BREAKPOINT, checked, self._limits.action_timeout)
        event = self._event(Action.SET_BREAKPOINT, given, answer, 0.0)
        # The program may have ended meanwhile.
        if event.error_kind is None and "breakpoints" in answer:
            point, at, entered = answer["breakpoints"][0], self._at, self._entered
            number = point["number"]
            found = self._collect(number, request.watch, hits)
            told = [note for note in event.notes if not ALSO_THERE.search(note)]
            here = at == (point.get("file"), point.get("line"))
            if found.collected:
                told += [LEFT_OUT] * here
            elif not any(note.startswith(REACHED.format(number)) for note in found.notes):
                # An exception has no place.
                over = self.state in (State.DONE, State.POST_MORTEM) and not request.exception
                never = NOT_REACHED if entered else NOT_FROM_HERE
                told += [ALREADY_HERE] if here else [never] * over
            event = replace(found, notes=(*told, *found.notes))
            if number not in earlier:
                # Nothing else tells its number.
                unnumbered = tuple(_without_number(note, number) for note in event.notes)
                event = replace(event, notes=unnumbered)
                # From the next start too, if the program has ended.
                if self.state is not State.DONE and number in self._records:
                    self.remove_breakpoint(number)
                self._records.pop(number, None)
                if self._points is not None:
                    self._points.pop(number, None)
                event = replace(event, source=self._unmarked(event, point))
        return replace(
            event,
            action=Action.COLLECT,
            arguments=json.dumps(asked),
            state=self.state,
            seconds=time.monotonic() - began,
        )

    def _unmarked(self, event: DebugEvent, removed: Json) -> tuple[str, ...]:
        """A stop's source without the mark of a breakpoint that is gone."""
        place = removed.get("file"), removed.get("line")
        if place in {(point.file, point.line) for point in self._records.values()}:
            return event.source
        mark = re.compile(rf"^(.{{3}})\*( +{place[1]}\b)")
        return tuple(mark.sub(r"\1 \2", line) for line in event.source)

    def locals(self, frame: int = 0, start: int = 0) -> DebugEvent:
        """The local variables of a frame, index 0 the innermost, from the `start`-th on."""
        return self._ask(Action.LOCALS, {"frame": frame, **_page(start)})

    def evaluate(self, expression: str, frame: int = 0, start: int = 0) -> DebugEvent:
        """The value of one expression in a frame, as text from the `start`-th character on."""
        arguments = {"expression": expression, "frame": frame, **_page(start)}
        return self._ask(Action.EVALUATE, arguments)

    def fields(self, expression: str, frame: int = 0, start: int = 0) -> DebugEvent:
        """An object's attributes, or its items by key or index, from the `start`-th on."""
        arguments = {"expression": expression, "frame": frame, **_page(start)}
        return self._ask(Action.FIELDS, arguments)

    def stack(self, start: int = 0) -> DebugEvent:
        """The program's stack from the `start`-th frame on, without debugger and test runner."""
        return self._ask(Action.STACK, _page(start))

    def threads(self) -> DebugEvent:
        """Every thread of the program, and its stack."""
        return self._ask(Action.THREADS, {})

    def run_code(self, code: str, frame: int = 0) -> DebugEvent:
        """Run statements in a frame; assignments to its variables take effect."""
        return self._ask(Action.RUN_CODE, {"code": code, "frame": frame})

    def set_breakpoint(self, request: BreakpointRequest) -> DebugEvent:
        """Set a breakpoint; once the program is gone, for a restart."""
        given = _given(request)
        if self.state is not State.DONE:
            return self._ask(Action.SET_BREAKPOINT, given)
        kept = self._kept()
        answer = self._place({**given, "number": max(kept, default=0) + 1})
        if "breakpoints" not in answer:
            lost = {"kind": ErrorKind.LAUNCH_FAILED, "message": "its place could not be found"}
            answer = {"error": answer.get("error", lost), "state": "done"}
            return self._event(Action.SET_BREAKPOINT, given, answer, 0.0)
        points = [*kept.values(), *answer["breakpoints"]]
        notes = [*answer["notes"], SET_FOR_RESTART]
        return self._keep(Action.SET_BREAKPOINT, given, points, *notes)

    def remove_breakpoint(self, number: int) -> DebugEvent:
        arguments = {"number": number}
        if self.state is not State.DONE:
            return self._ask(Action.REMOVE_BREAKPOINT, arguments)
        kept = self._kept()
        if kept.pop(number, None) is None:
            message = f"there is no breakpoint {number}; set: {', '.join(map(str, kept)) or 'none'}"
            return self._error(Action.REMOVE_BREAKPOINT, arguments, ErrorKind.BAD_REQUEST, message)
        return self._keep(Action.REMOVE_BREAKPOINT, arguments, kept.values())

    def list_breakpoints(self) -> DebugEvent:
        if self.state is not State.DONE:
            return self._ask(Action.LIST_BREAKPOINTS, {})
        return self._keep(Action.LIST_BREAKPOINTS, {}, self._kept().values())

    def _kept(self) -> dict[int, Json]:
        """The breakpoints for a restart: of a program that never ran, those requested."""
        if self._points is not None:
            return {**self._points}
        return {n: _point(n, request) for n, request in enumerate(self._requested, 1)}

    def _keep(
        self, action: Action, arguments: Json, points: Iterable[Json], *notes: str
    ) -> DebugEvent:
        """Change the breakpoints for a restart of the program, which is gone."""
        answer = {"state": "done", "all_breakpoints": [*points], "notes": notes}
        return self._event(action, arguments, answer, 0.0)

    def snapshot(self) -> Snapshot:
        """The session's state, the stack and the breakpoints; allowed in every state."""
        frames = self.stack().frames if Action.STACK in ALLOWED[self.state] else ()
        points = self.list_breakpoints().breakpoints if self.state is not State.START else ()
        return Snapshot(self.state, frames, points)

    def interrupt(self) -> None:
        """Interrupt the action under way in another thread, as at its time-out."""
        if (channel := self._channel) is not None:
            channel.interrupt()

    def end_program(self) -> None:
        """End the program, if one is there; the session can still be restarted."""
        if self._channel is not None:
            self._end_program()
            self.state = State.DONE

    def close(self) -> None:
        """End the program and the session. Safe to call twice."""
        self._end_program()
        self.state = State.START
        self._launch = None
        self._requested, self._points, self._records = [], None, {}

    def _end_program(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _not_there(self, action: Action, arguments: Json, launch: Launch) -> DebugEvent | None:
        """Refuses a launch that names nothing that is there if a program is, which goes on."""
        if self._channel is None:
            return None
        try:
            self._launcher.check(self._sandbox, launch, self._require_file)
        except LaunchRefused as error:
            event = self._error(action, arguments, error.kind, str(error))
            return replace(event, notes=(STILL_OPEN,))
        return None

    def _first_stop(self, action: Action, arguments: Json, was_open: bool) -> DebugEvent:
        event = self._start(action, arguments)
        if was_open and event.error_kind in LAUNCH_ERRORS:
            event = replace(event, notes=(*event.notes, OPEN_ENDED))
        self.first_stop = self._shown(event)
        return self.first_stop

    def _start(self, action: Action, arguments: Json) -> DebugEvent:
        assert self._launch is not None
        began = time.monotonic()
        # After a failed launch a restart can be tried again, and breakpoints are kept.
        failed_state = State.DONE if action is Action.RESTART else State.START
        self._ran_code = False
        self._zero_hits = ZeroHits()
        self._forget_hits()
        self._paused, self._paused_at = 0.0, None
        try:
            target, self._channel = self._new_probe(self._launch)
            points = self._requested if self._points is None else [*self._points.values()]
            message = {
                "target": target,
                "stop_at_entry": self._launch.stop_at_entry,
                "stdin": self._launch.stdin,
                "breakpoints": points,
                "watch": self._launch.watch,
                "limits": asdict(self._limits),
            }
            timeout, grace = self._limits.start_timeout, self._limits.interrupt_grace
            answer = self._channel.request("launch", message, timeout, grace)
        except Interference as error:
            self._end_program()
            answer = _lost(error)
        except (LaunchRefused, DebuggerError) as error:
            self._end_program()
            self.state = failed_state
            return self._error(action, arguments, _kind(error), str(error))
        if answer.get("error", {}).get("kind") in LAUNCH_ERRORS:
            self._end_program()
            answer = {**answer, "state": failed_state}
            # Notes on breakpoints, too, would be about a program that does not run.
            answer |= {"all_breakpoints": None, "breakpoint_news": None, "notes": ()}
        refused = answer.get("not_watched", ())
        watch = tuple(each for each in self._launch.watch if each not in refused)
        self._launch = replace(self._launch, watch=watch)
        return self._event(action, arguments, answer, time.monotonic() - began)

    def _new_probe(self, launch: Launch) -> tuple[Json, Channel]:
        """What is to run, built if needed, and a probe for it. Raises LaunchRefused, DebuggerError,
        SandboxDead.
        """
        target = self._launcher.target(self._sandbox, launch, self._limits)
        try:
            return target, self._launcher.connect(self._sandbox, self._limits)
        except DebuggerError:  # on a busy machine the first start may time out
            return target, self._launcher.connect(self._sandbox, self._limits)

    def _place(self, point: Json) -> Json:
        """Find a breakpoint's place without a program: the answer of a probe that runs none."""
        assert self._launch is not None
        try:
            target, channel = self._new_probe(self._launch)
            with closing(channel):
                message = {"target": target, "breakpoint": point, "limits": asdict(self._limits)}
                timeout, grace = self._limits.start_timeout, self._limits.interrupt_grace
                return channel.request("place", message, timeout, grace)
        except (LaunchRefused, Interference, DebuggerError) as error:
            return {"error": {"kind": _kind(error), "message": str(error)}}

    def _ask(self, action: Action, arguments: Json, timeout: float | None = None) -> DebugEvent:
        if action not in ALLOWED[self.state] or self._channel is None:
            return self._refuse(action, arguments)
        began = time.monotonic()
        seconds = self._limits.action_timeout if timeout is None else timeout
        if action in CONTROL_ACTIONS and self._paused_at is not None:
            self._paused += began - self._paused_at
            self._paused_at = None
        answer = self._send(action, arguments, seconds)
        return self._event(action, arguments, answer, time.monotonic() - began)

    def _require_file(self, name: str) -> None:
        """Raises LaunchRefused with the nearest names if the program finds no such file."""
        answer = self._send("find_file", {"file": name}, self._limits.action_timeout)
        self._learn_breakpoints(Action.LIST_BREAKPOINTS, answer)
        if answer.get("error", {}).get("kind") == ErrorKind.BAD_REQUEST:
            raise LaunchRefused(answer["error"]["message"], ErrorKind.NO_SUCH_TEST)

    def _send(self, action: str, arguments: Json, seconds: float) -> Json:
        assert self._channel is not None
        try:
            return self._channel.request(action, arguments, seconds, self._limits.interrupt_grace)
        except (Interference, DebuggerError, SandboxDead) as error:
            self._end_program()
            self.state = State.DONE
            # Raises SandboxDead unless only the probe has ended, for which the program may be to
            # blame.
            self._sandbox.run(Command(("true",)))
            return _lost(error)

    def _shown(self, stop: DebugEvent, expressions: Iterable[str] | None = None) -> DebugEvent:
        """The stop with the values of the expressions, by default those that are watched there.

        An expression that ends the program is reported instead of the stop.
        """
        if not stop.stops_program or not stop.file:
            return stop
        values, output = list[Value](), stop.output
        for expression in self._watched_at(stop) if expressions is None else expressions:
            arguments = {"expression": expression, "frame": 0}
            seen = self._ask(Action.EVALUATE, arguments, self._limits.watch_timeout)
            output += seen.output
            if seen.state is State.DONE:
                note = f"this came of evaluating the watched expression {expression}"
                notes = (*stop.notes, *seen.notes, note)
                ended = replace(seen, action=stop.action, arguments=stop.arguments)
                return replace(ended, output=output, notes=notes)
            error = (seen.error or "").partition("\n")[0]
            cut = len(error) > MAX_ERROR
            failed = Value(expression, "", error[:MAX_ERROR], truncated=cut, failed=True)
            values += seen.values or [failed]
        return replace(stop, values=(*stop.values, *values), output=output)

    def _collect(self, number: int, expressions: tuple[str, ...], hits: int) -> DebugEvent:
        """Continue to the `hits`-th hit of a breakpoint, past other line and function breakpoints,
        and evaluate at each. Returns the last stop, which may be another one, with the hits.
        """
        found, space = list[Hit](), self._limits.collected_chars
        output, notes, passed = "", dict[str, None](), Counter[int]()
        deadline = time.monotonic() + self._limits.action_timeout
        most = min(hits, self._limits.max_values)
        while True:
            stop = self._ask(Action.CONTINUE, {}, max(deadline - time.monotonic(), 0.0))
            hit = next((point for point in stop.hit if point.number == number), None)
            if hit is None and stop.stop_reason in PASSED:
                if time.monotonic() < deadline:
                    output += stop.output
                    notes |= dict.fromkeys(stop.notes)
                    passed.update(
                        point.number
                        for point in stop.hit
                        if not _condition_failed(point.number, stop)
                    )
                    continue
                notes["the time-out passed at this other breakpoint: collect again to go on"] = None
            here = expressions if hit is not None else ()
            stop = self._shown(stop, here or self._watched_at(stop))
            output += stop.output
            notes |= dict.fromkeys(stop.notes)
            if hit is None or not stop.file or not stop.stops_program:
                first = _came_first(stop)
                if found and first:
                    notes[f"{len(found)} of {hits} hits: {first}"] = None
                break
            chars = max(self._limits.value_chars // 4, 1)
            values = tuple(
                value
                if len(value.text) <= chars
                else replace(value, text=value.text[:chars], truncated=True)
                for value in stop.values
            )
            passed.update(point.number for point in stop.hit if point.number != number)
            place = stop.file, stop.line or 0, stop.function or ""
            found.append(Hit(hit.hits, *place, values))
            stop = replace(stop, values=())
            space -= sum(len(value.text) for value in values)
            full = len(found) == most or space <= 0 or time.monotonic() > deadline
            if full:
                held = "more hits may follow" if len(found) == hits else "the answer is full"
                notes[f"{held}: collect again to go on"] = None
            if full or _condition_failed(number, stop) or stop.state is State.POST_MORTEM:
                break
        if found and found[0].number > 1:
            notes[f"hits before {found[0].number} came before this collection"] = None
        if passed:
            hit_too = ", ".join(f"{each} ({count} hits)" for each, count in sorted(passed.items()))
            notes[f"other breakpoints hit on the way, and not stopped at: {hit_too}"] = None
        kept = output[-self._limits.output_chars :]
        return replace(
            stop,
            collected=tuple(found),
            output=kept,
            output_truncated=stop.output_truncated or kept != output,
            notes=tuple(notes),
        )

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
            points = [*self._records.values(), *gone]
            if action is Action.SET_BREAKPOINT:  # the one that was set comes last
                points.sort(key=lambda point: point in event.breakpoints[-1:])
            event = replace(event, breakpoints=tuple(points))
        ended = event.stop_reason is StopReason.EXITED
        self._ran_code |= action is Action.RUN_CODE and event.error_kind is None
        raised = event.state is State.POST_MORTEM and event.stop_reason is not None
        if self._ran_code and (ended or raised):
            event = replace(event, notes=(*event.notes, CHANGED_LIVE))
        self._zero_hits.learn(answer, event, self._points or {})
        unhit = self._zero_hits.notes(event, self._records.values())
        event = replace(event, notes=(*event.notes, *unhit))
        if self._paused >= LONG_PAUSE and _tells_time_limit(event):
            event = replace(event, notes=(*event.notes, WAS_PAUSED.format(self._paused)))
        self.state = event.state
        if event.stop_reason is not None:
            self._paused_at = time.monotonic()
            self._at = event.file, event.line
            self._entered = event.stop_reason is StopReason.ENTRY
        if event.state is State.DONE and event.stop_reason is not None:
            self._end_program()
        return event

    def _forget_hits(self) -> None:
        """Before a launch, which may fail before it says how often its own are hit."""
        if self._points is not None:
            self._points = {number: {**point, "hits": 0} for number, point in self._points.items()}
        self._records = {number: replace(each, hits=0) for number, each in self._records.items()}

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
            self._records[point["number"]] = BREAKPOINT.validate_python(point)
        for number in news["gone"]:
            self._points.pop(number, None)
            self._records.pop(number, None)

    def _refuse(self, action: Action, arguments: Json) -> DebugEvent:
        message = REFUSAL.format(why=WHY[self.state])
        event = self._error(action, arguments, ErrorKind.NOT_ALLOWED, message)
        return replace(event, allowed=ALLOWED[self.state])

    def _error(self, action: Action, arguments: Json, kind: ErrorKind, message: str) -> DebugEvent:
        given = json.dumps(arguments)
        return DebugEvent(action, given, self.state, error_kind=kind, error=message)


def _tells_time_limit(event: DebugEvent) -> bool:
    """Whether it stops at an exception that may come of a time limit."""
    raised = event.exception if event.stop_reason is not None else None
    return raised is not None and bool(TIME_LIMIT.search(f"{raised.type} {raised.message}"))


def _condition_failed(number: int, stop: DebugEvent) -> bool:
    """Whether a breakpoint stops only since its condition raised or did not end."""
    return any(f"the condition of breakpoint {number} " in note for note in stop.notes)


def _came_first(stop: DebugEvent) -> str:
    """What ended collecting before all hits; empty if the stop's own words say it."""
    if stop.state is State.POST_MORTEM:
        return TEST_FAILED
    raised = next((point.number for point in stop.hit if point.exception), None)
    if raised is not None:
        return f"exception breakpoint {raised}, which is still set, came first"
    return CAME_FIRST.get(stop.stop_reason, "")


def _without_number(note: str, number: int) -> str:
    """A note about the breakpoint of a collection, which was set for it alone."""
    if note.startswith(REACHED.format(number)):
        note = note.replace(" in this run,", " from that stop on,")
    return note.replace(f"of breakpoint {number} ", "").replace(
        f"breakpoint {number} ", "the place "
    )


def _given(request: BreakpointRequest) -> Json:
    """What a request says, without what it leaves open."""
    return {
        name: value for name, value in asdict(request).items() if value not in (None, False, ())
    }


def _point(number: int, request: Json) -> Json:
    """A requested breakpoint, as a probe describes one."""
    place = {"file": request["file"] or "", "line": request["line"] or 0}
    return {**request, **place, "number": number}


def _kind(error: Exception) -> ErrorKind:
    return error.kind if isinstance(error, LaunchRefused) else ErrorKind.LAUNCH_FAILED


def _lost(error: Exception) -> Json:
    """The answer that a session gets which has lost its probe."""
    reason = KillReason.EXITED
    if isinstance(error, Interference):
        reason = KillReason.INTERFERENCE
    return {
        "state": "done",
        "stop": {"reason": "killed"},
        "lost": f"{error}: the session has ended; restart it",
        "kill_reason": reason,
    }


def _page(start: int) -> Json:
    return {"start": start} if start else {}


WHY: Mapping[State, str] = {
    State.START: "while no session is open",
    State.RUNTIME: "while the program is paused",
    State.RUNTIME_ERROR: "while the program is paused at an exception",
    State.POST_MORTEM: "post mortem: an exception has ended the run",
    State.DONE: "after the program has ended",
}


def open_debugger(language: str, sandbox: Sandbox, limits: DebugLimits | None = None) -> Debugger:
    """A debugger that has not been started. Raises DebuggerError for an unknown language."""
    launcher: Launcher
    if language == "java":
        from sandbox.debugger.java_session import JavaLauncher

        launcher = JavaLauncher()
    elif language == "python":
        from sandbox.debugger.python_session import PythonLauncher

        launcher = PythonLauncher()
    else:
        raise DebuggerError(
            f"there is no debugger for {language!r}; there is one for: python, java"
        )
    return Debugger(sandbox, launcher, limits or DebugLimits())
