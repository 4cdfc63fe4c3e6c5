"""A Java project's own repository: a folder of the cache with exactly what its build asked for.

The sandboxes of the project mount it read-only, and build tools run offline in it. It has no other
project's jars, which could hold the fix of a bug.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox.base import Sandbox, SandboxConfig
from sandbox.environment import cache_folder
from sandbox.errors import BuildFailed

METADATA = "maven-metadata.xml"
"""The list of an artifact's versions: of all files, only it changes."""
REPOSITORY_ID = "stepinto"
"""Maven keeps the lists of versions of each repository under its id."""
RETRY_SECONDS = 600.0
SETTINGS = "settings.xml"
SCRIPT = "repositories.gradle"
_SETTINGS = f"""\
<settings>
  <mirrors>
    <mirror><id>{REPOSITORY_ID}</id><mirrorOf>*</mirrorOf><url>%s</url></mirror>
  </mirrors>
</settings>
"""


def repositories_folder() -> Path:
    """The folder of all projects' repositories."""
    return cache_folder() / "java"


def digest_of(facts: Sequence[str], files: Mapping[str, bytes]) -> str:
    """16 hex digits over these facts and files."""
    digest = hashlib.sha256(json.dumps(facts).encode())
    for path in sorted(files):
        content = hashlib.sha256(files[path]).digest()
        digest.update(path.encode() + b"\0" + content)
    return digest.hexdigest()[:16]


def settings_files(maven: str, gradle: str) -> dict[str, bytes]:
    """Settings of Maven and an initialization script of Gradle, by file name, that make these
    addresses the only repository."""
    script = Path(__file__).with_name(SCRIPT).read_text()
    texts = {SETTINGS: _SETTINGS % maven, SCRIPT: script.replace("REPOSITORY", gradle)}
    return {name: text.encode() for name, text in texts.items()}


def maven_settings(folder: Path | str) -> tuple[str, ...]:
    """Maven's options that choose the settings in a folder."""
    return ("-s", f"{folder}/{SETTINGS}")


def gradle_settings(folder: Path | str) -> tuple[str, ...]:
    """Gradle's options that choose the script in a folder."""
    return ("-I", f"{folder}/{SCRIPT}")


@dataclass(frozen=True)
class ProjectRepository:
    """One project's repository, and the record of how it was filled."""

    folder: Path

    @property
    def maven_options(self) -> tuple[str, ...]:
        """Maven's options to run offline in it."""
        return ("-o", *maven_settings(self.folder), f"-Dmaven.repo.local={self.folder}")

    @property
    def gradle_options(self) -> tuple[str, ...]:
        """Gradle's options to run offline in it."""
        return ("--offline", *gradle_settings(self.folder))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from filling it meanwhile."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def is_filled(self, tree: str) -> bool:
        """Whether it needs no other build to fill it. One that failed may not have asked for
        everything: if a later build lacks something, another try is worth it, with the same tree of
        sources after RETRY_SECONDS."""
        try:
            attempts, last = self._attempts.read_text().split(), self._attempts.stat().st_mtime
        except FileNotFoundError:
            return False
        tried_just_now = tree in attempts and time.time() - last < RETRY_SECONDS
        return tried_just_now or not self._lacking.exists()

    def fill(self, given: Mapping[str, Path], address: str) -> None:
        """Add what a build asked for, by its path in the repository at `address`."""
        for path, file in given.items():
            place = self.folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            _link(file, place)
            if place.name == METADATA:
                _link(file, place.with_name(f"maven-metadata-{REPOSITORY_ID}.xml"))
        for name, data in settings_files(address, self.folder.as_uri()).items():
            (self.folder / name).write_bytes(data)
            (self.folder / name).chmod(0o644)
        # The sandbox's commands may run as another user.
        for parent, _, _ in os.walk(self.folder):
            os.chmod(parent, 0o755)

    def note_attempt(self, tree: str) -> None:
        """Note that a build of this tree asked for all it could."""
        with self._attempts.open("a") as attempts:
            attempts.write(f"{tree}\n")
        self._lacking.unlink(missing_ok=True)

    def note_lacking(self) -> None:
        """Note that a build lacks something."""
        self._lacking.touch()

    @property
    def _attempts(self) -> Path:
        return self.folder.with_suffix(".attempts")

    @property
    def _lacking(self) -> Path:
        return self.folder.with_suffix(".lacking")


def repository_in(config: SandboxConfig) -> ProjectRepository | None:
    """The project's repository that a sandbox mounts."""
    for path in map(Path, config.readable_paths):
        if path.parent == repositories_folder():
            return ProjectRepository(path)
    return None


OFFLINE = re.compile(r"\boffline mode\b|No cached version of")
"""How Maven or Gradle says that it would have fetched something."""


def with_advice(sandbox: Sandbox, failed: BuildFailed) -> BuildFailed:
    """The failure of a build, with advice if it lacks dependencies."""
    if failed.in_sources or not OFFLINE.search(str(failed)):
        return failed
    own = repository_in(sandbox.config)
    if own is None:
        advice = "builds are offline: sandbox.java.repositories names where it comes from"
    else:
        own.note_lacking()
        advice = (
            "no repository of sandbox.java.repositories has it, or the build did not ask for it "
            "when it was fetched, before the build files changed"
        )
    return BuildFailed(f"{failed}\n{advice}")


def _link(file: Path, place: Path) -> None:
    place.unlink(missing_ok=True)
    os.link(file, place)
