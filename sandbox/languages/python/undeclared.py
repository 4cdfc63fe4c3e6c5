"""What a project's tests need that its files show and nothing declares: setuptools for
`pkg_resources`, the settings of Django, and the variables that tox sets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sandbox.languages.python.project_files import (
    LONGEST_TEXT,
    MAX_CODE_BYTES,
    read_tox,
    table_of,
)

SETUPTOOLS = "setuptools<67.5"
"""The last with `pkg_resources` that does not warn of it, which many projects make an error."""
PKG_RESOURCES = re.compile(rb"^[ \t]*+(?:import|from)[ \t]++pkg_resources\b", re.MULTILINE)
DJANGO = "DJANGO_SETTINGS_MODULE"
DJANGO_PLUGIN = "pytest-django"
SETS_DJANGO = re.compile(
    rb"environ(?:\.setdefault\(\s*+|\[)[\"']" + DJANGO.encode() + rb"[\"'](?:\s*+,|\]\s*+=)\s*+"
    rb"[\"'](?P<module>[A-Za-z_][\w.]*+)[\"']"
)
NAMES_DJANGO = re.compile(
    rb"(?:--settings(?:=|[ \t]++)|" + DJANGO.encode() + rb"[ \t]*+[:=][ \t]*+[\"']?+)"
    rb"(?P<module>[A-Za-z_][\w.]*+)"
)
COMMANDS = ("tox.ini", "noxfile.py", "Makefile", "pyproject.toml", "tox.toml")
"""Files with the commands of a project's tests."""
VARIABLE = re.compile(r"(?P<name>[A-Z][A-Z0-9_]*+)[ \t]*+=[ \t]*+(?P<value>[^{}]*+)")
STEERING = re.compile(
    r"(PATH|HOME|TE?MP|TMPDIR|ENV|IFS|SHELL|USER|LANG|BASH|LC_|LD_|DYLD_|PYTHON|PYTEST|COV|TOX|PIP"
    r"|PDM|UV|VIRTUAL_ENV|CONDA|JAVA|CLASSPATH|MAVEN|GRADLE).*"
)
"""Variables by which Python, runners and StepInto's own programs find what they run and load."""
MOST_VARIABLES = 30


@dataclass(frozen=True)
class Undeclared:
    packages: tuple[str, ...] = ()
    """As pip's requirements."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the tests."""


def read_undeclared(files: Mapping[str, bytes], declared: Collection[str]) -> Undeclared:
    """`declared` are the project's requirements."""
    parsed = [Requirement(text) for text in declared]
    bounded = {canonicalize_name(each.name) for each in parsed if each.specifier}
    names = {canonicalize_name(each.name) for each in parsed}
    packages: list[str] = []
    if "setuptools" not in bounded and _import_pkg_resources(files):
        packages.append(SETUPTOOLS)
    variables = dict(_tox_variables(files))
    settings = "" if DJANGO_PLUGIN in names else _django_settings(files)
    if settings:
        packages.append(DJANGO_PLUGIN)
        variables[DJANGO] = settings
    return Undeclared(tuple(packages), variables)


def _import_pkg_resources(files: Mapping[str, bytes]) -> bool:
    """Whether any module does but `setup.py`, which no test runs."""
    return any(
        PKG_RESOURCES.search(data) is not None
        for path, data in files.items()
        if path.endswith(".py") and b"pkg_resources" in data and path != "setup.py"
    )


def _django_settings(files: Mapping[str, bytes]) -> str:
    """The module of settings that a script at the top sets, such as `runtests.py`, or a command of
    the project's tests; empty if there is none, or if the tests set up Django themselves."""
    conftests = [data for path, data in files.items() if posixpath.basename(path) == "conftest.py"]
    if any(b"django" in data for data in conftests):
        return ""
    scripts = [path for path in files if path.endswith(".py") and "/" not in path]
    # The project's own runner of tests comes before `manage.py`.
    runners = sorted(scripts, key=lambda path: (path == "manage.py", path))
    commands = [path for path in COMMANDS if b"django" in files.get(path, b"")]
    for pattern, paths in ((SETS_DJANGO, runners), (NAMES_DJANGO, commands)):
        for path in paths:
            found = pattern.search(files[path][:MAX_CODE_BYTES])
            module = "" if found is None else found["module"].decode()
            place = module.replace(".", "/")
            if f"{place}.py" in files or f"{place}/__init__.py" in files:
                return module
    return ""


def _tox_variables(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Those that the environments of tests set whatever their factors are, but for what is the
    runner's own."""
    lines: list[str] = []
    parsers, tables = read_tox(files)
    for parser in parsers.values():
        own = [section for section in parser.sections() if section.startswith("testenv:py")]
        for section in ("testenv", *own[:1]):
            lines += parser.get(section, "setenv", fallback="").splitlines()
            lines += parser.get(section, "set_env", fallback="").splitlines()
    for table in tables.values():
        given = table_of(table, "env_run_base", "set_env")
        lines += [f"{name}={value}" for name, value in given.items() if isinstance(value, str)]
    for line in lines[:MOST_VARIABLES]:
        found = VARIABLE.fullmatch(line.strip())
        if (
            found is not None
            and len(line) <= LONGEST_TEXT
            and not STEERING.fullmatch(found["name"])
        ):
            yield found["name"], found["value"].strip()
