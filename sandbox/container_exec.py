"""Run commands inside a container: wrapped, streamed, timed, and swept away.

Closing an exec does not end its processes, and they may leave its session and clear their
environment. Without capabilities they can't change their group, so each exec has its own group
number, and a sweep kills every process of that group. It stops all of them before it kills any,
since a fork bomb would otherwise outrun it.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sandbox.engine import client_errors
from sandbox.environment import KILLED
from sandbox.errors import NotStarted, OutOfMemory, SandboxDead
from sandbox.terminal import READY
from sandbox.text import BoundedOutput

HEAD_LIMIT = 1 << 16
"""Bytes that may come before the READY line."""
_HEADER = struct.Struct(">BxxxL")


Output = Callable[[bytes], object]
"""Receives output."""


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
                output(chunk)
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
    """A command's output, without the READY line that each exec begins with."""

    def __init__(self, kept: Output) -> None:
        self._kept = kept
        self._head = b""
        self.ready = False

    def add(self, chunk: bytes) -> None:
        if self.ready:
            self._kept(chunk)
            return
        self._head += chunk
        # A shell may print something first, about its locale for example.
        _, found, rest = (b"\n" + self._head).partition(b"\n" + READY + b"\n")
        if found:
            self.ready = True
            self._kept(rest)
        elif len(self._head) > HEAD_LIMIT:
            raise NotStarted(f"a command of the sandbox's own was not run: {self.told}")

    @property
    def told(self) -> str:
        """The text that came instead of the READY line."""
        return self._head.decode("utf-8", "replace").strip()[:1000] or "it said nothing"


_ERRORS = 2
"""The stream of standard error in the engine's framing."""


class Frames:
    """Decodes the engine's stream framing: 8 bytes of header, then that many of output."""

    def __init__(self, output: AfterReady) -> None:
        self._output = output
        self._header = bytearray()
        self._stream = 0
        self._left = 0

    def add(self, chunk: bytes) -> None:
        position = 0
        while position < len(chunk):
            if self._left == 0:
                missing = _HEADER.size - len(self._header)
                self._header += chunk[position : position + missing]
                position += missing
                if len(self._header) == _HEADER.size:
                    self._stream, self._left = _HEADER.unpack(self._header)
                    self._header.clear()
                continue
            taken = chunk[position : position + self._left]
            # `_RUN` writes all to standard output: the rest is noise of its own shell's start, and
            # may come late.
            if self._stream != _ERRORS or not self._output.ready:
                self._output.add(taken)
            self._left -= len(taken)
            position += len(taken)


# Shell built-ins only: a container at its process limit can't fork.
_SWEEP = """
sweep() {
    for signal in STOP KILL; do
        pass=0
        while [ $pass -lt 1000 ]; do
            pass=$((pass + 1)); left=0
            for file in /proc/[0-9]*/status; do
                pid=${file#/proc/}; pid=${pid%/status}; state=
                [ "$pid" = $$ ] && continue
                { while read -r key value rest; do
                    case $key in
                        State:) state=$value ;;
                        Gid:) if [ "$value" = "$1" ]; then
                                  case $signal$state in STOPT|*Z|*X) ;;
                                  *) left=1; kill -$signal "$pid" ;; esac
                              fi
                              break ;;
                    esac
                done <"$file"; } 2>/dev/null
            done
            [ $left = 0 ] && break
        done
    done
}
"""
_RUN = """
exec 2>&1
echo "$1"
group=$2; folder=$3; shift 3
cd -- "$folder" || exit 125
"$@"
code=$?
sweep "$group"
exit $code
"""
_TERMINAL = """
stty -echo -icanon -icrnl -ixon -opost -iexten noflsh min 1 time 0 rows 50 cols 1000 || exit 125
echo "$1"
cd -- "$2" || exit 125
shift 2
exec "$@"
"""

START_TIMEOUT = 120.0
"""Seconds in which the engine must have started a command."""
SWEEP_TIMEOUT = 60.0
"""Seconds to kill the rest of a command; long, for busy machines."""


@dataclass(frozen=True)
class ExecStream:
    """An exec's input and output; `early` came with the engine's response, before the rest."""

    exec_id: str
    connection: socket.socket
    early: bytes


class ContainerExecs:
    """Starts, awaits and sweeps the execs of one container."""

    def __init__(self, api: Any, container: str) -> None:
        self._api = api
        self._container = container

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str,
        group: int,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes,
        timeout: float,
        kept: Output,
    ) -> tuple[int | None, float]:
        """Run to the end, or for `timeout` seconds; `kept` receives the output. Afterwards no
        process of the group is left. Returns the exit code, None at the deadline, and the
        seconds."""
        script = ["sh", "-c", _SWEEP + _RUN, "sh", READY.decode(), str(group), cwd, *argv]
        with translated():
            stream = self._start(script, f"{user}:{group}", env, bool(stdin), False)
            with stream.connection:
                output = AfterReady(kept)
                frames = Frames(output)
                frames.add(stream.early)
                self._require_started(stream.connection, output, frames.add)
                began = time.monotonic()
                ended = pass_through(stream.connection, stdin, began + timeout, frames.add)
                seconds = time.monotonic() - began
                code = self.exit_code(stream.exec_id) if ended else None
                if code in {None, KILLED}:
                    self.sweep(user, group, stream.connection, frames.add)
                    self.require_running()
        return code, seconds

    def open_terminal(
        self, argv: Sequence[str], user: str, group: int, cwd: str, env: Mapping[str, str]
    ) -> ExecStream:
        """Start an exec behind a terminal; it prints a READY line once its modes are set."""
        script = ["sh", "-c", _TERMINAL, "sh", READY.decode(), cwd, *argv]
        with translated():
            return self._start(script, f"{user}:{group}", env, True, True)

    def sweep(self, user: str, group: int, connection: socket.socket, output: Output) -> None:
        """Kill every process of an exec's group, reading the exec's `connection` to its end.

        The engine reports ends in order, so unread output would delay the end of the sweep.
        """
        script = ["sh", "-c", f"{_SWEEP}\nsweep {group}"]
        deadline = time.monotonic() + SWEEP_TIMEOUT
        with translated():
            own = self._start(script, f"{user}:{user}", {}, False, False)
            with own.connection:
                pass_through(connection, b"", deadline, output)
                pass_through(own.connection, b"", deadline, BoundedOutput(1000).add)
            if code := self.exit_code(own.exec_id):
                self._await_notice()
                raise SandboxDead(f"what a command left running could not be ended (code {code})")

    def _require_started(self, connection: socket.socket, output: AfterReady, into: Output) -> None:
        """Wait for the READY line. The engine sends earlier errors as if a command printed them."""
        deadline = time.monotonic() + START_TIMEOUT
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        while not output.ready:
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                self.kill()  # root's programs can see to it that each command waits as long
                raise SandboxDead(f"the engine started no command within {START_TIMEOUT:g} s")
            chunk = _received(connection)
            if not chunk:
                self._await_notice()
                raise NotStarted(f"the engine could not start a command: {output.told}")
            into(chunk)

    def exit_code(self, exec_id: str) -> int:
        """The exit code of an exec whose stream has ended."""
        for delay in (0.0, 0.01, 0.05, 0.2, 1.0, 3.0):
            time.sleep(delay)
            with translated():
                state = self._api.exec_inspect(exec_id)
            if not state["Running"] and state["ExitCode"] is not None:
                return int(state["ExitCode"])
        self.require_running()
        self.kill()
        raise SandboxDead("the container engine does not say how a command ended")

    def running(self, exec_id: str) -> bool:
        with translated():
            return bool(self._api.exec_inspect(exec_id)["Running"])

    def require_running(self) -> None:
        """Raises SandboxDead if the container has stopped."""
        with translated():
            state = self._api.inspect_container(self._container)["State"]
        if not state["Running"]:
            name = self._container[:12]
            if state["OOMKilled"]:
                raise OutOfMemory(f"the container {name} was killed at its limit of memory")
            raise SandboxDead(f"the container {name} has ended (exit code {state['ExitCode']})")

    def kill(self) -> None:
        """End the container with all in it; one that has ended is fine."""
        with suppress(*client_errors()):
            self._api.kill(self._container)

    def _await_notice(self) -> None:
        """Give the engine a moment to notice the container's end; if so, raises SandboxDead."""
        for delay in (0.05, 0.2, 0.5, 1.0, 2.0):
            self.require_running()
            time.sleep(delay)

    def _start(
        self, argv: Sequence[str], user: str, env: Mapping[str, str], stdin: bool, tty: bool
    ) -> ExecStream:
        exec_id = self._api.exec_create(
            self._container, list(argv), user=user, environment=dict(env), stdin=stdin, tty=tty
        )["Id"]
        stream = self._api.exec_start(exec_id, socket=True, tty=tty)
        # The HTTP client reads the header through a buffer, which may already hold output
        # of a fast command; the client's own readers lose it too (docker/api/client.py,
        # `_get_raw_response_socket`).
        stream._sock.setblocking(False)
        early = bytes(stream._response.raw._fp.fp.peek())
        # The wrapper would close the socket when garbage collected.
        connection = socket.socket(fileno=socket.dup(stream.fileno()))
        connection.setblocking(False)
        # Otherwise the descriptor stays open until the client's reference cycle is collected.
        stream._response.close()
        stream.close()
        return ExecStream(exec_id, connection, early)


@contextmanager
def translated() -> Iterator[None]:
    """Translate engine errors about a container in use to SandboxDead."""
    try:
        yield
    except client_errors() as error:
        raise SandboxDead(f"the container or its engine is gone: {error}") from error
