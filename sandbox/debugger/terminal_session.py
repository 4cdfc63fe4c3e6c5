"""A debug session over a debugger's own terminal: the second backend of the `Debugger` protocol.

This is the papers' "without InspectWare" ablation (InspectCoder, table 1): `open` and `command`
give the terminal as it is; the protocol's other methods drive it as far as a terminal lets itself
be driven. What it can't do, and a probe can:

- the program prints into the same terminal, so what it prints can pass for the debugger's words;
- what the program wrote and what the debugger wrote are told apart by the debugger's phrasing;
- steps go into library code and test runners, and are not counted in `depth`;
- why a program did not answer is not known.
"""

from __future__ import annotations

import json
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from sandbox.base import Command, Sandbox
from sandbox.debugger.channel import Json
from sandbox.debugger.limits import DebugLimits
from sandbox.debugger.prompts import End, PromptTerminal, Reply
from sandbox.debugger.records import (
    CONTROL_ACTIONS,
    Action,
    DebugEvent,
    ErrorKind,
    KillReason,
    Launch,
    State,
)
from sandbox.debugger.session import Connection, DebugSession, Launcher

MAX_COMMAND = 8_000
"""Characters of one raw command."""
STDIN_FILE = "/tmp/stepinto-stdin"
LEAST_WAIT = 0.2
"""Seconds that a command is given at least, however late it comes in its action."""


class Refused(Exception):
    """The terminal can't carry out an action; nothing of the program changed."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.BAD_REQUEST) -> None:
        super().__init__(message)
        self.kind = kind


class Ended(Exception):
    """The debugger itself has ended, after printing `reply`."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("the debugger has ended")
        self.reply = reply


class Unanswered(Exception):
    """Not even an interrupt brought a prompt back."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("the debugger gave no prompt back")
        self.reply = reply


Handler = Callable[[Json], Json]
"""Carries out an action with its arguments. Raises Refused, Ended, Unanswered."""


class Inspector(Protocol):
    """What looks at the paused program, and changes it."""

    def locals(self, arguments: Json) -> Json: ...
    def evaluate(self, arguments: Json) -> Json: ...
    def fields(self, arguments: Json) -> Json: ...
    def stack(self, arguments: Json) -> Json: ...
    def threads(self, arguments: Json) -> Json: ...
    def run_code(self, arguments: Json) -> Json: ...


class Breakpoints(Protocol):
    """The breakpoints of a terminal's debugger."""

    def known(self) -> list[Json]:
        """All that are set, as the fields of an answer."""

    def set(self, arguments: Json) -> Json: ...
    def remove(self, arguments: Json) -> Json: ...

    def refresh(self, arguments: Json) -> Json:
        """Bring what is known up to date with the debugger."""


class TerminalConnection(ABC):
    """Carries out a session's actions on a terminal; one subclass for each debugger."""

    _inspector: Inspector
    _points: Breakpoints

    def __init__(self, sandbox: Sandbox, limits: DebugLimits) -> None:
        self.sandbox = sandbox
        self.limits = limits
        self.state = State.START
        self.interrupted = False
        """Whether the action under way ran past its time-out."""
        self._prompt: PromptTerminal | None = None
        self._deadline = 0.0
        self._grace = 0.0

    def handlers(self) -> Mapping[str, Handler]:
        """By action: what carries it out."""
        look, points = self._inspector, self._points
        return {
            "launch": self._launch,
            **{action: self._runner(action) for action in CONTROL_ACTIONS},
            "locals": look.locals,
            "evaluate": look.evaluate,
            "fields": look.fields,
            "stack": look.stack,
            "threads": look.threads,
            "run_code": look.run_code,
            "set_breakpoint": points.set,
            "remove_breakpoint": points.remove,
            "list_breakpoints": points.refresh,
            "raw": lambda arguments: self.type_command(arguments["command"]),
        }

    @abstractmethod
    def _launch(self, arguments: Json) -> Json:
        """Start the debugger, and run to the first stop."""

    @abstractmethod
    def _runner(self, action: str) -> Handler:
        """What lets the program run on in one of the four ways."""

    @abstractmethod
    def interrupt(self) -> Reply:
        """Stop the running program, and read up to the prompt that this brings."""

    @abstractmethod
    def type_command(self, text: str) -> Json:
        """Type what a model wrote, and answer with what the terminal printed."""

    def request(
        self, action: str, arguments: Mapping[str, Any], timeout: float, grace: float
    ) -> Json:
        self._deadline, self._grace = time.monotonic() + timeout, grace
        self.interrupted = False
        try:
            answer = self.handlers()[action](dict(arguments))
        except Refused as refused:
            answer = {"error": {"kind": refused.kind, "message": str(refused)}}
        except Ended as ended:
            answer = self._end(ended.reply)
        except Unanswered as unanswered:
            answer = self._kill(action, unanswered.reply)
        return {"state": self.state, "all_breakpoints": self._points.known(), **answer}

    def close(self) -> None:
        prompt, self._prompt = self._prompt, None
        if prompt is not None:
            prompt.close()

    @property
    def prompt(self) -> PromptTerminal:
        if self._prompt is None:
            raise Refused("the debugger's terminal is closed")
        return self._prompt

    @prompt.setter
    def prompt(self, prompt: PromptTerminal) -> None:
        self._prompt = prompt

    @property
    def left(self) -> float:
        """Seconds left to the action."""
        return max(self._deadline - time.monotonic(), LEAST_WAIT)

    @property
    def grace(self) -> float:
        return self._grace

    def ask(self, line: str, running: bool = False) -> Reply:
        """One command's reply. Past the action's time-out the program is interrupted."""
        return self.checked(self.prompt.ask(line, self.left, running))

    def checked(self, reply: Reply) -> Reply:
        """A reply that ends in a prompt. Raises Ended, Unanswered."""
        if reply.end is End.EXIT:
            raise Ended(reply)
        if reply.end is End.PROMPT:
            return reply
        self.interrupted = True
        after = reply + self.interrupt()
        if after.end is End.EXIT:
            raise Ended(after)
        if after.end is End.TIMEOUT:
            raise Unanswered(after)
        return after

    def inspect(self, line: str) -> Reply:
        """A command that only looks. Raises Refused where it had to be interrupted."""
        reply = self.ask(line)
        if self.interrupted:
            message = "it ran past its time-out and was interrupted; the program is where it was"
            raise Refused(message, ErrorKind.TIMEOUT)
        return reply

    def program_output(self, reply: Reply, text: str | None = None) -> Json:
        """What a reply holds of the program's own output, bounded."""
        written = reply.text if text is None else text
        limit = self.limits.output_chars
        cut = reply.truncated or len(written) > limit
        if len(written) > limit:
            half = limit // 2
            missing = len(written) - 2 * half
            written = (
                f"{written[:half]}\n... {missing} characters are not shown ...\n{written[-half:]}"
            )
        return {"output": written, "output_truncated": cut}

    def _end(self, reply: Reply) -> Json:
        code = self.prompt.exit_code()
        self._prompt = None
        self.state = State.DONE
        stop = {"reason": "exited", "exit_code": code}
        answer: Json = {"stop": stop, **self.program_output(reply)}
        if code > 128 and code - 128 in signal.valid_signals():
            answer["signal"] = signal.Signals(code - 128).name
            answer["kill_reason"] = KillReason.CRASHED
        return answer

    def _kill(self, action: str, reply: Reply) -> Json:
        self.close()
        self.state = State.DONE
        lost = f"{action} brought no prompt back, nor did an interrupt: the debugger was killed"
        return {"stop": {"reason": "killed"}, "lost": lost, **self.program_output(reply)}


class TerminalDebugger(DebugSession):
    """Implements `Debugger` over a terminal, and gives the terminal itself."""

    def __init__(
        self, sandbox: Sandbox, launcher: Launcher, limits: DebugLimits | None = None
    ) -> None:
        super().__init__(sandbox, launcher, limits)
        self._first_prompt = False

    def start(self, launch: Launch) -> DebugEvent:
        self._first_prompt = False
        return super().start(launch)

    def open(self, launch: Launch) -> DebugEvent:
        """Start the debugger on the test and go no further than its first prompt.

        `launch.breakpoints` and `launch.stop_at_entry` are unused: what is typed sets them.
        """
        self._first_prompt = True
        return super().start(replace(launch, breakpoints=()))

    def command(self, text: str, timeout: float | None = None) -> DebugEvent:
        """Type lines at the debugger's prompt; `output` is what the terminal printed, bounded.

        Past `timeout` seconds (None: the limits' `action_timeout`) the program is interrupted,
        and where that brings no prompt back, the debugger is killed.
        """
        arguments = {"command": text}
        problem = _untypable(text)
        if problem is not None:
            return self._error(Action.RAW, arguments, ErrorKind.BAD_REQUEST, problem)
        if self._channel is None:
            message = "there is no debugger running: open it first"
            return self._error(Action.RAW, arguments, ErrorKind.NOT_ALLOWED, message)
        limits = self._limits
        seconds = limits.action_timeout if timeout is None else timeout
        began = time.monotonic()
        answer = self._channel.request("raw", arguments, seconds, limits.interrupt_grace)
        return self._event(Action.RAW, arguments, answer, time.monotonic() - began)

    def _launch_on(self, channel: Connection, target: Json, launch: Launch) -> Json:
        return super()._launch_on(channel, {**target, "first_prompt": self._first_prompt}, launch)


def stdin_source(sandbox: Sandbox, stdin: str) -> str:
    """A file of the sandbox that holds a program's standard input."""
    if not stdin:
        return "/dev/null"
    sandbox.run(Command(("sh", "-c", f"cat > {STDIN_FILE}"), stdin=stdin.encode()))
    return STDIN_FILE


def _untypable(text: str) -> str | None:
    """Why a text can't be typed at a terminal; None where it can."""
    if len(text) > MAX_COMMAND:
        return f"a command of {len(text)} characters is too long: give at most {MAX_COMMAND}"
    control = sorted({char for char in text if ord(char) < 32 and char not in "\n\t"})
    if control:
        shown = ", ".join(json.dumps(char) for char in control)
        return f"a command can't hold control characters ({shown}): leave them out"
    return None
