"""A project in which bugs are made or found: fetched, its tests told apart, and how they fail.

No code of the project runs here: an sdist is unpacked, not built.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import posixpath
import re
import sys
import tarfile
import tempfile
import time
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.parser import BytesHeaderParser
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Self

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from collect.benchmarks.base import Environment, Language
from collect.benchmarks.git_clones import GitFailed, read_commit, repository_name
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.running import java_build_outputs
from collect.benchmarks.workspace import LEFT_OUT, MEGABYTE, TreeTooLarge, is_utf_8, read_folder
from collect.code.patches import outside
from collect.errors import ConfigError
from collect.quantities import first_of
from collect.store.files import replacing
from sandbox import SandboxConfig
from sandbox.bubblewrap import find_interpreter
from sandbox.environment import cache_folder
from sandbox.errors import SandboxUnavailable
from sandbox.java.project import BUILD_FILES
from sandbox.packages import packages_folder, pytest_plugins, runner_python


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
_LICENSE = re.compile(rb"<license>\s*+<name>([^<]*+)</name>")


def arrange(project: ProjectConfig, source: Source, sandbox: SandboxConfig) -> Project:
    """Separate a project's tests from its code, and install what they need. Raises
    ProjectRefused."""
    has_build = any(name in source.files for name in BUILD_FILES)
    if project.language == "java" or (project.language is None and has_build):
        return _arrange_java(project, source)
    tests = project.tests or tuple(find_test_paths(source.files))
    if not tests:
        raise ProjectRefused(
            f"{project.place}: no tests among its {len(source.files)} files (test_*.py or "
            "*_test.py); name another version, or its git repository"
        )
    in_src = any(path.startswith("src/") and path.endswith(".py") for path in source.files)
    import_paths = project.import_paths or (("src", ".") if in_src else (".",))
    packages, plugins, notes = _installed(project, source, sandbox)
    # The same plugins are loaded wherever its tests run: by us, by an agent, in a debug session.
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if plugins:
        variables["PYTEST_PLUGINS"] = ",".join(plugins)
    return Project(
        source=source,
        environment=Environment(packages, import_paths, variables),
        test_paths=tests,
        code_paths=code_paths(source.files, tests, project, "python"),
        notes=notes,
    )


def _arrange_java(project: ProjectConfig, source: Source) -> Project:
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
    in_pom = named[1].decode("utf-8", "replace").strip()[:100] if named else ""
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
    python = find_interpreter(sandbox.python or runner_python()).executable
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


# Source distributions from a package index (PEP 503 and 691), kept in the user's cache.

TIMEOUT = 120.0
"""Seconds to wait for data from the index."""
MAX_SECONDS = 1800.0
"""Of one download."""


class BoundedDownload:
    """A progress tracker of pypi-simple that ends a download which is too large or too slow."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes
        self._deadline = time.monotonic() + MAX_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, increment: int) -> None:
        """Raises ValueError."""
        self._left -= increment
        if self._left < 0:
            raise ValueError("its archive is larger than factory.max_tree_mb allows")
        if time.monotonic() > self._deadline:
            raise ValueError(f"its archive did not come within {MAX_SECONDS:.0f} s")


def download_sdist(requirement: str, index_url: str, max_mb: int) -> tuple[str, str, Path]:
    """Download the newest release that the requirement allows and this interpreter can run; returns
    its name, version and file, whose hash was checked. Raises ProjectRefused."""
    from pypi_simple import NoSuchProjectError, PyPISimple

    try:
        wanted = Requirement(requirement)
    except InvalidRequirement as error:
        raise ProjectRefused(f"factory.projects: {requirement!r}: {error}") from error
    python = ".".join(map(str, sys.version_info[:3]))
    fitting = []
    try:
        with PyPISimple(index_url) as client:
            for package in client.get_project_page(wanted.name, timeout=TIMEOUT).packages:
                if not package.filename.endswith(".tar.gz"):
                    continue
                with suppress(InvalidSpecifier, InvalidVersion):
                    version = Version(package.version or "")
                    runs_here = SpecifierSet(package.requires_python or "").contains(python)
                    is_sdist = package.package_type == "sdist" and not package.is_yanked
                    if runs_here and is_sdist and wanted.specifier.contains(version):
                        fitting.append((version, package))
            if not fitting:
                raise ProjectRefused(
                    f"factory.projects: {wanted}: no sdist of it fits Python {python}; name "
                    "another version, or its git repository"
                )
            chosen = max(fitting, key=lambda each: each[0])[1]
            path = cache_folder() / "sdists" / chosen.filename
            path.parent.mkdir(parents=True, exist_ok=True)
            expected = chosen.digests.get("sha256")
            if not path.is_file() or (expected is not None and _sha256(path) != expected):
                with replacing(path) as temporary:
                    limit = BoundedDownload(ARCHIVE_TO_TREE * max_mb * MEGABYTE)
                    client.download_package(
                        chosen, temporary, progress=lambda _: limit, timeout=TIMEOUT
                    )
    # No network, no permission, no such project, an invalid answer, or a wrong hash.
    except (OSError, NoSuchProjectError, ValueError) as error:
        raise ProjectRefused(
            f"factory.projects: {requirement}: {index_url} gave no sdist ({error}); is the name "
            "right, and does factory.index_url name an index that can be reached?"
        ) from error
    return wanted.name, str(chosen.version), path


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# A Python project's metadata: its licence, and what it and its tests need.

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
"""Tools that test extras often name but tests do not import. The interpreter already has pytest."""
FOR_USE = frozenset({"base", "common", "core", "main", "prod", "production"})
"""Names of requirements files that list run-time dependencies."""
OWN_PROJECT = re.compile(r"(-e|--editable)?[\s=]*\.(\[[\w,\s-]*\])?$")


@dataclass(frozen=True)
class Metadata:
    """Fields are empty if unknown."""

    license: str = ""
    requires: tuple[str, ...] = ()
    test_requires: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Lines of requirements files that were skipped, each with its location."""


def read_metadata(files: Mapping[str, bytes]) -> Metadata:
    """Read PKG-INFO, which sdists have, and pyproject.toml; empty if neither has the data."""
    told = BytesHeaderParser().parsebytes(files.get("PKG-INFO", b""))
    try:
        pyproject = tomllib.loads(files.get("pyproject.toml", b"").decode("utf-8", "replace"))
    # Also for numbers with thousands of digits, and thousands of brackets.
    except (ValueError, RecursionError):
        pyproject = {}
    project = _table(pyproject, "project")
    own = _texts(project.get("dependencies"))
    for extra, requirements in _table(project, "optional-dependencies").items():
        for requirement in _texts(requirements):
            name, _, marker = requirement.partition(";")
            condition = f"({marker.strip()}) and " if marker.strip() else ""
            own.append(f'{name} ; {condition}extra == "{extra}"')
    declared = told.get_all("Requires-Dist") or own
    requires = _needed(declared, "")
    groups = _table(pyproject, "dependency-groups")
    of_tests = [name for group in TEST_GROUPS for name in _needed(declared, group)]
    of_tests = [name for name in of_tests if name not in requires]
    of_tests += _needed([each for name in TEST_GROUPS for each in _texts(groups.get(name))], "")
    licenses = (*told.get_all("License-Expression", ()), *told.get_all("License", ()))
    license_ = next(iter(licenses), "").strip() or project.get("license")
    return Metadata(
        # Some projects put the whole licence text here.
        license=license_.splitlines()[0][:100] if isinstance(license_, str) and license_ else "",
        requires=requires,
        test_requires=tuple(dict.fromkeys(of_tests)),
    )


def read_requirements(files: Mapping[str, bytes]) -> Metadata:
    """Read `requirements*.txt`, `*requirements.txt` and `requirements/*.txt`.

    Only package names with versions are used. Options, URLs and paths could reach anything, so they
    are skipped. `-r` of a file that is read anyway adds nothing.
    """
    of_tests: dict[str, bool] = {}
    for path in sorted(files):
        folder, name = posixpath.split(path)
        words = set(re.split(r"[-_.]", name.lower()))
        named = folder == "requirements" or (not folder and "requirements" in words)
        if named and "txt" in words:
            words -= {"requirements", "txt"}
            # Others are for something else, such as docs.
            if not words or words & {*FOR_USE, *TEST_GROUPS, "development"}:
                of_tests[path] = bool(words & {*TEST_GROUPS, "development"})
    left_out: list[str] = []
    found: dict[bool, list[str]] = {False: [], True: []}
    for path, for_tests in of_tests.items():
        # PowerShell writes UTF-16 for `pip freeze`.
        is_utf_16 = files[path].startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = files[path].decode("utf-16" if is_utf_16 else "utf-8-sig", "replace")
        for each in text.replace("\r\n", "\n").replace("\\\n", " ").split("\n"):
            line = re.sub(r"(^|(?<!\s)\s++)#.*$", "", each.strip())
            # Hashes and other options can follow a requirement.
            plain = re.sub(r"\s--.*$", "", line)
            requirement = _requirement(plain)
            included = re.match(r"(?:-r|--requirement)[\s=]*(\S+)$", line)
            inner = posixpath.join(posixpath.dirname(path), included[1]) if included else ""
            if requirement is not None and requirement.url is None:
                found[for_tests].append(plain)
            elif line and not OWN_PROJECT.match(line) and posixpath.normpath(inner) not in of_tests:
                left_out.append(f"{path}: {line}")
    return Metadata("", _needed(found[False], ""), _needed(found[True], ""), tuple(left_out))


def _requirement(text: str) -> Requirement | None:
    """None if it is not a requirement. Thousands of brackets raise RecursionError."""
    with suppress(InvalidRequirement, RecursionError):
        return Requirement(text)
    return None


def _table(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    inner = table.get(key)
    return inner if isinstance(inner, dict) else {}


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _needed(declared: Iterable[str], extra: str) -> tuple[str, ...]:
    """Requirements whose markers hold on this machine with an extra."""
    found: dict[str, None] = {}
    for requirement in filter(None, map(_requirement, declared)):
        left_out = canonicalize_name(requirement.name) in NOT_FOR_TESTS or requirement.url
        marker, requirement.marker = requirement.marker, None
        with suppress(UndefinedComparison, UndefinedEnvironmentName, RecursionError):
            if not left_out and (marker is None or marker.evaluate({"extra": extra})):
                found[str(requirement)] = None
    return tuple(found)


ARCHIVE_TO_TREE = 4
"""An archive may be this many times as large as its files, because of headers and padding."""


def fetch(project: ProjectConfig, config: FactoryConfig) -> Source:
    """The project's files. Raises ProjectRefused."""
    if project.pypi is not None:
        name, version, archive = download_sdist(project.pypi, config.index_url, config.max_tree_mb)
        files = unpacked(archive, project.place, config.max_tree_mb)
        metadata = read_metadata(files)
        # The release: its metadata, entry points, compiled parts and requirements.
        release = f"{name}=={version}"
        return Source(
            name=project.name or name,
            version=version,
            origin=f"pypi:{release} sha256:{_sha256(archive)}",
            license=metadata.license,
            files=files,
            requires=((release, *metadata.test_requires), (release,), metadata.requires),
        )
    try:
        if project.git is not None:
            checkout = read_commit(project.git, project.revision, config.max_tree_mb)
            commit, name = checkout.commit, project.name or repository_name(project.git)
            return _source(name, commit[:12], f"git:{project.git}@{commit}", checkout.files)
        folder = Path(project.folder or ".")
        if not folder.is_dir():
            raise ProjectRefused(f"{folder}: no such folder")
        files = read_folder(folder, max_mb=config.max_tree_mb)
    except GitFailed as error:
        raise ProjectRefused(str(error)) from error
    except TreeTooLarge as error:
        raise ProjectRefused(f"{error}; raise max_tree_mb, or name a smaller folder") from error
    content = b"".join(path.encode() + b"\0" + files[path] + b"\0" for path in sorted(files))
    version = hashlib.sha256(content).hexdigest()[:12]
    name = project.name or folder.resolve().name
    return _source(name, version, f"folder sha256:{version}", files)


def _source(name: str, version: str, origin: str, files: Mapping[str, bytes]) -> Source:
    metadata, listed = read_metadata(files), read_requirements(files)
    needed = metadata.requires or listed.requires
    for_tests = dict.fromkeys((*needed, *metadata.test_requires, *listed.test_requires))
    notes = (f"not installed: {first_of(listed.left_out)}",) if listed.left_out else ()
    requires = (tuple(for_tests), needed)
    return Source(name, version, origin, metadata.license, files, requires, notes)


def unpacked(path: Path, place: str, max_mb: int) -> dict[str, bytes]:
    """The files in the archive's single top-level folder. Raises ProjectRefused."""
    files: dict[str, bytes] = {}
    room = max_mb * MEGABYTE
    try:
        for member, file in _members(path, ARCHIVE_TO_TREE * room):
            room -= member.size
            if room < 0:
                raise TreeTooLarge(path, max_mb)
            top, _, inner = posixpath.normpath(member.name).partition("/")
            wanted = inner and top not in ("", "..") and not LEFT_OUT & set(inner.split("/"))
            if wanted and "\0" not in inner and is_utf_8(inner):
                files[inner] = file.read()
    except TreeTooLarge as error:
        raise ProjectRefused(
            f"{place}: more than {max_mb} MB of files (factory.max_tree_mb); raise it, or leave "
            "the project out"
        ) from error
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ProjectRefused(
            f"{place}: {path} is not a whole archive ({error}); remove it"
        ) from error
    return files


def _members(path: Path, most: int) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Decompress to a file first: a small archive can be huge, and so can one of its headers, which
    would be read into memory."""
    with gzip.open(path) as packed, tempfile.TemporaryFile() as whole:
        while chunk := packed.read(MEGABYTE):
            whole.write(chunk)
            if whole.tell() > most:
                raise TreeTooLarge(path, most // MEGABYTE)
        whole.seek(0)
        with tarfile.open(fileobj=whole, mode="r:") as archive:
            for member in archive:
                if file := archive.extractfile(member) if member.isreg() else None:
                    yield member, file
