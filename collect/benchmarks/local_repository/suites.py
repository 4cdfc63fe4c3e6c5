"""The tests of a repository, or the tests that a test command runs."""

from __future__ import annotations

import posixpath
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from collect.benchmarks.base import Instance, Language, TestResults, TestStatus
from collect.benchmarks.projects.layout import find_test_paths
from collect.benchmarks.projects.project import Reason, read_reasons
from collect.benchmarks.pytest_run import ISOLATED, PytestJob, run_to_the_end, statuses
from collect.benchmarks.running import run_tests
from collect.errors import ConfigError
from sandbox import Command, Sandbox
from sandbox.debugger.python_session import VALUED_OPTIONS, TargetError, parse_target
from sandbox.errors import SandboxFileError
from sandbox.java.lookup import Sources
from sandbox.java.scan import GRADLE_FILES, scan_workspace
from sandbox.shell import scratch_folder

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
        return tuple(test for test, found in self.statuses.items() if found is status)

    @property
    def end(self) -> str:
        """The last lines of the runner's output."""
        return self.output.strip()[-SHOWN_OUTPUT:]


# Python tests: run by pytest, or a command that is judged by its exit status.


@dataclass(frozen=True)
class PytestSuite:
    """The tests that pytest collects from some paths."""

    paths: tuple[str, ...]
    """Files, folders and node ids."""
    test_paths: tuple[str, ...]
    """Files and folders of the tests, which the agent must not change."""
    options: tuple[str, ...] = ()
    """Options for every pytest run."""
    language: ClassVar[Language] = "python"

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        """Run every test in a prepared workspace; `timeout` is in seconds. Raises SandboxError."""
        run = run_to_the_end(sandbox, PytestJob(self.paths), timeout)
        return SuiteRun(
            statuses(run.reports),
            run.output,
            run.result.timed_out,
            run.unloaded,
            read_reasons(run.reports),
            run.cut_short,
        )


@dataclass(frozen=True)
class CommandSuite:
    """One test, named by its command: a Python script or module with its arguments.

    It passes if it exits with 0 and its script ran to the end: see `script_launcher`.
    """

    command: str
    test_paths: tuple[str, ...]
    """Files and folders of the tests, which the agent must not change."""
    options: ClassVar[tuple[str, ...]] = ()
    language: ClassVar[Language] = "python"

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        """Run the command in a prepared workspace. Raises SandboxError."""
        ran = self.run(sandbox, [self.command], timeout)
        last = (ran.output.strip().splitlines() or [""])[-1]
        unloaded = tuple(re.findall(r"No module named .*", last))
        if TestStatus.PASSED in ran.statuses.values():
            unloaded = ()
        if "unittest" in self.command and re.search(r"^Ran 0 tests in ", ran.output, re.MULTILINE):
            unloaded = (
                "unittest finds no tests: leave benchmark.test_command out to run them with pytest",
            )
        return SuiteRun({} if unloaded else ran.statuses, ran.output, ran.timed_out, unloaded)

    def run(self, sandbox: Sandbox, tests: Sequence[str], timeout: float) -> TestResults:
        """Run the command, whose result is that of these tests. Raises SandboxError."""
        options, words = split_options(shlex.split(self.command)[1:])
        token = secrets.token_hex(16)
        launcher = Path(__file__).with_name("script_launcher.py").read_text()
        launch = f"{launcher}\nmain({list(self.test_paths)!r}, {words!r})\n"
        code = f"exec({launch!r}, {{'__name__': 'stepinto_launcher'}})"
        with scratch_folder(sandbox) as folder:
            path = f"{folder}/end"
            sandbox.write_file(path, b"")
            stdin = f"{sandbox.workspace}/{path} {token}\n".encode()
            argv = ["sh", "-c", f'{ISOLATED}; exec "$@"', "sh"]
            argv += [sandbox.python, *options, "-c", code]
            result = sandbox.run(Command(argv, stdin=stdin, timeout=timeout))
            end = ""
            with suppress(SandboxFileError):
                end = sandbox.read_file(path).decode(errors="replace")
        told, _, tampered = end.partition("\n")
        if told not in ("", token):
            tampered = "the program wrote to the file that tells whether its script came to its end"
        output, status = result.output, TestStatus.FAILED
        if result.timed_out:
            status = TestStatus.MISSING
        elif result.exit_code == 0 and end == f"{token}\n":
            status = TestStatus.PASSED
        elif result.exit_code == 0 and not end:
            output += "\nthe process ended before its script did: this counts as a failure\n"
        return TestResults(
            dict.fromkeys(tests, status),
            output,
            result.timed_out,
            result.seconds,
            tampered=tampered or None,
        )


def split_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Python's own options, and the file or `-m MODULE` with its arguments."""
    count = 0
    while count < len(words) and words[count].startswith("-") and words[count] != "-m":
        count += 2 if words[count] in VALUED_OPTIONS else 1
    return list(words[:count]), list(words[count:])


# Java tests, found in their sources.

TEST_FOLDERS = frozenset({"test", "tests"})
MARKERS = (b"@Test", b"@ParameterizedTest", b"@RepeatedTest", b"@TestFactory", b"TestCase")
"""Every source with a test contains one of these."""


@dataclass(frozen=True)
class JavaSuite:
    """The tests of all modules, built by Maven, Gradle or javac."""

    instance: Instance
    """The instance without its tests, which are still to be found."""
    test_paths: tuple[str, ...]
    """Files and folders of the tests, which the agent must not change."""
    options: ClassVar[tuple[str, ...]] = ()
    language: ClassVar[Language] = "java"

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        """Run every test in a prepared workspace. Raises SandboxError."""
        sources = Sources(sandbox, scan_workspace(sandbox))
        # An inherited test counts for every class that can be instantiated.
        found = dict.fromkeys(
            f"{each.name}#{test.name}"
            for path in _java_test_files(self.instance.files)
            for each in sources.outline(path).classes
            if each.concrete
            for test in sources.tests(path, each)
        )
        results = run_tests(self.instance, sandbox, list(found), timeout)
        missing = all(status is TestStatus.MISSING for status in results.statuses.values())
        unloaded = ("the build",) if found and missing and not results.timed_out else ()
        return SuiteRun(results.statuses, results.output, results.timed_out, unloaded)


Suite = PytestSuite | CommandSuite | JavaSuite


def _java_test_files(files: Mapping[str, bytes]) -> list[str]:
    return [
        path
        for path, data in sorted(files.items())
        if path.endswith(".java") and any(marker in data for marker in MARKERS)
    ]


# Choosing the tests.

BUILD_FILES = ("pom.xml", *GRADLE_FILES)
BUILD_TOOLS = frozenset({"mvn", "mvnw", "gradle", "gradlew"})
BUILD_WORDS = frozenset({"clean", "test", "check", "verify", "build", "-q", "--quiet"})
"""Words that a build command may contain: they don't change which tests there are."""
SHELL = "|&;<>"
"""Characters with which a shell would start another command, or read or write a file."""
ACCEPTED = (
    "give `pytest`, `python FILE` or `python -m MODULE`, with arguments, or `mvn test` or "
    "`gradle test`; variables have a key of their own, benchmark.variables"
)


def choose_suite(instance: Instance, command: str | None, java: bool) -> Suite:
    """Choose the suite for the instance's files; `java` selects the Java tests.

    Raises ConfigError if there are no tests, or if no debug session could start on the command.
    """
    if command is None:
        paths = tuple(find_test_paths(instance.files))
        if paths and not java:
            return PytestSuite(paths, paths)
        if java or any(posixpath.basename(path) in BUILD_FILES for path in instance.files):
            return _java(instance)
        raise ConfigError(
            f"{instance.repository}: no tests among its {len(instance.files)} files: there is no "
            "test_*.py or *_test.py, and no Java build file; benchmark.path names a bugs.jsonl, "
            "its folder, or a repository, and benchmark.test_command says how else its tests are "
            "run"
        )
    try:
        return _commanded(instance, command, java)
    except ValueError as error:
        raise ConfigError(f"benchmark.test_command {command!r}: {error}") from error


def _commanded(instance: Instance, command: str, java: bool) -> Suite:
    """The suite of a single plain command. Raises ValueError."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=SHELL)
    lexer.whitespace_split, lexer.commenters = True, ""
    operators = [word for word in lexer if word and set(word) <= set(SHELL)]
    words = shlex.split(command)
    if not words:
        raise ValueError(f"it is empty: {ACCEPTED}")
    if operators:
        raise ValueError(
            f"{operators[0]!r} is for a shell, and the command is run without one: give one "
            "command, whose files the program itself opens"
        )
    if words[0] == "env" or re.match(r"[A-Za-z_]\w*=", words[0]):
        raise ValueError("it sets variables: give them in benchmark.variables")
    if posixpath.basename(words[0]) in BUILD_TOOLS:
        if strange := [word for word in words[1:] if word not in BUILD_WORDS]:
            raise ValueError(
                f"{strange[0]} is not passed on: all tests are run; name some in "
                "benchmark.fail_to_pass, and give options of the build tool in sandbox.java"
            )
        return _java(instance)
    python = posixpath.basename(words[0]).startswith("python")
    options, rest = split_options(words[1:]) if python else ([], words)
    if python and rest[:1] == ["-m"]:
        rest = rest[1:]
    is_pytest = rest[:1] in (["pytest"], ["py.test"])
    if not python and not is_pytest:
        raise ValueError(f"no debug session can be started on it: {ACCEPTED}")
    if java:
        raise ValueError(
            "it runs tests in Python, and benchmark.language is java: leave one of them out"
        )
    if is_pytest and options:
        raise ValueError(
            f"Python is started without {options[0]}: leave it out; pytest has a -W of its own, "
            "and benchmark.variables takes PYTHON..."
        )
    return _pytest(instance, rest[1:]) if is_pytest else _python(instance, command, words)


def _java(instance: Instance) -> Suite:
    paths = set()
    for path in _java_test_files(instance.files):
        # The outermost folder with a test name, or a test source elsewhere.
        parts = path.split("/")
        named = [index for index, part in enumerate(parts[:-1]) if part in TEST_FOLDERS]
        paths.add("/".join(parts[: named[0] + 1]) if named else path)
    if not paths:
        raise ConfigError(
            f"{instance.repository}: no Java tests among its {len(instance.files)} files: none of "
            "JUnit's or TestNG's annotations stands in a .java file"
        )
    return JavaSuite(replace(instance, language="java"), tuple(sorted(paths)))


def _pytest(instance: Instance, words: Sequence[str]) -> Suite:
    paths, options = [], []
    before = ""
    for word in words:
        if _is_there(word.partition("::")[0], instance.files):
            paths.append(word.rstrip("/"))
        elif word.startswith("-") or (before.startswith("-") and "=" not in before):
            options.append(word)
        else:
            raise ValueError(f"{word} is no file, folder or test of {instance.repository}")
        before = word
    known = tuple(find_test_paths(instance.files))
    own = [path.partition("::")[0] for path in paths if path != "."]
    if not known and not own:
        raise ValueError(
            f"no test_*.py or *_test.py among the {len(instance.files)} files of "
            f"{instance.repository}; name the files or folders of its tests"
        )
    every = tuple(dict.fromkeys((*known, *own)))
    return PytestSuite(tuple(paths) or known, every, tuple(options))


def _python(instance: Instance, command: str, words: Sequence[str]) -> Suite:
    try:
        target = parse_target(command)
    except TargetError as error:
        raise ValueError(
            f"{error}; unittest's tests are run by pytest, without any benchmark.test_command; "
            f"else {ACCEPTED}"
        ) from error
    script = target.names[0] if target.kind in ("script", "pytest") else None
    if script is not None and script not in instance.files:
        raise ValueError(f"{script} is no file of {instance.repository}")
    if script is not None:
        own = [script]
    else:
        # The files that `-m MODULE` runs, or the folder in which unittest looks for tests.
        _, (_, module, *arguments) = split_options(words[1:])
        file = module.replace(".", "/")
        own = [f"{file}.py", f"{file}/__main__.py"]
        if module == "unittest":
            before = ("-s", "--start-directory", "discover")
            own = [word.rstrip("/") for option, word in pairwise(arguments) if option in before]
        own = [path for path in own if path not in (".", "") and _is_there(path, instance.files)]
    return CommandSuite(command, tuple(dict.fromkeys((*find_test_paths(instance.files), *own))))


def _is_there(path: str, files: Mapping[str, bytes]) -> bool:
    folder = path.rstrip("/")
    return path in (".", "./") or path in files or any(f.startswith(f"{folder}/") for f in files)
