"""The host's end of the protocol that a debug probe speaks over a pseudo-terminal: requests, and
answers as records; and what a language provides: its probe, and what a launch means to it."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from pydantic import BaseModel, TypeAdapter, ValidationError, model_validator

from sandbox.base import Sandbox
from sandbox.debugger.records import (
    CONTROL_ACTIONS,
    Action,
    Breakpoint,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    ExceptionInfo,
    Frame,
    KillReason,
    Launch,
    State,
    StopReason,
    ThreadStack,
    Value,
)
from sandbox.errors import DebuggerError
from sandbox.terminal import Terminal
from sandbox.text import storable

Json = dict[str, Any]

MARGIN = 5.0
"""Extra seconds beyond the supervisor's own deadlines, for busy machines."""


class Interference(Exception):
    """An answer that no probe can have given: the program answered in its place."""


MISSING: Any = None
"""The default of what may be missing, but not null."""


class Part(BaseModel, extra="forbid", strict=True):
    """Base of the parts of an answer."""


class Stop(Part):
    """Where the program stopped, or how it ended."""

    reason: StopReason
    file: str = MISSING
    line: int = MISSING
    function: str = MISSING
    depth: int = MISSING
    thread: str | None = MISSING
    source: list[str] = MISSING
    exception: ExceptionInfo = MISSING
    return_value: Value = MISSING
    exit_code: int | None = MISSING

    @model_validator(mode="after")
    def _has_a_whole_place(self) -> Self:
        place = (self.file, self.line, self.function)
        if self.file is not MISSING and MISSING in place:
            raise ValueError("a file without its line and function")
        return self


class Problem(Part):
    """Why a request was not carried out."""

    kind: ErrorKind | Literal["internal"]
    """`internal`: the probe itself failed."""
    message: str


@dataclass(frozen=True)
class SentBreakpoint(Breakpoint):
    """A breakpoint with the text at and around its line, by which a restart finds it again."""

    source: str | None = None
    around: tuple[str, ...] = ()
    unseen: str = ""
    """Why it may miss executions of its line, if it may."""


class BreakpointNews(Part):
    """How the breakpoints have changed since the last answer."""

    changed: list[SentBreakpoint]
    gone: list[int]


class Answer(Part):
    """All that a probe can say."""

    id: int = MISSING
    version: str = MISSING
    state: State = MISSING
    stop: Stop = MISSING
    frames: list[Frame] = MISSING
    values: list[Value] = MISSING
    threads: list[ThreadStack] = MISSING
    next_start: int = MISSING
    breakpoints: list[SentBreakpoint] = MISSING
    all_breakpoints: list[SentBreakpoint] = MISSING
    breakpoint_news: BreakpointNews = MISSING
    not_watched: list[str] = MISSING
    notes: list[str] = MISSING
    path: str = MISSING
    error: Problem = MISSING
    kill_reason: KillReason | None = MISSING
    diagnosis: str = MISSING
    signal: str = MISSING
    lost: str = MISSING
    child_processes: bool = MISSING
    hidden: bool = MISSING
    """Whether another tracer has hidden what ran from breakpoints."""
    output: str = MISSING
    output_truncated: bool = MISSING


ANSWERED_BY: Mapping[str, str] = {
    **dict.fromkeys(("launch", *CONTROL_ACTIONS), "stop"),
    **dict.fromkeys((Action.LOCALS, Action.EVALUATE, Action.FIELDS), "values"),
    **dict.fromkeys(("place", Action.SET_BREAKPOINT), "breakpoints"),
    Action.STACK: "frames",
    Action.THREADS: "threads",
}
"""What an answer holds unless it is an error or the program's end."""
ENDS = (StopReason.EXITED, StopReason.KILLED)
NO_ANSWER = "no debugger can have given this answer ({})"
MANY = 2**63
"""More than any number in an answer, and than a row can store."""


class Channel:
    """Requests to a probe with one answer each, recognised by the session's nonce.

    Only the process that speaks for the probe learns the nonce, never the program's, so a program
    can't forge an answer by printing one.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._nonce = secrets.token_hex(8)
        self._prefix = self._nonce.encode("ascii") + b" "
        self._next_id = 1
        self._stray: list[str] = []
        self._sending = threading.Lock()

    def await_marker(self, marker: bytes, timeout: float) -> bytes:
        """The rest of the first line that starts with `marker`. Raises DebuggerError."""
        deadline = time.monotonic() + timeout
        while (line := self._read(deadline)) is not None:
            if line.startswith(marker):
                return line[len(marker) :].strip()
            self._keep_stray(line)
        raise DebuggerError(f"the debugger did not start within {timeout:g} s{self._stray_text()}")

    def hello(self, output_chars: int, timeout: float) -> Json:
        """Send the probe its nonce; its answer describes it."""
        message = {"nonce": self._nonce, "output_chars": output_chars}
        return self._exchange(message, time.monotonic() + timeout)

    def request(self, action: str, arguments: Json, timeout: float, grace: float) -> Json:
        """Send a request and wait for its answer: `timeout` until an interrupt, `grace` more until
        a kill.

        Raises DebuggerError if the probe is gone or does not answer in time, Interference if the
        answer is none.
        """
        message = {"action": action, "arguments": arguments, "timeout": timeout, "grace": grace}
        answer = self._exchange(message, time.monotonic() + timeout + grace + MARGIN)
        error = answer.get("error", {})
        if error.get("kind") == "internal":
            raise Interference(f"the debugger failed inside the program: {error['message']}")
        if "state" not in answer or not _is_complete(action, answer):
            raise Interference(f"the answer to {action} lacks what it must hold")
        return answer

    def interrupt(self) -> None:
        """Let the time of the request under way be over, whose answer another thread awaits."""
        with self._sending:
            self._terminal.interject(b'{"action":"interrupt"}\n')

    def close(self) -> None:
        with self._sending:
            self._terminal.close()

    def _exchange(self, message: Json, deadline: float) -> Json:
        number = self._next_id
        self._next_id += 1
        line = json.dumps({"id": number, **message}, separators=(",", ":"))
        with self._sending:
            self._terminal.send_line(line.encode("ascii"))
        while (answer := self._read(deadline)) is not None:
            if not answer.startswith(self._prefix):
                self._keep_stray(answer)
                continue
            fields = _fields(answer[len(self._prefix) :])
            if fields.get("id") != number:
                raise Interference(f"the debugger answered a request other than {number}")
            return fields
        raise DebuggerError(f"the debugger gave no answer in time{self._stray_text()}")

    def _read(self, deadline: float) -> bytes | None:
        try:
            return self._terminal.read_line(max(deadline - time.monotonic(), 0.0))
        except EOFError:
            raise DebuggerError(f"the debugger ended unasked{self._stray_text()}") from None

    def _keep_stray(self, line: bytes) -> None:
        self._stray = [*self._stray[-19:], line.decode("utf-8", "replace")[:500]]

    def _stray_text(self) -> str:
        return "; it had printed:\n" + "\n".join(self._stray) if self._stray else ""


def _fields(line: bytes) -> Json:
    """Parse an answer; its text may have lone surrogates, which JSON allows but no file holds.

    Raises Interference.
    """
    try:
        text = line.decode("utf-8")
        fields: Json = DECODER.decode(text)
        if "\\ud" in text:
            text = storable(json.dumps(fields, ensure_ascii=False))
            fields = json.loads(text)
        Answer.model_validate_json(text)
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(map(str, wrong["loc"]))
        raise Interference(NO_ANSWER.format(f"{place}: {wrong['msg']}")) from None
    except (ValueError, RecursionError) as error:
        raise Interference(NO_ANSWER.format(error)) from None
    return fields


def _whole(digits: str) -> int:
    number = int(digits)
    if abs(number) >= MANY:
        raise ValueError(f"{digits[:40]} is too large")
    return number


DECODER = json.JSONDecoder(parse_int=_whole)


def _is_complete(action: str, answer: Json) -> bool:
    """Whether an answer has what its action asks for; a place of a breakpoint is always one."""
    if "error" in answer or action not in ANSWERED_BY:
        return True
    if answer.get("stop", {}).get("reason") in ENDS:
        return True
    needed = ANSWERED_BY[action]
    return needed in answer and (needed != "breakpoints" or bool(answer[needed]))


EVENT, BREAKPOINT = TypeAdapter(DebugEvent), TypeAdapter(Breakpoint)
"""Convert what a probe describes, ignoring what it keeps for itself."""
CHOICES = "the program is paused where it was: look around, let it run on, or restart"
ADVICE = {
    KillReason.ENDLESS_LOOP: "if a loop does not end, look at the values that should end it",
    KillReason.WAITING_FOR_STDIN: "what a program is to read must be given when it is started",
    KillReason.DEADLOCK: "look at who holds the lock: the threads' stacks show it",
    KillReason.NATIVE_CODE: "look at the arguments of the call it was in",
    KillReason.OUT_OF_MEMORY: "restart, and stop before it allocates",
}
"""Advice on how to find out more, by reason."""


def event_from_answer(action: Action, arguments: str, answer: Json, seconds: float) -> DebugEvent:
    """Convert one answer of the probe."""
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
    own = {"action": action, "arguments": arguments, "seconds": seconds, "notes": notes}
    found = {"stop_reason": stop.get("reason"), "kill_reason": reason}
    failed = {"error_kind": kind, "error": message}
    return EVENT.validate_python({**answer, **stop, **own, **found, **failed})


def _error(action: Action, answer: Json, stop: Json) -> tuple[ErrorKind | None, str | None]:
    error: dict[str, Any] | None = answer.get("error")
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


class LaunchRefused(Exception):
    """The launch names nothing that can be run, or the build fails; the message says what to do."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.LAUNCH_FAILED) -> None:
        super().__init__(message)
        self.kind = kind


class Launcher(Protocol):
    """The language-specific part: the probe, and what a launch means to it."""

    def check(self, sandbox: Sandbox, launch: Launch, require_file: Callable[[str], None]) -> None:
        """Check what can be known of a launch while another program runs, which `require_file`
        asks for a file. Raises LaunchRefused, SandboxDead."""

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        """What the probe is to run, built if needed. Raises LaunchRefused, SandboxDead."""

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> Channel:
        """Start a probe in the sandbox. Raises DebuggerError, SandboxDead."""
