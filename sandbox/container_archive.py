"""Files out of a container, as the tar that its engine makes of a path."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sandbox.container_exec import translated
from sandbox.errors import SandboxDead, SandboxFileError

END = bytes(2 * tarfile.BLOCKSIZE)
"""How every whole tar ends."""
OF_THE_PATH = ("too many links", "not a directory", "file name too long", "invalid argument")
"""What the engine says of a path that leads nowhere, with the status of a fault of its own."""


@contextmanager
def archive_of(container: Any, path: str, limit: int) -> Iterator[tarfile.TarFile]:
    """A path as a tar of at most `limit` bytes, which is read once, from front to end.

    Raises SandboxFileError where the path is at fault, SandboxDead where the engine is, or where
    it stopped before the end.
    """
    with translated():
        chunks = _Chunks(_opened(container, path), limit, path)
        try:
            with tarfile.open(fileobj=chunks, mode="r|") as archive:
                yield archive
            chunks.require_end()
        except tarfile.TarError as error:
            raise SandboxDead(f"the container engine broke off the files of {path!r}") from error


def _opened(container: Any, path: str) -> Iterator[bytes]:
    from docker.errors import APIError

    try:
        chunks, _ = container.get_archive(path)
    except APIError as error:
        told = str(error.explanation)
        if error.status_code in {400, 404} or any(words in told for words in OF_THE_PATH):
            container.reload()
            if container.status == "running":
                raise SandboxFileError(f"can't read {path!r}: {told}") from error
        raise
    return iter(chunks)


class _Chunks(io.RawIOBase):
    """The engine's byte stream as a file that refuses to give more than `limit` bytes."""

    def __init__(self, chunks: Iterator[bytes], limit: int, shown: str) -> None:
        self._chunks = chunks
        self._pending = b""
        self._last = b""
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
        self._last = (self._last + taken)[-len(END) :]
        self._left -= len(taken)
        if self._left < 0:
            raise SandboxFileError(f"{self._shown!r} is larger than {self._limit} bytes")
        buffer[: len(taken)] = taken
        return len(taken)

    def require_end(self) -> None:
        """Raise SandboxDead where the rest is not that of a whole tar.

        The engine ends the stream as if all were well where it fails on the way, and a tar that
        was cut between two files reads like a whole one with fewer.
        """
        while self.read(1 << 16):
            pass
        if self._last != END:
            raise SandboxDead(f"the container engine broke off the files of {self._shown!r}")
