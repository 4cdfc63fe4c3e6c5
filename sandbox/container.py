"""The Docker sandbox: one hardened container, commands as execs in it.

Commands run as a user and group number of the container's own, so that containers don't share
process counts. An image whose files need another user sets its number in USER or in the label
`stepinto.user` (where `0` is root); commands then run as that user, still without capabilities.
`read_only` commands run as yet another user, who can only write files it owns. If the image holds
the workspace, commands run as the owner of its folder.
"""

from __future__ import annotations

import io
import itertools
import os
import posixpath
import secrets
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from sandbox.base import Command, CommandResult, ImageWorkspace, Sandbox, SandboxConfig
from sandbox.container_exec import AfterReady, ContainerExecs, Output, translated
from sandbox.engine import (
    choose_users,
    client_errors,
    connect,
    create_container,
    digest_of,
    find_image,
    local_root,
    owner_of,
    remove_container,
)
from sandbox.environment import (
    BASE_ENVIRONMENT,
    HOME,
    KILLED,
    SYSTEM_PATH,
    TIMED_OUT,
    WORKSPACE,
    command_argv,
    configured_environment,
)
from sandbox.errors import (
    DiskExceeded,
    FileTooLarge,
    NotStarted,
    SandboxDead,
    SandboxError,
    SandboxFileError,
    SandboxUnavailable,
)
from sandbox.folder import (
    SKIPPED_FOLDERS,
    TREE_DEPTH,
    TREE_FILES,
    TREE_LIMIT,
    below,
    readable_below,
)
from sandbox.guard import ResourceGuard, ResourceUse, add_deleted, disk_guard, guard_of
from sandbox.images import store_here
from sandbox.terminal import READY, Terminal
from sandbox.text import BoundedOutput

FILES_TIMEOUT = 60.0
"""Seconds for one script."""
TOO_LARGE = 3
"""A script's exit code if a file is too large."""
IN_MEMORY = 8 * 1024 * 1024
"""Bytes of a tree's archive; a larger one goes through a temporary file."""
END = bytes(2 * tarfile.BLOCKSIZE)
"""The end of every complete archive; one cut between two files would otherwise look complete."""
_PADDING = 64 * 1024 * 1024
"""Bytes of an archive besides the files' contents: names and padding."""

# After `enter`, `rest` is the file's name in the shell's current folder.
_ENTER = """
unset CDPATH
refuse() { printf '%s\\n' "$1"; exit 1; }
enter() {
    rest=$1 here=$PWD
    while :; do
        case $rest in */*) part=${rest%%/*} rest=${rest#*/} ;; *) return 0 ;; esac
        [ -L "./$part" ] && refuse "$part is a symbolic link"
        if [ ! -e "./$part" ]; then
            case $2 in
                make) mkdir -- "./$part" || exit 1 ;;
                look) return 1 ;;
                *) refuse "there is no folder $part" ;;
            esac
        fi
        [ -d "./$part" ] || refuse "$part is not a folder"
        cd -P -- "./$part" || exit 1
        here=$here/$part
        [ "$PWD" = "$here" ] || refuse "$part was replaced meanwhile"
    done
}
require_file() {
    [ -L "./$rest" ] && refuse "$rest is a symbolic link"
    [ ! -e "./$rest" ] || [ -f "./$rest" ] || refuse "$rest is not a regular file"
}
cd -P -- "$1" || exit 1
"""
_READ_FILE = """
enter "$2"
require_file
[ -e "./$rest" ] || refuse "there is no file $rest"
size=$(wc -c <"./$rest") || exit 1
[ "$size" -le "$3" ] || { echo "it has $size bytes, more than the $3 that are read"; exit 3; }
echo "$4"
head -c $(($3 + 1)) <"./$rest" 2>/dev/null
"""
# The script's status is tar's, not that of the command reading its output.
_READ_TREE = """
enter "$2"
exec 3>&1
echo "$4"
code=$({ { tar -c -f - . 2>/dev/null; echo $? >&4; } | head -c "$3" 2>/dev/null >&3; } 4>&1)
# 1: a file changed meanwhile.
[ "$code" -le 1 ]
"""
_WHY = """
enter "$2"
tar -c -f - . 2>&1 >/dev/null | head -c 500
exit 1
"""
# Writes to a temporary file first, so that an interrupted write keeps the old file.
_WRITE_FILE = """
enter "$2" make
require_file
cat >"$3" && cat "$3" >"./$rest"
code=$?
rm -f "$3"
exit $code
"""
_WRITE_FILES = """
base=$PWD
while IFS= read -r path && [ -n "$path" ]; do
    enter "$path" look && require_file
    cd -P -- "$base" || exit 1
done
exec tar -x -o -f -
"""


class _Bounded:
    """Keeps the first `limit` bytes."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file = file
        self.limit = limit
        self.size = 0
        """Bytes received in total."""

    @property
    def whole(self) -> bool:
        return self.size <= self.limit

    def add(self, chunk: bytes) -> None:
        self._file.write(chunk[: max(0, self.limit - self.size)])
        self.size += len(chunk)


def _unpacked(data: IO[bytes], shown: str) -> dict[str, bytes]:
    """The archive's files. Whoever controls the image's programs can forge an archive."""
    files: dict[str, bytes] = {}
    named: dict[str, tarfile.TarInfo] = {}
    room = TREE_LIMIT
    try:
        with tarfile.open(fileobj=data, mode="r:") as archive:
            for member in archive:
                path = posixpath.normpath(member.name)
                # A second name of a file is a link to the first. `getmember` would scan all.
                held = named[member.linkname] if member.islnk() else member
                named[member.name] = held
                if not held.isreg() or SKIPPED_FOLDERS & set(path.split("/")[:-1]):
                    continue
                room -= held.size
                if room < 0 or len(files) >= TREE_FILES or path.count("/") > TREE_DEPTH:
                    raise SandboxFileError(
                        f"{shown!r} holds more than {TREE_LIMIT} bytes, {TREE_FILES} files or "
                        f"{TREE_DEPTH} levels of folders"
                    )
                if path.startswith(("/", "../")):
                    raise SandboxFileError(f"the archive of {shown!r} names {member.name!r}")
                file = archive.extractfile(held)
                assert file is not None, member.name
                files[path] = file.read()
    except (tarfile.TarError, KeyError) as error:
        raise SandboxFileError(f"the archive of {shown!r} can't be read: {error}") from error
    return files


UNKNOWN = -1
"""The engine's size if it can't walk the files: deeply nested folders can have too long a path."""


class ContainerDisk:
    """Measures one container from before its first command."""

    def __init__(self, client: Any, container: str, root: Path | None) -> None:
        """`root` is the engine's folder of containers on this machine; None if it is elsewhere."""
        self._client, self._container = client, container
        self._local = root is not None
        self._measurable = self._told() != UNKNOWN

    def bytes(self) -> int:
        """Bytes of the container's files; 0 if unknown."""
        told = self._told()
        # It could be measured before, so the container's programs must have caused this.
        if told == UNKNOWN and self._measurable and self._told() == UNKNOWN:
            return sys.maxsize
        return max(told, 0) + (self._unlinked() if self._local else 0)

    def _told(self) -> int:
        try:
            found = self._client.api.containers(
                all=True, size=True, filters={"id": self._container}
            )
        except client_errors():
            return 0
        return sum(int(each.get("SizeRw", 0)) for each in found)

    def _unlinked(self) -> int:
        """Bytes of deleted files that are still open. Only root may look at those of others."""
        held: dict[int, int] = {}
        try:
            listed = self._client.api.top(self._container, ps_args="-eo pid")["Processes"]
        except client_errors():
            return 0
        for (pid,) in listed or ():
            process = Path("/proc", pid)
            with suppress(OSError):
                if self._container in (process / "cgroup").read_text():
                    add_deleted(int(pid), {os.stat(process / "root").st_dev}, held)
        return sum(held.values())


@lru_cache
def engine_disk(host: str | None) -> tuple[ResourceGuard, Path | None]:
    """The disk that holds the containers of the engine at this DOCKER_HOST, and their folder. The
    disk of a remote engine can't be watched, so its containers are only measured at intervals."""
    root = local_root()
    return (disk_guard(lambda: 0) if root is None else guard_of(str(root))), root


class ContainerSandbox(Sandbox):
    """A `Sandbox` in a container of a local image."""

    def __init__(
        self, config: SandboxConfig, image: str, workspace: ImageWorkspace | None = None
    ) -> None:
        self.config = config
        self._held = workspace
        self.workspace = WORKSPACE if workspace is None else workspace.folder
        self._closed = False
        self._has_run = False
        """Whether a command has run: if later none can be started, a program has changed that."""
        with ExitStack() as ending:
            self._client = connect()
            ending.callback(self._client.close)
            self._image = find_image(self._client, image)
            self.image_digest = digest_of(self._image)
            store_here().note_use(image)
            self._uid, self._reader = choose_users(self._image)
            self._groups = itertools.count(self._reader + 1)
            # The engine creates a missing working folder, but an image's workspace must exist.
            self._container = create_container(
                self._client,
                config,
                self._image,
                uid=None if workspace else self._uid,
                folder="/" if workspace else WORKSPACE,
            )
            self.container_id = str(self._container.id)
            own = (self._client, self.container_id)
            ending.callback(remove_container, *own)
            self._execs = ContainerExecs(self._client.api, self.container_id)
            if workspace is not None:
                self._uid = owner_of(self._container, workspace.folder, image)
            self._prepare()
            guard, root = engine_disk(os.environ.get("DOCKER_HOST"))
            taken = ContainerDisk(*own, root)
            self._disk = ResourceUse(DiskExceeded, config.disk_mb, taken.bytes, self._kill)
            self.python = config.python or self._find_python(image)
            guard.watch(self._disk)
            ending.callback(guard.forget, self._disk)
            self._ending = ending.pop_all()

    def run(self, command: Command) -> CommandResult:
        kept = BoundedOutput(command.output_limit or self.config.output_limit)
        code, seconds = self._execute(command, self._environment(command), kept.add)
        timed_out = code is None
        code = TIMED_OUT if code is None else code
        return CommandResult(code, kept.text(), timed_out, kept.truncated, seconds)

    def spawn(self, command: Command) -> Terminal:
        self._require_open()
        user = str(self._reader if command.read_only else self._uid)
        group = next(self._groups)
        stream = self._execs.open_terminal(
            command_argv(command),
            user,
            group,
            command.cwd or self.workspace,
            self._environment(command),
        )

        def alive() -> bool:
            try:
                return self._execs.running(stream.exec_id)
            except SandboxDead:
                return False

        def kill() -> int:
            with stream.connection:
                try:
                    self._execs.sweep(user, group, stream.connection, BoundedOutput(1000).add)
                    return self._execs.exit_code(stream.exec_id)
                except SandboxDead as error:
                    try:
                        self._execs.require_running()
                    except SandboxDead:
                        return KILLED
                    raise error

        terminal = Terminal(os.dup(stream.connection.fileno()), alive, kill, stream.early)
        try:
            return terminal.await_ready()
        except SandboxUnavailable as error:
            if self._has_run:
                self._kill()
            raise self._failed_start(error) from error

    def read_file(self, path: str, limit: int | None = None) -> bytes:
        largest = self.config.file_size_mb * 1024 * 1024
        largest = largest if limit is None else min(limit, largest)
        data = io.BytesIO()
        root, relative = readable_below(self.workspace, path)
        arguments = [relative, str(largest), READY.decode()]
        self._read(_READ_FILE, arguments, f"can't read {path!r}", _Bounded(data, largest), root)
        return data.getvalue()

    def read_tree(self, path: str = ".") -> dict[str, bytes]:
        relative = below(self.workspace, path)
        folder = "" if relative == "." else f"{relative}/"
        limit = TREE_LIMIT + _PADDING
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as data:
            kept = _Bounded(data, limit)
            arguments = [folder, str(limit + 1), READY.decode()]
            try:
                self._read(_READ_TREE, arguments, f"can't read {path!r}", kept)
            except SandboxFileError:
                if kept.whole and kept.size:
                    self._read(_WHY, [folder], f"can't read all of {path!r}", _Bounded(data, 0))
                raise
            data.seek(-len(END), io.SEEK_END)
            if data.read() != END:
                raise SandboxDead(f"the container engine broke off the files of {path!r}")
            data.seek(0)
            return _unpacked(data, path)

    def write_file(self, path: str, data: bytes) -> None:
        # An existing file keeps its mode.
        passing = f"/tmp/stepinto-{secrets.token_hex(8)}"
        self._write(_WRITE_FILE, [below(self.workspace, path), passing], data, path)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        # All paths are checked before the first file is written.
        wanted = {below(self.workspace, path): data for path, data in files.items()}
        # The script reads one path per line.
        odd = [path for path in wanted if "\n" in path]
        buffer = io.BytesIO()
        buffer.write(b"".join(os.fsencode(path) + b"\n" for path in wanted if path not in odd))
        buffer.write(b"\n")
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in wanted.keys() - odd:
                entry = tarfile.TarInfo(path)
                entry.size = len(wanted[path])
                entry.mtime = int(time.time())
                archive.addfile(entry, io.BytesIO(wanted[path]))
        self._write(_WRITE_FILES, [], buffer.getvalue(), f"{len(files)} files")
        for path in odd:
            self.write_file(path, wanted[path])

    def _read(
        self,
        script: str,
        arguments: Sequence[str],
        problem: str,
        kept: _Bounded,
        root: str | None = None,
    ) -> None:
        output = AfterReady(kept.add)
        code = self._run_script(script, arguments, b"", output.add, root)
        if code is None:
            raise SandboxDead(f"{problem}: it did not end within {FILES_TIMEOUT:g} s")
        if not kept.whole:
            raise FileTooLarge(f"{problem}: it has more than {kept.limit} bytes")
        if code != 0:
            error = FileTooLarge if code == TOO_LARGE else SandboxFileError
            raise error(f"{problem}: {output.told}")

    def _write(self, script: str, arguments: Sequence[str], data: bytes, shown: str) -> None:
        told = io.BytesIO()
        code = self._run_script(script, arguments, data, _Bounded(told, 1000).add)
        if code is None:
            raise SandboxDead(f"writing {shown} did not end within {FILES_TIMEOUT:g} s")
        if code != 0:
            reason = told.getvalue().decode("utf-8", "replace").strip()
            raise SandboxFileError(f"can't write {shown}: {reason}")

    def _run_script(
        self,
        script: str,
        arguments: Sequence[str],
        stdin: bytes,
        output: Output,
        root: str | None = None,
    ) -> int | None:
        """Run a script in the folder `root` (None: the workspace), without the config's variables,
        which are for programs. Returns its exit code; None at its time-out."""
        argv = ["sh", "-c", _ENTER + script, "sh", root or self.workspace, *arguments]
        command = Command(argv, stdin=stdin, timeout=FILES_TIMEOUT)
        return self._execute(command, self._own_environment(), output)[0]

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._ending.close()

    def _prepare(self) -> None:
        """Start the container, with a workspace and a home owned by the sandbox's user."""
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
        try:
            return self.run(Command(["sh", "-c", script])).output.strip()
        except NotStarted as error:
            # An image without a shell: its container ends at once, sometimes after this command.
            raise SandboxUnavailable(
                f"no command runs in image {image}: {error}; the docker sandbox needs an image "
                "with sh, coreutils and tar"
            ) from error

    def _environment(self, command: Command) -> dict[str, str]:
        configured = configured_environment(self.config, self.workspace)
        return {**self._own_environment(), **configured, **command.env}

    def _own_environment(self) -> dict[str, str]:
        own = {**BASE_ENVIRONMENT, "HOME": HOME, "TMPDIR": "/tmp"}
        if self._held is not None:
            lines = self._image.attrs["Config"].get("Env") or ()
            path = dict(line.partition("=")[::2] for line in lines).get("PATH") or SYSTEM_PATH
            own["PATH"] = ":".join([*self._held.programs, path])
        return own

    def _execute(
        self, command: Command, env: Mapping[str, str], kept: Output
    ) -> tuple[int | None, float]:
        self._require_open()
        timeout = self.config.command_timeout if command.timeout is None else command.timeout
        try:
            ended = self._execs.run(
                command_argv(command),
                user=str(self._reader if command.read_only else self._uid),
                group=next(self._groups),
                cwd=command.cwd or self.workspace,
                env=env,
                stdin=command.stdin,
                timeout=timeout,
                kept=kept,
            )
        except NotStarted as error:
            self._disk.require()
            raise self._failed_start(error) from error
        except SandboxDead:
            self._disk.require()
            raise
        self._has_run = True
        return ended

    def _failed_start(self, error: SandboxError) -> SandboxError:
        """The error of a command that could not be started. The owner of an image's workspace may
        also own the image's shell, and must not void a failure by removing that."""
        if not self._has_run:
            return error
        return SandboxDead(f"commands can no longer be started: {error}")

    def _kill(self) -> None:
        self._execs.kill()

    def _require_open(self) -> None:
        self._disk.require()
        if self._closed:
            raise SandboxDead("this sandbox was closed: open a new one")
