"""pdb's own terminal, typed at line by line: InspectCoder's ablation "without InspectWare".

pdb runs by its own `main`, but reads its commands from the terminal, not from standard input, which
the program would consume. Whenever it waits for a line it first prints a secret mark, so nothing
that the program prints is taken for a prompt. A main thread that sleeps or waits for a lock ignores
Ctrl-C and is killed.
"""

from __future__ import annotations

import json
import re
import signal
import time
from dataclasses import dataclass
from enum import Enum, auto

from sandbox.base import Command, Sandbox
from sandbox.debugger.channel import Json, event_from_answer
from sandbox.debugger.records import Action, DebugEvent, DebugLimits, ErrorKind, KillReason, State
from sandbox.errors import SandboxDead
from sandbox.terminal import Terminal

MAX_COMMAND = 8_000
"""Characters of one command."""
LEAST_WAIT = 0.2
"""Minimum seconds for a line, however late in its command it is typed."""
SECOND_PROMPT = 0.05
"""Seconds to wait for a second prompt, after a Ctrl-C that met a prompt."""
KEPT = 256 * 1024
"""Bytes kept of one reply while it is read; the middle of a longer one is cut."""

# pdb clears the namespace of `__main__`, where this runs; `.pdbrc` may hold anything.
RUN_PDB = """\
def run():
    import os, pdb, sys
    terminal, screen, mark = open("/dev/tty"), sys.stdout, os.urandom(16).hex()
    print(mark, flush=True)
    class Lines:
        def readline(self):
            screen.write(mark)
            screen.flush()
            return terminal.readline()
    class Pdb(pdb.Pdb):
        def __init__(self, *arguments, **named):
            named.update(stdin=Lines(), stdout=screen, readrc=False)
            super().__init__(*arguments, **named)
    pdb.Pdb = Pdb
    pdb.main()
run()
"""
ENVIRONMENT = {
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "PYTHON_COLORS": "0",
    "PYTHON_BASIC_REPL": "1",
}
PYTEST_OPTIONS = "-s -q --pdb -p no:cacheprovider"
"""Passed in the environment, since pdb 3.13.0 would parse them on the command line."""

MARK = re.compile(r"[0-9a-f]{32}")
CONTINUED = "...   "
"""The continuation prompt of a statement, since 3.13."""


class End(Enum):
    """How a reply ended."""

    PROMPT = auto()
    INTERRUPTED = auto()
    """It took too long; Ctrl-C brought the prompt."""
    SILENT = auto()
    """No prompt appeared."""
    EXIT = auto()
    """pdb has ended."""


@dataclass(frozen=True)
class Reply:
    """The terminal's output after one line, including the prompt."""

    text: str = ""
    truncated: bool = False
    end: End = End.PROMPT

    def __add__(self, later: Reply) -> Reply:
        return Reply(self.text + later.text, self.truncated or later.truncated, later.end)


class PdbTerminal:
    """pdb on one pytest test, in a sandbox. Not started until `open`."""

    def __init__(self, sandbox: Sandbox, test: str, limits: DebugLimits) -> None:
        self._sandbox = sandbox
        self._test = test
        self._limits = limits
        self._prompt: PromptReader | None = None

    @property
    def running(self) -> bool:
        """Whether pdb runs."""
        return self._prompt is not None

    def open(self) -> DebugEvent:
        """Start or restart pdb; it pauses before the program's first line."""
        self.close()
        began = time.monotonic()
        terminal = self._sandbox.spawn(pdb_command(self._sandbox, self._test))
        self._prompt = PromptReader(terminal)
        first = self._prompt.ask(b"", self._limits.start_timeout)
        if MARK.fullmatch(first.text.strip()):
            self._prompt.mark, first = first.text.strip().encode("ascii"), Reply()
        reply = first + self._read(self._limits.start_timeout)
        answer = self._answer(Action.START, reply)
        if reply.end is End.EXIT:
            message = f"the program could not be started:\n{reply.text.strip()[-2000:]}"
            error = {"kind": ErrorKind.LAUNCH_FAILED, "message": message}
            answer = {"state": State.START, "error": error}
        arguments = json.dumps({"test": self._test})
        return event_from_answer(Action.START, arguments, answer, time.monotonic() - began)

    def command(self, text: str, timeout: float | None = None) -> DebugEvent:
        """Type lines at the prompt; `output` is the terminal's output, bounded.

        After `timeout` seconds (None: the limits' `action_timeout`) the program is interrupted, and
        if that brings no prompt back, pdb is killed.
        """
        began = time.monotonic()
        seconds = self._limits.action_timeout if timeout is None else timeout
        problem = why_untypable(text)
        if problem is not None:
            answer = self._refused(ErrorKind.BAD_REQUEST, problem)
        elif self._prompt is None:
            message = "there is no debugger running: open it first"
            answer = self._refused(ErrorKind.NOT_ALLOWED, message)
        else:
            answer = self._answer(Action.RAW, self._type(text.split("\n"), began + seconds))
        arguments = json.dumps({"command": text})
        return event_from_answer(Action.RAW, arguments, answer, time.monotonic() - began)

    def close(self) -> None:
        """End pdb and the program. Safe to call twice."""
        prompt, self._prompt = self._prompt, None
        if prompt is not None:
            prompt.close()

    def _type(self, lines: list[str], deadline: float) -> Reply:
        """Type lines one by one; on 3.13 an empty line closes an unfinished statement."""
        reply = Reply()
        for line in lines:
            reply += self._read(max(deadline - time.monotonic(), LEAST_WAIT), line)
            if reply.end is not End.PROMPT:
                return reply
        if len(lines) > 1 and reply.text.endswith(CONTINUED):
            reply += self._read(max(deadline - time.monotonic(), LEAST_WAIT), "")
        return reply

    def _read(self, timeout: float, line: str | None = None) -> Reply:
        """The reply to a line, or to the start; after the time-out the program is interrupted."""
        assert self._prompt is not None
        typed = b"" if line is None else line.encode("utf-8", "replace") + b"\n"
        reply = self._prompt.ask(typed, timeout)
        if reply.end is not End.SILENT:
            return reply
        reply += self._prompt.ask(b"\x03", self._limits.interrupt_grace)
        if reply.end is not End.PROMPT:
            return reply
        again = self._prompt.ask(b"", SECOND_PROMPT)
        end = End.EXIT if again.end is End.EXIT else End.INTERRUPTED
        return Reply(reply.text + again.text, reply.truncated or again.truncated, end)

    def _answer(self, action: Action, reply: Reply) -> Json:
        """Convert a reply to the fields of an answer; close a pdb that has ended or gone silent."""
        text, half = reply.text, self._limits.output_chars // 2
        if len(text) > self._limits.output_chars:
            missing = len(text) - 2 * half
            text = f"{text[:half]}\n... {missing} characters are not shown ...\n{text[-half:]}"
        truncated = reply.truncated or text != reply.text
        answer: Json = {"state": State.RUNTIME, "output": text, "output_truncated": truncated}
        if reply.end is End.INTERRUPTED:
            answer["stop"] = {"reason": "interrupted"}
        elif reply.end is End.SILENT:
            self.close()
            lost = f"{action} brought no prompt back, nor did an interrupt: the debugger was killed"
            answer |= {"state": State.DONE, "stop": {"reason": "killed"}, "lost": lost}
        elif reply.end is End.EXIT:
            assert self._prompt is not None
            code = self._prompt.exit_code()
            self._prompt = None
            answer |= {"state": State.DONE, "stop": {"reason": "exited", "exit_code": code}}
            if code > 128 and code - 128 in signal.valid_signals():
                answer["signal"] = signal_name(code - 128)
                answer["kill_reason"] = KillReason.CRASHED
        return answer

    def _refused(self, kind: ErrorKind, message: str) -> Json:
        state = State.RUNTIME if self.running else State.START
        return {"state": state, "error": {"kind": kind, "message": message}}


class PromptReader:
    """A terminal at which lines are typed, and text is read up to the mark behind a prompt."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.mark = b"\n"
        """At first the end of a line: the one that tells the mark."""
        self._data = b""
        self._cut = 0

    def ask(self, typed: bytes, timeout: float) -> Reply:
        """Type, if there is anything to type, and read up to the next prompt. Earlier unread output
        is part of the reply."""
        deadline, end = time.monotonic() + timeout, End.PROMPT
        try:
            # A flood may never pause.
            while typed and time.monotonic() < deadline:
                if not (chunk := self._terminal.read_available(0)):
                    break
                self._add(chunk)
            if typed:
                self._data = self._data.replace(self.mark, b"")
                self._terminal.send(typed)
            while self.mark not in self._data and end is End.PROMPT:
                left = deadline - time.monotonic()
                self._add(self._terminal.read_available(max(left, 0.0)))
                end = End.PROMPT if left > 0 or self.mark in self._data else End.SILENT
        except (EOFError, SandboxDead):
            end = End.EXIT
        said, _, self._data = self._data.partition(self.mark)
        cut, self._cut = self._cut, 0
        if cut:
            note = b"\n... %d bytes are not shown ...\n" % cut
            said = said[: KEPT // 2] + note + said[KEPT // 2 :]
        text = said.decode("utf-8", "replace").replace("\r\n", "\n")
        return Reply(text, cut > 0, end)

    def exit_code(self, timeout: float = 2.0) -> int:
        """The exit code of a pdb that has closed its terminal; kills it if it still runs."""
        deadline = time.monotonic() + timeout
        while self._terminal.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._terminal.close()

    def close(self) -> None:
        self._terminal.close()

    def _add(self, chunk: bytes) -> None:
        self._data += chunk
        if len(self._data) > 2 * KEPT and self.mark not in self._data:
            self._cut += len(self._data) - KEPT
            self._data = self._data[: KEPT // 2] + self._data[-KEPT // 2 :]


def signal_name(number: int) -> str:
    """A signal's name; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def pdb_command(sandbox: Sandbox, test: str) -> Command:
    """The command that runs pdb on a pytest test without standard input. It prints a mark, which
    the program under test has not seen, on its first line and whenever it waits for a line."""
    script = 'exec "$@" </dev/null'
    program = (sandbox.python, "-c", RUN_PDB, "-m", "pytest", test)
    own = sandbox.config.environment.get("PYTEST_ADDOPTS", "")
    environment = {**ENVIRONMENT, "PYTEST_ADDOPTS": f"{own} {PYTEST_OPTIONS}".strip()}
    return Command(("sh", "-c", script, "sh", *program), env=environment)


def why_untypable(text: str) -> str | None:
    """Why a text can't be typed at a terminal, or None."""
    if len(text) > MAX_COMMAND:
        return f"a command of {len(text)} characters is too long: give at most {MAX_COMMAND}"
    control = sorted({char for char in text if ord(char) < 32 and char not in "\n\t"})
    if control:
        shown = ", ".join(json.dumps(char) for char in control)
        return f"a command can't hold control characters ({shown}): leave them out"
    return None
