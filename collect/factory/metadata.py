"""What a Python project says of itself: its licence, and what it and its tests need."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.parser import BytesHeaderParser

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


def _toml(data: bytes) -> Mapping[str, object]:
    try:
        return tomllib.loads(data.decode("utf-8", "replace"))
    except tomllib.TOMLDecodeError:
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
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        marker = requirement.marker
        if only_extras and (marker is None or marker.evaluate({"extra": ""})):
            continue
        if marker is not None and not any(marker.evaluate({"extra": name}) for name in extras):
            continue
        if canonicalize_name(requirement.name) not in NOT_FOR_TESTS and requirement.url is None:
            requirement.marker = None
            found[str(requirement)] = None
    return tuple(found)
