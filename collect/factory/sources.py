"""Fetch a project's files: from a folder, a git repository, or a package index.

Nothing of a project runs here: an sdist is unpacked, not built.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import posixpath
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from collect.benchmarks.trees import LEFT_OUT, MEGABYTE, TreeTooLarge, read_folder
from collect.factory.config import FactoryConfig, ProjectConfig
from collect.factory.index import download_sdist
from collect.factory.metadata import read_metadata, read_requirements
from collect.factory.project import ProjectRefused, Source
from collect.git_clones import GitFailed, read_commit, repository_name
from collect.quantities import first_of

ARCHIVE_TO_TREE = 4
"""So many times the bytes of its files an archive may have, with its headers and padding."""

BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error)


def fetch(project: ProjectConfig, config: FactoryConfig) -> Source:
    """The project's files. Raises ProjectRefused."""
    if project.pypi is not None:
        source = _from_index(project, project.pypi, config)
    else:
        try:
            source = _from_tree(project, config.max_tree_mb)
        except GitFailed as error:
            raise ProjectRefused(str(error)) from error
        except TreeTooLarge as error:
            raise ProjectRefused(f"{error}; raise max_tree_mb, or name a smaller folder") from error
    size = sum(map(len, source.files.values()))
    if size > config.max_tree_mb * MEGABYTE:
        raise _too_large(project.place, config.max_tree_mb)
    return source


def _too_large(place: str, max_mb: int) -> ProjectRefused:
    return ProjectRefused(
        f"{place}: more than {max_mb} MB of files (factory.max_tree_mb); raise it, or leave the "
        "project out"
    )


def _from_index(project: ProjectConfig, requirement: str, config: FactoryConfig) -> Source:
    sdist = download_sdist(requirement, config.index_url)
    files = _unpacked(sdist.path, project.place, config.max_tree_mb)
    metadata = read_metadata(files)
    # The release itself: its metadata, entry points and compiled parts, and what it needs.
    release = f"{sdist.name}=={sdist.version}"
    return Source(
        name=project.name or sdist.name,
        version=sdist.version,
        origin=f"pypi:{sdist.name}=={sdist.version} sha256:{sdist.sha256}",
        license=metadata.license,
        files=files,
        requires=((release, *metadata.test_requires), (release,), metadata.requires),
    )


def _from_tree(project: ProjectConfig, max_mb: int) -> Source:
    if project.git is not None:
        return _from_git(project, project.git, max_mb)
    return _from_folder(project, Path(project.folder or "."), max_mb)


def _from_git(project: ProjectConfig, url: str, max_mb: int) -> Source:
    checkout = read_commit(url, project.revision, max_mb)
    commit, name = checkout.commit, project.name or repository_name(url)
    return _source(name, commit[:12], f"git:{url}@{commit}", checkout.files)


def _from_folder(project: ProjectConfig, folder: Path, max_mb: int) -> Source:
    if not folder.is_dir():
        raise ProjectRefused(f"{folder}: no such folder")
    files = read_folder(folder, max_mb=max_mb)
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.encode() + b"\0" + files[path] + b"\0")
    version = digest.hexdigest()[:12]
    return _source(
        project.name or folder.resolve().name, version, f"folder sha256:{version}", files
    )


def _source(name: str, version: str, origin: str, files: Mapping[str, bytes]) -> Source:
    metadata, listed = read_metadata(files), read_requirements(files)
    needed = metadata.requires or listed.requires
    for_tests = dict.fromkeys((*needed, *metadata.test_requires, *listed.test_requires))
    notes = (f"not installed: {first_of(listed.left_out)}",) if listed.left_out else ()
    requires = (tuple(for_tests), needed)
    return Source(name, version, origin, metadata.license, files, requires, notes)


def _unpacked(path: Path, place: str, max_mb: int) -> dict[str, bytes]:
    """The files below the archive's one top folder."""
    read = _zip_members if path.suffix == ".zip" else _tar_members
    files: dict[str, bytes] = {}
    room = max_mb * MEGABYTE
    try:
        for name, size, data in read(path, ARCHIVE_TO_TREE * room):
            room -= size
            if room < 0:
                raise _too_large(place, max_mb)
            top, _, inner = posixpath.normpath(name).partition("/")
            wanted = inner and top not in ("", "..") and not LEFT_OUT & set(inner.split("/"))
            if wanted and _can_be_written(inner):
                files[inner] = data()
    except TreeTooLarge as error:
        raise _too_large(place, max_mb) from error
    # An encrypted member is a RuntimeError, and one of an unknown compression.
    except (*BROKEN, EOFError, OSError, RuntimeError) as error:
        raise ProjectRefused(
            f"{place}: {path} is not a whole archive ({error}); remove it"
        ) from error
    return files


def _can_be_written(name: str) -> bool:
    return "\0" not in name and not any("\ud800" <= each <= "\udfff" for each in name)


_Members = Iterator[tuple[str, int, Callable[[], bytes]]]
"""Name, bytes, and a call for the content."""


def _tar_members(path: Path, most: int) -> _Members:
    """Unpacked to a file first: a small archive can be huge, and a header of it as well, which
    would be read into memory."""
    decompressed = bz2.open if path.suffix == ".bz2" else gzip.open
    with decompressed(path) as packed, tempfile.TemporaryFile() as whole:
        while chunk := packed.read(MEGABYTE):
            whole.write(chunk)
            if whole.tell() > most:
                raise TreeTooLarge(path, most // MEGABYTE)
        whole.seek(0)
        with tarfile.open(fileobj=whole, mode="r:") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield member.name, member.size, file.read


def _zip_members(path: Path, most: int) -> _Members:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                # No more is read than the size that it tells.
                yield member.filename, member.file_size, partial(archive.read, member)
