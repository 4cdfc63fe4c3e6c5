"""Commands typed into a debugger's own terminal: one line sent, one reply read up to a prompt.

A prompt is no frame. What can be told from it is told as `Prompt.SURE`; the rest is taken for a
prompt only once the terminal stays silent after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from sandbox.base import Terminal
from sandbox.errors import SandboxDead

KEPT = 256 * 1024
"""Bytes kept of one reply: the middle of a longer one is cut."""
TAIL = 4096
"""Bytes at the end of a reply in which a prompt is looked for."""
SETTLE = 0.002
"""Seconds of silence after a sure prompt: else a chunk may end where a value quotes one."""
QUIET = 1.0
"""Seconds of silence after what may be a prompt, or of anything after one that has passed."""


class Prompt(Enum):
    """Whether the debugger waits for a command."""

    NONE = "none"
    PASSED = "passed"
    """It did, and another thread of the program printed something behind the prompt."""
    PERHAPS = "perhaps"
    SURE = "sure"


class End(Enum):
    """How a reply ended."""

    PROMPT = "prompt"
    TIMEOUT = "timeout"
    EXIT = "exit"
    """The debugger itself has ended."""


@dataclass(frozen=True)
class Reply:
    """What the terminal printed after one command, the prompt included."""

    text: str
    truncated: bool
    end: End

    def __add__(self, later: Reply) -> Reply:
        return Reply(self.text + later.text, self.truncated or later.truncated, later.end)


Recognise = Callable[[str, bool], Prompt]
"""Looks for a prompt at the end of a text; the flag: whether the program was set running."""


class PromptTerminal:
    """A terminal that answers lines with text and a prompt."""

    def __init__(self, terminal: Terminal, recognise: Recognise) -> None:
        self._terminal = terminal
        self._recognise = recognise
        self._data = bytearray()
        self._cut = 0

    def ask(self, line: str, timeout: float, running: bool = False) -> Reply:
        """Send one line, and read until the next prompt. What came unasked before is part of the
        reply."""
        self._drain()
        try:
            self._terminal.send_line(line.encode("utf-8", "replace"))
        except SandboxDead:
            return self._taken(End.EXIT)
        return self.wait(timeout, running)

    def press(self, key: bytes, timeout: float) -> Reply:
        """Send a key, such as Ctrl-C, and read until the next prompt."""
        try:
            self._terminal.send(key)
        except SandboxDead:
            return self._taken(End.EXIT)
        return self.wait(timeout, True)

    def wait(self, timeout: float, running: bool = False) -> Reply:
        """Read until the next prompt."""
        deadline = time.monotonic() + timeout
        passed = float("inf")
        while True:
            prompt = self._recognise(self._data[-TAIL:].decode("utf-8", "replace"), running)
            now = time.monotonic()
            if prompt is Prompt.PASSED:
                passed = min(passed, now)
            if now > passed + QUIET:
                return self._taken(End.PROMPT)
            left = max(deadline - now, 0.0)
            quiet = {Prompt.SURE: SETTLE, Prompt.PERHAPS: QUIET, Prompt.PASSED: QUIET}
            try:
                chunk = self._terminal.read_available(min(quiet.get(prompt, left), left))
            except EOFError:
                return self._taken(End.EXIT)
            if chunk:
                self._add(chunk)
            elif prompt is not Prompt.NONE:
                return self._taken(End.PROMPT)
            if not chunk or now > deadline:
                return self._taken(End.TIMEOUT)

    def exit_code(self, timeout: float = 2.0) -> int:
        """Of a debugger that has closed its terminal; one that lives on is killed after all."""
        deadline = time.monotonic() + timeout
        while self._terminal.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._terminal.close()

    def close(self) -> None:
        self._terminal.close()

    def _drain(self) -> None:
        try:
            while chunk := self._terminal.read_available(0):
                self._add(chunk)
        except EOFError:
            return  # the command that comes now will be answered with the end

    def _add(self, chunk: bytes) -> None:
        self._data += chunk
        if len(self._data) > 2 * KEPT:
            self._cut += len(self._data) - KEPT
            del self._data[KEPT // 2 : -KEPT // 2]

    def _taken(self, end: End) -> Reply:
        data, cut = self._data, self._cut
        self._data, self._cut = bytearray(), 0
        if cut:
            data[KEPT // 2 : KEPT // 2] = b"\n... %d bytes are not shown ...\n" % cut
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        return Reply(text, cut > 0, end)
