"""What a Python project says of itself: its licence, and what it and its tests need."""

from __future__ import annotations

import codecs
import posixpath
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.parser import BytesHeaderParser

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

TEST_GROUPS = ("test", "tests", "testing", "dev")
"""Names of extras and of dependency groups (PEP 735) that hold what tests need."""
NOT_FOR_TESTS = frozenset(
    {"black", "codecov", "commitizen", "coverage", "coveralls", "docutils", "flake8", "flit-core"}
    | {"furo", "hatch", "ipdb", "isort", "mypy", "nox", "pip", "pre-commit", "pycodestyle"}
    | {"pylint", "pyright", "pytest", "pytest-benchmark", "pytest-clarity", "pytest-codspeed"}
    | {"pytest-cov", "pytest-icdiff", "pytest-mypy", "pytest-pycodestyle", "pytest-sphinx"}
    | {"pytest-sugar", "pytest-xdist", "ruff", "setuptools", "setuptools-scm", "sphinx", "tox"}
    | {"tox-uv", "twine", "ty", "wheel"}
)
"""Tools that test extras often name and tests do not import. pytest itself is the interpreter's."""

FOR_USE = frozenset({"base", "common", "core", "main", "prod", "production"})
"""What the name of a requirements file says of what its packages are needed for."""
MAX_INCLUDED = 100
"""Requirements files of one project that are read."""
OWN_PROJECT = re.compile(r"(-e|--editable)?[\s=]*\.(\[[\w,\s-]*\])?$")


@dataclass(frozen=True)
class Metadata:
    """As far as it is told."""

    license: str = ""
    requires: tuple[str, ...] = ()
    test_requires: tuple[str, ...] = ()


def read_metadata(files: Mapping[str, bytes]) -> Metadata:
    """From PKG-INFO, as an sdist has it, and pyproject.toml; empty where neither tells."""
    told = BytesHeaderParser().parsebytes(files.get("PKG-INFO", b""))
    pyproject = _toml(files.get("pyproject.toml", b""))
    project = _table(pyproject, "project")
    declared = told.get_all("Requires-Dist") or list(_project_requires(project))
    return Metadata(
        license=_license(told.get_all("License-Expression"), told.get_all("License"), project),
        requires=_needed(declared, ("",)),
        test_requires=tuple(
            dict.fromkeys(
                (*_needed(declared, TEST_GROUPS, only_extras=True), *_from_groups(pyproject))
            )
        ),
    )


@dataclass(frozen=True)
class RequirementsFiles:
    """What `requirements.txt` and its like ask for."""

    requires: tuple[str, ...] = ()
    test_requires: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Lines that are not followed, each with its place."""


def read_requirements(files: Mapping[str, bytes]) -> RequirementsFiles:
    """From `requirements*.txt`, `*requirements.txt` and `requirements/*.txt`, by their names.

    Only names of packages with versions count: of options, URLs and paths, which could reach
    anything, no more is taken than `-r` of a file of the project.
    """
    left_out: list[str] = []
    found: dict[bool, list[str]] = {False: [], True: []}
    seen: set[str] = set()
    for path in sorted(files):
        is_for_tests = _is_for_tests(path)
        if is_for_tests is not None:
            found[is_for_tests] += _requirement_lines(path, files, seen, left_out)
    for_use, for_tests = (_needed(found[key], ("",)) for key in (False, True))
    return RequirementsFiles(for_use, for_tests, tuple(left_out))


def _is_for_tests(path: str) -> bool | None:
    """Whether a requirements file is about tests; None if it is none, or one for docs and such."""
    folder, name = posixpath.split(path)
    words = set(re.split(r"[-_.]", name.lower()))
    if folder not in ("", "requirements") or "txt" not in words:
        return None
    if not folder and "requirements" not in words:
        return None
    words -= {"requirements", "txt"}
    if words & {*TEST_GROUPS, "development"}:
        return True
    return False if not words or words & FOR_USE else None


def _requirement_lines(
    path: str, files: Mapping[str, bytes], seen: set[str], left_out: list[str]
) -> Iterator[str]:
    """The requirements of a file and of those that it includes, each file once."""
    if path in seen:
        return
    seen.add(path)
    text = _decoded(files[path]).replace("\\\n", " ")
    for line in (re.sub(r"(^|\s+)#.*$", "", each.strip()) for each in text.split("\n")):
        included = re.match(r"(?:-r|--requirement)[\s=]*(\S+)$", line)
        if included:
            inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), included[1]))
            if inner in files and len(seen) < MAX_INCLUDED:
                yield from _requirement_lines(inner, files, seen, left_out)
                continue
        # Hashes and other options of one requirement stand behind it.
        requirement = re.sub(r"\s--.*$", "", line)
        if _is_plain(requirement):
            yield requirement
        elif line and not OWN_PROJECT.match(line):
            left_out.append(f"{path}: {line}")


def _decoded(data: bytes) -> str:
    """As pip reads it: UTF-16 is what PowerShell makes of `pip freeze`."""
    is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode("utf-16" if is_utf_16 else "utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_plain(text: str) -> bool:
    requirement = _requirement(text)
    return requirement is not None and requirement.url is None


def _requirement(text: str) -> Requirement | None:
    """None for what is none. Thousands of brackets are a RecursionError."""
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError):
        return None


def _holds(marker: Marker, extra: str) -> bool:
    try:
        return marker.evaluate({"extra": extra})
    except (UndefinedComparison, UndefinedEnvironmentName, RecursionError):
        return False


def _toml(data: bytes) -> Mapping[str, object]:
    try:
        return tomllib.loads(data.decode("utf-8", "replace"))
    # Also for numbers of thousands of digits, and thousands of brackets.
    except (ValueError, RecursionError):
        return {}


def _table(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    inner = table.get(key)
    return inner if isinstance(inner, dict) else {}


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _license(
    expression: list[str] | None, older: list[str] | None, project: Mapping[str, object]
) -> str:
    told = (expression or older or [""])[0].strip()
    if not told and isinstance(project.get("license"), str):
        told = str(project["license"])
    # Some put the whole text of the licence there.
    return told.splitlines()[0][:100] if told else ""


def _project_requires(project: Mapping[str, object]) -> Iterator[str]:
    yield from _texts(project.get("dependencies"))
    for extra, requirements in _table(project, "optional-dependencies").items():
        for requirement in _texts(requirements):
            name, _, marker = requirement.partition(";")
            condition = f"({marker.strip()}) and " if marker.strip() else ""
            yield f'{name} ; {condition}extra == "{extra}"'


def _from_groups(pyproject: Mapping[str, object]) -> tuple[str, ...]:
    groups = _table(pyproject, "dependency-groups")
    wanted = [each for name in TEST_GROUPS for each in _texts(groups.get(name))]
    return _needed(wanted, ("",))


def _needed(
    declared: Iterable[str], extras: Iterable[str], only_extras: bool = False
) -> tuple[str, ...]:
    """Those whose markers hold on this machine with one of these extras."""
    found: dict[str, None] = {}
    for text in declared:
        requirement = _requirement(text)
        if requirement is None:
            continue
        marker = requirement.marker
        if only_extras and (marker is None or _holds(marker, "")):
            continue
        if marker is not None and not any(_holds(marker, name) for name in extras):
            continue
        if canonicalize_name(requirement.name) not in NOT_FOR_TESTS and requirement.url is None:
            requirement.marker = None
            found[str(requirement)] = None
    return tuple(found)
