"""The build tools that a project's wrapper asks for, unpacked in the cache.

They come from the configured repositories, whatever address the wrapper names, and run in sandboxes
alone.
"""

from __future__ import annotations

import fcntl
import posixpath
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.environment import cache_folder
from sandbox.errors import SandboxUnavailable
from sandbox.java.artifacts import ArtifactRefused, ArtifactStore, Repository

MAVEN = "3.9.16"
"""For projects without a wrapper: many plugins need a newer one than distributions package."""
_MAVEN_WRAPPER = ".mvn/wrapper/maven-wrapper.properties"
GRADLE_WRAPPER = "gradle/wrapper/gradle-wrapper.properties"
# Maven 4 writes another log than what is read here.
_MAVEN_URL = re.compile(rb"^distributionUrl *=.*/apache-maven-(3\.[0-9.]+)-bin\.\w+ *$", re.M)
_GRADLE_URL = re.compile(rb"^distributionUrl *=.*/gradle-([0-9][0-9.]*)-(?:bin|all)\.zip *$", re.M)
LARGEST = 512 * 1024 * 1024
"""Bytes of an archive."""


@dataclass(frozen=True)
class Distribution:
    """One version of a build tool."""

    name: str
    """Of the folder in its archive."""
    archive: str
    """Its path in a repository."""
    program: str
    """The tool, below its folder."""


def maven_for(files: Mapping[str, bytes]) -> Distribution | None:
    """The Maven for a project; None if it has no `pom.xml`."""
    if "pom.xml" not in map(posixpath.basename, files):
        return None
    match = _MAVEN_URL.search(files.get(_MAVEN_WRAPPER, b""))
    version = match[1].decode() if match else MAVEN
    name = f"apache-maven-{version}"
    archive = f"org/apache/maven/apache-maven/{version}/{name}-bin.tar.gz"
    return Distribution(name, archive, "bin/mvn")


def gradle_for(files: Mapping[str, bytes]) -> Distribution | None:
    """The Gradle of a project's wrapper; None if it has none."""
    match = _GRADLE_URL.search(files.get(GRADLE_WRAPPER, b""))
    if match is None:
        return None
    name = f"gradle-{match[1].decode()}"
    return Distribution(name, f"{name}-bin.zip", "bin/gradle")


def unpacked(wanted: Distribution, repositories: Sequence[Repository]) -> Path | None:
    """The folder of a build tool, fetched on first use; None if no repository has it. Raises
    SandboxUnavailable."""
    root = cache_folder() / "build-tools"
    folder = root / wanted.name
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / f"{wanted.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder
            archive = ArtifactStore(repositories, LARGEST, LARGEST).get(wanted.archive)
            if archive is None:
                return None
            temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=root))
            try:
                _unpack(archive, temporary)
                (temporary / wanted.name / wanted.program).chmod(0o755)
                (temporary / wanted.name).rename(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    except (ArtifactRefused, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise SandboxUnavailable(f"{wanted.name} can't be fetched: {error}") from error
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
        return
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
