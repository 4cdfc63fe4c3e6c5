"""A project in which bugs are made or found: its code and tests told apart, and how tests fail."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from collect.benchmarks.base import Environment, Language
from collect.benchmarks.projects.config import ProjectConfig
from collect.benchmarks.running import java_build_outputs
from collect.code.patches import outside
from collect.errors import ConfigError
from sandbox import SandboxConfig
from sandbox.bubblewrap import find_interpreter
from sandbox.errors import SandboxUnavailable
from sandbox.packages import packages_folder, pytest_plugins


class ProjectRefused(ConfigError):
    """No bugs can be made from a project; the others continue."""


@dataclass(frozen=True)
class Source:
    name: str
    version: str
    """A release's version, a repository's commit, or a hash of a folder's files."""
    origin: str
    """The exact origin, to get it again: with the sdist's hash, or the commit."""
    license: str
    """As the project names it; empty if it doesn't."""
    files: Mapping[str, bytes] = field(repr=False)
    requires: tuple[tuple[str, ...], ...] = ()
    """Sets of packages as pip requirements, the largest first: the first one that can be installed
    is used."""
    notes: tuple[str, ...] = ()
    """Requirements that were skipped."""

    @property
    def slug(self) -> str:
        return f"{self.name}-{self.version}"


@dataclass(frozen=True)
class Project:
    """A source, and how to run its tests."""

    source: Source
    environment: Environment
    test_paths: tuple[str, ...]
    code_paths: tuple[str, ...]
    """Files that may be edited."""
    notes: tuple[str, ...] = ()
    """What was left out during preparation, for the card."""
    language: Language = "python"


# Why tests failed, in a form that is equal for the same failure of the same program.

# Also matches what pytest leaves of an address when it shortens a line.
_ADDRESS = re.compile(r"(?:0[xX]|\.\.\.x?)[0-9a-fA-F]{5,}")
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)")


@dataclass(frozen=True)
class Reason:
    type: str
    """The exception's class, without its module."""
    message: str
    """As pytest shows it, without addresses."""
    place: str
    """Path and line where it was raised."""


def read_reasons(reports: Sequence[Mapping[str, object]]) -> dict[str, Reason]:
    """The first failure of each failing test, from the records of `pytest_report`."""
    reasons: dict[str, Reason] = {}
    for report in reports:
        test = str(report["nodeid"])
        if report["outcome"] == "failed" and test not in reasons:
            reasons[test] = _reason(report.get("crash"))
    return reasons


def _reason(crash: object) -> Reason:
    if not isinstance(crash, dict):
        return Reason("Exception", "", "")
    message = _ADDRESS.sub("0x...", str(crash["message"]))
    if message.startswith("RecursionError"):
        # Where the stack overflows depends on what else is on it.
        return Reason("RecursionError", "maximum recursion depth exceeded", "")
    named = _EXCEPTION.match(message)
    # pytest omits the name for a failed assertion.
    kind = named[1] if named and not message.startswith("assert ") else "AssertionError"
    return Reason(kind.rpartition(".")[2], message, f"{crash['path']}:{crash['line']}")


# Separate a project's tests from its code, and find out how to run its tests.

TEST_FOLDERS = frozenset({"test", "tests", "testing", "t"})
NO_CODE = frozenset(
    {"docs", "doc", "examples", "example", "benchmarks", "benchmark", "bench", "scripts", "tools"}
    | {"build", "dist", "tasks", "changelog.d", "ci", "perf", "fuzz", "typings", "stubs"}
)
"""Top-level folders without the package's code."""
NO_MODULES = frozenset(
    {"setup.py", "conftest.py", "noxfile.py", "tasks.py", "_version.py", "version.py"}
    | {"__main__.py", "fabfile.py"}
)
NO_CLASSES = frozenset({"package-info.java", "module-info.java"})
_LICENSE = re.compile(rb"<license>\s*<name>\s*(.*?)\s*</name>", re.DOTALL)


def arrange(project: ProjectConfig, source: Source, sandbox: SandboxConfig) -> Project:
    """The project with its packages installed. Raises ProjectRefused."""
    tests = project.tests or tuple(find_test_paths(source.files))
    if not tests:
        raise ProjectRefused(
            f"{project.place}: no tests among its {len(source.files)} files (test_*.py or "
            "*_test.py); name another version, or its git repository"
        )
    in_src = any(path.startswith("src/") and path.endswith(".py") for path in source.files)
    import_paths = project.import_paths or (("src", ".") if in_src else (".",))
    packages, plugins, notes = _installed(project, source, sandbox)
    # A project's own options may need plugins that are not loaded, such as coverage or parallel
    # runs. The same plugins are loaded wherever its tests run: by us, by an agent, in a debug
    # session.
    variables = {"PYTEST_ADDOPTS": "-o addopts=", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if plugins:
        variables["PYTEST_PLUGINS"] = ",".join(plugins)
    return Project(
        source=source,
        environment=Environment(packages, import_paths, variables),
        test_paths=tests,
        code_paths=code_paths(source.files, tests, project, "python"),
        notes=notes,
    )


def arrange_java(project: ProjectConfig, source: Source) -> Project:
    """A Java project, laid out as Maven or Gradle does. Raises ProjectRefused."""
    files = without_outputs(source.files)
    java = [path for path in files if "src/test/" in path and path.endswith(".java")]
    folders = {f"{path.partition('src/test/')[0]}src/test" for path in java}
    found = sorted(path for path in folders if path.split("/")[0] not in NO_CODE)
    tests = project.tests or tuple(found)
    if not tests:
        raise ProjectRefused(
            f"{project.place}: no Java tests among its {len(files)} files (src/test/java in a "
            "module's folder); name their folders as `tests`"
        )
    named = _LICENSE.search(files.get("pom.xml", b""))
    in_pom = named[1].decode("utf-8", "replace")[:100] if named else ""
    return Project(
        source=replace(source, files=files, license=source.license or in_pom),
        environment=Environment(),
        test_paths=tests,
        code_paths=code_paths(files, tests, project, "java"),
        language="java",
    )


def without_outputs(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files without build outputs in module folders."""
    return outside(files, java_build_outputs(files))


def is_test_file(path: str) -> bool:
    """Whether pytest collects tests from a file with this name by default."""
    name = posixpath.basename(path)
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a file is one of these, or in one of these folders."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def find_test_paths(files: Mapping[str, bytes]) -> list[str]:
    """The outermost folders with a test name, and test files elsewhere."""
    found: set[str] = set()
    for path in filter(is_test_file, files):
        parts = path.split("/")
        if parts[0] in NO_CODE:
            continue
        named = [index for index, part in enumerate(parts[:-1]) if part in TEST_FOLDERS]
        found.add("/".join(parts[: named[0] + 1]) if named else path)
    return sorted(path for path in found if not is_below(path, found - {path}))


def code_paths(
    files: Iterable[str], tests: Sequence[str], project: ProjectConfig, language: Language
) -> tuple[str, ...]:
    """The files that may be edited."""
    suffix, not_code = (".java", NO_CLASSES) if language == "java" else (".py", NO_MODULES)
    found = []
    for path in sorted(files):
        parts = path.split("/")
        is_code = path.endswith(suffix) and parts[-1] not in not_code and parts[0] not in NO_CODE
        in_tests = is_below(path, tests)
        if language == "python":
            in_tests = in_tests or bool(TEST_FOLDERS & set(parts)) or is_test_file(path)
            is_code = is_code and not {"_vendor", "vendor", "vendored", "_vendored"} & set(parts)
        left_out = any(fnmatchcase(path, pattern) for pattern in project.exclude)
        if is_code and not in_tests and not left_out:
            found.append(path)
    return tuple(found)


def _installed(
    project: ProjectConfig, source: Source, sandbox: SandboxConfig
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The packages, the pytest plugins among them, and what could not be installed."""
    if sandbox.backend != "local":
        return (), (), ()
    sets = source.requires if project.packages is None else (project.packages,)
    python = find_interpreter(sandbox.python or sys.executable).executable
    refusals = []
    for packages in dict.fromkeys(sets):
        try:
            folder = packages_folder(python, packages) if packages else None
        except SandboxUnavailable as error:
            refusals.append(error)
            continue
        left_out = [name for name in sets[0] if name not in packages]
        notes = source.notes if project.packages is None else ()
        notes += (f"pip can't install: {', '.join(left_out)}",) if left_out else ()
        return packages, pytest_plugins(folder) if folder else (), notes
    raise ProjectRefused(f"{project.place}: its packages: {refusals[-1]}") from refusals[-1]
