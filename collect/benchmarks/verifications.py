"""Verifications kept below the user's cache: one JSON line each, one file a benchmark.

Each counts for one bug, by its hash, and for what ran it. A line is written as soon as a bug is
verified, so that an interrupted verification loses only what was under way; of two lines for the
same the later counts. It is a cache: a line that can't be read, torn or of another version, stands
for a bug that was never verified.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from collect.benchmarks.base import Instance
from collect.benchmarks.marks import Verification
from collect.benchmarks.ran_in import RanIn
from sandbox import SandboxConfig
from sandbox.environment import cache_folder

FOLDER = "verifications"
Found = dict[tuple[str, str], Verification]
"""By the instance's hash and what ran it."""


class Verifications:
    """All that was verified on this machine. Thread-safe; processes may write at once."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` None: below the user's cache."""
        self.folder = folder or cache_folder() / FOLDER
        self._found: dict[str, Found] = {}
        self._lock = threading.Lock()

    def any_of(self, benchmark: str) -> bool:
        """Whether any bug of a benchmark was verified: if not, no instance needs to be hashed."""
        with self._lock:
            return bool(self._of(benchmark))

    def find(self, instance: Instance, ran_in: str) -> Verification | None:
        """The newest verification of a bug by what `ran_in` names."""
        with self._lock:
            return self._of(instance.benchmark).get((instance.hash, ran_in))

    def add(self, verification: Verification) -> None:
        """Keep one. Raises ValueError for one that learnt nothing."""
        if verification.failure:
            raise ValueError(f"{verification.instance_id} has no mark: {verification.failure}")
        with self._lock:
            self._of(verification.benchmark)[_key(verification)] = verification
            self._append(verification)

    def path(self, benchmark: str) -> Path:
        """Where a benchmark's lines are."""
        return self.folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', benchmark)}.jsonl"

    def _append(self, verification: Verification) -> None:
        path = self.path(verification.benchmark)
        path.parent.mkdir(parents=True, exist_ok=True)
        # One write, so that lines of several processes don't mix; and a line break before it, so
        # that a line torn off by a full disk doesn't take this one along.
        with path.open("ab", buffering=0) as file:
            file.write(f"\n{verification.model_dump_json()}\n".encode())

    def _of(self, benchmark: str) -> Found:
        if benchmark not in self._found:
            self._found[benchmark] = _read(self.path(benchmark))
        return self._found[benchmark]


def with_verifications(
    instances: Iterable[Instance], ran_in: RanIn, verifications: Verifications
) -> Iterator[tuple[Instance, Verification | None]]:
    """Each instance, and what is kept of it; None where it was never verified in this sandbox."""
    for instance in instances:
        name = ran_in.known_name(instance) if verifications.any_of(instance.benchmark) else None
        yield instance, verifications.find(instance, name) if name is not None else None


def note_verified(
    instances: Iterable[Instance],
    sandbox_config: SandboxConfig,
    verifications: Verifications | None = None,
    *,
    repeats: int = 1,
) -> None:
    """Keep that bugs are as they claim, for who has run their tests already: what makes bugs.

    Raises SandboxUnavailable, ImageMissing.
    """
    verifications = verifications or Verifications()
    ran_in = RanIn(sandbox_config)
    for instance in instances:
        verifications.add(Verification.of(instance, ran_in.name(instance), repeats=repeats))


def _key(verification: Verification) -> tuple[str, str]:
    return verification.instance_hash, verification.ran_in


def _read(path: Path) -> Found:
    found: Found = {}
    if not path.is_file():
        return found
    for line in filter(None, path.read_text("utf-8", "replace").split("\n")):
        try:
            verification = Verification.model_validate_json(line)
        except ValidationError:
            continue
        found[_key(verification)] = verification
    return found
