"""The tests of a repository, or the tests that a test command runs."""

from __future__ import annotations

import posixpath
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Protocol

from collect.benchmarks.base import Instance, Language, TestResults, TestStatus
from collect.benchmarks.projects.layout import find_test_paths
from collect.benchmarks.projects.project import Reason, read_reasons
from collect.benchmarks.pytest_run import ISOLATED, PytestJob, run_to_the_end, statuses
from collect.benchmarks.running import run_tests
from collect.errors import ConfigError
from sandbox import Command, CommandResult, Sandbox
from sandbox.debugger.targets import VALUED_OPTIONS, TargetError, parse_target
from sandbox.errors import SandboxFileError
from sandbox.java.lookup import Sources
from sandbox.java.scan import GRADLE_FILES, scan_workspace
from sandbox.shell import scratch_folder

# The result of one run of all tests.


SHOWN_OUTPUT = 1500
"""Characters from the end of a run's output that a message or problem statement shows."""


@dataclass(frozen=True)
class SuiteRun:
    """Statuses of the tests, and why they failed."""

    statuses: Mapping[str, TestStatus]
    """In run order."""
    output: str
    timed_out: bool = False
    unloaded: tuple[str, ...] = ()
    """Test files that can't be imported, or other reasons why tests could not run."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """Reasons of the failing tests, if the runner reports them."""
    cut_short: str | None = None
    """As in TestResults."""

    def of(self, status: TestStatus) -> tuple[str, ...]:
        """The tests with this status."""
        return tuple(test for test, found in self.statuses.items() if found is status)

    @property
    def end(self) -> str:
        """The last lines of the runner's output."""
        return self.output.strip()[-SHOWN_OUTPUT:]


class Suite(Protocol):
    """The tests of a repository in one language, with one runner."""

    @property
    def language(self) -> Language: ...

    @property
    def test_paths(self) -> tuple[str, ...]:
        """Files and folders of the tests, which the agent must not change."""

    @property
    def options(self) -> tuple[str, ...]:
        """Options for every pytest run."""

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        """Run every test in a prepared workspace; `timeout` is in seconds. Raises SandboxError."""

    def run(
        self, instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
    ) -> TestResults:
        """Run only these tests. Raises SandboxError."""


# Python tests: run by pytest, or a command that is judged by its exit status.
#
# A command passes if it exits with 0 and its script ran to the end: see `script_launcher`.


LAUNCHER = Path(__file__).with_name("script_launcher.py")
_NO_MODULE = re.compile(r"No module named .*")
_NO_TESTS = re.compile(r"^Ran 0 tests in ", re.MULTILINE)


@dataclass(frozen=True)
class PytestSuite:
    """The tests that pytest collects from some paths."""

    paths: tuple[str, ...]
    """Files, folders and node ids."""
    test_paths: tuple[str, ...]
    options: tuple[str, ...] = ()
    language: ClassVar[Language] = "python"

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        run = run_to_the_end(sandbox, PytestJob(self.paths), timeout)
        return SuiteRun(
            statuses(run.reports),
            run.output,
            run.result.timed_out,
            run.unloaded,
            read_reasons(run.reports),
            run.cut_short,
        )

    def run(
        self, instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
    ) -> TestResults:
        return run_tests(instance, sandbox, tests, timeout)


@dataclass(frozen=True)
class CommandSuite:
    """One test, named by its command: a Python script or module with its arguments."""

    command: str
    test_paths: tuple[str, ...]
    options: ClassVar[tuple[str, ...]] = ()
    language: ClassVar[Language] = "python"

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        ran = self._run(sandbox, timeout)
        last = (ran.result.output.strip().splitlines() or [""])[-1]
        unloaded = tuple(_NO_MODULE.findall(last)) if ran.result.exit_code else ()
        if "unittest" in self.command and _NO_TESTS.search(ran.result.output):
            unloaded = (
                "unittest finds no tests: leave benchmark.test_command out to run them with pytest",
            )
        found = {} if unloaded else {self.command: ran.status}
        return SuiteRun(found, ran.output, ran.result.timed_out, unloaded)

    def run(
        self, instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
    ) -> TestResults:
        ran = self._run(sandbox, timeout)
        return TestResults(
            dict.fromkeys(tests, ran.status),
            ran.output,
            ran.result.timed_out,
            ran.result.seconds,
            tampered=ran.tampered,
        )

    def _run(self, sandbox: Sandbox, timeout: float) -> _Ran:
        options, words = split_options(shlex.split(self.command)[1:])
        token = secrets.token_hex(16)
        launch = f"{_launcher()}\nmain({list(self.test_paths)!r}, {words!r})\n"
        code = f"exec({launch!r}, {{'__name__': 'stepinto_launcher'}})"
        with scratch_folder(sandbox) as folder:
            end = f"{folder}/end"
            sandbox.write_file(end, b"")
            stdin = f"{sandbox.workspace}/{end} {token}\n".encode()
            argv = [
                "sh",
                "-c",
                f'{ISOLATED}; exec "$@"',
                "sh",
                sandbox.python,
                *options,
                "-c",
                code,
            ]
            result = sandbox.run(Command(argv, stdin=stdin, timeout=timeout))
            return _Ran(result, _read(sandbox, end), token)


@dataclass(frozen=True)
class _Ran:
    """One run of a command."""

    result: CommandResult
    end: str
    """Content of the file that the launcher writes at the script's end."""
    token: str

    @property
    def tampered(self) -> str | None:
        """Evidence that the program interfered with the run."""
        told, _, problem = self.end.partition("\n")
        if told not in ("", self.token):
            return "the program wrote to the file that tells whether its script came to its end"
        return problem or None

    @property
    def status(self) -> TestStatus:
        if self.result.timed_out:
            return TestStatus.MISSING
        ended = self.end == f"{self.token}\n"
        return TestStatus.PASSED if ended and self.result.exit_code == 0 else TestStatus.FAILED

    @property
    def output(self) -> str:
        early = self.result.exit_code == 0 and not (self.end or self.result.timed_out)
        note = "\nthe process ended before its script did: this counts as a failure\n"
        return self.result.output + (note if early else "")


def split_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Python's own options, and the file or `-m MODULE` with its arguments."""
    count = 0
    while count < len(words) and words[count].startswith("-") and words[count] != "-m":
        count += 2 if words[count] in VALUED_OPTIONS else 1
    return list(words[:count]), list(words[count:])


@cache
def _launcher() -> str:
    return LAUNCHER.read_text()


def _read(sandbox: Sandbox, path: str) -> str:
    try:
        return sandbox.read_file(path).decode(errors="replace")
    except SandboxFileError:
        return ""


# Java tests, found in their sources.


TEST_FOLDERS = frozenset({"test", "tests"})
MARKERS = (b"@Test", b"@ParameterizedTest", b"@RepeatedTest", b"@TestFactory", b"TestCase")
"""Every source with a test contains one of these."""


@dataclass(frozen=True)
class JavaSuite:
    """The tests of all modules, built by Maven, Gradle or javac."""

    instance: Instance
    """The instance without its tests, which are still to be found."""
    options: ClassVar[tuple[str, ...]] = ()
    language: ClassVar[Language] = "java"

    @property
    def test_paths(self) -> tuple[str, ...]:
        return java_test_paths(self.instance.files)

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        tests = list(dict.fromkeys(_tests(sandbox, _test_files(self.instance.files))))
        results = self.run(self.instance, sandbox, tests, timeout)
        missing = all(status is TestStatus.MISSING for status in results.statuses.values())
        unloaded = ("the build",) if tests and missing and not results.timed_out else ()
        return SuiteRun(results.statuses, results.output, results.timed_out, unloaded)

    def run(
        self, instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
    ) -> TestResults:
        return run_tests(instance, sandbox, tests, timeout)


def java_test_paths(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The outermost folders with a test name that contain tests, and test sources elsewhere."""
    found = set()
    for path in _test_files(files):
        parts = path.split("/")
        named = [index for index, part in enumerate(parts[:-1]) if part in TEST_FOLDERS]
        found.add("/".join(parts[: named[0] + 1]) if named else path)
    return tuple(sorted(found))


def _test_files(files: Mapping[str, bytes]) -> list[str]:
    return [
        path
        for path, data in sorted(files.items())
        if path.endswith(".java") and any(marker in data for marker in MARKERS)
    ]


def _tests(sandbox: Sandbox, paths: Sequence[str]) -> Iterator[str]:
    """`package.Class#method` of each test. An inherited test counts for every class that can be
    instantiated."""
    sources = Sources(sandbox, scan_workspace(sandbox))
    for path in paths:
        for each in sources.outline(path).classes:
            if each.concrete:
                yield from (f"{each.name}#{test.name}" for test in sources.tests(path, each))


BUILD_FILES = ("pom.xml", *GRADLE_FILES)
BUILD_TOOLS = frozenset({"mvn", "mvnw", "gradle", "gradlew"})
BUILD_WORDS = frozenset({"clean", "test", "check", "verify", "build", "-q", "--quiet"})
"""Words that a build command may contain: they don't change which tests there are."""
SHELL = "|&;<>"
"""Characters with which a shell would start another command, or read or write a file."""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
ACCEPTED = (
    "give `pytest`, `python FILE` or `python -m MODULE`, with arguments, or `mvn test` or "
    "`gradle test`; variables have a key of their own, benchmark.variables"
)


def choose_suite(instance: Instance, command: str | None, java: bool) -> Suite:
    """Choose the suite for the instance's files; `java` selects the Java tests.

    Raises ConfigError if there are no tests, or if no debug session could start on the command.
    """
    if command is None:
        return _found(instance, java)
    suite = _named(instance, command, _words(command))
    if java and suite.language != "java":
        raise ConfigError(
            f"benchmark.test_command {command!r} runs tests in Python, and benchmark.language is "
            "java: leave one of them out"
        )
    return suite


def _found(instance: Instance, java: bool) -> Suite:
    paths = tuple(find_test_paths(instance.files))
    if paths and not java:
        return PytestSuite(paths, paths)
    if java or any(posixpath.basename(path) in BUILD_FILES for path in instance.files):
        return _java(instance)
    raise ConfigError(
        f"{instance.repository}: no tests among its {len(instance.files)} files: there is no "
        "test_*.py or *_test.py, and no Java build file; benchmark.path names a bugs.jsonl, its "
        "folder, or a repository, and benchmark.test_command says how else its tests are run"
    )


def _java(instance: Instance) -> Suite:
    if not java_test_paths(instance.files):
        raise ConfigError(
            f"{instance.repository}: no Java tests among its {len(instance.files)} files: none of "
            "JUnit's or TestNG's annotations stands in a .java file"
        )
    return JavaSuite(replace(instance, language="java"))


def _named(instance: Instance, command: str, words: Sequence[str]) -> Suite:
    if posixpath.basename(words[0]) in BUILD_TOOLS:
        strange = [word for word in words[1:] if word not in BUILD_WORDS]
        if strange:
            raise ConfigError(
                f"benchmark.test_command {command!r}: {strange[0]} is not passed on: all tests are "
                "run; name some in benchmark.fail_to_pass, and give options of the build tool in "
                "sandbox.java"
            )
        return _java(instance)
    python = posixpath.basename(words[0]).startswith("python")
    options, rest = split_options(words[1:]) if python else ([], list(words))
    if python and rest[:1] == ["-m"]:
        rest = rest[1:]
    if rest and rest[0] in ("pytest", "py.test"):
        if options:
            raise ConfigError(
                f"benchmark.test_command {command!r}: Python is started without {options[0]}: "
                "leave it out; pytest has a -W of its own, and benchmark.variables takes PYTHON..."
            )
        return _pytest(instance, command, rest[1:])
    if not python:
        raise ConfigError(
            f"benchmark.test_command {command!r}: no debug session can be started on it: {ACCEPTED}"
        )
    return _python(instance, command, words)


def _pytest(instance: Instance, command: str, words: Sequence[str]) -> PytestSuite:
    """pytest's paths, and the options for every run of it."""
    paths, options = [], []
    before = ""
    for word in words:
        if _is_there(word.partition("::")[0], instance.files):
            paths.append(word.rstrip("/"))
        elif word.startswith("-") or (before.startswith("-") and "=" not in before):
            options.append(word)
        else:
            raise ConfigError(
                f"benchmark.test_command {command!r}: {word} is no file, folder or test of "
                f"{instance.repository}"
            )
        before = word
    known = tuple(find_test_paths(instance.files))
    named = [path.partition("::")[0] for path in paths if path != "."]
    if not known and not named:
        raise ConfigError(
            f"{instance.repository}: no test_*.py or *_test.py among its {len(instance.files)} "
            "files; name the files or folders of its tests in benchmark.test_command"
        )
    every = tuple(dict.fromkeys((*known, *named)))
    return PytestSuite(tuple(paths) or known, every, tuple(options))


def _python(instance: Instance, command: str, words: Sequence[str]) -> Suite:
    try:
        target = parse_target(command)
    except TargetError as error:
        raise ConfigError(
            f"benchmark.test_command {command!r}: {error}; unittest's tests are run by pytest, "
            f"without any benchmark.test_command; else {ACCEPTED}"
        ) from error
    script = target.names[0] if target.kind in ("script", "pytest") else None
    if script is not None and script not in instance.files:
        raise ConfigError(
            f"benchmark.test_command {command!r}: {script} is no file of {instance.repository}"
        )
    own = [script] if script is not None else _of_module(words, instance.files)
    return CommandSuite(command, tuple(dict.fromkeys((*find_test_paths(instance.files), *own))))


def _of_module(words: Sequence[str], files: Mapping[str, bytes]) -> list[str]:
    """The files that `-m MODULE` runs, and the folder in which unittest looks for tests."""
    _, named = split_options(words[1:])
    module, arguments = named[1].replace(".", "/"), named[2:]
    places = [f"{module}.py", f"{module}/__main__.py"]
    if named[1] == "unittest":
        places = [
            word.rstrip("/")
            for before, word in pairwise(arguments)
            if before in ("-s", "--start-directory", "discover")
        ]
    return [path for path in places if path not in (".", "") and _is_there(path, files)]


def _is_there(path: str, files: Mapping[str, bytes]) -> bool:
    folder = path.rstrip("/")
    return path in (".", "./") or path in files or any(f.startswith(f"{folder}/") for f in files)


def _words(command: str) -> list[str]:
    """The words of a single plain command. Raises ConfigError if it is anything else."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=SHELL)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        operators = [word for word in lexer if word and set(word) <= set(SHELL)]
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"benchmark.test_command {command!r}: {error}") from error
    if not words:
        raise ConfigError(f"benchmark.test_command is empty: {ACCEPTED}")
    if operators:
        raise ConfigError(
            f"benchmark.test_command {command!r}: {operators[0]!r} is for a shell, and the command "
            "is run without one: give one command, whose files the program itself opens"
        )
    if words[0] == "env" or ASSIGNMENT.match(words[0]):
        raise ConfigError(
            f"benchmark.test_command {command!r} sets variables: give them in benchmark.variables"
        )
    return words
