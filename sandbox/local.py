"""The local sandbox: bubblewrap around each command, a host folder as the workspace.

Limited are each process's private memory (RLIMIT_DATA) and all memory together
(`sandbox.memory_guard`), the number of processes and threads (RLIMIT_NPROC), the size of each file
and of all together (`sandbox.disk_guard`), and /dev/shm. `config.cpus` is not enforced. /tmp is
private, and keeps its files from one command to the next, as in a container.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from sandbox import seccomp
from sandbox.base import Command, CommandResult, SandboxConfig
from sandbox.bubblewrap import (
    INSTALL_HINT,
    Bubblewrap,
    choose_uid,
    find_interpreter,
    limit_arguments,
)
from sandbox.environment import (
    BASE_ENVIRONMENT,
    HOME,
    SYSTEM_PATH,
    TIMED_OUT,
    WORKSPACE,
    command_argv,
    configured_environment,
)
from sandbox.errors import SandboxDead, SandboxUnavailable
from sandbox.folder import WorkspaceFolder, below, write_all
from sandbox.leftovers import OwnedFolder
from sandbox.packages import packages_folder
from sandbox.processes import (
    HostProcess,
    RunningProcesses,
    collect,
    default_signals,
    from_lasting_thread,
    give,
    start,
    stdin_file,
)
from sandbox.terminal import READY, PtyTerminal, open_pty
from sandbox.text import BoundedOutput


class LocalSandbox:
    """A `Sandbox` on this machine.

    With `config.unsafe`, and only if bubblewrap is missing, commands run on the host itself: limits
    and time-outs apply to the command's descendants; isolation and `read_only` do not.
    """

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._interpreter = find_interpreter(config.python or sys.executable)
        program = shutil.which("bwrap")
        if program is None and not config.unsafe:
            raise SandboxUnavailable(INSTALL_HINT)
        if program:
            seccomp.require_filters()
        self._packages = self._install_packages()
        self._owned = OwnedFolder()
        self._uid = choose_uid() if program else os.geteuid()
        self._bubblewrap = Bubblewrap(
            self._with_packages(), self._interpreter, self._owned.path, self._uid, program or ""
        )
        try:
            self._bubblewrap.prepare()
        except BaseException:
            self._owned.remove()
            raise
        self._folder = WorkspaceFolder(
            self._owned.path / "workspace", self._uid, config.file_size_mb * 1024 * 1024
        )
        self._running = RunningProcesses(config, self._owned.path)
        self._closed = False
        if program is None:
            warnings.warn("sandbox.unsafe: commands run on the host unsandboxed", stacklevel=2)

    @property
    def config(self) -> SandboxConfig:
        return self._config

    @property
    def workspace(self) -> str:
        return WORKSPACE if self._bubblewrap.program else str(self._folder.root)

    @property
    def python(self) -> str:
        return self._interpreter.executable

    @property
    def image_digest(self) -> str | None:
        return None

    def run(self, command: Command) -> CommandResult:
        self._require_open()
        timeout = self._config.command_timeout if command.timeout is None else command.timeout
        kept = BoundedOutput(self._config.output_limit)
        began = time.monotonic()
        reader, writer = os.pipe()
        try:
            give(writer, self._uid)
            with stdin_file(command.stdin, self._uid) as stdin:
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

    def spawn(self, command: Command) -> PtyTerminal:
        self._require_open()
        master, slave = open_pty()
        try:
            give(slave, self._uid)
            process = from_lasting_thread(
                functools.partial(self._start, command, slave, slave, interactive=True)
            )
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        terminal = PtyTerminal(
            master, _LocalTerminalProcess(process, self._running), require=self._running.require
        )
        return terminal.await_ready()

    def read_file(self, path: str, limit: int | None = None) -> bytes:
        self._require_open()
        return self._folder.read_file(below(self.workspace, path), limit)

    def write_file(self, path: str, data: bytes) -> None:
        self.write_files({path: data})

    def write_files(self, files: Mapping[str, bytes]) -> None:
        self._require_open()
        write_all(self._folder, self.workspace, files)

    def read_tree(self, path: str = ".") -> dict[str, bytes]:
        self._require_open()
        return self._folder.read_tree(below(self.workspace, path))

    def close(self) -> None:
        self._closed = True
        self._running.close()
        self._owned.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _start(self, command: Command, stdin: int, output: int, interactive: bool) -> HostProcess:
        # The terminal's session is created inside, since Ctrl-C must not reach bubblewrap.
        ready = ["sh", "-c", 'echo "$0"; exec "$@"', READY.decode()]
        session = ["setsid", "--ctty", *ready] if interactive else []
        inner = [*session, *self._inner(command)]
        if self._bubblewrap.program:
            with seccomp.filter_file() as rules:
                status, filter_fd = os.pipe(), rules.fileno()
                wrapped = self._bubblewrap.arguments(status[1], filter_fd, command.read_only)
                argv = [*wrapped, *inner]
                process = start(argv, stdin=stdin, output=output, status=status, passed=[filter_fd])
        else:
            argv = [*limit_arguments(self._config), *inner]
            process = start(argv, stdin=stdin, output=output, new_group=not interactive)
        self._running.add(process)
        return process

    def _inner(self, command: Command) -> list[str]:
        """The command under `env`, which reports a bad folder or program as a shell does."""
        variables = {**self._environment(), **command.env}
        settings = [f"{name}={value}" for name, value in variables.items()]
        folder = command.cwd or self.workspace
        return ["env", *default_signals(), "-C", folder, *settings, *command_argv(command)]

    def _environment(self) -> dict[str, str]:
        temporary = "/tmp" if self._bubblewrap.program else str(self._owned.path / "tmp")
        return {
            "PATH": f"{Path(self.python).parent}:{SYSTEM_PATH}",
            "HOME": HOME if self._bubblewrap.program else f"{temporary}/home",
            "TMPDIR": temporary,
            **BASE_ENVIRONMENT,
            **configured_environment(self._config, self.workspace, self._packages),
        }

    def _install_packages(self) -> str | None:
        if not self._config.packages:
            return None
        return str(packages_folder(self.python, self._config.packages))

    def _with_packages(self) -> SandboxConfig:
        """The config with the installed packages as readable paths."""
        if self._packages is None:
            return self._config
        readable = (*self._config.readable_paths, self._packages)
        return self._config.model_copy(update={"readable_paths": readable})

    def _exit_code(self, process: HostProcess, kept: BoundedOutput) -> int:
        code = process.finish()
        if process.reported_exit_code is not None:
            return process.reported_exit_code
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


class _LocalTerminalProcess:
    """A process behind a terminal; killing it removes it from its sandbox."""

    def __init__(self, process: HostProcess, running: RunningProcesses) -> None:
        self._process = process
        self._running = running

    def alive(self) -> bool:
        return self._process.return_code is None

    def kill(self) -> int:
        self._process.kill()
        code = self._process.finish()
        self._running.discard(self._process)
        return code if code >= 0 else 128 - code
