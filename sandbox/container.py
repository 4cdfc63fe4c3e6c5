"""The Docker sandbox: one hardened container, commands as execs in it.

Who runs: a user and group number of the container's own, so that process counts are not shared
with other containers. An image whose files only another user may use names that user's number in
its USER, or in the label `stepinto.user` (where `0` is root); commands then run as that user,
still without capabilities. `read_only` commands run as yet another user, who can't write what it
does not own. Where the image holds the workspace, commands run as the owner of its folder.
"""

from __future__ import annotations

import io
import itertools
import os
import posixpath
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from sandbox.base import Command, CommandResult, ImageWorkspace, SandboxConfig
from sandbox.container_exec import ContainerExecs, ExecStream, translated
from sandbox.disk_guard import DiskUse
from sandbox.engine import (
    choose_users,
    connect,
    create_container,
    digest_of,
    engine_disk,
    find_image,
    kill_container,
    owner_of,
    path_of,
    remove_container,
    written_bytes,
)
from sandbox.environment import (
    BASE_ENVIRONMENT,
    HOME,
    KILLED,
    TIMED_OUT,
    WORKSPACE,
    command_argv,
    configured_environment,
)
from sandbox.errors import SandboxDead, SandboxFileError, SandboxUnavailable
from sandbox.folder import SKIPPED_FOLDERS, TREE_LIMIT
from sandbox.image_store import note_use
from sandbox.output import BoundedOutput
from sandbox.terminal import PtyTerminal

OPEN_TIMEOUT = 60.0

_WRITE_FILE = """
[ -L "$1" ] && { echo "it is a symbolic link"; exit 1; }
[ -e "$1" ] && [ ! -f "$1" ] && { echo "it is not a regular file"; exit 1; }
mkdir -p -- "$(dirname -- "$1")" && cat >"$1"
"""


class ContainerSandbox:
    """A `Sandbox` in a container of a local image."""

    def __init__(
        self, config: SandboxConfig, image: str, workspace: ImageWorkspace | None = None
    ) -> None:
        self._config = config
        self._held = workspace
        self._client = connect()
        self._image = find_image(self._client, image)
        note_use(image)
        self._uid, self._reader = choose_users(self._image)
        self._groups = itertools.count(self._reader + 1)
        self._closed = False
        self._lock = threading.Lock()
        # The engine makes a working folder that is not there, and a held one must be.
        self._container = create_container(
            self._client,
            config,
            self._image,
            uid=None if workspace else self._uid,
            folder="/" if workspace else WORKSPACE,
        )
        self._execs = ContainerExecs(self._client.api, self.container_id)
        own = (self._client, self.container_id)
        self._disk = DiskUse(
            config.disk_mb, partial(written_bytes, *own), partial(kill_container, *own)
        )
        self._guard = engine_disk(os.environ.get("DOCKER_HOST"))
        try:
            if workspace is not None:
                self._uid = owner_of(self._container, workspace.folder, image)
            self._prepare()
            self._python = config.python or self._find_python(image)
            self._guard.watch(self._disk)
        except BaseException:
            self.close()
            raise

    @property
    def config(self) -> SandboxConfig:
        return self._config

    @property
    def workspace(self) -> str:
        return WORKSPACE if self._held is None else self._held.folder

    @property
    def python(self) -> str:
        return self._python

    @property
    def image_digest(self) -> str | None:
        return digest_of(self._image)

    @property
    def container_id(self) -> str:
        return str(self._container.id)

    def run(self, command: Command) -> CommandResult:
        self._require_open()
        timeout = self._config.command_timeout if command.timeout is None else command.timeout
        began = time.monotonic()
        with self._disk.named():
            result = self._execs.run(
                command_argv(command),
                user=str(self._reader if command.read_only else self._uid),
                group=self._next_group(),
                cwd=command.cwd or self.workspace,
                env=self._environment(command),
                stdin=command.stdin,
                deadline=began + timeout,
                limit=self._config.output_limit,
            )
        code = TIMED_OUT if result.exit_code is None else result.exit_code
        timed_out = result.exit_code is None
        kept = result.output
        seconds = time.monotonic() - began
        return CommandResult(code, kept.text(), timed_out, kept.truncated, seconds)

    def spawn(self, command: Command) -> PtyTerminal:
        self._require_open()
        user = str(self._reader if command.read_only else self._uid)
        group = self._next_group()
        stream = self._execs.open_terminal(
            command_argv(command),
            user,
            group,
            command.cwd or self.workspace,
            self._environment(command),
        )
        process = _ContainerTerminalProcess(self._execs, stream, user, group)
        terminal = PtyTerminal(os.dup(stream.connection.fileno()), process, stream.early)
        return terminal.await_ready()

    def read_file(self, path: str) -> bytes:
        limit = self._config.file_size_mb * 1024 * 1024
        with self._archive(path, limit) as archive:
            member = archive.next()
            file = archive.extractfile(member) if member and member.isreg() else None
            if file is None:
                raise SandboxFileError(f"can't read {path!r}: it is not a regular file")
            return file.read()

    def write_file(self, path: str, data: bytes) -> None:
        full = posixpath.join(self.workspace, path)
        self._write(["sh", "-c", _WRITE_FILE, "sh", full], data, path)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, data in files.items():
                entry = tarfile.TarInfo(posixpath.join(self.workspace, path).lstrip("/"))
                entry.size = len(data)
                entry.mtime = int(time.time())
                archive.addfile(entry, io.BytesIO(data))
        argv = ["tar", "-x", "-o", "-f", "-", "-C", "/"]
        self._write(argv, buffer.getvalue(), f"{len(files)} files")

    def read_tree(self, path: str = ".") -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        with self._archive(path, TREE_LIMIT) as archive:
            for member in archive:
                # The archive's names begin with the folder's own.
                parts = member.name.split("/")[1:]
                if member.isreg() and not SKIPPED_FOLDERS & set(parts[:-1]):
                    file = archive.extractfile(member)
                    assert file is not None, member.name
                    files["/".join(parts)] = file.read()
        return files

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._guard.forget(self._disk)
        remove_container(self._client, self.container_id)
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _prepare(self) -> None:
        """Start it, with a workspace and a home that belong to the sandbox's user."""
        own = [] if self._held else [(WORKSPACE, 0o755)]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, mode in (*own, ("/tmp", 0o1777), (HOME, 0o1777)):
                folder = tarfile.TarInfo(path.lstrip("/"))
                folder.type, folder.mode = tarfile.DIRTYPE, mode
                folder.uid = folder.gid = 0 if path == "/tmp" else self._uid
                archive.addfile(folder)
        with translated():
            self._container.put_archive("/", buffer.getvalue())
            self._container.start()

    def _find_python(self, image: str) -> str:
        script = "command -v python3 || command -v python || echo python3"
        found = self.run(Command(["sh", "-c", script]))
        if found.exit_code:
            # An image without a shell: its container ends at once, now and then after this command.
            raise SandboxUnavailable(
                f"no command runs in image {image}: {found.output.strip()}; the docker "
                "sandbox needs an image with sh, coreutils and tar"
            )
        return found.output.strip()

    def _environment(self, command: Command) -> dict[str, str]:
        own = {**BASE_ENVIRONMENT, "HOME": HOME, "TMPDIR": "/tmp"}
        if self._held is not None:
            own["PATH"] = path_of(self._image, self._held.programs)
        return {**own, **configured_environment(self._config, self.workspace), **command.env}

    def _next_group(self) -> int:
        with self._lock:
            return next(self._groups)

    def _write(self, argv: list[str], data: bytes, shown: str) -> None:
        result = self.run(Command(argv, stdin=data, timeout=OPEN_TIMEOUT))
        if result.exit_code != 0:
            raise SandboxFileError(f"can't write {shown}: {result.output.strip()}")

    @contextmanager
    def _archive(self, path: str, limit: int) -> Iterator[tarfile.TarFile]:
        """A path of the container as a tar that is read once, from front to end."""
        from docker.errors import APIError

        self._require_open()
        full = posixpath.normpath(posixpath.join(self.workspace, path))
        try:
            with translated():
                try:
                    chunks, _ = self._container.get_archive(full)
                except APIError as error:
                    self._execs.require_running()
                    raise SandboxFileError(f"can't read {path!r}: {error.explanation}") from error
                with tarfile.open(fileobj=_Chunks(chunks, limit, path), mode="r|") as archive:
                    yield archive
        except tarfile.TarError as error:
            raise SandboxFileError(f"can't read {path!r}: {error}") from error

    def _require_open(self) -> None:
        self._disk.require()
        if self._closed:
            raise SandboxDead("this sandbox was closed: open a new one")


class _ContainerTerminalProcess:
    """An exec behind a terminal."""

    def __init__(self, execs: ContainerExecs, stream: ExecStream, user: str, group: int) -> None:
        self._execs = execs
        self._exec_id = stream.exec_id
        self._connection = stream.connection
        self._user = user
        self._group = group

    def alive(self) -> bool:
        try:
            return self._execs.running(self._exec_id)
        except SandboxDead:
            return False

    def kill(self) -> int:
        with self._connection:
            try:
                self._execs.sweep(self._user, self._group, self._connection, BoundedOutput(1000))
                return self._execs.exit_code(self._exec_id)
            except SandboxDead:
                # It ended with its container.
                return KILLED


class _Chunks(io.RawIOBase):
    """The engine's byte stream as a file that refuses to give more than `limit` bytes."""

    def __init__(self, chunks: Iterator[bytes], limit: int, shown: str) -> None:
        self._chunks = iter(chunks)
        self._pending = b""
        self._left = limit + 1024 * 1024
        self._limit = limit
        self._shown = shown

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._pending:
            self._pending = next(self._chunks, b"")
        taken = self._pending[: len(buffer)]
        self._pending = self._pending[len(taken) :]
        self._left -= len(taken)
        if self._left < 0:
            raise SandboxFileError(f"{self._shown!r} is larger than {self._limit} bytes")
        buffer[: len(taken)] = taken
        return len(taken)
