"""The user's repository as debug sessions see it: a copy of its files as they are now."""

from __future__ import annotations

import json
import os
import posixpath
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from packaging.utils import canonicalize_name

from collect.agents.file_tools import prepare_java_workspace
from collect.agents.prompts import WORDINGS
from collect.benchmarks.base import Environment, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.local_repository import LocalRepositoryBenchmark
from collect.benchmarks.opening import open_benchmark
from collect.benchmarks.projects.project import without_outputs
from collect.benchmarks.pytest_run import collect_tests
from collect.benchmarks.workspace import own_modules, read_folder, read_regular
from collect.code.source import find_test, read_source
from collect.code.syntax import FunctionRange
from collect.errors import ConfigError, the_nearest
from collect.live.environment import EnvironmentArguments
from collect.live.workspace import LiveWorkspace
from collect.quantities import counted, first_of
from collect.store.messages import ToolCall, arguments_object
from sandbox import Sandbox, SandboxConfig
from sandbox.languages.python.metadata import with_version_module
from sandbox.languages.python.pytest_options import is_among
from sandbox.languages.python.targets import (
    Target,
    TargetError,
    doctest_option,
    in_repository,
    is_test_file,
    parse_target,
)

TESTS = {"python": re.compile(rb"def (test\w*)"), "java": re.compile(rb"void (\w+)\s*\(")}
MAKES_TESTS = (b"setattr(", b"type(", b"globals()", b"locals()", b"load_tests", b"metaclass")
"""What files contain whose tests are made by a program."""
SPELLED_ALIKE = 0.8
CLASS_OR_METHOD = re.compile(r"[\w.$]+(?:#.*)?", re.DOTALL)
"""How a Java test is named, but for commands, paths and lines."""
LINE = re.compile(r"(?P<path>[^:]+\.py):(?P<line>\d{1,9})")
NO_MODULE = re.compile(r"No module named '([\w.]+)'")


class LiveRepository:
    """A folder of the user's. Nothing is ever written to it. Thread-safe."""

    def __init__(self, folder: Path, config: BenchmarkConfig, sandbox: SandboxConfig) -> None:
        """`config` says what its tests need. Raises ConfigError if there is no repository, or it
        has no tests."""
        self.folder, self.sandbox = folder.resolve(), sandbox
        if not self.folder.is_dir():
            raise ConfigError(f"--repo {folder}: no such folder")
        own = {"name": "local", "path": str(self.folder), "commit": None}
        asked = config.model_copy(update=own)
        benchmark = open_benchmark(asked, sandbox)
        if not isinstance(benchmark, LocalRepositoryBenchmark):
            raise ConfigError(f"--repo {folder} holds a bugs.jsonl: give one repository")
        self.benchmark, self._max_mb = benchmark, asked.max_tree_mb
        self._looked_at = benchmark.look(are_named=True)
        self.language = self._looked_at.suite.language
        self._instance: Instance | None = None
        self._lock = threading.Lock()
        self._read_before: dict[str, tuple[tuple[int, ...], bytes]] = {}

    def now(
        self,
        files: Mapping[str, bytes] | None = None,
        environment: Environment | None = None,
    ) -> Instance:
        """The repository with its files as they are now; `files` if they were just read. The first
        call without a client's own `environment` installs what the tests need, which may take
        minutes. Raises ConfigError."""
        if environment is not None:
            current = self.files() if files is None else files
            return replace(self._looked_at.bare, files=current, environment=environment)
        with self._lock:
            if self._instance is None:
                self._instance = self.benchmark.installed(self._looked_at)
        return replace(self._instance, files=self.files() if files is None else files)

    def environment(self, settings: EnvironmentArguments) -> Environment:
        """What the tests need with a client's settings, installed. Raises ConfigError,
        SandboxError."""
        if settings.is_for_python and self.language != "python":
            raise ConfigError(
                f"the tests are in {self.language}: python, packages and pytest_options are for "
                "tests in Python"
            )
        if settings.packages and self.sandbox.backend != "local":
            raise ConfigError("the packages are those of the container's image: leave them out")
        if settings.python is not None and self.sandbox.python is not None:
            raise ConfigError(
                f"this server runs the tests with {self.sandbox.python} (sandbox.python): leave "
                "python out"
            )
        config = settings.applied_to(self.benchmark.config)
        benchmark = replace(self.benchmark, config=config)
        return benchmark.installed(benchmark.look(are_named=True)).environment

    def files(self) -> dict[str, bytes]:
        """As they are now."""
        files = read_folder(self.folder, max_mb=self._max_mb, read=self._read)
        return without_outputs(with_version_module(files, self._looked_at.source.tagged))

    def _read(self, path: str, found: os.stat_result) -> bytes:
        """Read a file unless it is as before: every call looks for changes, in all files."""
        stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        before = self._read_before.get(path)
        if before is None or before[0] != stamp:
            before = self._read_before[path] = stamp, read_regular(path, found)
        return before[1]

    def prepare(self, workspace: LiveWorkspace, files: Mapping[str, bytes]) -> None:
        """Make these files the workspace, and all there is. Raises SandboxError."""
        workspace.lay_out(files)
        if self.language == "java":
            prepare_java_workspace(workspace.sandbox)

    def changed_since(self, files: Mapping[str, bytes]) -> list[str]:
        """The files that the user has changed, added or removed since."""
        now = self.files()
        return sorted(path for path in files.keys() | now if files.get(path) != now.get(path))

    def not_there(
        self, files: Mapping[str, bytes], test: str, earlier: Mapping[str, bytes] | None = None
    ) -> str | None:
        """Why there is no such test among the files, as their text shows; None if there may be.
        `earlier` are files that had it."""
        if self.language == "java":
            # The debugger reads commands, paths and `Class.method`, and says what is wrong there.
            is_plain = CLASS_OR_METHOD.fullmatch(test) is not None
            is_dotted = bool(find_test(files, test.rpartition(".")[0])[0])
            return self._name_not_there(files, test) if is_plain and not is_dotted else None
        if (line := LINE.fullmatch(test)) is not None and line["path"] in files:
            return _in_no_test(files, line["path"], int(line["line"]))
        try:
            target = parse_target(test)
        except TargetError as error:
            return str(error)
        if target.kind != "pytest":
            # A runner that is named, and a script, have arguments.
            return None if " " in test else self._name_not_there(files, test, earlier)
        places = (name for name in target.names if "::" in name or not is_among(files, name))
        refusals = (self._name_not_there(files, name, earlier) for name in places)
        return next(filter(None, refusals), None)

    def left_out(self, test: str) -> tuple[str, ...]:
        """The options of a command that do not apply, since they break a session."""
        with suppress(TargetError):
            return parse_target(test).left_out if self.language == "python" else ()
        return ()

    def places(self, test: str) -> tuple[str, ...]:
        """The files, folders and tests that a command names to pytest; of another test itself."""
        with suppress(TargetError):
            target = parse_target(test)
            if self.language == "python" and target.kind == "pytest":
                return target.names
        return (test,)

    def not_decided_by(self, files: Mapping[str, bytes], test: str) -> str | None:
        """Why no verdict can rest on a test; None if one can."""
        refused = self.not_there(files, test)
        if refused is not None or self.language != "python":
            return refused
        target = parse_target(test)
        if target.kind != "pytest":
            return f"`{test}` is not run by pytest, and pytest decides; give a node id or a file"
        if target.variables:
            return f"`{test}` sets variables: give them as `variables`, and leave them out here"
        return None

    def _name_not_there(
        self, files: Mapping[str, bytes], test: str, earlier: Mapping[str, bytes] | None = None
    ) -> str | None:
        example = WORDINGS[self.language]["test"]
        path, name = find_test(files, test)
        if not path:
            where = re.split("::|#", test)[0]
            same_kind = [each for each in files if each.endswith((".py", ".java"))]
            return (
                f"there is no test `{test}`: {where} is no {self._unit} of this repository"
                f"{_of_that_name(files, test) or the_nearest(where, same_kind)}; name a test like "
                f"{example}"
            )
        if doctest_option(test) and b">>>" in files[path]:
            return None
        # It may be inherited from a class in another file.
        inherited = test.count("::") > 1 or "#" in test
        suffix = posixpath.splitext(path)[1]
        texts = [data for each, data in files.items() if each.endswith(suffix)]
        word = re.compile(rb"\b" + re.escape(name.encode()) + rb"\b")
        if not name or any(map(word.search, texts if inherited else [files[path]])):
            return None
        known = [found.decode() for found in TESTS[self.language].findall(files[path])]
        alike = get_close_matches(name, known, n=1, cutoff=SPELLED_ALIKE)
        is_typo = bool(alike) or not name.isidentifier()
        makes_tests = any(made in files[path] for made in MAKES_TESTS)
        was_there = earlier is not None and word.search(earlier.get(path, b"")) is not None
        if self.language == "python" and not was_there and (makes_tests or not is_typo):
            return None  # pytest says so if it finds none
        near = the_nearest(name, known) or f"; it has {', '.join(known[:10]) or 'no tests'}"
        return f"there is no test {name} in {path}{near}; name a test like {example}"

    def from_inside(self, call: ToolCall) -> ToolCall:
        """The call with the names that this repository knows."""
        given = arguments_object(call.arguments)
        named: dict[str, object] = {
            key: self.inside(given[key])
            for key in ("location", "path")
            if isinstance(given.get(key), str)
        }
        if isinstance(test := given.get("test"), str):
            named["test"] = self.inside_test(test)
        if isinstance(points := given.get("breakpoints"), list):
            inside = [self.inside(point) if isinstance(point, str) else point for point in points]
            named["breakpoints"] = inside
        if named.items() <= given.items():
            return call
        return replace(call, arguments=json.dumps(given | named))

    def inside(self, place: str) -> str:
        """A path, test or location as it is named here, where a client wrote it from the root."""
        return place.removeprefix(f"{self.folder}/").removeprefix("./")

    def inside_test(self, test: str) -> str:
        """A test as it is named here, where a client wrote it as a command, a dotted name, from the
        root, or as the bare name of the only test that has it."""
        if self.language == "java":
            return self.inside(test)
        files = self.files()
        line = LINE.fullmatch(self.inside(test))
        if line is not None and line["path"] in files:
            at = _test_at(files, line["path"], int(line["line"]))
            return at or line[0]
        named = in_repository(test, files, str(self.folder))
        parts = named.split(".")
        if not all(map(str.isidentifier, parts)):
            return named
        ending = "::" + "::".join(parts)
        found = [name for name in _tests_with_name(files, parts[-1]) if name.endswith(ending)]
        return found[0] if len(found) == 1 else named

    @property
    def _unit(self) -> str:
        return "file" if self.language == "python" else "class"

    def import_hint(self, text: str, environment: Environment) -> str:
        """What to do about a module that the tests miss; empty if the text tells of none."""
        missing = NO_MODULE.search(text)
        if missing is None or self.language != "python":
            return ""
        if missing[1].partition(".")[0] in own_modules(self.files(), environment.import_paths):
            return (
                f"{missing[1]} is a module of this repository that is not there: if it is "
                "compiled, build it in place for the interpreter that runs the tests (such as "
                "`python setup.py build_ext --inplace`), and start again."
            )
        package = canonicalize_name(missing[1].partition(".")[0])
        reason = environment.missing.get(package, "")
        because = f", since {package} could not be installed ({reason})" if reason else ""
        return (
            f"The sandbox has no module {missing[1]}{because}: `debug_environment` sets "
            "packages for your next starts; who runs this server can set "
            "collect.benchmark.more_packages, and with collect.benchmark.import_paths the "
            "repository's own folders to import from."
        )

    def cases(self, sandbox: Sandbox, files: Mapping[str, bytes], test: str) -> str:
        """The ids of a parametrised test that is named with a wrong case; empty for others. Raises
        SandboxError."""
        name, chosen, _ = test.partition("[")
        data = files.get(name.partition("::")[0], b"")
        if self.language != "python" or not chosen or b"parametrize" not in data:
            return ""
        tests = collect_tests(sandbox, [name], [], self.benchmark.test_timeout)
        ids = [each for each in tests if each.startswith(f"{name}[")]
        if not ids or test in ids:
            return ""
        return f"{name} has {counted(len(ids), 'case')}; to choose one: {first_of(ids)}"

    def expanded(self, sandbox: Sandbox, tests: Iterable[str]) -> tuple[str, ...]:
        """The node ids that these tests stand for: the cases of a parametrised test, the tests of a
        file, a class or a selection. What can't be collected stays. Raises ConfigError for a test
        that its file does not have, SandboxError."""
        found: dict[str, None] = {}
        for test in tests:
            target = parse_target(test) if self.language == "python" and "[" not in test else None
            ids: tuple[str, ...] = ()
            if target is not None and target.kind == "pytest":
                ids = self._collected(sandbox, test, target)
            found |= dict.fromkeys(ids or (test,))
        return tuple(found)

    def _collected(self, sandbox: Sandbox, test: str, target: Target) -> tuple[str, ...]:
        """The node ids of pytest's tests; none if they can't be collected. Raises ConfigError for a
        test that its file does not have, SandboxError."""
        seconds = self.benchmark.test_timeout
        ids = collect_tests(sandbox, target.names, target.options, seconds)
        if ids:
            return ids
        for path in dict.fromkeys(name.partition("::")[0] for name in target.names):
            others = collect_tests(sandbox, [path], (), seconds)
            if others:
                raise ConfigError(f"there is no test `{test}`: {path} has {first_of(others)}")
        return ()


def _test_at(files: Mapping[str, bytes], path: str, line: int) -> str | None:
    """The node id of the test that holds a line; None if none does."""
    around = [each for each in _tests_of(files, path) if each.first <= line <= each.last]
    return _node_id(path, around[0]) if around else None


def _in_no_test(files: Mapping[str, bytes], path: str, line: int) -> str:
    nearest = min(_tests_of(files, path), key=lambda each: abs(each.line - line), default=None)
    near = "" if nearest is None else f"; the nearest is {_node_id(path, nearest)}"
    return f"line {line} of {path} is in no test{near}"


def _tests_of(files: Mapping[str, bytes], path: str) -> list[FunctionRange]:
    """The tests of a file; functions inside one come after it."""
    functions = read_source(path, files[path]).functions
    return [each for each in functions if each.name.rpartition(".")[2].startswith("test")]


def _node_id(path: str, function: FunctionRange) -> str:
    return f"{path}::{function.name.replace('.', '::')}"


def _of_that_name(files: Mapping[str, bytes], test: str) -> str:
    """`; the name is that of tests/test_a.py::test_x`; empty if no test of pytest's has it."""
    found = _tests_with_name(files, re.split(r"::|[.#]", test.partition("[")[0])[-1])
    return f"; the name is that of {first_of(found)}" if found else ""


def _tests_with_name(files: Mapping[str, bytes], name: str) -> list[str]:
    return [
        _node_id(path, each)
        for path, data in files.items()
        if is_test_file(path) and re.search(rb"def " + re.escape(name.encode()) + rb"\b", data)
        for each in read_source(path, data).functions
        if each.name.rpartition(".")[2] == name
    ]
