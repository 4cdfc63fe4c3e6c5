"""A folder in any of pyarrow's file systems: a run's own, or its copy in a shared store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from collect.errors import ConfigError
from collect.store.atomic_files import TEMPORARY

APPEAR_WHOLE = ("s3", "gcs", "abfs")
"""File systems whose files are there once they are closed, and not before."""
ANONYMOUS = "anonymous"
"""The user of a `gs:` URI whose bucket anyone may write to."""
KEYS = (
    "the keys come from the environment, for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for "
    "GCS GOOGLE_APPLICATION_CREDENTIALS, or from the machine's role"
)


@dataclass(frozen=True)
class Stamp:
    """Tells two contents of a file apart."""

    size: int
    changed_ns: int


Listing = dict[str, Stamp]
"""Files by their path below the folder."""


@dataclass(frozen=True)
class Folder:
    """A folder, which need not be there yet. Thread-safe. Raises OSError where it can't be used."""

    files: pafs.FileSystem
    path: str
    name: str
    """As messages call it."""

    @classmethod
    def at(cls, place: str) -> Folder:
        """That of a URI, or of a path on this machine. Raises ConfigError."""
        address = urlsplit(place)
        anyone = address.scheme == "gs" and address.username == ANONYMOUS
        if "@" in address.netloc and not anyone:
            raise ConfigError(f"the URI of the copy must hold no keys: {KEYS}")
        try:
            files, path = pafs.FileSystem.from_uri(place)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ConfigError(
                f"{place} is no place for a copy: {error}; give s3://BUCKET/PREFIX, "
                "gs://BUCKET/PREFIX, file:///FOLDER or an absolute path"
            ) from error
        name = place.partition("?")[0].replace(f"{ANONYMOUS}@", "", 1)
        return cls(files, path.rstrip("/"), name.rstrip("/"))

    @classmethod
    def local(cls, path: Path) -> Folder:
        """One on this machine."""
        return cls(pafs.LocalFileSystem(), str(path.resolve()), str(path))

    def below(self, name: str) -> Folder:
        """A folder in it."""
        return Folder(self.files, f"{self.path}/{name}", f"{self.name}/{name}")

    def listed(self, below: str = "", recursive: bool = False) -> Listing:
        """The files in it, or in a folder of it, but for hidden ones."""
        selector = pafs.FileSelector(
            f"{self.path}/{below}".rstrip("/"), allow_not_found=True, recursive=recursive
        )
        found = self.files.get_file_info(selector)
        # Of a symbolic link, pyarrow may tell another path than that which was asked for.
        stamps = {each.path[len(self.path) + 1 :]: _stamp(each) for each in found if each.is_file}
        return {name: stamp for name, stamp in stamps.items() if not _hidden(name)}

    def stamp(self, name: str) -> Stamp | None:
        """A file's; None where it is not there."""
        info = self.files.get_file_info(f"{self.path}/{name}")
        return _stamp(info) if info.is_file else None

    def read(self, name: str) -> bytes | None:
        """All of a small file; None where it is not there."""
        try:
            with self.opened(name) as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """A file, to read."""
        path = f"{self.path}/{name}"
        with self.files.open_input_stream(path, compression=None) as stream:
            yield stream

    @contextmanager
    def replacing(self, name: str) -> Iterator[IO[bytes]]:
        """A file to write, which appears whole: where nothing was raised, if it is no object."""
        target = f"{self.path}/{name}"
        if self.files.type_name in APPEAR_WHOLE:
            with self.files.open_output_stream(target, compression=None) as stream:
                yield stream
            return
        parent, _, last = target.rpartition("/")
        self.files.create_dir(parent, recursive=True)
        temporary = f"{parent}/{TEMPORARY}{last}"
        with self.files.open_output_stream(temporary, compression=None) as stream:
            yield stream
        self.files.move(temporary, target)

    def write(self, name: str, content: bytes) -> None:
        """Make or replace a small file."""
        with self.replacing(name) as stream:
            stream.write(content)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            self.files.delete_file(f"{self.path}/{name}")

    def probed(self) -> int:
        """Write and remove a file; the time by the clock of the store, in nanoseconds.

        Raises ConfigError where it can't be written.
        """
        name = f".probe-{uuid4().hex}"
        try:
            self.write(name, b"")
            stamp = self.stamp(name)
            self.remove(name)
        except OSError as error:
            raise ConfigError(
                f"nothing can be written to {self.name}: {error}; mend runner.copy_to, make the "
                f"bucket, or give rights to it: {KEYS}"
            ) from error
        return stamp.changed_ns if stamp is not None else 0


def copy_stream(source: IO[bytes], target: IO[bytes]) -> None:
    """All of it, piece by piece."""
    shutil.copyfileobj(source, target, 8_000_000)


def _stamp(info: pafs.FileInfo) -> Stamp:
    return Stamp(info.size, info.mtime_ns)


def _hidden(name: str) -> bool:
    """Locks, owners, and what is not finished."""
    return any(part.startswith(".") for part in name.split("/"))
