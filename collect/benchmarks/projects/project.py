"""A project in which bugs are made or found: fetched, its tests told apart, and how they fail.

No code of the project runs here: an sdist is unpacked, not built.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from collect.benchmarks.base import Environment, Language
from collect.benchmarks.git_clones import (
    GitFailed,
    read_commit,
    read_folder_version,
    repository_name,
)
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.running import java_build_outputs
from collect.benchmarks.workspace import LEFT_OUT, TreeTooLarge, own_modules, read_folder
from collect.code.patches import outside
from collect.errors import ConfigError
from collect.quantities import first_of
from sandbox import SandboxConfig
from sandbox.errors import SandboxUnavailable
from sandbox.java.project import BUILD_FILES
from sandbox.languages.python import projects
from sandbox.languages.python.choosing import Chosen, choose_packages
from sandbox.languages.python.declared import read_declared
from sandbox.languages.python.interpreters import (
    ChosenPython,
    choose_python,
    minor_of,
    own_version,
    required_python,
)
from sandbox.languages.python.metadata import own_metadata, with_version_module
from sandbox.languages.python.own_environment import (
    RUNNER_NEEDS,
    OwnEnvironment,
    editable_paths,
)
from sandbox.languages.python.pytest_options import read_project_options
from sandbox.languages.python.sdists import (
    ArchiveTooLarge,
    NoSdist,
    download_sdist,
    sha256,
    unpack_sdist,
)
from sandbox.languages.python.targets import is_test_file
from sandbox.languages.python.undeclared import read_undeclared
from sandbox.packages import builder_of, interpreter_of, packages_folder, pytest_plugins


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
    release: str = ""
    """The release that the files are of, as pip's requirement; empty if they are of none."""
    tagged: str | None = None
    """The version that the repository's tags give the files."""

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
    suite_paths: tuple[str, ...] = ()
    """The tests that pytest is given to run all of them."""
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


def arrange(
    project: ProjectConfig,
    source: Source,
    sandbox: SandboxConfig,
    own: OwnEnvironment | None = None,
) -> Project:
    """Separate a project's tests from its code, and install what they need, unless the user's own
    environment has it. Raises ProjectRefused."""
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
    found_paths = (*(("src", ".") if in_src else (".",)), *projects.import_paths(source.files))
    if own is not None:
        installed = _found_in(own, project, source)
        editable = editable_paths(own, Path(project.folder or "."))
        found_paths = tuple(dict.fromkeys((*editable, *found_paths)))
    else:
        installed = _installed(project, source, sandbox)
    # The same plugins are loaded wherever its tests run: by us, by an agent, in a debug session.
    variables = {**installed.variables, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if installed.plugins:
        variables["PYTEST_PLUGINS"] = ",".join(installed.plugins)
    environment = Environment(
        packages=installed.packages,
        import_paths=project.import_paths or found_paths,
        variables=variables,
        python=installed.python.version,
        interpreter=installed.python.note,
        folder=None if own is None else str(own.folder),
        version=source.tagged,
        missing=installed.missing,
        notes=installed.notes,
    )
    return Project(
        source=source,
        environment=environment,
        test_paths=tests,
        code_paths=code_paths(source.files, tests, project, "python"),
        suite_paths=project.tests or find_suite_paths(source.files, tests),
        notes=environment.deficiencies(),
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


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a file is one of these, or in one of these folders."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def find_test_paths(files: Mapping[str, bytes]) -> list[str]:
    """The outermost folders with a test name, and test files elsewhere."""
    found: set[str] = set()
    for path in _test_files(files):
        parts = path.split("/")
        if parts[0] in NO_CODE:
            continue
        named = [index for index, part in enumerate(parts[:-1]) if part in TEST_FOLDERS]
        found.add("/".join(parts[: named[0] + 1]) if named else path)
    return _outermost(found)


def _test_files(files: Mapping[str, bytes]) -> list[str]:
    """Files named as pytest's default, the project's own settings or unittest say."""
    options = read_project_options(files, ())
    # A pattern of any name is for the folders of tests.
    patterns = [pattern for pattern in options.test_files if pattern not in ("*", "*.py")]
    found = []
    for path in filter(lambda path: path.endswith(".py"), files):
        is_named = is_test_file(path) or _matches(path, patterns) or _is_unittest(path, files)
        in_tests = is_below(path, options.test_paths) and _matches(path, options.test_files)
        if is_named or in_tests:
            found.append(path)
    return found


def _is_unittest(path: str, files: Mapping[str, bytes]) -> bool:
    """Whether a file that pytest would not collect from its folder has unittest's tests."""
    return path.endswith("tests.py") and not is_test_file(path) and b"TestCase" in files[path]


def _outermost(paths: Set[str]) -> list[str]:
    return sorted(path for path in paths if not is_below(path, paths - {path}))


def find_suite_paths(files: Mapping[str, bytes], tests: Sequence[str]) -> tuple[str, ...]:
    """What pytest is given to run these tests: what the project's `testpaths` name of them, if
    they name any. Others may need what isn't installed, such as those of plugins in the same
    repository."""
    places = read_project_options(files, ()).test_paths
    if not places or "." in places:
        test_files = _test_files(files)
        return tuple(path for place in tests for path in _given(place, files, test_files))
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    named = {path for path in {*files, *folders} for place in places if fnmatchcase(path, place)}
    both = {path for path in {*tests, *named} if is_below(path, named) and is_below(path, tests)}
    return tuple(_outermost(both) or tests)


def _given(place: str, files: Mapping[str, bytes], test_files: Sequence[str]) -> list[str]:
    """A place of tests as pytest is given it: as its files if some have names that pytest would not
    collect from a folder. Beside their folder, pytest 9 drops them."""
    within = [path for path in test_files if is_below(path, [place])]
    return sorted(within) if any(_is_unittest(path, files) for path in within) else [place]


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a file's name, or its end if a pattern has folders, is as one of them says."""
    name = posixpath.basename(path)
    return any(
        fnmatchcase(f"/{path}", f"*/{pattern}") if "/" in pattern else fnmatchcase(name, pattern)
        for pattern in patterns
    )


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


@dataclass(frozen=True)
class _Installed:
    packages: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    """The pytest plugins among them."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """What could not be installed, by name, and why."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the tests need."""
    notes: tuple[str, ...] = ()
    python: ChosenPython = field(default_factory=ChosenPython)


def _installed(project: ProjectConfig, source: Source, sandbox: SandboxConfig) -> _Installed:
    """Install what the tests need. Raises ProjectRefused if that is named, and can't be."""
    if sandbox.backend != "local":
        return _Installed()
    chosen_python = _python_of(project, source, sandbox)
    versioned = sandbox.model_copy(update={"python_version": chosen_python.version})
    try:
        python = interpreter_of(versioned).installer
        own = own_metadata(source.files, source.tagged, builder_of(versioned))
        files = {**source.files, **own.distributed}
        declared = projects.read_needs(files, chosen_python.version)
        needed = (source.release,) if source.release else declared.requires
        wanted = tuple(dict.fromkeys((*needed, *declared.test_requires)))
        undeclared = read_undeclared(source.files, wanted)
        wanted = (*wanted, *undeclared.packages)
        named = project.more_packages
        chosen = Chosen((*(project.packages or ()), *named), {})
        if project.packages is None:
            chosen = choose_packages(python, (*named, *wanted), declared.constraints)
            _require_installed(named, chosen.missing)
        folder = packages_folder(python, chosen.packages) if chosen.packages else None
    except SandboxUnavailable as error:
        raise ProjectRefused(f"{project.place}: its packages: {error}") from error
    left_out = declared.left_out if project.packages is None else ()
    notes = [f"not installed: {first_of(left_out)}"] if left_out else []
    notes += [own.note] if own.note else []
    plugins = tuple(pytest_plugins(folder).values()) if folder else ()
    return _Installed(
        packages=chosen.packages,
        plugins=plugins,
        missing=chosen.missing,
        variables=undeclared.variables,
        notes=tuple(notes),
        python=chosen_python,
    )


def _require_installed(named: Sequence[str], missing: Mapping[str, str]) -> None:
    """Raises SandboxUnavailable for a package that is named and missing."""
    for text in named:
        reason = missing.get(canonicalize_name(Requirement(text).name))
        if reason is not None:
            raise SandboxUnavailable(f"{text} can't be installed: {reason}")


def _python_of(project: ProjectConfig, source: Source, sandbox: SandboxConfig) -> ChosenPython:
    """The version for a project, and why, in words."""
    if sandbox.python is not None:
        return ChosenPython(None, f"{sandbox.python}, as sandbox.python says")
    if project.python is not None:
        return ChosenPython(project.python, f"CPython {project.python}, as benchmark.python says")
    chosen = choose_python(source.files)
    because = f", since {chosen.note}" if chosen.note else ""
    return ChosenPython(chosen.version, f"CPython {chosen.version or own_version()}{because}")


def _found_in(own: OwnEnvironment, project: ProjectConfig, source: Source) -> _Installed:
    """What the user's own environment has, and the packages that the user names besides."""
    version, pytest = own.version, own.distributions["pytest"]
    told = f"{own.folder}, with CPython {version} and pytest {pytest}"
    packages = (*(project.packages or ()), *project.more_packages)
    variables = read_undeclared(source.files, ()).variables
    return _Installed(packages, variables=variables, python=ChosenPython(minor_of(version), told))


def reason_against(files: Mapping[str, bytes], own: OwnEnvironment) -> str | None:
    """Why a project's tests can't run in the user's own environment; None if they can."""
    required = required_python(files)
    # Classifiers list only versions that the project was tried with.
    if required is not None and required.specifier and not required.allows(own.version):
        return f"it has Python {own.version}, and the project requires {required.text}"
    if needed := RUNNER_NEEDS.intersection(own_modules(files, ("src", "lib"))):
        return f"its pytest needs {min(needed)}, which is the code under test"
    requires = map(Requirement, read_declared(files, minor_of(own.version)).requires)
    names = {str(canonicalize_name(each.name)) for each in requires}
    if lacking := sorted(names - own.distributions.keys()):
        return f"it lacks {first_of(lacking)}, which the project requires"
    return None


# Where a project comes from.


def fetch(project: ProjectConfig, config: FactoryConfig) -> Source:
    """The project's files. Raises ProjectRefused."""
    if project.pypi is not None:
        return _fetch_release(project, project.pypi, config)
    try:
        if project.git is not None:
            checkout = read_commit(project.git, project.revision, config.max_tree_mb)
            commit, name = checkout.commit, project.name or repository_name(project.git)
            origin = f"git:{project.git}@{commit}"
            return _source(name, commit[:12], origin, checkout.files, checkout.tagged)
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
    return _source(name, version, f"folder sha256:{version}", files, read_folder_version(folder))


def _source(
    name: str, version: str, origin: str, files: Mapping[str, bytes], tagged: str | None
) -> Source:
    license_ = read_declared(files).license
    whole = with_version_module(files, tagged)
    return Source(name, version, origin, license_, whole, tagged=tagged)


def _fetch_release(project: ProjectConfig, named: str, config: FactoryConfig) -> Source:
    try:
        wanted = Requirement(named)
    except InvalidRequirement as error:
        raise ProjectRefused(f"factory.projects: {named!r}: {error}") from error
    python = ".".join(map(str, sys.version_info[:3]))
    try:
        sdist = download_sdist(wanted, config.index_url, config.max_tree_mb, python)
    except NoSdist as error:
        raise ProjectRefused(
            f"factory.projects: {error}; is the name right, does factory.index_url name an index "
            "that can be reached, and does factory.max_tree_mb allow its size? You can name "
            "another version, or its git repository"
        ) from error
    files = unpacked(sdist.path, project.place, config.max_tree_mb)
    # The release: its metadata, entry points, compiled parts and requirements.
    release = f"{sdist.name}=={sdist.version}"
    return Source(
        name=project.name or sdist.name,
        version=sdist.version,
        origin=f"pypi:{release} sha256:{sha256(sdist.path)}",
        license=read_declared(files).license,
        files=files,
        release=release,
    )


def unpacked(path: Path, place: str, max_mb: int) -> dict[str, bytes]:
    """The project's own files in an archive. Raises ProjectRefused."""
    try:
        files = unpack_sdist(path, max_mb)
    except ArchiveTooLarge as error:
        raise ProjectRefused(
            f"{place}: {error} (factory.max_tree_mb); raise it, or leave the project out"
        ) from error
    except NoSdist as error:
        raise ProjectRefused(f"{place}: {error}") from error
    return {path: data for path, data in files.items() if not LEFT_OUT & set(path.split("/"))}
