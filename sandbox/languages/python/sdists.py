"""Source distributions: fetched from a package index (PEP 503 and 691) without running any of
their code, and built into wheels in a sandbox without a network.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import posixpath
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Self

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from sandbox.environment import cache_folder, host_environment
from sandbox.errors import SandboxUnavailable
from sandbox.languages.python.backend import BackendFailed, open_backend
from sandbox.packages import PIP_SETTINGS, runs_as, wheels_folder

TIMEOUT = 120.0
"""Seconds to wait for data from the index."""
MAX_SECONDS = 1800.0
"""Of one download."""
MEGABYTE = 1024 * 1024
ARCHIVE_TO_TREE = 4
"""An archive may be this many times as large as its files, because of headers and padding."""
MAX_BUILT_MB = 64
"""Of the files of a source distribution that is built, and of its wheel."""
PYPI = "https://pypi.org/simple"


class NoSdist(SandboxUnavailable):
    """There is no source distribution to be had; the message says why."""


class ArchiveTooLarge(NoSdist):
    """An archive is larger than it may be."""


class BoundedDownload:
    """A progress tracker of pypi-simple that ends a download which is too large or too slow."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes
        self._deadline = time.monotonic() + MAX_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, increment: int) -> None:
        """Raises ValueError."""
        self._left -= increment
        if self._left < 0:
            raise ValueError("its archive is larger than it may be")
        if time.monotonic() > self._deadline:
            raise ValueError(f"its archive did not come within {MAX_SECONDS:.0f} s")


@dataclass(frozen=True)
class Sdist:
    name: str
    version: str
    path: Path
    """Its file, whose hash was checked if the index tells one."""


def download_sdist(wanted: Requirement, index_url: str, max_mb: int, python: str) -> Sdist:
    """Download the newest release that the requirement allows and a version of Python (`3.11.4`)
    can run. Raises NoSdist."""
    from pypi_simple import NoSuchProjectError, PyPISimple

    fitting = []
    try:
        with PyPISimple(index_url) as client:
            for package in client.get_project_page(wanted.name, timeout=TIMEOUT).packages:
                if not package.filename.endswith(".tar.gz"):
                    continue
                with suppress(InvalidSpecifier, InvalidVersion):
                    version = Version(package.version or "")
                    runs_here = SpecifierSet(package.requires_python or "").contains(python)
                    is_sdist = package.package_type == "sdist" and not package.is_yanked
                    if runs_here and is_sdist and wanted.specifier.contains(version):
                        fitting.append((version, package))
            if not fitting:
                raise NoSdist(f"{wanted}: no sdist of it fits Python {python}")
            chosen = max(fitting, key=lambda each: each[0])[1]
            path = cache_folder() / "sdists" / chosen.filename
            path.parent.mkdir(parents=True, exist_ok=True)
            expected = chosen.digests.get("sha256")
            if not path.is_file() or (expected is not None and sha256(path) != expected):
                limit = BoundedDownload(ARCHIVE_TO_TREE * max_mb * MEGABYTE)
                with tempfile.TemporaryDirectory(prefix=".tmp-", dir=path.parent) as folder:
                    unfinished = Path(folder, path.name)
                    client.download_package(
                        chosen, unfinished, progress=lambda _: limit, timeout=TIMEOUT
                    )
                    unfinished.replace(path)
    # No network, no permission, no such project, an invalid answer, or a wrong hash.
    except (OSError, NoSuchProjectError, ValueError) as error:
        raise NoSdist(f"{wanted}: {index_url} gave no sdist ({error})") from error
    return Sdist(wanted.name, str(chosen.version), path)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpack_sdist(path: Path, max_mb: int) -> dict[str, bytes]:
    """The files in the archive's single top-level folder, without links. Raises NoSdist."""
    files: dict[str, bytes] = {}
    room = max_mb * MEGABYTE
    try:
        for member, file in _members(path, ARCHIVE_TO_TREE * room):
            room -= member.size
            if room < 0:
                raise ArchiveTooLarge(f"{path}: more than {max_mb} MB of files")
            top, _, inner = posixpath.normpath(member.name).partition("/")
            is_text = not any("\ud800" <= character <= "\udfff" for character in inner)
            if inner and top not in ("", "..") and "\0" not in inner and is_text:
                files[inner] = file.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise NoSdist(f"{path} is not a whole archive ({error}); remove it") from error
    return files


def _members(path: Path, most: int) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Decompress to a file first: a small archive can be huge, and so can one of its headers, which
    would be read into memory."""
    with gzip.open(path) as packed, tempfile.TemporaryFile() as whole:
        while chunk := packed.read(MEGABYTE):
            whole.write(chunk)
            if whole.tell() > most:
                allowed = most // ARCHIVE_TO_TREE // MEGABYTE
                raise ArchiveTooLarge(f"{path}: more than {allowed} MB of files")
        whole.seek(0)
        with tarfile.open(fileobj=whole, mode="r:") as archive:
            for member in archive:
                if file := archive.extractfile(member) if member.isreg() else None:
                    yield member, file


# Building a wheel of one.


def build_wheel(python: str, text: str, constraints: Sequence[str] = ()) -> Path:
    """Build a wheel of the newest source distribution that fits, among `wheels_folder`. `python` is
    an interpreter's path. Raises NoSdist, BackendFailed, SandboxError."""
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        raise NoSdist(f"{text!r}: {error}") from error
    for fixed in map(Requirement, constraints):
        if canonicalize_name(fixed.name) == canonicalize_name(wanted.name):
            wanted.specifier &= fixed.specifier
    sdist = _find(wanted, runs_as(python).split()[0])
    files = unpack_sdist(sdist.path, MAX_BUILT_MB)
    with open_backend(files, "wheel", python, {}) as backend:
        name = str(backend.call("build_wheel", backend.out, None, None))
        _require_wheel_of(sdist, name)
        path = f"{backend.out}/{name}"
        data = backend.sandbox.read_file(path, MAX_BUILT_MB * MEGABYTE)
    folder = wheels_folder(python)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=folder) as temporary:
        Path(temporary, name).write_bytes(data)
        return Path(temporary, name).replace(folder / name)


def _require_wheel_of(sdist: Sdist, name: str) -> None:
    """Raises BackendFailed for the name of another package's wheel: all projects would get it."""
    try:
        built, version, _, _ = parse_wheel_filename(name)
    except InvalidWheelFilename as error:
        raise BackendFailed(f"{sdist.name} {sdist.version} is built into no wheel") from error
    wanted = canonicalize_name(sdist.name), Version(sdist.version)
    if (built, version) != wanted or "/" in name:
        raise BackendFailed(f"{sdist.name} {sdist.version} is built into {name[:80]!r}")


def _find(wanted: Requirement, python: str) -> Sdist:
    """The newest in the folders and at the indexes that the user's pip knows. Raises NoSdist."""
    sources = _sources()
    fitting = [sdist for folder in sources.folders for sdist in _in_folder(folder, wanted)]
    if fitting:
        return max(fitting, key=lambda sdist: Version(sdist.version))
    refusals = [f"{wanted}: pip has no index to ask"]
    for index in sources.indexes:
        try:
            return download_sdist(wanted, index, MAX_BUILT_MB, python)
        except NoSdist as error:
            refusals.append(str(error))
    raise NoSdist(refusals[-1])


def _in_folder(folder: str, wanted: Requirement) -> Iterator[Sdist]:
    place = Path(folder.removeprefix("file://")).expanduser()
    for path in place.glob("*.tar.gz") if place.is_dir() else ():
        with suppress(InvalidSdistFilename, InvalidVersion):
            name, version = parse_sdist_filename(path.name)
            fits = wanted.specifier.contains(version)
            if name == canonicalize_name(wanted.name) and fits:
                yield Sdist(name, str(version), path)


@dataclass(frozen=True)
class _Sources:
    indexes: tuple[str, ...]
    folders: tuple[str, ...]


def _sources() -> _Sources:
    settings = host_environment(PIP_SETTINGS)
    return _asked(tuple(sorted(settings.items())))


@lru_cache(maxsize=4)
def _asked(settings: tuple[tuple[str, str], ...]) -> _Sources:
    """Where pip looks, by its own account of the user's settings."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
        env=dict(settings),
    )
    values: dict[str, list[str]] = {}
    for place in ("global", "install", ":env:"):
        for line in re.finditer(rf"^{place}\.([\w-]+)=(.*)$", done.stdout, re.MULTILINE):
            with suppress(ValueError, SyntaxError):
                values[line[1]] = str(ast.literal_eval(line[2])).split()
    if "no-index" in values:
        return _Sources((), tuple(values.get("find-links", ())))
    indexes = (*values.get("index-url", (PYPI,)), *values.get("extra-index-url", ()))
    return _Sources(indexes, tuple(values.get("find-links", ())))
