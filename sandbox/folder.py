"""Files of a sandbox's folder that an untrusted program may be changing.

Every path is walked from the folder's root one name at a time with O_NOFOLLOW, so neither symbolic
links nor swapped parent folders lead out of it. Opening never blocks on a FIFO, and sizes are
limited. Symbolic links are refused, not resolved.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from sandbox.errors import FileTooLarge, SandboxFileError, SandboxUnavailable

SKIPPED_FOLDERS = frozenset({"__pycache__", ".git", ".pytest_cache"})
TREE_LIMIT = 512 * 1024 * 1024
"""Bytes that one `read_tree` may return."""
TREE_FILES = 100_000
TREE_DEPTH = 100

OF_THE_PATH = frozenset(
    (
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP),
        *(errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENXIO),
        *(errno.EFBIG, errno.EINVAL, errno.EBUSY, errno.ETXTBSY, errno.EAGAIN),
    )
)
"""Errors that a program in the sandbox can cause by a path, as opposed to the machine's faults."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def below(workspace: str, path: str) -> str:
    """`path` relative to `workspace`, normalised; raises SandboxFileError if it lies outside, or
    can't be a file name."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise SandboxFileError(f"{path!a} can't name a file: {error.reason}") from error
    full = posixpath.normpath(posixpath.join(workspace, path))
    relative = posixpath.relpath(full, workspace)
    if "\0" in path or relative == ".." or relative.startswith("../"):
        raise SandboxFileError(
            f"{path!r} is outside the workspace {workspace}: use a path below it"
        )
    return relative


def readable_below(workspace: str, path: str) -> tuple[str, str]:
    """The folder from which `path` may be read, `workspace` or /tmp, and the path relative to it.

    Raises SandboxFileError as `below` does.
    """
    full = posixpath.normpath(posixpath.join(workspace, path))
    # An unsafe sandbox has its workspace below /tmp.
    temporary = full.startswith("/tmp/") and not full.startswith(f"{workspace}/")
    return ("/tmp", below("/tmp", full)) if temporary else (workspace, below(workspace, path))


class SandboxFolder:
    """Reads and writes below one host folder; `owner` is the uid and gid for new files."""

    def __init__(self, root: Path, owner: int | None, file_limit: int) -> None:
        self.root = root
        self._owner = owner
        self._file_limit = file_limit

    def read_file(self, relative: str, limit: int | None, shown: str) -> bytes:
        """The bytes of a regular file of at most `limit` bytes. Errors, which are
        SandboxFileErrors, name it as `shown`.
        """
        folder, name = posixpath.split(relative)
        largest = self._file_limit if limit is None else min(limit, self._file_limit)
        with _explained("read", shown), self._open_folder(folder) as parent:
            return self._read(parent, name, shown, largest)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write regular files and their parent folders, each folder walked to once. Raises
        SandboxFileError."""
        by_folder: dict[str, list[str]] = defaultdict(list)
        for relative in files:
            folder, name = posixpath.split(relative)
            if name in {"", "."}:
                raise SandboxFileError(f"can't write {relative!r}: it names a folder")
            by_folder[folder].append(relative)
        for folder, inside in by_folder.items():
            with _explained("write", inside[0]), self._open_folder(folder, create=True) as parent:
                for relative in inside:
                    self._write(parent, relative, files[relative])

    def _write(self, folder: int, relative: str, data: bytes) -> None:
        name = posixpath.basename(relative)
        with _explained("write", relative):
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | _FILE, 0o644, dir_fd=folder)
            with open(handle, "wb") as file:
                self._require_regular(handle, relative)
                self._own(handle)
                file.truncate(0)
                file.write(data)

    def read_tree(self, relative: str) -> dict[str, bytes]:
        """Every regular file below a folder. Raises SandboxFileError, also for too large a tree."""
        files: dict[str, bytes] = {}
        with _explained("read", relative), self._open_folder(relative) as folder:
            self._read_below(folder, "", files, TREE_LIMIT, TREE_DEPTH)
        return files

    def _read_below(
        self, folder: int, prefix: str, files: dict[str, bytes], room: int, depth: int
    ) -> int:
        if depth == 0:
            raise SandboxFileError(f"folders are nested deeper than {TREE_DEPTH} at {prefix!r}")
        for name in sorted(os.listdir(folder)):
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) and name not in SKIPPED_FOLDERS:
                child = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    room = self._read_below(child, f"{prefix}{name}/", files, room, depth - 1)
                finally:
                    os.close(child)
            elif stat.S_ISREG(mode):
                data = self._read(folder, name, prefix + name, min(room, self._file_limit))
                files[prefix + name] = data
                room -= len(data)
                if len(files) > TREE_FILES:
                    raise SandboxFileError(f"more than {TREE_FILES} files at {prefix!r}")
        return room

    def _read(self, folder: int, name: str, shown: str, limit: int) -> bytes:
        handle = os.open(name, os.O_RDONLY | _FILE, dir_fd=folder)
        with open(handle, "rb") as file:
            self._require_regular(handle, shown)
            size = os.fstat(handle).st_size
            data = file.read(limit + 1) if size <= limit else b""
        if size > limit or len(data) > limit:
            raise FileTooLarge(f"{shown!r} has {size} bytes, more than the {limit} that are read")
        return data

    @contextmanager
    def _open_folder(self, relative: str, create: bool = False) -> Iterator[int]:
        current = os.open(self.root, _FOLDER)
        try:
            for name in [part for part in relative.split("/") if part not in {"", "."}]:
                is_new = False
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=current)
                        is_new = True
                following = os.open(name, _FOLDER, dir_fd=current)
                os.close(current)
                current = following
                if is_new:
                    self._own(current)
            yield current
        finally:
            os.close(current)

    def _own(self, handle: int) -> None:
        if self._owner is not None and os.fstat(handle).st_uid != self._owner:
            os.fchown(handle, self._owner, self._owner)

    @staticmethod
    def _require_regular(handle: int, shown: str) -> None:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise SandboxFileError(f"{shown!r} is not a regular file")


@contextmanager
def _explained(verb: str, shown: str) -> Iterator[None]:
    """Explain errors of a path or of the machine; a full disk is reported elsewhere."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise
        if error.errno not in OF_THE_PATH:
            raise SandboxUnavailable(f"this machine can't {verb} {shown!r}: {error}") from error
        raise SandboxFileError(f"can't {verb} {shown!r}: {error.strerror or error}") from error
