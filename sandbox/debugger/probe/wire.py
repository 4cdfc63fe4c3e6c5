"""The messages between the host, the supervisor and the debuggee, and what all of them share."""

from __future__ import annotations

import signal
from typing import Any, Dict, Iterator, List

from .own import encode_json, read, write

Json = Dict[str, Any]

INTERRUPT = signal.SIGRTMAX - 1
"""Sent by the supervisor: stop where you are."""
DUMP = signal.SIGRTMAX - 2
"""Sent before a kill: write the Python stack, from C, to the dump pipe."""
TICK = 1.0
"""Seconds that one value may take to render before it is interrupted."""
RESEND = 0.25
"""Seconds between interrupts after a time-out."""
CONTROL = {
    code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160), 0x2028, 0x2029)
}
"""Escapes for characters that would move a terminal's cursor or end a line."""
RUN_ACTIONS = ("launch", "continue", "step_over", "step_into", "step_out")


class Refusal(Exception):
    """A request that can't be carried out; nothing has changed."""

    kind = "launch_failed"
    """The error kind if this ends a launch."""


class NoSuchTest(Refusal):
    """A launch names no existing test; the message names the nearest."""

    kind = "no_such_test"


class Interrupted(BaseException):
    """Raised by the interrupt inside an evaluation that ran too long."""


def encode(message: Json) -> bytes:
    """One message as one ASCII line."""
    return encode_json(message).encode("ascii") + b"\n"


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes, even if the descriptor takes few at a time."""
    view = memoryview(data)
    while view:
        view = view[write(fd, view) :]


class LineReader:
    """Whole lines from a descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.buffer = b""

    def feed(self) -> List[bytes]:
        """Read once; returns the completed lines. Raises EOFError at the end."""
        try:
            data = read(self.fd, 65536)
        except OSError:  # EIO: the other side of the pseudo-terminal is gone
            data = b""
        if not data:
            raise EOFError
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        return lines

    def wait(self) -> Iterator[bytes]:
        """Lines as they come, until the end."""
        while True:
            try:
                yield from self.feed()
            except EOFError:
                return
