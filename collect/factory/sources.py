"""Fetch a project's files: from a folder, a git repository, or a package index.

Nothing of a project runs here: an sdist is unpacked, not built.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from collect.benchmarks.trees import LEFT_OUT, MEGABYTE, TreeTooLarge, read_folder
from collect.factory.config import FactoryConfig, ProjectConfig
from collect.factory.index import download_sdist
from collect.factory.metadata import read_metadata
from collect.factory.project import ProjectRefused, Source
from collect.git_clones import GitFailed, read_commit, repository_name


def fetch(project: ProjectConfig, config: FactoryConfig) -> Source:
    """The project's files. Raises ProjectRefused."""
    if project.pypi is not None:
        source = _from_index(project, project.pypi, config)
    else:
        try:
            source = _from_tree(project, config.max_tree_mb)
        except (GitFailed, TreeTooLarge) as error:
            raise ProjectRefused(str(error)) from error
    size = sum(map(len, source.files.values()))
    if size > config.max_tree_mb * MEGABYTE:
        raise ProjectRefused(
            f"{project.place}: {size // MEGABYTE} MB of files, more than factory.max_tree_mb "
            f"({config.max_tree_mb}); raise it, or leave the project out"
        )
    return source


def _from_index(project: ProjectConfig, requirement: str, config: FactoryConfig) -> Source:
    sdist = download_sdist(requirement, config.index_url)
    files = _unpacked(sdist.path, project.place)
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
    metadata = read_metadata(files)
    requires = ((*metadata.requires, *metadata.test_requires), metadata.requires)
    return Source(name, version, origin, metadata.license, files, requires)


def _unpacked(path: Path, place: str) -> dict[str, bytes]:
    """The files below the archive's one top folder."""
    try:
        members = dict(_zip_members(path) if path.suffix == ".zip" else _tar_members(path))
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise ProjectRefused(
            f"{place}: {path} is not a whole archive ({error}); remove it"
        ) from error
    files = {}
    for name, data in members.items():
        top, _, inner = posixpath.normpath(name).partition("/")
        if inner and top not in ("", "..") and not LEFT_OUT & set(inner.split("/")):
            files[inner] = data
    return files


def _tar_members(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isreg() else None
            if file is not None:
                yield member.name, file.read()


def _zip_members(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield member.filename, archive.read(member)
