"""Which of the packages that a project declares can be installed, and why the others can't.

pip says for a set only that it can't be installed. So the set is halved until what is left out is
known by name; whatever has no wheel is built before it is given up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sandbox.errors import SandboxError
from sandbox.languages.python.requirement_files import requirement
from sandbox.languages.python.sdists import NoSdist, build_wheel
from sandbox.packages import PipFailed, Resolved, made_folder, resolve, runs_as

MOST_WANTED = 300
"""Packages that are tried of one project."""
MOST_SECONDS = 600.0
"""Time after which no more packages are tried."""
HOPELESS = 5
"""Packages after which no more are tried if none could be installed: no index is in reach, say."""
MOST_BUILT = 8
"""Packages that are built for one requirement."""
CHOSEN = "chosen.json"


@dataclass(frozen=True)
class Chosen:
    packages: tuple[str, ...]
    """As pip's requirements, which can be installed together."""
    missing: Mapping[str, str]
    """The others, by name, and why each can't be installed."""


def choose_packages(python: str, wanted: Sequence[str], constraints: Sequence[str] = ()) -> Chosen:
    """The largest part of what is wanted, the first first. Versions that a lock file fixes are
    kept if they leave out no more. `python` is an interpreter's path. Raises SandboxUnavailable if
    the cache can't be written."""

    def make(folder: Path) -> None:
        chosen = _chosen(python, wanted, constraints)
        (folder / CHOSEN).write_text(json.dumps([chosen.packages, chosen.missing]))

    def read(folder: Path) -> Chosen:
        packages, missing = json.loads((folder / CHOSEN).read_text())
        return Chosen(tuple(packages), missing)

    if not wanted:
        return Chosen((), {})
    facts = [runs_as(python), list(wanted), list(constraints)]
    # An index that is out of reach today may be back tomorrow.
    return read(made_folder("chosen", facts, make, lasts=lambda folder: not read(folder).missing))


def _chosen(python: str, wanted: Sequence[str], constraints: Sequence[str]) -> Chosen:
    tried = list(wanted[:MOST_WANTED])
    search = _Search(python, constraints)
    kept = search.extended([], tried)
    if constraints and search.missing:
        free = _Search(python, ())
        kept_free = free.extended([], tried)
        if len(free.missing) < len(search.missing):
            search, kept = free, kept_free
    search.leave_out(wanted[MOST_WANTED:], f"it was not tried: it is not among {MOST_WANTED}")
    names = {canonicalize_name(Requirement(text).name) for text in kept}
    missing = {name: why for name, why in search.missing.items() if name not in names}
    fixed = set(search.constraints)
    locked = [f"{canonicalize_name(one.name)}=={one.version}" for one in search.resolved]
    return Chosen(
        tuple(dict.fromkeys([*kept, *(text for text in locked if text in fixed)])), missing
    )


@dataclass
class _Search:
    python: str
    constraints: Sequence[str]
    missing: dict[str, str] = field(default_factory=dict)
    resolved: list[Resolved] = field(default_factory=list)
    """What pip would install for the last set that it can install."""
    deadline: float = field(default_factory=lambda: time.monotonic() + MOST_SECONDS)

    def extended(self, kept: list[str], more: list[str]) -> list[str]:
        """The set with as many more as can be installed with it."""
        if not more:
            return kept
        is_hopeless = not kept and len(self.missing) >= HOPELESS
        if is_hopeless or time.monotonic() > self.deadline:
            self.leave_out(more, "it was not tried: the others could not be installed")
            return kept
        try:
            self.resolved = resolve(self.python, [*kept, *more], self.constraints)
            return [*kept, *more]
        except PipFailed as error:
            if len(more) == 1:
                return self._with_one(kept, more[0], error.reason)
        half = len(more) // 2
        return self.extended(self.extended(kept, more[:half]), more[half:])

    def leave_out(self, texts: Sequence[str], reason: str) -> None:
        for text in texts:
            self.missing.setdefault(canonicalize_name(Requirement(text).name), reason)

    def _with_one(self, kept: list[str], text: str, reason: str) -> list[str]:
        build = Building(self.python, self.constraints, deadline=self.deadline)
        build.add(text)
        if build.built:
            try:
                self.resolved = resolve(self.python, [*kept, text], self.constraints)
                return [*kept, text]
            except PipFailed as error:
                reason = error.reason
        self.leave_out([text], "; ".join(build.failures) or reason)
        return kept


def build_wheels(python: str, packages: Sequence[str]) -> bool:
    """Build wheels for those of the packages, and of what they need, that have none. Returns
    whether any was built."""
    build = Building(python, ())
    for text in packages:
        build.add(text)
    return bool(build.built)


@dataclass
class Building:
    """Builds what pip can't install for want of a wheel."""

    python: str
    constraints: Sequence[str]
    built: list[Path] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Of builds."""
    seen: set[str] = field(default_factory=set)
    deadline: float = field(default_factory=lambda: time.monotonic() + MOST_SECONDS)

    def add(self, text: str) -> None:
        """Build a package if it has no wheel, and likewise all that it requires."""
        is_over = len(self.built) >= MOST_BUILT or time.monotonic() > self.deadline
        if text in self.seen or is_over or self._can_install(text):
            return
        self.seen.add(text)
        try:
            packages = resolve(self.python, [text], self.constraints, "--no-deps")
        except PipFailed:
            try:
                self.built.append(build_wheel(self.python, text, self.constraints))
                packages = resolve(self.python, [text], self.constraints, "--no-deps")
            except NoSdist:
                return
            except PipFailed as error:
                self.failures.append(error.reason)
                return
            except SandboxError as error:
                self.failures.append(str(error))
                return
        for package in packages:
            for needed in _needed(package.requires, Requirement(text).extras):
                self.add(needed)

    def _can_install(self, text: str) -> bool:
        try:
            resolve(self.python, [text], self.constraints)
        except PipFailed:
            return False
        return True


def _needed(requires: Sequence[str], extras: set[str]) -> Iterator[str]:
    for parsed in filter(None, map(requirement, requires)):
        marker, parsed.marker = parsed.marker, None
        for extra in ("", *sorted(extras)):
            try:
                if parsed.url is None and (marker is None or marker.evaluate({"extra": extra})):
                    yield str(parsed)
                    break
            except (UndefinedComparison, UndefinedEnvironmentName):
                continue
