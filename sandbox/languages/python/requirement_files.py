"""Requirements as lines of text, and the versions that lock files fix.

Only names of packages with versions are used: options, URLs and paths could reach anything.
"""

from __future__ import annotations

import codecs
import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from sandbox.languages.python.project_files import parse_toml

OF_TESTS = frozenset({"test", "tests", "testing", "dev", "develop", "development", "unittest"})
"""Words in the names of extras, groups, environments and files that list what tests need."""
OF_USE = frozenset({"base", "common", "core", "main", "prod", "production"})
"""Words in the names of files that list what the project itself needs."""
TOML_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
LINE_LOCKS = ("requirements.lock", "requirements-dev.lock")
LOCKS = (*TOML_LOCKS, *LINE_LOCKS, "Pipfile.lock")
MAX_LIST_BYTES = 1024 * 1024
"""Of a file of requirements; the rest is not read."""
MAX_LOCK_BYTES = 4 * 1024 * 1024
"""A larger lock file is not read."""
MOST_LINES = 5_000
"""Lines that are read of all files of requirements together, and requirements of one list."""
DEEPEST = 20
"""Of files that include each other."""
LONGEST = 2_000
"""Characters of a requirement. Python refuses to read a number that is much longer."""
LONGEST_VERSION = 200
SHOWN = 200
"""Characters of a line that was skipped."""
_OWN_PROJECT = re.compile(r"(?:-e|--editable)?[\s=]*+\.(?:\[([\w,\s.-]*)\])?$")
_INCLUDED = re.compile(r"(?:-r|--requirement)[\s=]*+(\S+)$")
_CONSTRAINED = re.compile(r"(?:-c|--constraint)[\s=]*+(\S+)$")
_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,98}[A-Za-z0-9])?", re.ASCII)


def is_for_tests(name: str) -> bool:
    """Whether an extra or a group of this name lists what tests need."""
    return not OF_TESTS.isdisjoint(re.split(r"[-_.]", name.lower()))


def requirement(text: str) -> Requirement | None:
    """None if it is not a requirement, or too long. Brackets can raise RecursionError."""
    with suppress(InvalidRequirement, RecursionError):
        return Requirement(text) if len(text) <= LONGEST else None
    return None


@dataclass
class Lines:
    """What lines of requirements say, in a file or in a setting."""

    files: Mapping[str, bytes] = field(repr=False)
    """Those of the project, for files that a line includes."""
    requirements: list[str] = field(default_factory=list)
    own_extras: list[str] = field(default_factory=list)
    """Of the project itself, from lines like `-e .[test]`."""
    constraints: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What was skipped, each with its location."""
    read: set[str] = field(default_factory=set)
    """The files that were read, or are to be, and those of constraints as `-c PATH`."""
    lines: int = 0
    """Those that were read."""
    depth: int = 0
    """Of files that include each other."""

    def add_file(self, path: str) -> None:
        self.read.add(path)
        self.depth += 1
        self.add(path, _decoded(self.files[path][:MAX_LIST_BYTES]))
        self.depth -= 1

    def add(self, path: str, text: str) -> None:
        """Read lines that stand in a file."""
        for raw in text.replace("\r\n", "\n").replace("\\\n", " ").split("\n"):
            line = re.sub(r"(^|(?<!\s)\s++)#.*$", "", raw.strip())
            if line:
                self._add_line(path, line)

    def _add_line(self, path: str, line: str) -> None:
        self.lines += 1
        if self.lines > MOST_LINES:
            return
        told = f"{path}: {line}"[:SHOWN]
        # Hashes and other options can follow a requirement.
        plain = re.sub(r"\s--.*$", "", line)
        parsed = requirement(plain)
        if parsed is not None and parsed.url is None:
            self.requirements.append(plain)
        elif own := _OWN_PROJECT.match(line):
            self.own_extras += [name.strip() for name in (own[1] or "").split(",") if name.strip()]
        elif included := _INCLUDED.match(line):
            inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), included[1]))
            if inner in self.read:
                return
            if inner in self.files and self.depth < DEEPEST:
                self.add_file(inner)
            else:
                self.left_out.append(told)
        elif constrained := _CONSTRAINED.match(line):
            inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), constrained[1]))
            if f"-c {inner}" not in self.read:
                self.read.add(f"-c {inner}")
                self.constraints += _fixed_lines(self.files.get(inner, b""))
        else:
            self.left_out.append(told)


def _decoded(data: bytes) -> str:
    # PowerShell writes UTF-16 for `pip freeze`.
    is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_utf_16 else "utf-8-sig", "replace")


def read_requirement_files(files: Mapping[str, bytes]) -> tuple[Lines, Lines]:
    """What `requirements*.txt`, `*requirements.txt` and `requirements/*.txt` list, also in a folder
    of tests: for the project itself, and for its tests."""
    for_use, for_tests = Lines(files), Lines(files)
    named = {path: words for path in sorted(files) if (words := _words(path)) is not None}
    for_use.read |= named.keys()
    for_tests.read |= named.keys()
    for path, words in named.items():
        lines = for_use if words.isdisjoint(OF_TESTS) else for_tests
        lines.add_file(path)
    return for_use, for_tests


def _words(path: str) -> set[str] | None:
    """The words that tell what a file's requirements are for; None if it has none, or they are for
    something else, such as docs."""
    folder, name = posixpath.split(path)
    words = set(re.split(r"[-_.]", name.lower()))
    if "txt" not in words or not (folder == "requirements" or "requirements" in words):
        return None
    if folder not in ("", "requirements", *OF_TESTS):
        return None
    words -= {"requirements", "txt"}
    if folder in OF_TESTS:
        words.add(folder)
    return words if not words or words & (OF_USE | OF_TESTS) else None


# Versions that a lock file fixes, as constraints of pip.


def read_locks(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The versions that the first lock file at the top fixes: `attrs==25.1`. Packages that it has
    in several versions, for different machines, are left out."""
    for name in LOCKS:
        data = files.get(name, b"")
        if not data or len(data) > MAX_LOCK_BYTES:
            continue
        if name in TOML_LOCKS:
            return tuple(_fixed(_toml_versions(data)))
        if name in LINE_LOCKS:
            return tuple(_fixed_lines(data))
        return tuple(_fixed(_pipfile_versions(data)))
    return ()


@lru_cache(maxsize=4)
def _toml_versions(data: bytes) -> Sequence[tuple[object, object]]:
    lock = parse_toml(data)
    packages = lock.get("package", lock.get("packages"))
    tables = packages if isinstance(packages, list) else []
    return [(table.get("name"), table.get("version")) for table in tables if type(table) is dict]


def _pipfile_versions(data: bytes) -> list[tuple[object, object]]:
    try:
        lock = json.loads(data)
    except (ValueError, RecursionError):
        return []
    versions: list[tuple[object, object]] = []
    for group in ("default", "develop"):
        packages = lock.get(group) if isinstance(lock, dict) else None
        for name, package in (packages if isinstance(packages, dict) else {}).items():
            version = package.get("version") if isinstance(package, dict) else None
            versions.append((name, version.removeprefix("==") if type(version) is str else None))
    return versions


def _fixed_lines(data: bytes) -> list[str]:
    lines = Lines({})
    lines.add("", _decoded(data[:MAX_LOCK_BYTES]))
    versions: list[tuple[object, object]] = []
    for parsed in filter(None, map(requirement, lines.requirements)):
        specifiers = list(parsed.specifier)
        if len(specifiers) == 1 and specifiers[0].operator == "==":
            versions.append((parsed.name, specifiers[0].version))
    return _fixed(versions)


def _fixed(versions: Iterable[tuple[object, object]]) -> list[str]:
    by_name: dict[str, set[str]] = {}
    for name, version in versions:
        if not (isinstance(name, str) and isinstance(version, str) and _NAME.fullmatch(name)):
            continue
        if len(version) <= LONGEST_VERSION:
            with suppress(InvalidVersion):
                by_name.setdefault(canonicalize_name(name), set()).add(str(Version(version)))
    return [f"{name}=={next(iter(of))}" for name, of in sorted(by_name.items()) if len(of) == 1]
