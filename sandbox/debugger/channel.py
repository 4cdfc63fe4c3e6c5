"""The host's end of the protocol that a debug probe speaks over a pseudo-terminal."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from sandbox.base import Terminal
from sandbox.errors import DebuggerError
from sandbox.text import storable

Json = dict[str, Any]

MARGIN = 5.0
"""Seconds that the supervisor has beyond its own deadlines, on a busy machine."""


class Channel:
    """Requests to a probe, one answer each, told from anything else by the session's nonce.

    The probe learns the nonce only once the program's own process has been forked off, so a
    program can't forge an answer by printing one.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._nonce = secrets.token_hex(8)
        self._prefix = self._nonce.encode("ascii") + b" "
        self._next_id = 1
        self._stray: list[str] = []

    def await_marker(self, marker: bytes, timeout: float) -> bytes:
        """The rest of the first line that starts with `marker`. Raises DebuggerError."""
        deadline = time.monotonic() + timeout
        while (line := self._read(deadline)) is not None:
            if line.startswith(marker):
                return line[len(marker) :].strip()
            self._keep_stray(line)
        raise DebuggerError(f"the debugger did not start within {timeout:g} s{self._stray_text()}")

    def send_line(self, line: bytes) -> None:
        """One line outside the protocol: how the probe itself is delivered."""
        self._terminal.send_line(line)

    def hello(self, output_chars: int, timeout: float) -> Json:
        """Give the probe its nonce; the answer tells what it is."""
        message = {"nonce": self._nonce, "output_chars": output_chars}
        return self._exchange(message, time.monotonic() + timeout)

    def request(
        self, action: str, arguments: Mapping[str, Any], timeout: float, grace: float
    ) -> Json:
        """Ask, and wait for the answer: `timeout` until an interrupt, `grace` more until a kill.

        Raises DebuggerError if the probe itself is gone or does not answer in time.
        """
        message = {
            "action": action,
            "arguments": dict(arguments),
            "timeout": timeout,
            "grace": grace,
        }
        return self._exchange(message, time.monotonic() + timeout + grace + MARGIN)

    def close(self) -> None:
        self._terminal.close()

    def _exchange(self, message: Json, deadline: float) -> Json:
        number = self._next_id
        self._next_id += 1
        line = json.dumps({"id": number, **message}, separators=(",", ":"))
        self._terminal.send_line(line.encode("ascii"))
        while (answer := self._read(deadline)) is not None:
            if not answer.startswith(self._prefix):
                self._keep_stray(answer)
                continue
            fields = _fields(answer[len(self._prefix) :])
            if fields["id"] == number:
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
    """An answer. A program's text may have half characters, which JSON spells and no file holds."""
    fields: Json = json.loads(line)
    if b"\\ud" in line:
        fields = json.loads(storable(json.dumps(fields, ensure_ascii=False)))
    return fields
