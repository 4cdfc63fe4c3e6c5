"""Render debug events as text for models, the same for every language.

The first line says what happened. Others parse it, so it keeps its form: `Paused at FILE:LINE in
FUNCTION (REASON)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby

from sandbox.debugger.records import (
    Action,
    Breakpoint,
    DebugEvent,
    ErrorKind,
    ExceptionInfo,
    Frame,
    Snapshot,
    State,
    StopReason,
    Value,
)
from sandbox.debugger.session import LAUNCH_ERRORS, REFUSAL, STILL_OPEN, WHY

INDENT = "    "
STARTS = (Action.START, Action.RESTART)
CODE_RAN = "Code ran without an exception and printed nothing."
STACK = "Stack, innermost frame first:"
CLOSED = "The debug session is closed."
MAX_ECHO = 60
"""Characters of an expression that are repeated before its value."""
MAX_MISSING = 6
"""Watched expressions that a stop says are not available."""
DEEPEST = 6
"""Levels of a tree that are indented."""
REPEATS = 3
"""Longer runs of one frame, as in endless recursion, show only the first."""
THREADS = "Threads, each innermost frame first:"
ABSENT = re.compile(r"NameError: name '\w+' is not defined$|no variable, field or class is named ")
"""The error of an expression with a name that the frame does not have."""
LINE_BREAKS = {ord(each): repr(each)[1:-1] for each in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
"""What ends a line for some reader, and how it is shown in a name."""
HEADINGS = {
    Action.RUN_CODE: ("", CODE_RAN),
    Action.LOCALS: ("Local variables:", "No local variable has a value here."),
    Action.FIELDS: ("Fields:", "It has no fields or items to show."),
    Action.STACK: (STACK, STACK),
    Action.THREADS: (THREADS, THREADS),
    Action.EVALUATE: ("", ""),
    Action.RAW: ("", ""),
}
"""By action: the heading above the results, and the text if there are none."""
STATES = {
    State.START: "not started",
    State.RUNTIME: "paused",
    State.RUNTIME_ERROR: "paused at an exception",
    State.POST_MORTEM: "post mortem, since an exception ended the run",
    State.DONE: "ended",
}


TELLS_STATE = re.compile(
    r"(?P<paused>Paused at .+)|Program ended |Killed: "
    rf"|{re.escape(CLOSED)}|(?P<failed>Error \((?:{'|'.join(LAUNCH_ERRORS)})\): )"
    rf"|Error \({ErrorKind.NOT_ALLOWED}\): {REFUSAL.format(why='(?P<why>.+)')}"
)
"""The first line, if it does. Others can be the program's own words."""


def render(event: DebugEvent, names: Mapping[Action, str] | None = None) -> str:
    """The text of one event, with its parts in a fixed order and empty ones left out.

    `names` says how the reader calls the actions, if not by their own names.
    """
    parts = [
        _headline(event),
        *_around_the_stop(event, names or {}),
        *_values(event),
        *_collected(event),
        *_frames(event.frames),
        *_threads(event),
        *_breakpoints(event),
        *(f"Note: {_indented(note)}" for note in event.notes),
    ]
    return "\n".join(part for part in parts if part)


def read_state(text: str, start: bool) -> State | None:
    """The state of the session after an event with this text, or None if it is as before. A program
    that is paused at an exception counts as paused. `start` says whether the event answers a start.
    """
    told = TELLS_STATE.match(text)
    if told is None:
        return None
    if told["paused"]:
        return State.POST_MORTEM if "(post mortem: " in told["paused"] else State.RUNTIME
    if told["why"]:
        return next((state for state, why in WHY.items() if why == told["why"]), None)
    if told["failed"]:
        failed = State.START if start else State.DONE
        return None if STILL_OPEN in text else failed
    return State.START if told[0] == CLOSED else State.DONE


def render_snapshot(snapshot: Snapshot) -> str:
    """The session's whole state, in the form of InspectCoder's listing 3, outermost frame first."""
    lines = [f"State: {STATES[snapshot.state]}"]
    if snapshot.frames:
        lines.append("Current stack trace:")
    for number, frame in enumerate(reversed(snapshot.frames), 1):
        paused = " (paused here)" if frame.index == 0 else ""
        place = f"{frame.function} at {frame.file}:{frame.line}"
        lines.append(one_line(f"[{number}] {place} | {frame.source}{paused}"))
    if snapshot.breakpoints:
        lines.append("Active breakpoints:")
    return "\n".join([*lines, *(_breakpoint(point) for point in snapshot.breakpoints)])


def _headline(event: DebugEvent) -> str:
    if _only_printed(event):
        return ""
    if event.stop_reason is StopReason.KILLED:
        return f"Killed: {_indented(event.error or '')}"
    if event.stop_reason is StopReason.EXITED:
        crashed = f": {event.error}" if event.error_kind is ErrorKind.CRASHED else ""
        return f"Program ended with exit code {event.exit_code}{crashed}"
    if event.stop_reason is not None:
        known = event.file is not None
        place = f"{event.file}:{event.line} in {event.function}" if known else "no program frame"
        thread = f", in thread {event.thread}" if event.thread else ""
        return one_line(f"Paused at {place} ({_reason(event)}{thread})")
    if event.error_kind is not None:
        error = event.error or ""
        told = error if event.error_kind in LAUNCH_ERRORS else _indented(error)
        return f"Error ({event.error_kind}): {told}"
    found, nothing = HEADINGS.get(event.action, ("Breakpoints:", "No breakpoints are set."))
    if event.action is Action.SET_BREAKPOINT:
        found = "Breakpoint set:"
    shown = event.values or event.breakpoints or event.frames or event.threads
    return found if shown else nothing


def _reason(event: DebugEvent) -> str:
    if event.stop_reason is StopReason.BREAKPOINT:
        hit = event.hit
        # Whether the program stays at the last hit collected, rather than at another stop.
        last = [(hit.number, hit.file, hit.line) for hit in event.collected[-1:]]
        stays = any((point.hits, event.file, event.line) in last for point in hit)
        if event.action is Action.COLLECT and stays:
            return f"collected hit {event.collected[-1].number}"
        return _numbers(hit) if hit else "breakpoint() in the code"
    if event.stop_reason is StopReason.INTERRUPTED:
        return "interrupted: the time-out passed while it ran"
    if event.state is State.POST_MORTEM:
        return "post mortem: an exception ended the run" + _raised(event)
    if event.stop_reason is StopReason.EXCEPTION:
        return "exception" + _raised(event)
    return str(event.stop_reason)


def _raised(event: DebugEvent) -> str:
    """The exception breakpoints that were hit."""
    hit = [point for point in event.breakpoints if point.exception and point.hits]
    return f", {_numbers(hit)}" if hit else ""


def _numbers(hit: Sequence[Breakpoint]) -> str:
    again = f", hit {hit[0].hits}" if len(hit) == 1 and hit[0].hits > 1 else ""
    return "breakpoint " + ", ".join(str(point.number) for point in hit) + again


def _around_the_stop(event: DebugEvent, names: Mapping[Action, str]) -> Iterable[str]:
    """What is allowed, raised, returned and printed, and the source."""
    if Action.START in event.allowed and Action.RESTART not in event.allowed:
        yield f"Call {names.get(Action.START, Action.START)} first."
    elif event.allowed:
        known = [action for action in event.allowed if action in names or not names]
        allowed = dict.fromkeys(names.get(action, action) for action in known)
        yield "The debugger now allows: " + ", ".join(allowed)
    if event.exception is not None:
        message = f": {_indented(event.exception.message)}" if event.exception.message else ""
        yield f"Exception: {one_line(event.exception.type)}{message}"
        yield from _related(event.exception, Action.STACK in names)
    if event.return_value is not None:
        value = event.return_value
        yield f"Returned from {one_line(value.name)}: {_indented(value.text)}{_remarks(value)}"
    if event.output and _only_printed(event):
        yield event.output.rstrip("\n")
    elif event.output:
        yield "Program output:"
        yield INDENT + _indented(event.output.rstrip("\n"))
    yield from event.source


def _related(exception: ExceptionInfo, has_stack: bool) -> Iterable[str]:
    """The notes and the tree of an exception, each of its causes and members on a line.
    `has_stack`: the reader can ask for the stack, in which the tree's frames come last."""
    yield from (f"{INDENT}note: {one_line(note)}" for note in exception.notes)
    framed = (each.frame for each in exception.related if each.frame is not None)
    first = next(framed, None) if has_stack else None
    for number, each in enumerate(exception.related, 1):
        indent = INDENT * min(each.depth, DEEPEST)
        if exception.unlisted and number == len(exception.related):
            yield f"{INDENT}... {exception.unlisted} more, and the last:"
        message = f": {each.message}" if each.message else ""
        place = f"{each.file}:{each.line} in {each.function}"
        how = f": stack start={first}" if each.frame == first else ""
        raised = f", raised at {place} (frame {each.frame}{how})" if each.file else ""
        if each.file and each.frame is None:  # Java knows where it was created, and keeps no frame
            raised = f", created at {place}"
        yield indent + one_line(f"{each.relation} {each.type}{message}{raised}")
        yield from (f"{indent}{INDENT}note: {one_line(note)}" for note in each.notes)


def _only_printed(event: DebugEvent) -> bool:
    """Whether code ran and printed, so that its output says all."""
    ended = event.stop_reason is not None or event.error_kind is not None
    return event.action is Action.RUN_CODE and bool(event.output.strip()) and not ended


def _values(event: DebugEvent) -> Iterable[str]:
    watched, missing = event.stop_reason is not None, list[str]()
    if event.action is Action.COLLECT and all(value.failed for value in event.values):
        return  # it ended in other code, which has none of them
    if event.values and watched:
        yield "Watched:"
    for value in event.values:
        if value.failed and watched and ABSENT.match(value.text):
            missing.append(value.name)
            continue
        asked = event.action not in (Action.LOCALS, Action.FIELDS)
        name = _short(value.name) if asked else one_line(value.name)
        equals = ":" if value.failed else " ="
        yield f"{name}{equals} {_indented(value.text)}{_remarks(value)}"
    if missing:
        more = f" and {len(missing) - MAX_MISSING} more" * (len(missing) > MAX_MISSING)
        yield f"not available here: {', '.join(map(_short, missing[:MAX_MISSING]))}{more}"


def _collected(event: DebugEvent) -> Iterable[str]:
    """One row per hit; the place is in the heading if all hits have the same."""
    if event.action is not Action.COLLECT or event.stop_reason is None:
        return
    hits = event.collected
    places = dict.fromkeys(one_line(f"{hit.file}:{hit.line} in {hit.function}") for hit in hits)
    functions = {hit.function for hit in hits}
    if not hits:
        stopped = event.stop_reason is StopReason.BREAKPOINT
        yield "No hit was collected" + (": another breakpoint came first." if stopped else ".")
        return
    one = len(places) == 1
    # Of the breakpoint that was collected, whatever ended it.
    raised = json.loads(event.arguments).get("exception")
    when = "when it was raised" if raised else "before the line ran"
    yield f"Collected{' at ' + next(iter(places)) if one else ''}, {when}:"
    names = (_short(value.name) for value in hits[0].values)
    yield " | ".join(["hit", *([] if one else ["place"]), *names])
    told = set[Value]()
    for hit in hits:
        function = f" in {hit.function}" if len(functions) > 1 else ""
        place = [] if one else [one_line(f"{hit.file}:{hit.line}{function}")]
        yield " | ".join([str(hit.number), *place, *(_cell(value, told) for value in hit.values)])
        told.update(value for value in hit.values if value.failed)


def _cell(value: Value, told: Collection[Value]) -> str:
    """A value on one line; an error only where it is new."""
    if value in told:
        return "(same error)"
    text = value.text.replace("\n", "\\n") + " ..." * value.truncated
    return f"({text})" if value.failed else text


def _short(expression: str) -> str:
    """An expression that the reader has just written: its beginning and its end."""
    line, half = " ".join(expression.split()), (MAX_ECHO - 5) // 2
    return line if len(line) <= MAX_ECHO else f"{line[:half]} ... {line[-half:]}"


def _remarks(value: Value) -> str:
    """`  (str, cut)`; leaves out a type that the debugger does not know."""
    remarks = [value.type] * bool(value.type) + ["cut"] * value.truncated
    return one_line(f"  ({', '.join(remarks)})") if remarks else ""


def _frames(frames: Iterable[Frame]) -> Iterable[str]:
    for _, run in groupby(frames, lambda frame: (frame.file, frame.line, frame.function)):
        same = list(run)
        for frame in same if len(same) <= REPEATS else same[:1]:
            source = f" | {frame.source}" if frame.source else ""
            yield one_line(f"#{frame.index} {frame.file}:{frame.line} in {frame.function}{source}")
        if len(same) > REPEATS:
            last = same[-1].index
            yield f"{INDENT}... the same frame {len(same) - 1} more times, up to #{last}"


def _threads(event: DebugEvent) -> Iterable[str]:
    for thread in event.threads:
        current = ", stopped here" if thread.current else ""
        doing = f" ({thread.doing})" if thread.doing else ""
        yield one_line(f"Thread {thread.name}{doing}{current}")
        yield from _frames(thread.frames)
    if event.next_start is not None:
        yield f"Note: there is more; ask again with start={event.next_start}"


def _breakpoints(event: DebugEvent) -> Iterable[str]:
    hit = event.stop_reason in (StopReason.EXCEPTION, StopReason.BREAKPOINT)
    if hit and event.action not in STARTS:
        return ()
    if event.action is Action.SET_BREAKPOINT and event.error_kind is not None:
        return ()
    points = event.breakpoints
    if event.action is Action.SET_BREAKPOINT:
        points = points[-1:]  # the one that was set; the others have been told before
    lines = [_breakpoint(point) for point in points]
    # If it neither stopped nor failed, that is its first line.
    has_heading = event.stop_reason is None and event.error_kind is None
    return lines if has_heading or not lines else ["Breakpoints:", *lines]


def _breakpoint(point: Breakpoint) -> str:
    """`2: shop/cart.py:42 in Cart.total if total > 3, temporary, hit 1 time`."""
    function = f" in {point.function}" if point.function else ""
    condition = f" if {point.condition}" if point.condition else ""
    temporary = ", temporary" if point.temporary else ""
    pending = ", pending: its class is not loaded yet" if point.pending else ""
    place = f"{point.file}:{point.line}" if point.line else point.file
    if point.exception:
        place = f"{'uncaught ' if point.uncaught else ''}exception {point.exception}"
    watch = f", watching {', '.join(map(_short, point.watch))}" if point.watch else ""
    kind = f"{function}{condition}{temporary}{pending}{watch}"
    times = "time" if point.hits == 1 else "times"
    return one_line(f"{point.number}: {f'{place}{kind}'.lstrip()}, hit {point.hits} {times}")


def one_line(text: str) -> str:
    """Text with names that the program chose, on one line: no name can look like another line."""
    return text.translate(LINE_BREAKS)


def _indented(text: str) -> str:
    """Indents lines after the first, so that no value can look like a heading."""
    return text.replace("\n", "\n" + INDENT)
