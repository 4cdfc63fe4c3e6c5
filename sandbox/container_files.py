"""Read and write files of a container's workspace from inside, as the sandbox's user.

The engine's own way to copy files works as root and follows links out of the workspace. These
scripts have only the rights of the sandbox's commands. Like `sandbox.folder.WorkspaceFolder` they
go down one folder at a time, refuse symbolic links, and check where they are. They need `sh`,
coreutils and tar.
"""

from __future__ import annotations

import io
import os
import posixpath
import secrets
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, Protocol

from sandbox.container_exec import AfterReady, Output
from sandbox.errors import FileTooLarge, SandboxDead, SandboxFileError
from sandbox.folder import SKIPPED_FOLDERS, TREE_DEPTH, TREE_FILES, TREE_LIMIT, below
from sandbox.terminal import READY

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
code=$({ { tar -c -f - . 2>/dev/null; echo $? >&4; } | head -c "$3" >&3; } 4>&1)
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


class RunScript(Protocol):
    """Runs a script of `sh` in the container, as the sandbox's user."""

    def __call__(
        self, script: str, arguments: Sequence[str], stdin: bytes, output: Output, timeout: float
    ) -> int | None:
        """Returns its exit code; None at its time-out. Raises SandboxDead."""


class ContainerFiles:
    """Reads and writes below one folder of a container. All methods raise SandboxFileError."""

    def __init__(self, workspace: str, run: RunScript) -> None:
        self._workspace = workspace
        self._run = run

    def read_file(self, path: str, limit: int) -> bytes:
        """The bytes of a regular file of at most `limit` bytes."""
        data = io.BytesIO()
        arguments = [below(self._workspace, path), str(limit), READY.decode()]
        self._read(_READ_FILE, arguments, f"can't read {path!r}", _Bounded(data, limit))
        return data.getvalue()

    def read_tree(self, path: str) -> dict[str, bytes]:
        """Every regular file below a folder, with the same limits as on this machine."""
        relative = below(self._workspace, path)
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
        """Write a regular file and its parent folders; an existing file keeps its mode."""
        passing = f"/tmp/stepinto-{secrets.token_hex(8)}"
        self._write(_WRITE_FILE, [below(self._workspace, path), passing], data, path)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write many files; all paths are checked before the first is written."""
        wanted = {below(self._workspace, path): data for path, data in files.items()}
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

    def _read(self, script: str, arguments: Sequence[str], problem: str, kept: _Bounded) -> None:
        output = AfterReady(kept)
        arguments = [self._workspace, *arguments]
        code = self._run(_ENTER + script, arguments, b"", output, FILES_TIMEOUT)
        if code is None:
            raise SandboxDead(f"{problem}: it did not end within {FILES_TIMEOUT:g} s")
        if not kept.whole:
            raise FileTooLarge(f"{problem}: it has more than {kept.limit} bytes")
        if code != 0:
            error = FileTooLarge if code == TOO_LARGE else SandboxFileError
            raise error(f"{problem}: {output.told}")

    def _write(self, script: str, arguments: Sequence[str], data: bytes, shown: str) -> None:
        told = io.BytesIO()
        arguments = [self._workspace, *arguments]
        code = self._run(_ENTER + script, arguments, data, _Bounded(told, 1000), FILES_TIMEOUT)
        if code is None:
            raise SandboxDead(f"writing {shown} did not end within {FILES_TIMEOUT:g} s")
        if code != 0:
            reason = told.getvalue().decode("utf-8", "replace").strip()
            raise SandboxFileError(f"can't write {shown}: {reason}")


class _Bounded:
    """Keeps the first `limit` bytes."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file = file
        self.limit = limit
        self.size = 0
        """Bytes received in total."""

    @property
    def whole(self) -> bool:
        """Whether everything was kept."""
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
                # A second name of a file is a link to the first. `getmember` would scan all
                # members.
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
