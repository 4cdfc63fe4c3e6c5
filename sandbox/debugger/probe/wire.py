"""The messages between the host, the supervisor and the debuggee, and what all of them share."""

from __future__ import annotations

import io
import os
import select
import sys
from _blake2 import blake2b
from typing import Any, Dict

from .own import decode, encode_json, read, write

Json = Dict[str, Any]

TICK = 1.0
"""Seconds that one value may take to render before it is interrupted."""
RESEND = 0.25
"""Seconds between interrupts after a time-out."""
CONTROL = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (*range(9), *range(11, 32), *range(127, 160), 0x2028, 0x2029)
}
"""Escapes for characters that would move a terminal's cursor or end a line."""
RUN_ACTIONS = ("launch", "continue", "step_over", "step_into", "step_out")


LONGEST = 32 * 1024 * 1024
"""Bytes of a line; what the program writes beyond is dropped."""


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

    def __init__(self, fd: int, buffer: bytes = b"") -> None:
        self.fd = fd
        self.buffer = buffer

    def feed(self) -> list[bytes]:
        """Read once; returns the completed lines. Raises EOFError at the end."""
        try:
            data = read(self.fd, 65536)
        except OSError:  # EIO: the other side of the pseudo-terminal is gone
            data = b""
        if not data:
            raise EOFError
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        if len(self.buffer) > LONGEST:
            self.buffer = b""
        return lines


class Seal:
    """Seals the lines of one direction with a key that both of its ends know."""

    def __init__(self, key: str, direction: bytes) -> None:
        self.keyed = blake2b(key=bytes.fromhex(key), digest_size=16, person=direction)

    def seal(self, message: Json) -> bytes:
        """One message as one line, between line ends: the program may have written before it."""
        text = encode(message)
        return b"\n" + self._mark(text[:-1]) + b" " + text

    def opened(self, line: bytes) -> bytes | None:
        """The text of a sealed line; None if somebody else wrote it."""
        mark, _, text = line.partition(b" ")
        return text if mark == self._mark(text) else None

    def _mark(self, text: bytes) -> bytes:
        keyed = self.keyed.copy()
        keyed.update(text)
        return keyed.hexdigest().encode("ascii")


REQUESTS, ANSWERS = b"requests", b"answers"
"""The two directions between supervisor and debuggee."""


class Link:
    """The debuggee's end: receives requests, and answers the current one."""

    def __init__(self, requests: LineReader, answers: int, key: str) -> None:
        self.reader = requests
        *self.lines, requests.buffer = requests.buffer.split(b"\n")
        self.poller = select.poll()
        self.poller.register(requests.fd, select.POLLIN)
        self.answers = answers
        self.from_supervisor, self.seal = Seal(key, REQUESTS), Seal(key, ANSWERS)
        self.request: Json = {"id": 0}
        self.closed = self.sending = False
        self.stdout = sys.stdout
        """The program's own standard output, even if the program replaces it."""

    def next_request(self) -> Json:
        """The next request. An exception that arrives while it waits loses none."""
        while True:
            line = self._next_line()
            text = self.from_supervisor.opened(line)
            request = {} if text is None else decode(text.decode())
            # The program may have written others, or an earlier one again.
            if request.get("id", 0) > self.request["id"]:
                self.request = request
                return self.request

    def _next_line(self) -> bytes:
        while not self.lines:
            self.poller.poll()
            try:
                self.lines = self.reader.feed()
            except EOFError:
                os._exit(1)  # without the supervisor there is no session
        return self.lines.pop(0)

    def answer(self, fields: Json) -> None:
        """Answer the request; the program's output must have been flushed."""
        self._send({"answer": fields})

    def say(self, notes: list[str], hidden: bool) -> None:
        """Send notes for the supervisor's last answer, when the program has come to its end, and
        whether another tracer has hidden breakpoints."""
        self._send({"notes": notes, "hidden": hidden, "over": True})

    def report(self, text: str) -> None:
        """Add what the test runner reports to the program's output, which must have been flushed
        and may be closed."""
        self._send({"report": text})

    def tell_breakpoints(self, points: list[Json]) -> None:
        """Tell those that are set before the program runs, which may end before it stops."""
        self._send({"breakpoints": points})

    def reached(self) -> None:
        """Called in the handler: an interrupt has reached the program, whatever its effect."""
        if not self.sending:
            self._send({"reached": True})

    def paused(self) -> None:
        """The program has stopped, and its code runs only to show values, briefly."""
        self._send({"paused": True})

    def streams(self) -> list[object]:
        """All streams that may buffer the program's output."""
        return list({id(s): s for s in (sys.stdout, sys.stderr, self.stdout)}.values())

    def plain_streams(self) -> bool:
        """Whether no stream is of a class of the program's."""
        return all(type(stream) is io.TextIOWrapper for stream in self.streams())

    def close(self) -> None:
        """In a forked process: leave the link to the parent."""
        self.closed = True
        for fd in (self.reader.fd, self.answers):
            try:
                os.close(fd)
            except OSError:
                continue

    def _send(self, fields: Json) -> None:
        if self.closed:
            os._exit(1)  # an evaluation forked this process and has ended in it: only one goes on
        line = self.seal.seal({**fields, "id": self.request["id"]})
        self.sending = True
        try:
            write_all(self.answers, line)
        except OSError:
            os._exit(1)  # the program closed the link, so nobody can debug it
        finally:
            self.sending = False
