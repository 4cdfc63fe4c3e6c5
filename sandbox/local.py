"""The local sandbox: bubblewrap around each command, a host folder as the workspace.

Limited are each process's private memory (RLIMIT_DATA) and all memory together
(`sandbox.guard`), the number of processes and threads (RLIMIT_NPROC), the size of each file and of
all together (`sandbox.guard`), and /dev/shm. `config.cpus` is not enforced. /tmp is private, and
keeps its files from one command to the next, as in a container.

Running a process waits on its output pipe, its pidfd and bubblewrap's status pipe together, so
nothing is polled, and a flood of output neither blocks the command nor fills memory.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import IO

from sandbox.base import Command, CommandResult, Sandbox, SandboxConfig
from sandbox.bubblewrap import (
    INSTALL_HINT,
    Bubblewrap,
    choose_uid,
    filter_program,
    limit_arguments,
    require_filters,
)
from sandbox.environment import (
    BASE_ENVIRONMENT,
    HOME,
    SYSTEM_PATH,
    TIMED_OUT,
    WORKSPACE,
    command_argv,
    configured_environment,
    variable_arguments,
)
from sandbox.errors import (
    CommandRefused,
    DiskExceeded,
    OutOfMemory,
    SandboxDead,
    SandboxUnavailable,
)
from sandbox.folder import SandboxFolder, below, readable_below
from sandbox.guard import ResourceUse, bytes_taken, guard_of, memory_below, memory_guard
from sandbox.languages.python.own_environment import write_programs
from sandbox.leftovers import OwnedFolder
from sandbox.packages import clones_in, copies_in, interpreter_of, packages_folder
from sandbox.terminal import READY, Terminal, open_pty
from sandbox.text import BoundedOutput

IGNORED_IN_BACKGROUND = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""Signals that `nohup` and a shell's background jobs ignore; programs inherit this."""
FIRST_TO_GO = (
    *("/bin/sh", "-c"),
    '{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$0" "$@"',
)
"""Put before a command: if the machine runs out of memory, the kernel kills it before StepInto."""
END_GRACE = 5.0
"""Seconds to wait after a kill until the processes are gone."""


class LocalSandbox(Sandbox):
    """A `Sandbox` on this machine.

    With `config.unsafe`, and only if bubblewrap is missing, commands run on the host itself: limits
    and time-outs apply to the command's descendants; isolation and `read_only` do not.
    """

    def __init__(self, config: SandboxConfig) -> None:
        self.config, self.image_digest = config, None
        interpreter = interpreter_of(config)
        self.python = interpreter.executable
        program = shutil.which("bwrap")
        if program is None and not config.unsafe:
            raise SandboxUnavailable(INSTALL_HINT)
        if program:
            require_filters()
        self._packages: str | None = None
        if config.packages:
            folder = packages_folder(interpreter.installer, config.packages, config.own_modules)
            self._packages = str(folder)
        self._installed = [folder for folder in (config.own_metadata, self._packages) if folder]
        readable = [*config.readable_paths, *self._installed]
        commands = [f"{folder}/bin" for folder in self._installed]
        programs = str(Path(self.python).parent)
        copies: tuple[str, ...] = ()
        self._owned = OwnedFolder()
        if config.own_environment is not None and config.python is None:
            copies = copies_in(Path(interpreter.path[0]), config.own_modules)
            copies += clones_in(Path(config.own_environment), config.own_modules)
            commands.append(programs)
            programs = str(self._owned.path / "programs")
            write_programs(Path(self.python).parent, Path(programs))
            readable.append(programs)
        # Commands of packages come last: none hides one of the system's.
        self._path = ":".join([programs, *config.java.programs, SYSTEM_PATH, *commands])
        visible = config.model_copy(update={"readable_paths": tuple(readable)})
        self._uid = choose_uid() if program else os.geteuid()
        self._bubblewrap = Bubblewrap(
            visible, interpreter, self._owned.path, self._uid, program or "", copies
        )
        try:
            self._bubblewrap.prepare()
        except BaseException:
            self._owned.remove()
            raise
        largest = config.file_size_mb * 1024 * 1024
        self._folder = SandboxFolder(self._owned.path / "workspace", self._uid, largest)
        temporary = self._owned.path / "tmp" if program else Path("/tmp")
        self._temporary = SandboxFolder(temporary, self._uid, largest)
        self.workspace = WORKSPACE if program else str(self._folder.root)
        self._running = RunningProcesses(config, self._owned.path)
        self._closed = False
        if program is None:
            warnings.warn("sandbox.unsafe: commands run on the host unsandboxed", stacklevel=2)

    def run(self, command: Command) -> CommandResult:
        self._require_open()
        timeout = self.config.command_timeout if command.timeout is None else command.timeout
        kept = BoundedOutput(command.output_limit or self.config.output_limit)
        began = time.monotonic()
        reader, writer = os.pipe()
        try:
            give(writer, self._uid)
            with memory_file("stdin", command.stdin) as stdin:
                give(stdin.fileno(), self._uid)
                process = self._start(command, stdin.fileno(), writer, interactive=False)
            os.close(writer)
            writer = -1
            timed_out = collect(process, reader, began + timeout, kept)
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)
        self._running.discard(process)
        code = TIMED_OUT if timed_out else self._exit_code(process, kept)
        seconds = time.monotonic() - began
        return CommandResult(code, kept.text(), timed_out, kept.truncated, seconds)

    def spawn(self, command: Command) -> Terminal:
        self._require_open()
        master, slave = open_pty()
        try:
            give(slave, self._uid)
            # `--die-with-parent` is PR_SET_PDEATHSIG, which the kernel sends when the *thread* that
            # forked ends. A process that outlives this call needs a thread that lasts.
            start_it = functools.partial(self._start, command, slave, slave, interactive=True)
            process = _starter(os.getpid()).submit(start_it).result()
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)

        def kill() -> int:
            process.kill()
            code = process.finish()
            self._running.discard(process)
            return code if code >= 0 else 128 - code

        terminal = Terminal(
            master, lambda: process.return_code is None, kill, require=self._running.require
        )
        return terminal.await_ready()

    def read_file(self, path: str, limit: int | None = None) -> bytes:
        self._require_open()
        root, relative = readable_below(self.workspace, path)
        folder = self._folder if root == self.workspace else self._temporary
        return folder.read_file(relative, limit, path)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        self._require_open()
        # All paths are checked before the first file is written.
        wanted = {below(self.workspace, path): data for path, data in files.items()}
        self._folder.write_files(wanted)

    def read_tree(self, path: str = ".") -> dict[str, bytes]:
        self._require_open()
        return self._folder.read_tree(below(self.workspace, path))

    def close(self) -> None:
        self._closed = True
        self._running.close()
        self._owned.remove()

    def _start(self, command: Command, stdin: int, output: int, interactive: bool) -> HostProcess:
        # The terminal's session is created inside, since Ctrl-C must not reach bubblewrap.
        ready = ["sh", "-c", 'echo "$0"; exec "$@"', READY.decode()]
        session = ["setsid", "--ctty", *ready] if interactive else []
        # `env` reports a bad folder or program as a shell does.
        ignored = [s for s in IGNORED_IN_BACKGROUND if signal.getsignal(s) is signal.SIG_IGN]
        names = ",".join(each.name.removeprefix("SIG") for each in ignored)
        reset = [f"--default-signal={names}"] if names else []
        is_wrapped = bool(self._bubblewrap.program)
        temporary = "/tmp" if is_wrapped else str(self._owned.path / "tmp")
        variables = {
            "PATH": self._path,
            "HOME": HOME if is_wrapped else f"{temporary}/home",
            "TMPDIR": temporary,
            **BASE_ENVIRONMENT,
            **configured_environment(self.config, self.workspace, self._packages),
            **command.env,
        }
        settings = variable_arguments(variables)
        folder = command.cwd or self.workspace
        inner = [*session, "env", *reset, "-C", folder, *settings, *command_argv(command)]
        if is_wrapped:
            with memory_file("seccomp", filter_program()) as rules:
                status, filter_fd = os.pipe(), rules.fileno()
                wrapped = self._bubblewrap.arguments(status[1], filter_fd, command.read_only)
                argv = [*wrapped, *inner]
                process = start(argv, stdin=stdin, output=output, status=status, passed=[filter_fd])
        else:
            argv = [*limit_arguments(self.config), *inner]
            process = start(argv, stdin=stdin, output=output, new_group=not interactive)
        self._running.add(process)
        return process

    def _exit_code(self, process: HostProcess, kept: BoundedOutput) -> int:
        code = process.finish()
        if "exit-code" in process.status:
            return process.status["exit-code"]
        self._running.require()
        if not self._bubblewrap.program:
            return code if code >= 0 else 128 - code
        if code < 0 or self._closed:
            raise SandboxDead(f"the sandbox was killed from outside (bubblewrap ended with {code})")
        raise SandboxUnavailable(f"bubblewrap could not make the sandbox: {kept.text().strip()}")

    def _require_open(self) -> None:
        self._running.require()
        if self._closed:
            raise SandboxDead("this sandbox was closed: open a new one")
        if not self._folder.root.is_dir():
            raise SandboxDead(f"the sandbox's folder {self._folder.root} is gone: open a new one")


class HostProcess:
    """A started process, its pidfd, and bubblewrap's status reports."""

    def __init__(self, popen: subprocess.Popen[bytes], status_fd: int | None) -> None:
        self._popen = popen
        self._status_fd = status_fd
        self._inner_pidfd: int | None = None
        self._ending = threading.Lock()
        self._ended = False
        """After the end its process numbers may be reused."""
        self.pid = popen.pid
        """Its number on the host; may be reused once there is a `return_code`."""
        self.pidfd = os.pidfd_open(popen.pid)
        self.status: dict[str, int] = {}
        """bubblewrap's reports: `child-pid`, and the command's `exit-code` if it ran to an end."""
        self._read_status()

    @property
    def return_code(self) -> int | None:
        """None while it runs; minus the signal's number if a signal ended it."""
        return self._popen.poll()

    def kill(self) -> None:
        """Kill the process with its PID namespace, or if unsandboxed with its group."""
        self._popen.kill()
        with self._ending, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._ended:
                return
            if self._inner_pidfd is None:
                os.killpg(self.pid, signal.SIGKILL)
            else:
                # During start-up, killing the outer process does not yet kill the inner one.
                signal.pidfd_send_signal(self._inner_pidfd, signal.SIGKILL)

    def finish(self) -> int:
        """Wait for the process and its PID namespace to end; returns its return code."""
        code = self._popen.wait()
        if self._status_fd is not None:
            self._read_status()
            os.close(self._status_fd)
            self._status_fd = None
        if self._inner_pidfd is not None:
            wait_readable(self._inner_pidfd, END_GRACE)
        with self._ending:
            self._ended = True
            if self._inner_pidfd is not None:
                os.close(self._inner_pidfd)
                self._inner_pidfd = None
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        return code

    def _read_status(self) -> None:
        """Read bubblewrap's reports; the first one comes as soon as its child exists."""
        pending = b""
        while self._status_fd is not None and (
            "child-pid" not in self.status or self._popen.poll() is not None
        ):
            chunk = os.read(self._status_fd, 4096)
            pending += chunk
            *lines, pending = pending.split(b"\n")
            for line in lines:
                self.status.update(json.loads(line))
            if not chunk:
                break
            if "child-pid" in self.status and self._inner_pidfd is None:
                with contextlib.suppress(ProcessLookupError):
                    self._inner_pidfd = os.pidfd_open(self.status["child-pid"])


def start(
    argv: Sequence[str],
    *,
    stdin: int,
    output: int,
    status: tuple[int, int] | None = None,
    passed: Sequence[int] = (),
    new_group: bool = True,
) -> HostProcess:
    """Start a process on the given descriptors, with an empty environment.

    `status` is the read and write end of a pipe; the process gets the write end, and the
    descriptors in `passed`. Without `new_group` the process must start its own session.
    """
    try:
        popen = subprocess.Popen(
            [*FIRST_TO_GO, *argv],
            stdin=stdin,
            stdout=output,
            stderr=output,
            env={},
            process_group=0 if new_group else None,
            pass_fds=(*passed, *(() if status is None else (status[1],))),
        )
    except BaseException as error:
        if status is not None:
            os.close(status[0])
        if isinstance(error, OSError) and error.errno == errno.E2BIG:
            raise CommandRefused(
                "a command's arguments and variables have more bytes than a program can be given"
            ) from error
        raise
    finally:
        if status is not None:
            os.close(status[1])
    return HostProcess(popen, None if status is None else status[0])


def collect(process: HostProcess, output: int, deadline: float, kept: BoundedOutput) -> bool:
    """Read output until the process ends or `deadline` (monotonic) passes; then kill what is left.

    Returns whether the deadline passed first.
    """
    os.set_blocking(output, False)
    poller = select.poll()
    poller.register(output, select.POLLIN)
    poller.register(process.pidfd, select.POLLIN)
    timed_out = False
    while process.return_code is None:
        left = deadline - time.monotonic()
        if left <= 0:
            timed_out = True
            break
        ready = [fd for fd, _ in poller.poll(min(left, 3600) * 1000)]
        if output in ready and not _read_chunk(output, kept):
            poller.unregister(output)
    process.kill()
    process.finish()
    # Bounded, since an unsandboxed child may still hold the pipe.
    end = time.monotonic() + 1
    while time.monotonic() < end and wait_readable(output, 0.05) and _read_chunk(output, kept):
        pass
    return timed_out


def _read_chunk(output: int, kept: BoundedOutput) -> bool:
    """Read what a readable pipe holds; False once its other side is closed."""
    try:
        chunk = os.read(output, 1 << 16)
    except BlockingIOError:
        return True
    kept.add(chunk)
    return bool(chunk)


def wait_readable(fd: int, seconds: float) -> bool:
    """Whether a descriptor becomes readable within this many seconds."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(seconds * 1000))


def memory_file(name: str, data: bytes) -> IO[bytes]:
    file = os.fdopen(os.memfd_create(name, os.MFD_CLOEXEC), "w+b")
    file.write(data)
    file.seek(0)
    return file


def give(fd: int, owner: int) -> None:
    """Let the sandbox's user reopen a descriptor by name (/dev/stdin, /dev/stdout)."""
    if os.geteuid() == 0 and owner != 0:
        os.fchown(fd, owner, owner)


@lru_cache(maxsize=1)
def _starter(pid: int) -> ThreadPoolExecutor:
    """A thread that lives as long as this process; keyed, since a forked child has no threads."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"sandbox-starter-{pid}")


class RunningProcesses:
    """The processes of one sandbox, killed once they, or their files, exceed a limit.

    Thread-safe.
    """

    def __init__(self, config: SandboxConfig, folder: Path) -> None:
        """`folder` holds all files that they may write."""
        self._running: set[HostProcess] = set()
        self._lock = threading.Lock()
        self._closed = False
        limit = config.memory_mb * 1024 * 1024
        self._disk = ResourceUse(
            DiskExceeded, config.disk_mb, lambda: bytes_taken(folder, self._roots()), self.kill
        )
        self._memory = ResourceUse(
            OutOfMemory, config.memory_mb, lambda: memory_below(self._roots(), limit), self.kill
        )
        self._disk_guard, self._memory_guard = guard_of(str(folder.parent)), memory_guard()
        self._disk_guard.watch(self._disk)

    def add(self, process: HostProcess) -> None:
        """Add a started process; kill it if none may run any more."""
        with self._lock:
            self._running.add(process)
            ended = self._closed or self._disk.exceeded or self._memory.exceeded
            if not ended:
                self._memory_guard.watch(self._memory)
        if ended:
            process.kill()

    def discard(self, process: HostProcess) -> None:
        with self._lock:
            self._running.discard(process)
            if not self._running:
                self._memory_guard.forget(self._memory)

    def kill(self) -> None:
        with self._lock:
            running = list(self._running)
        for process in running:
            process.kill()

    def require(self) -> None:
        """Raises OutOfMemory or DiskExceeded if the processes were killed for it."""
        self._memory.require()
        self._disk.require()

    def close(self) -> None:
        """Kill all processes, including those added later."""
        with self._lock:
            self._closed = True
        self._disk_guard.forget(self._disk)
        self._memory_guard.forget(self._memory)
        self.kill()

    def _roots(self) -> list[int]:
        with self._lock:
            # The number of an ended process may have been reused.
            return [process.pid for process in self._running if process.return_code is None]
