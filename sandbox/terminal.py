"""Interactive processes behind a pseudo-terminal, driven through pexpect by one owner."""

from __future__ import annotations

import os
import select
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import pexpect
from pexpect.fdpexpect import fdspawn

from sandbox.errors import DebuggerError, SandboxDead, SandboxUnavailable

READ_SIZE = 1 << 16
LINE_LIMIT = 64 * 1024 * 1024
"""Most bytes of one line; a longer one is an error, since it could fill the host's memory."""
READY = b"stepinto-ready"
"""Printed by the process behind a terminal once its sandbox is up and its terminal is set."""
READY_TIMEOUT = 60.0
LINES_BEFORE = 20
"""Most lines before the READY line."""
SEND_TIMEOUT = 30.0
"""Seconds in which the process must read something of what is sent."""


class Terminal:
    """A process behind the descriptor of a pseudo-terminal's master or of a container's socket.

    `alive` tells whether the process behind it runs, `kill` ends it with all that it started and
    returns its exit code. `early` is output already read from the descriptor. `require` raises the
    reason for which the sandbox was killed; it is called after the process has ended.
    """

    def __init__(
        self,
        fd: int,
        alive: Callable[[], bool],
        kill: Callable[[], int],
        early: bytes = b"",
        require: Callable[[], object] = lambda: None,
    ) -> None:
        self._alive, self._kill, self._require = alive, kill, require
        self._fd = fd
        self._pexpect: fdspawn[bytes] = fdspawn(fd, timeout=None, maxread=READ_SIZE, use_poll=True)
        self._pexpect.delaybeforesend = None
        self._pexpect.delayafterread = None
        self._buffer = bytearray(early)
        self._searched = 0
        """The buffer holds no line end before this index."""
        self._ended = False
        self._exit_code: int | None = None

    def send_line(self, line: bytes) -> None:
        """Write one line. Raises SandboxDead if the process is gone."""
        self.send(line + b"\n")

    def send(self, data: bytes) -> None:
        """Write bytes unchanged: Ctrl-C is byte 3. Raises SandboxDead as `send_line` does."""
        left = memoryview(data)
        deadline = time.monotonic() + SEND_TIMEOUT
        poller = select.poll()
        if self._exit_code is None:
            poller.register(self._fd, select.POLLOUT | select.POLLIN)
        while left:
            if self._exit_code is not None or self._ended:
                self._require()
                raise SandboxDead("the process behind the terminal has ended: start a new one")
            events = poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
            # A process that only prints may never pause.
            if not events or time.monotonic() > deadline:
                raise SandboxDead(
                    f"the process behind the terminal read nothing for {SEND_TIMEOUT} s"
                )
            flags = events[0][1]
            if flags & (select.POLLHUP | select.POLLERR):
                self._require()
                raise SandboxDead("the process behind the terminal has ended: start a new one")
            # Otherwise a process that prints before it reads would wait for us, and we for it.
            if flags & select.POLLIN:
                self._read(0)
            if flags & select.POLLOUT:
                try:
                    left = left[os.write(self._fd, left[:4096]) :]
                    deadline = time.monotonic() + SEND_TIMEOUT
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise SandboxDead(
                        f"the process behind the terminal has ended: {error}"
                    ) from error

    def interject(self, data: bytes) -> None:
        """Write a few bytes while another thread reads; nothing if the process is gone."""
        if self._exit_code is None:
            with suppress(OSError):
                os.write(self._fd, data)

    def read_line(self, timeout: float) -> bytes | None:
        """The next line without its end; None if no whole line comes within `timeout` seconds.

        Raises EOFError once the process has closed its side and all its output was read, and
        DebuggerError if a line is too long.
        """
        deadline = time.monotonic() + timeout
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > LINE_LIMIT:
                raise DebuggerError(f"the terminal sent {LINE_LIMIT} bytes without a line end")
            if self._ended:
                # The last line may have no end.
                return self.read_available(0).rstrip(b"\r")
            if not self._read(max(0.0, deadline - time.monotonic())):
                return None
        line = bytes(self._buffer[:end]).rstrip(b"\r")
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def read_available(self, timeout: float) -> bytes:
        """The available output, including a prompt without a line end; empty after `timeout`
        seconds of silence. Raises EOFError as `read_line` does."""
        if not self._buffer and not self._ended:
            self._read(timeout)
        if not self._buffer and self._ended:
            self._require()
            raise EOFError("the process has ended and all its output was read")
        data, self._buffer, self._searched = bytes(self._buffer), bytearray(), 0
        return data

    def await_ready(self) -> Self:
        """Wait for the READY line. Raises SandboxUnavailable with the output that came instead."""
        told: list[bytes] = []
        deadline = time.monotonic() + READY_TIMEOUT
        # A shell may print something first, about its locale for example.
        while len(told) < LINES_BEFORE:
            try:
                line = self.read_line(max(0.0, deadline - time.monotonic()))
            except EOFError:
                break
            except SandboxDead:
                self.close()
                raise
            if line == READY:
                return self
            if line is None:
                told.append(b"nothing more in time")
                break
            told.append(line)
        self.close()
        shown = (b" / ".join(told) or b"nothing").decode("utf-8", "replace")[:1000]
        raise SandboxUnavailable(f"the sandbox could not start a terminal: {shown}")

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._exit_code is None and self._alive()

    def close(self) -> int:
        """Kill the process and all that it started; returns its exit code (128+n for signal n)."""
        if self._exit_code is None:
            self._exit_code = self._kill()
            self._ended = True
            os.close(self._fd)
        return self._exit_code

    def _read(self, timeout: float) -> bool:
        """Read what is available; False if nothing comes within `timeout` seconds."""
        try:
            self._buffer += self._pexpect.read_nonblocking(READ_SIZE, timeout)
        except pexpect.TIMEOUT:
            return False
        except (pexpect.EOF, OSError):
            self._ended = True
        return True


def open_pty() -> tuple[int, int]:
    """Master and slave of a wide pseudo-terminal that passes bytes unchanged.

    No echo, no line editing (which cuts lines at 4096 bytes), no newline translation; Ctrl-C (byte
    3) still interrupts.
    """
    master, slave = os.openpty()
    os.set_blocking(master, False)
    termios.tcsetwinsize(slave, (50, 1000))
    modes = termios.tcgetattr(slave)
    modes[0] &= ~(termios.ICRNL | termios.INLCR | termios.IXON | termios.ISTRIP)
    modes[1] &= ~termios.OPOST
    modes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    # Otherwise an interrupt drops the output around it.
    modes[3] |= termios.NOFLSH
    modes[6][termios.VMIN] = 1
    modes[6][termios.VTIME] = 0
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    return master, slave
