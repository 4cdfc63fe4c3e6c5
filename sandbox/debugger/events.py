"""A probe's answers as records."""

from __future__ import annotations

from typing import Any

from sandbox.debugger.channel import Json
from sandbox.debugger.records import (
    Action,
    Breakpoint,
    DebugEvent,
    ErrorKind,
    ExceptionInfo,
    Frame,
    KillReason,
    State,
    StopReason,
    ThreadStack,
    Value,
)
from sandbox.errors import DebuggerError

VERDICT = "a debugged run says nothing about passing or failing; run the test for that"

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
"""By reason: what helps to see more."""


def event_from_answer(action: Action, arguments: str, answer: Json, seconds: float) -> DebugEvent:
    """One answer of the probe, as the record of the action. Raises DebuggerError."""
    stop: Json = answer.get("stop") or {}
    kind, message = _error(action, answer, stop)
    reason = _kill_reason(answer, stop)
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
        threads=tuple(_thread(fields) for fields in answer.get("threads", ())),
        next_start=answer.get("next_start"),
        source=tuple(stop.get("source", ())),
        notes=_notes(answer, stop, reason),
        error_kind=kind,
        error=message,
        kill_reason=reason,
        seconds=seconds,
    )


def _thread(fields: Json) -> ThreadStack:
    frames = tuple(Frame(**frame) for frame in fields["frames"])
    return ThreadStack(**{**fields, "frames": frames})


def breakpoint_record(fields: Json) -> Breakpoint:
    """A breakpoint as a probe describes it."""
    names = Breakpoint.__dataclass_fields__
    return Breakpoint(**{name: value for name, value in fields.items() if name in names})


def _kill_reason(answer: Json, stop: Json) -> KillReason | None:
    if answer.get("kill_reason"):
        return KillReason(answer["kill_reason"])
    if "lost" in answer:
        return KillReason.EXITED
    if stop.get("exception", {}).get("type") == "MemoryError":
        return KillReason.OUT_OF_MEMORY
    return None


def _error(action: Action, answer: Json, stop: Json) -> tuple[ErrorKind | None, str | None]:
    error: dict[str, Any] | None = answer.get("error")
    if error is not None and error["kind"] == "internal":
        raise DebuggerError(f"the debugger failed inside the program: {error['message']}")
    if error is not None:
        return ErrorKind(error["kind"]), error["message"] + _diagnosis(answer)
    if stop.get("reason") == "killed":
        return ErrorKind.UNRESPONSIVE, answer.get("lost") or _killed(answer)
    if "signal" in answer:
        return ErrorKind.CRASHED, _crashed(answer, stop)
    if stop.get("reason") == "interrupted":
        message = f"{action} ran past its time-out; the program was interrupted where it was"
        return ErrorKind.TIMEOUT, message + _diagnosis(answer)
    return None, None


def _diagnosis(answer: Json) -> str:
    return f": it {answer['diagnosis']}" if "diagnosis" in answer else ""


def _crashed(answer: Json, stop: Json) -> str:
    place = f" at {stop['file']}:{stop['line']} in {stop['function']}" if "file" in stop else ""
    memory = ", out of memory" if answer.get("kill_reason") == KillReason.OUT_OF_MEMORY else ""
    return f"the interpreter died of {answer['signal']}{place}{memory}"


def _killed(answer: Json) -> str:
    """Why the program had to be killed, and where it was."""
    where = "".join(
        f"\n  {frame['file']}:{frame['line']} in {frame['function']}"
        for frame in answer.get("frames", ())[:5]
    )
    return (
        f"the program did not answer the interrupt and was killed{_diagnosis(answer)}"
        f"{where and ', at'}{where}"
    )


def _notes(answer: Json, stop: Json, reason: KillReason | None) -> tuple[str, ...]:
    notes = list(answer.get("notes", ()))
    if stop.get("reason") == "interrupted":
        notes.append(CHOICES)
    if reason in ADVICE and (stop.get("reason") != "exited"):
        notes.append(ADVICE[reason])
    if stop.get("reason") == "exited":
        notes.append(VERDICT)
    return tuple(notes)
