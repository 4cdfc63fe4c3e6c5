"""What passes between StepInto and a command in a container: the engine's stream of it."""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Protocol

from sandbox.errors import NotStarted
from sandbox.terminal import READY

HEAD_LIMIT = 1 << 16
"""Bytes that may come before the READY line."""
_HEADER = struct.Struct(">BxxxL")


class Output(Protocol):
    """Takes what comes."""

    def add(self, chunk: bytes) -> None: ...


def next_chunk(connection: socket.socket, deadline: float) -> bytes | None:
    """What comes next, empty at the end; None where nothing does by the deadline (monotonic)."""
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        return None
    return _received(connection)


def pass_through(connection: socket.socket, stdin: bytes, deadline: float, output: Output) -> bool:
    """Feed standard input and take output until the end; False at the deadline."""
    unsent = memoryview(stdin)
    poller = select.poll()
    poller.register(connection, select.POLLIN | (select.POLLOUT if stdin else 0))
    while (left := deadline - time.monotonic()) > 0:
        for _, flags in poller.poll(min(left, 3600) * 1000):
            if flags & select.POLLOUT:
                unsent = _sent(connection, unsent)
                if not unsent:
                    poller.modify(connection, select.POLLIN)
            if flags & ~select.POLLOUT:
                chunk = _received(connection)
                if not chunk:
                    return True
                output.add(chunk)
    return False


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:
        return b""


def _sent(connection: socket.socket, unsent: memoryview) -> memoryview:
    try:
        unsent = unsent[connection.send(unsent[: 1 << 16]) :]
        if not unsent:
            connection.shutdown(socket.SHUT_WR)
    except (BrokenPipeError, ConnectionResetError):
        # The command has ended, or closed its input, without reading all of it.
        return memoryview(b"")
    return unsent


class AfterReady:
    """What a command prints, without the READY line that its exec begins with."""

    def __init__(self, kept: Output) -> None:
        self._kept = kept
        self._head = b""
        self.ready = False

    def add(self, chunk: bytes) -> None:
        if self.ready:
            self._kept.add(chunk)
            return
        self._head += chunk
        # A shell may have something to say before, of its locale for example.
        _, found, rest = (b"\n" + self._head).partition(b"\n" + READY + b"\n")
        if found:
            self.ready = True
            self._kept.add(rest)
        elif len(self._head) > HEAD_LIMIT:
            raise NotStarted(f"a command of the sandbox's own was not run: {self.told}")

    @property
    def told(self) -> str:
        """What came in the line's place."""
        return self._head.decode("utf-8", "replace").strip()[:1000] or "it said nothing"


class Frames:
    """Takes the engine's stream framing off: 8 bytes of header, then that many of output."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._header = bytearray()
        self._left = 0

    def add(self, chunk: bytes) -> None:
        position = 0
        while position < len(chunk):
            if self._left == 0:
                missing = _HEADER.size - len(self._header)
                self._header += chunk[position : position + missing]
                position += missing
                if len(self._header) == _HEADER.size:
                    self._left = _HEADER.unpack(self._header)[1]
                    self._header.clear()
                continue
            taken = chunk[position : position + self._left]
            self._output.add(taken)
            self._left -= len(taken)
            position += len(taken)
