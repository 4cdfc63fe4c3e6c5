"""Run a bug's tests in any language, and find the changes in a patch that an agent must not make.

Only this module distinguishes the languages: benchmarks and scoring know only statuses.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from posixpath import dirname, join

from collect.benchmarks import java_run, pytest_run
from collect.benchmarks.base import Instance, TestResults
from collect.benchmarks.workspace import tracked_files
from collect.code.patches import PatchError, changed_paths, named_files, parse
from sandbox import Command, Sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.java.project import is_build_file

BUILD_FOLDERS = frozenset({"target", "build", ".gradle"})
"""Output folders of Maven and Gradle in each module."""


def run_tests(
    instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
) -> TestResults:
    """Run these tests in a prepared workspace; `timeout` is in seconds, without the build. A test
    whose file can't be imported or compiled has failed. Raises SandboxUnavailable if the sandbox
    lacks what the language needs, SandboxError."""
    if instance.language == "java":
        return java_run.run_java_tests(sandbox, tests, timeout).with_failed_loads()
    deciding = instance.fail_to_pass if instance.is_scored else ()
    return pytest_run.run_pytest(sandbox, tests, timeout, deciding).with_failed_loads()


class StoredBenchmark:
    """The parts of a benchmark that most have in common: its instances hold their files."""

    test_timeout: float
    """Seconds for one run of an instance's tests."""

    @cached_property
    def _instances(self) -> tuple[Instance, ...]:
        return tuple(self._read())

    def _read(self) -> Iterable[Instance]:
        """Every instance. Raises ConfigError."""
        raise NotImplementedError

    def instances(self) -> Sequence[Instance]:
        return self._instances

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        return run_tests(instance, sandbox, list(tests), self.test_timeout)


def runner_files(instance: Instance, patch: str) -> list[str]:
    """The changed files that affect how tests are built and run, except the gold patch's."""
    changed = changed_paths(patch) - _of_gold_patch(instance)
    if instance.language == "java":
        tests = (*instance.fail_to_pass, *instance.pass_to_pass)
        new = {file.target for file in parse(patch) if file.source is None}
        stand_ins = {path for path in changed & new if java_run.stands_in(path, tests)}
        return sorted(stand_ins.union(filter(java_run.steers_tests, changed)))
    import_paths = instance.environment.import_paths
    return sorted(path for path in changed if pytest_run.steers_tests(path, import_paths))


def _of_gold_patch(instance: Instance) -> set[str]:
    try:
        return changed_paths(instance.gold_patch)
    except PatchError:
        # The patch has binary changes, as some published patches do.
        return named_files(instance.gold_patch)


MODULE_FILES = (".py", ".pyc", ".so")
PYTHONPATH = re.compile(r"(?m)^[ \t]*pythonpath[ \t]*=[ \t]*(\[[^\]]*\]|.*(?:\n[ \t]+\S.*)*)")
"""pytest's setting, in its ini files and in pyproject.toml."""


def shadowing_files(instance: Instance, patch: str, sandbox: Sandbox) -> list[str]:
    """The patch's new files that Python would import in the place of a module of its own or of an
    installed package, unless the gold patch adds that module, too.

    The sandbox is a fresh one of the bug, and still without the patch. Raises SandboxError.
    """
    if instance.language != "python" or patch == instance.gold_patch:
        return []
    new = {file.target for file in parse(patch) if file.target not in (None, file.source)}
    gold = _of_gold_patch(instance)
    modules = {path for path in new - gold if path.endswith(MODULE_FILES)}
    if not modules:
        return []
    in_image = instance.image_workspace is not None
    tree = tracked_files(sandbox, "*.py", "*.so") if in_image else list(instance.files)
    folders = _import_folders(instance, sandbox, {*tree})
    known = _KnownModules([*tree, *gold])
    named = {path: {*_modules_at(path, folders, known)} for path in modules}
    installed = _installed(sandbox, sorted(set().union(*named.values())))
    return sorted(path for path, names in named.items() if names & installed)


def _import_folders(instance: Instance, sandbox: Sandbox, tree: Collection[str]) -> set[str]:
    """The folders of the tree from which its tests import modules, as far as they are known."""
    folders = {"", *map(posixpath.normpath, sandbox.config.import_paths)} - {"."}
    folders |= {folder for folder in ("src", "lib") if not _is_package(folder, instance, tree)}
    for test in (*instance.fail_to_pass, *instance.pass_to_pass):
        folder = dirname(test.partition("::")[0])
        # As pytest does.
        while folder and join(folder, "__init__.py") in tree:
            folder = dirname(folder)
        folders.add(folder)
    for name in pytest_run.RUNNER_FILES & instance.files.keys():
        for value in PYTHONPATH.findall(instance.files[name].decode(errors="replace")):
            folders |= {posixpath.normpath(word) for word in re.findall(r"[^\s\"',\[\]]+", value)}
    return folders


def _is_package(folder: str, instance: Instance, tree: Collection[str]) -> bool:
    """Whether the tree's modules import what is in a folder by the folder's name."""
    imports = re.compile(rb"(?m)^[ \t]*(?:from|import)[ \t]+%s\b" % folder.encode())
    texts = (data for path, data in instance.files.items() if path.endswith(".py"))
    return f"{folder}/__init__.py" in tree or any(map(imports.search, texts))


class _KnownModules:
    """The modules of a tree, by path without suffix."""

    def __init__(self, tree: Iterable[str]) -> None:
        self.regular: set[str] = set()
        """Modules, and folders with an `__init__`."""
        self.any: set[str] = set()
        """Those, and all other folders with a module in them."""
        for path in tree:
            if path.endswith(MODULE_FILES):
                self.regular.update(_made_by(path))
                self.any.update(map(str, PurePosixPath(path).parents))
        self.any |= self.regular


def _modules_at(path: str, folders: Iterable[str], known: _KnownModules) -> Iterator[str]:
    """The top-level modules that a new file makes or extends, unless the tree has them already."""
    made = _made_by(path)
    for folder in folders:
        prefix = f"{folder}/" if folder else ""
        first, *rest = path.removeprefix(prefix).split("/")
        name = first if rest else first.partition(".")[0]
        module = prefix + name
        # Without it, a folder is used only if nothing else has its name.
        there = known.regular if module in made else known.any
        if path.startswith(prefix) and name.isidentifier() and module not in there:
            yield name


def _made_by(path: str) -> tuple[str, ...]:
    """The modules and regular packages that a file makes."""
    folder, name = posixpath.split(path)
    stem = name.partition(".")[0]
    return (join(folder, stem), *([folder] if stem == "__init__" else []))


def _installed(sandbox: Sandbox, names: Sequence[str]) -> set[str]:
    """Those that are modules of the sandbox's Python, or of its packages."""
    if not names:
        return set()
    script = Path(__file__).with_name("installed_modules.py").read_text("utf-8")
    argv = [sandbox.python, "-I", "-c", script, sandbox.workspace]
    # A patch may have more of them than fit into arguments.
    result = sandbox.run(Command(argv, stdin="\n".join(names).encode()))
    if result.exit_code != 0:
        raise SandboxUnavailable(
            f"{sandbox.python}, the sandbox's Python, can't tell its modules: "
            f"{result.output.strip()}"
        )
    return set(result.output.split())


def build_outputs(instance: Instance) -> list[str]:
    """The output folders of the instance's build tool, where nothing counts as a change."""
    return java_build_outputs(instance.files) if instance.language == "java" else []


def java_build_outputs(paths: Iterable[str]) -> list[str]:
    """The output folders of Maven and Gradle in a tree with these files."""
    modules = {posixpath.dirname(path) for path in paths if is_build_file(path)}
    return sorted(posixpath.join(module, name) for module in modules for name in BUILD_FOLDERS)
