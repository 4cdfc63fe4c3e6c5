"""What a Python project declares that it and its tests need, read as text.

No code of the project runs: setup.py is parsed, and its literals are taken.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from functools import cached_property
from itertools import islice

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from poetry.core.factory import Factory

from sandbox.languages.python.interpreters import marker_environment
from sandbox.languages.python.project_files import (
    MAX_BYTES,
    Table,
    own_name,
    read_pyproject,
    read_setup_cfg,
    read_setup_py,
    read_toml,
    read_tox,
    table_of,
    texts_of,
)
from sandbox.languages.python.requirement_files import (
    MOST_LINES,
    Lines,
    is_for_tests,
    read_locks,
    read_requirement_files,
    requirement,
)

NOT_FOR_TESTS = frozenset(
    {"black", "check-manifest", "codecov", "commitizen", "coverage", "coveralls", "doc8"}
    | {"docutils", "flake8", "flit-core", "furo", "hatch", "ipdb", "isort", "mypy", "nox", "pip"}
    | {"pre-commit", "pycodestyle", "pylint", "pyright", "pytest", "pytest-benchmark"}
    | {"pytest-clarity", "pytest-codspeed", "pytest-cov", "pytest-icdiff", "pytest-mypy"}
    | {"pytest-pycodestyle", "pytest-random-order", "pytest-randomly", "pytest-sphinx"}
    | {"pytest-sugar", "pytest-xdist", "ruff", "setuptools", "setuptools-scm", "sphinx", "tox"}
    | {"tox-uv", "twine", "ty", "wheel"}
)
"""Tools that test extras often name but tests do not import. The interpreter already has pytest."""
MOST_OF_POETRY = 500
"""Dependencies that are read as Poetry writes them, which takes long."""
LONGEST_OF_POETRY = 400
"""Characters of such a dependency."""
OWN_PYTEST = importlib.metadata.version("pytest")


@dataclass(frozen=True)
class Declared:
    """Fields are empty if unknown."""

    license: str = ""
    requires: tuple[str, ...] = ()
    """What the project itself needs, as pip's requirements."""
    test_requires: tuple[str, ...] = ()
    """What its tests need besides."""
    constraints: tuple[str, ...] = ()
    """The versions that a lock file fixes, as `name==version`."""
    left_out: tuple[str, ...] = ()
    """Requirements that were skipped, each with its location."""


def read_declared(files: Mapping[str, bytes], python: str | None = None) -> Declared:
    """Read what an unpacked project declares, for a version of Python (`3.9`; None: the one that
    runs StepInto). PKG-INFO, which sdists have, comes before what it was made of."""
    headers = BytesHeaderParser().parsebytes(files.get("PKG-INFO", b"")[:MAX_BYTES])
    pyproject = read_pyproject(files)
    locked = read_locks(files)
    needs = _Needs(str(headers.get("Name", "")) or own_name(files), locked)
    if distributed := headers.get_all("Requires-Dist"):
        needs.add_distribution(map(str, distributed[:MOST_LINES]))
    else:
        _add_project(needs, pyproject)
        _add_poetry(needs, pyproject)
        _add_setup_cfg(needs, files)
        _add_setup_py(needs, files)
    _add_groups(needs, pyproject)
    _add_hatch(needs, pyproject, files)
    _add_pipfile(needs, files)
    listed = _add_lines(needs, files)
    licenses = (*headers.get_all("License-Expression", ()), *headers.get_all("License", ()))
    license_ = next(iter(licenses), "").strip() or table_of(pyproject, "project").get("license")
    requires, test_requires = needs.resolved(python)
    return Declared(
        # Some projects put the whole licence text here.
        license=license_.splitlines()[0][:100] if isinstance(license_, str) and license_ else "",
        requires=requires,
        test_requires=test_requires,
        constraints=locked or tuple(dict.fromkeys(listed.constraints)),
        left_out=tuple(dict.fromkeys(needs.left_out)),
    )


@dataclass
class _Needs:
    name: str
    """The project's own, which it may require with an extra."""
    locked: tuple[str, ...] = ()
    """The versions that a lock file fixes."""
    for_use: list[str] = field(default_factory=list)
    for_tests: list[str] = field(default_factory=list)
    extras: dict[str, list[str]] = field(default_factory=dict)
    wanted: set[str] = field(default_factory=set)
    """Extras that some setting for tests names."""
    left_out: list[str] = field(default_factory=list)
    dependencies_of_poetry: int = 0
    """Those that were read."""

    @cached_property
    def has_other_pytest(self) -> bool:
        """Whether the lock file fixes another pytest than StepInto's."""
        fixed = {text for text in self.locked if text.startswith("pytest==")}
        return bool(fixed) and f"pytest=={OWN_PYTEST}" not in fixed

    def add_extra(self, name: str, requirements: Iterable[str]) -> None:
        self.extras.setdefault(canonicalize_name(name), []).extend(requirements)

    def add_distribution(self, requirements: Iterable[str]) -> None:
        """Add what the metadata of a distribution requires."""
        for text in requirements:
            if requirement(text) is None:
                continue
            extra = _extra_of(text)
            if extra:
                self.add_extra(extra, [text])
            else:
                self.for_use.append(text)

    def resolved(self, python: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The requirements that hold for a version of Python, without those of tests' tools: of
        the project, and of its tests besides."""
        requires = self._holding([(text, "") for text in self.for_use], python)
        for_tests = [(text, "") for text in self.for_tests]
        queue = [name for name in self.extras if is_for_tests(name)]
        queue += sorted(map(canonicalize_name, self.wanted))
        for text in self.for_tests[:MOST_LINES]:
            queue += self._own_extras(text)
        taken: set[str] = set()
        while queue:
            extra = queue.pop(0)
            if extra in taken:
                continue
            taken.add(extra)
            for text in self.extras.get(extra, ())[:MOST_LINES]:
                for_tests.append((text, extra))
                queue += self._own_extras(text)
        more = self._holding(for_tests, python)
        return tuple(requires), tuple(name for name in more if name not in requires)

    def _own_extras(self, text: str) -> list[str]:
        """The extras of the project itself that a requirement names: `acme[test]`."""
        parsed = requirement(text)
        if parsed is None or canonicalize_name(parsed.name) != canonicalize_name(self.name):
            return []
        return sorted(map(canonicalize_name, parsed.extras))

    def _holding(
        self, requirements: Iterable[tuple[str, str]], python: str | None
    ) -> dict[str, None]:
        """Those whose markers hold on this machine with their extra."""
        holding: dict[str, None] = {}
        seen = marker_environment(python)
        for text, extra in islice(requirements, MOST_LINES):
            parsed = requirement(text)
            if parsed is None or not self._is_needed(parsed):
                continue
            marker, parsed.marker = parsed.marker, None
            with suppress(UndefinedComparison, UndefinedEnvironmentName, RecursionError):
                if marker is None or marker.evaluate(seen | {"extra": extra}):
                    holding[str(parsed)] = None
        return holding

    def _is_needed(self, parsed: Requirement) -> bool:
        name = canonicalize_name(parsed.name)
        if name == "pytest" and not parsed.url:
            # The sandbox's own one runs the tests unless they ask for another.
            fits = parsed.specifier.contains(OWN_PYTEST, prereleases=True)
            return self.has_other_pytest or not fits
        # Stubs are for type checkers.
        is_tool = name in NOT_FOR_TESTS or name.startswith(("flake8-", "types-"))
        return not is_tool and not parsed.url and name != canonicalize_name(self.name)


def _extra_of(text: str) -> str:
    """The extra that a distribution's requirement is for: `extra == "test"`."""
    _, _, marker = text.partition(";")
    words = marker.replace("(", " ").replace(")", " ").replace("==", " == ").split()
    for first, middle, last in zip(words, words[1:], words[2:], strict=False):
        if (first, middle) == ("extra", "=="):
            return last.strip("\"'")
    return ""


# pyproject.toml: PEP 621, dependency groups, and the tables of Poetry, PDM, uv and Hatch.


def _add_project(needs: _Needs, pyproject: Table) -> None:
    project = table_of(pyproject, "project")
    needs.for_use += texts_of(project.get("dependencies"))
    for extra, requirements in table_of(project, "optional-dependencies").items():
        needs.add_extra(extra, texts_of(requirements))


def _add_groups(needs: _Needs, pyproject: Table) -> None:
    """Dependency groups (PEP 735), and those of PDM and uv before them."""
    groups = table_of(pyproject, "dependency-groups")
    _add_named_groups(needs, pyproject, filter(is_for_tests, groups))
    for name, requirements in table_of(pyproject, "tool", "pdm", "dev-dependencies").items():
        if is_for_tests(name):
            needs.for_tests += texts_of(requirements)
    needs.for_tests += texts_of(table_of(pyproject, "tool", "uv").get("dev-dependencies"))


def _add_named_groups(needs: _Needs, pyproject: Table, names: Iterable[str]) -> None:
    groups = table_of(pyproject, "dependency-groups")
    for name in dict.fromkeys(names):
        if len(needs.for_tests) < MOST_LINES:
            needs.for_tests += _group(groups, name, set())


def _group(groups: Table, name: str, seen: set[str]) -> list[str]:
    """A group's requirements, those of included groups once: a few groups could include each other
    so often that they have millions."""
    members = groups.get(name)
    if name in seen or not isinstance(members, list):
        return []
    seen.add(name)
    requirements = []
    for member in members:
        if isinstance(member, str):
            requirements.append(member)
        elif isinstance(member, dict):
            requirements += _group(groups, str(member.get("include-group")), seen)
    return requirements


def _add_poetry(needs: _Needs, pyproject: Table) -> None:
    poetry = table_of(pyproject, "tool", "poetry")
    own = table_of(poetry, "dependencies")
    extras = table_of(poetry, "extras")
    optional = {canonicalize_name(name) for name, spec in own.items() if _is_optional(spec)}
    for name, spec in own.items():
        requirements = _poetry_requirements(needs, name, spec)
        if canonicalize_name(name) not in optional:
            needs.for_use += requirements
        for extra, members in extras.items():
            if name in texts_of(members):
                needs.add_extra(extra, requirements)
    groups = table_of(poetry, "group")
    for group in filter(is_for_tests, groups):
        for name, spec in table_of(groups, group, "dependencies").items():
            needs.for_tests += _poetry_requirements(needs, name, spec)
    for name, spec in table_of(poetry, "dev-dependencies").items():
        needs.for_tests += _poetry_requirements(needs, name, spec)


def _is_optional(spec: object) -> bool:
    return isinstance(spec, dict) and spec.get("optional") is True


def _poetry_requirements(needs: _Needs, name: str, spec: object) -> list[str]:
    """A dependency as Poetry writes it, as pip's requirements."""
    requirements = []
    for one in spec if isinstance(spec, list) else [spec]:
        needs.dependencies_of_poetry += 1
        is_elsewhere = isinstance(one, dict) and {"git", "path", "url", "file"} & one.keys()
        if needs.dependencies_of_poetry > MOST_OF_POETRY:
            break
        if is_elsewhere:
            needs.left_out.append(f"pyproject.toml: {name} = {one}"[:200])
        elif name.lower() != "python" and isinstance(one, dict | str):
            # Poetry takes minutes for a marker of 800 characters.
            others = {"source": None, "markers": ""}
            plain = {**others, **one} if isinstance(one, dict) else {**others, "version": one}
            del plain["source"]
            marker = str(plain.pop("markers"))
            if len(str(plain)) > LONGEST_OF_POETRY:
                continue
            # What it makes of values that no schema was asked about.
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                text = Factory.create_dependency(name, plain).to_pep_508(with_extras=False)
                more = f" and ({marker})" if ";" in text else f"; {marker}"
                requirements.append(text + (more if marker else ""))
    return requirements


def _add_hatch(needs: _Needs, pyproject: Table, files: Mapping[str, bytes]) -> None:
    """The environments `default`, `hatch-test` and others for tests."""
    environments = {
        **table_of(pyproject, "tool", "hatch", "envs"),
        **table_of(read_toml(files, "hatch.toml"), "envs"),
    }
    named: list[str] = []
    for name in environments:
        if name != "default" and not is_for_tests(name):
            continue
        environment = table_of(environments, name)
        for key in ("dependencies", "extra-dependencies"):
            needs.for_tests += texts_of(environment.get(key))
        needs.wanted.update(texts_of(environment.get("features")))
        named += texts_of(environment.get("dependency-groups"))
    _add_named_groups(needs, pyproject, named)


def _add_pipfile(needs: _Needs, files: Mapping[str, bytes]) -> None:
    pipfile = read_toml(files, "Pipfile")
    for name, spec in table_of(pipfile, "packages").items():
        needs.for_use += _poetry_requirements(needs, name, spec)
    for name, spec in table_of(pipfile, "dev-packages").items():
        needs.for_tests += _poetry_requirements(needs, name, spec)


# setup.cfg and setup.py.


def _add_setup_cfg(needs: _Needs, files: Mapping[str, bytes]) -> None:
    parser = read_setup_cfg(files)
    needs.for_use += parser.get("options", "install_requires", fallback="").splitlines()
    needs.for_tests += parser.get("options", "tests_require", fallback="").splitlines()
    if parser.has_section("options.extras_require"):
        for extra, text in parser.items("options.extras_require"):
            needs.add_extra(extra, text.splitlines())


def _add_setup_py(needs: _Needs, files: Mapping[str, bytes]) -> None:
    arguments = read_setup_py(files)
    needs.for_use += _listed(arguments.get("install_requires"))
    needs.for_tests += _listed(arguments.get("tests_require"))
    extras = arguments.get("extras_require")
    for extra, value in (extras if isinstance(extras, dict) else {}).items():
        if isinstance(extra, str):
            # `:python_version<"3.9"` is a marker of what is always required.
            name, _, marker = extra.partition(":")
            texts = [f"{text}; {marker}" if marker else text for text in _listed(value)]
            if name:
                needs.add_extra(name, texts)
            else:
                needs.for_use += texts


def _listed(value: object) -> list[str]:
    if isinstance(value, str):
        return value.splitlines()
    return texts_of([*value]) if isinstance(value, list | tuple | set) else []


# Lines of requirements: in files of their own, and in the settings of tox.


def _add_lines(needs: _Needs, files: Mapping[str, bytes]) -> Lines:
    """Returns the lines for tests."""
    for_use, for_tests = read_requirement_files(files)
    by_chance = Lines(files)
    _add_tox(for_tests, by_chance, needs, files)
    needs.for_use += for_use.requirements
    needs.for_tests += for_tests.requirements
    needs.wanted.update(for_use.own_extras, for_tests.own_extras)
    needs.left_out += for_use.left_out + for_tests.left_out
    for listed in (needs.for_use, needs.for_tests):
        del listed[MOST_LINES:]
    named = {name for text in (*needs.for_use, *needs.for_tests) if (name := _name(text))}
    # Of what only some environments have in some version (`django42: Django>=4.2,<5`), any will do.
    others = {name for text in by_chance.requirements if (name := _name(text))} - named
    needs.for_tests += sorted(others)
    for_tests.constraints += for_use.constraints
    return for_tests


def _name(text: str) -> str:
    parsed = requirement(text)
    return canonicalize_name(parsed.name) if parsed is not None else ""


TOX_SECTIONS = ("testenv", "testenv:test", "testenv:tests", "testenv:py", "testenv:unit")


def _add_tox(lines: Lines, by_chance: Lines, needs: _Needs, files: Mapping[str, bytes]) -> None:
    pyproject = read_pyproject(files)
    parsers, tables = read_tox(files)
    for path, parser in parsers.items():
        for section in TOX_SECTIONS:
            deps = parser.get(section, "deps", fallback="").replace("{toxinidir}/", "")
            for line in deps.splitlines():
                _, colon, rest = line.partition(": ")
                if colon and requirement(line) is None:
                    by_chance.add(path, rest)
                elif "{" not in line:
                    lines.add(path, line)
            extras = parser.get(section, "extras", fallback="").replace(",", "\n").splitlines()
            needs.wanted.update(extra.strip() for extra in extras if extra.strip().isidentifier())
            groups = parser.get(section, "dependency_groups", fallback="").splitlines()
            _add_named_groups(needs, pyproject, [group.strip() for group in groups])
    for path, table in tables.items():
        base = table_of(table, "env_run_base")
        lines.add(path, "\n".join(texts_of(base.get("deps"))))
        needs.wanted.update(texts_of(base.get("extras")))
        _add_named_groups(needs, pyproject, texts_of(base.get("dependency_groups")))
