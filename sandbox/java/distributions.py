"""The Maven that a project's build runs with, from a repository: the version of its wrapper, or one
of our own, since many plugins need a newer one than distributions package."""

from __future__ import annotations

import fcntl
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.environment import cache_folder
from sandbox.errors import SandboxUnavailable
from sandbox.java.artifacts import ArtifactRefused, ArtifactStore, Repository

MAVEN = "3.9.16"
"""For projects without a wrapper."""
WRAPPER = ".mvn/wrapper/maven-wrapper.properties"
_WRAPPED = re.compile(rb"^distributionUrl *=.*/apache-maven-(3\.[0-9.]+)-bin\.\w+ *$", re.MULTILINE)
"""Of Maven 3 alone: Maven 4 writes another log."""
LARGEST = 64 * 1024 * 1024
"""Bytes of a distribution's archive."""


def maven_version(files: Mapping[str, bytes]) -> str:
    """The version of Maven for a project."""
    match = _WRAPPED.search(files.get(WRAPPER, b""))
    return match[1].decode() if match else MAVEN


def maven_home(version: str, repositories: Sequence[Repository]) -> Path | None:
    """The folder of this Maven, fetched on first use; None if no repository has it. Raises
    SandboxUnavailable."""
    name = f"apache-maven-{version}"
    root = cache_folder() / "maven"
    folder = root / name
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        store = ArtifactStore(repositories, LARGEST, LARGEST)
        try:
            archive = store.get(f"org/apache/maven/apache-maven/{version}/{name}-bin.tar.gz")
        except ArtifactRefused as error:
            raise SandboxUnavailable(str(error)) from error
        if archive is None:
            return None
        unpacked = Path(tempfile.mkdtemp(prefix=".tmp-", dir=root))
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(unpacked, filter="data")
            (unpacked / name).rename(folder)
        except (tarfile.TarError, OSError) as error:
            raise SandboxUnavailable(f"{archive} can't be unpacked: {error}") from error
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
    return folder
