"""The user's own repository with failing tests, in a folder or at a git URL, as one bug."""

from __future__ import annotations

import hashlib
import json
import logging
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from collect.benchmarks.base import Environment, Instance, Language, TestResults, TestStatus
from collect.benchmarks.config import RepositoryConfig
from collect.benchmarks.git_clones import is_git_url
from collect.benchmarks.java_run import run_java_tests
from collect.benchmarks.marks import EnvironmentFingerprint
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.issue_text import read_symptom, write_issue
from collect.benchmarks.projects.project import (
    ProjectRefused,
    Reason,
    Source,
    arrange,
    fetch,
    find_suite_paths,
    find_test_paths,
    read_reasons,
    reason_against,
    without_outputs,
)
from collect.benchmarks.pytest_run import PytestJob, run_to_the_end, runner_in, statuses
from collect.benchmarks.running import StoredBenchmark
from collect.benchmarks.workspace import open_instance_sandbox, own_modules
from collect.errors import ConfigError, the_nearest
from collect.quantities import first_of
from collect.store.files import StrictRecord, write_text
from sandbox import Sandbox, SandboxConfig
from sandbox.debugger import Debugger, DebugLimits, Launch, State, open_debugger, render
from sandbox.environment import cache_folder
from sandbox.errors import DebuggerError
from sandbox.java.lookup import Sources
from sandbox.java.project import GRADLE_FILES, scan_workspace
from sandbox.languages.python.commands import RUNNERS
from sandbox.languages.python.own_environment import OwnEnvironment, find_own_environment
from sandbox.languages.python.pytest_options import (
    ADDOPTS,
    Option,
    is_among,
    read_project_options,
    read_words,
)
from sandbox.languages.python.targets import split_command

logger = logging.getLogger(__name__)
SHOWN_OUTPUT = 1500
"""Characters from the end of a run's output that a message or problem statement shows."""


CAUSE = re.compile(
    r"^(?:INTERNALERROR> (?!Traceback)|E {3}|ERROR: |\S{1,100}: error: )(\S.*)$", re.MULTILINE
)
"""A line of pytest's with an error that ended it, or that kept it from importing a file."""


@dataclass(frozen=True)
class SuiteRun(TestResults):
    """The results of all tests, in run order, and why they failed."""

    unloaded: tuple[str, ...] = ()
    """Test files that can't be imported, or other reasons why tests could not run."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """Of the failing tests, if the runner reports them."""

    def of(self, status: TestStatus) -> tuple[str, ...]:
        return tuple(test for test, found in self.statuses.items() if found is status)

    @property
    def end(self) -> str:
        return self.output.strip()[-SHOWN_OUTPUT:]

    @property
    def causes(self) -> str:
        """Why pytest ran no test, as it says itself, or the end of what was printed."""
        lines = dict.fromkeys(found[1] for found in CAUSE.finditer(self.output))
        if not lines:
            return f"The end of what was printed:\n{self.end}"
        return "pytest says:\n" + "\n".join(lines)[:SHOWN_OUTPUT]


@dataclass(frozen=True)
class PytestSuite:
    """The tests that pytest collects from some paths."""

    paths: tuple[str, ...]
    """Files, folders and node ids."""
    test_paths: tuple[str, ...]
    """Of every suite: files and folders of the tests, which the agent must not change."""
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
            cut_short=run.cut_short,
            unloaded=run.unloaded,
            reasons=read_reasons(run.reports),
        )


TEST_FOLDERS = frozenset({"test", "tests"})
MARKERS = (b"@Test", b"@ParameterizedTest", b"@RepeatedTest", b"@TestFactory", b"TestCase")
"""Every source with a test contains one of these."""


@dataclass(frozen=True)
class JavaSuite:
    """The tests of all modules, built by Maven, Gradle or javac."""

    instance: Instance
    """The instance without its tests, which are still to be found."""
    test_paths: tuple[str, ...]
    options: ClassVar[tuple[str, ...]] = ()
    language: ClassVar[Language] = "java"

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        sources = Sources(sandbox, scan_workspace(sandbox))
        # An inherited test counts for every class that can be instantiated.
        found = dict.fromkeys(
            f"{each.name}#{test.name}"
            for path in _java_test_files(self.instance.files)
            for each in sources.outline(path).classes
            if each.concrete
            for test in sources.tests(path, each)
        )
        results = run_java_tests(sandbox, list(found), timeout)
        missing = all(status is TestStatus.MISSING for status in results.statuses.values())
        unloaded = ("the build",) if found and missing and not results.timed_out else ()
        return SuiteRun(
            results.statuses,
            results.output,
            results.timed_out,
            raised=results.raised,
            unloaded=unloaded,
        )


Suite = PytestSuite | JavaSuite


def _java_test_files(files: Mapping[str, bytes]) -> list[str]:
    return [
        path
        for path, data in sorted(files.items())
        if path.endswith(".java") and any(marker in data for marker in MARKERS)
    ]


# Choosing the tests.

BUILD_FILES = ("pom.xml", *GRADLE_FILES)
ACCEPTED = (
    "give `pytest` or `python -m pytest` with arguments; it is run without a shell, and variables "
    "have a key of their own, benchmark.variables; Maven and Gradle run all tests without a "
    "command, if benchmark.language is java"
)


def choose_suite(
    instance: Instance, command: str | None, java: bool, are_named: bool = False
) -> Suite:
    """Choose the suite for the instance's files; `java` selects the Java tests. If `are_named`, no
    test need be found: a client names those that it wants.

    Raises ConfigError if there are no tests, or if no debug session could start on the command.
    """
    if command is None:
        paths = tuple(find_test_paths(instance.files))
        if paths and not java:
            return PytestSuite(find_suite_paths(instance.files, paths), paths)
        if java or any(posixpath.basename(path) in BUILD_FILES for path in instance.files):
            return _java(instance)
        if are_named and any(path.endswith(".py") for path in instance.files):
            return PytestSuite((), ())
        raise ConfigError(
            f"{instance.repository}: no tests among its {len(instance.files)} files: there is no "
            "test_*.py or *_test.py, and no Java build file; benchmark.path names a bugs.jsonl, "
            "its folder, or a repository, and benchmark.test_command says how else its tests are "
            "run"
        )
    try:
        split = split_command(command)
        if split.folder:
            raise ValueError("leave out `cd`, and give paths from the repository's top")
        words = split.words[1:] if split.words[:1] == ("-m",) else split.words
        if split.variables or not words or words[0] not in RUNNERS:
            raise ValueError(f"it is no test runner that StepInto knows: {ACCEPTED}")
        if java:
            raise ValueError(
                "it runs tests in Python, and benchmark.language is java: leave one of them out"
            )
        return _pytest(instance, words[1:])
    except ValueError as error:
        raise ConfigError(f"benchmark.test_command {command!r}: {error}") from error


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
    paths: list[str] = []
    options: list[str] = []
    left_out: list[str] = []
    for word in read_words(words, partial(is_among, instance.files)):
        if isinstance(word, Option) and word.breaks_session:
            left_out.append(" ".join(word.words))
        elif isinstance(word, Option):
            options += word.words
        elif is_among(instance.files, word):
            paths.append(word.rstrip("/"))
        else:
            raise ValueError(f"{word} is no file, folder or test of {instance.repository}")
    if left_out:
        logger.warning(f"benchmark.test_command: not used here: {', '.join(left_out)}")
    known = tuple(find_test_paths(instance.files))
    chosen = tuple(paths) or find_suite_paths(instance.files, known)
    own = [path.partition("::")[0] for path in paths if path != "."]
    if not known and not own:
        raise ValueError(
            f"no test_*.py or *_test.py among the {len(instance.files)} files of "
            f"{instance.repository}; name the files or folders of its tests"
        )
    every = tuple(dict.fromkeys((*known, *own)))
    return PytestSuite(chosen, every, tuple(options))


# The problem statement for a repository with failing tests, if the user gives none.

SHOWN_TESTS = 10
FAILS_WITH = "The first one fails with:\n\n```\n{}\n```"


def read_statement(given: str) -> str:
    """The given text, or the content of the file that it names. Raises ConfigError."""
    if not given.endswith((".md", ".txt", ".rst")) or len(given.split()) != 1:
        text, where = given, "benchmark.problem_statement"
    else:
        try:
            text, where = Path(given).read_text("utf-8"), given
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"benchmark.problem_statement: {given} can't be read ({error}); name a file of "
                "UTF-8 text, or give the text itself"
            ) from error
    if not text.strip():
        raise ConfigError(f"{where} is empty: say what is wrong, or leave it out")
    return text


def write_statement(instance: Instance, failing: Sequence[str], run: SuiteRun) -> str:
    """How the first failing test fails: as a user would report it with the exception's message if
    pytest reports it, else the exception that Java's runner reports, else the runner's output."""
    shown = "\n".join(f"- `{test}`" for test in failing[:SHOWN_TESTS])
    more = len(failing) - SHOWN_TESTS
    named = f"Failing tests:\n\n{shown}" + (f"\n- and {more} more" if more > 0 else "")
    reason = run.reasons.get(failing[0])
    if reason is None or not reason.place:
        how = "does not end" if run.timed_out else "fails"
        said = f"\n\nThe end of what was printed:\n\n```\n{run.end}\n```" if run.end else ""
        if raised := run.raised.get(failing[0]):
            said = "\n\n" + FAILS_WITH.format(raised[:SHOWN_OUTPUT])
        return f"`{failing[0]}` {how}\n\n{named}{said}\n"
    symptom = read_symptom(
        instance.repository,
        failing,
        files=instance.files,
        exception=reason.type,
        message=reason.message,
        output=run.output,
    )
    issue = write_issue(symptom, instance.id).strip()
    said = FAILS_WITH.format(reason.message[:SHOWN_OUTPUT])
    return f"{issue}\n\n{named}\n\n{said}\n"


# Run all tests of a repository once to find the failing ones, and cache the result by tree, run
# settings and interpreter: one with flaky tests remains the same bug in every start of a run.

EXTENSIONS = (".c", ".cc", ".cpp", ".pyx", ".rs")
"""Source suffixes of Python extension modules."""
ADVICE = {
    "python": "benchmark.more_packages and benchmark.import_paths say what they need",
    "java": "it must work in the sandbox, without a network; sandbox.java has the options, and "
    "names the repositories of what it needs",
}


class FoundTests(StrictRecord):
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    statement: str


def _advice(instance: Instance) -> str:
    advice = "; ".join([ADVICE[instance.language], *instance.environment.deficiencies()])
    sources = [path for path in instance.files if path.endswith(EXTENSIONS)]
    if instance.language == "python" and sources:
        advice += (
            f"; extension modules ({first_of(sources, 2)}) are not built here: build them in "
            "the folder, or name a release of the project in benchmark.packages"
        )
    return advice


def _missing_advice(instance: Instance, printed: str) -> str:
    """What to do if a module is missing."""
    return f"; {_advice(instance)}" if "ModuleNotFoundError" in printed else ""


NO_MODULE = re.compile(r"No module named '(\w+)")


def lacks_something(reason: Reason, own: Iterable[str]) -> bool:
    """Whether a test fails since a package, its metadata or a fixture is missing, rather than by a
    bug. `own` are the repository's modules: a fix may add one."""
    if reason.type in ("PackageNotFoundError", "FixtureLookupError"):
        return True
    missing = NO_MODULE.search(reason.message)
    if reason.type != "ModuleNotFoundError" or missing is None:
        return False
    return missing[1] not in {name.partition(".")[0] for name in own}


@dataclass(frozen=True)
class Repository:
    """A repository's files, and how its tests are run."""

    project: ProjectConfig
    source: Source
    suite: Suite
    bare: Instance
    """The bug without its tests, and without what they need installed."""


@dataclass(eq=False)
class LocalRepositoryBenchmark(StoredBenchmark):
    name: ClassVar[str] = "local"
    place: str
    config: RepositoryConfig
    sandbox: SandboxConfig
    """Runs the tests to find the failing ones."""
    test_timeout: float
    """Seconds for one run of all tests."""
    java: bool
    """Whether to take the Java tests, whatever other tests there are."""

    def _read(self) -> Iterable[Instance]:
        told = self.config.problem_statement
        statement = None if told is None else read_statement(told)
        repository = self.look()
        bare = self.installed(repository)
        found = self._find(repository.suite, bare)
        yield replace(
            bare,
            problem_statement=statement or found.statement,
            fail_to_pass=found.fail_to_pass,
            pass_to_pass=found.pass_to_pass,
        )

    def look(self, are_named: bool = False) -> Repository:
        """The repository as it is, without running or installing anything. `are_named` is as in
        `choose_suite`. Raises ConfigError."""
        config = self.config
        from_git = is_git_url(self.place) or config.commit is not None
        project = ProjectConfig(
            git=self.place if from_git else None,
            revision=config.commit,
            folder=None if from_git else self.place,
            packages=config.packages,
            more_packages=config.more_packages,
            python=config.python,
            import_paths=config.import_paths,
        )
        source = fetch(project, FactoryConfig(max_tree_mb=config.max_tree_mb))
        bare = Instance(
            id=re.sub(r"[^\w.-]+", "-", source.slug),
            benchmark=self.name,
            language="python",
            repository=source.name,
            problem_statement="",
            fail_to_pass=(),
            pass_to_pass=(),
            gold_patch="",
            files=without_outputs(source.files),
            commit=source.origin.rpartition("@")[2] if source.origin.startswith("git:") else "",
            is_users=True,
        )
        suite = choose_suite(bare, config.test_command, self.java, are_named)
        bare = replace(bare, language=suite.language, test_paths=suite.test_paths)
        return Repository(project, source, suite, bare)

    def installed(self, repository: Repository) -> Instance:
        """The repository as a bug without tests, once what its tests need is installed. Raises
        ConfigError."""
        environment = self._environment(repository.project, repository.source, repository.suite)
        return replace(repository.bare, environment=environment)

    def _environment(self, project: ProjectConfig, source: Source, suite: Suite) -> Environment:
        """What the tests need, installed if they are in Python. Raises ConfigError."""
        own = self.config.variables
        if suite.language == "java":
            return Environment(variables=own)
        found = {"tests": suite.test_paths or (".",), "language": suite.language}
        wanted = project.model_copy(update=found)
        advice = "the setting packages says what to install instead, more_packages what besides"
        users_own, refusals = self._own_environment(source)
        try:
            arranged = arrange(wanted, source, self.sandbox, users_own)
        except ProjectRefused as error:
            raise ConfigError(f"{error}; {advice}") from error
        for note in arranged.notes:
            logger.warning(f"{source.name}: {note}; {advice}")
        environment = arranged.environment
        if runner := runner_in(source.files, environment.import_paths):
            raise ConfigError(
                f"{self.place}: {runner}: the tests of pytest, and of the packages it is made of, "
                "can't be judged: they would be run by, and test, the pytest that is installed; "
                "take another repository, or rename this module if it is none of pytest's"
            )
        # The variables for pytest, the command's options, and last the user's variables.
        needed = environment.variables
        options = (needed.get(ADDOPTS, ""), shlex.join(suite.options), own.get(ADDOPTS, ""))
        variables = {**needed, **own}
        if any(options):
            variables[ADDOPTS] = " ".join(filter(None, options))
        notes = (*environment.notes, *refusals)
        return replace(environment, variables=variables, notes=notes)

    def _own_environment(self, source: Source) -> tuple[OwnEnvironment | None, tuple[str, ...]]:
        """The user's own environment of a folder if it can run the tests, and why others can't."""
        config, sandbox = self.config, self.sandbox
        is_set = config.python is not None or sandbox.python is not None
        if is_set or sandbox.backend != "local" or is_git_url(self.place) or config.commit:
            return None, ()
        return find_own_environment(Path(self.place), partial(reason_against, source.files))

    def _find(self, suite: Suite, instance: Instance) -> FoundTests:
        """The instance's tests. Raises ConfigError if no bug is visible, SandboxError."""
        place, kind = EnvironmentFingerprint(self.sandbox).name(instance), type(suite).__name__
        facts = [instance.hash, place, kind, self.config.fail_to_pass, repr(suite)]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        path = cache_folder() / "local-repositories" / f"{digest}.json"
        # A file may be missing, incomplete or of another version.
        with suppress(FileNotFoundError, ValidationError):
            return FoundTests.model_validate_json(path.read_bytes())
        logger.info(f"{instance.repository}: running all of its tests, to find those that fail")
        if note := read_project_options(instance.files, instance.test_paths).note:
            logger.warning(f"{instance.repository}: not used here, of the {note}")
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            sandbox.write_files(instance.files)
            run = suite.run_all(sandbox, self.test_timeout)
        found = self._judged(instance, run)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, found.model_dump_json(indent=1) + "\n")
        return found

    def _judged(self, instance: Instance, run: SuiteRun) -> FoundTests:
        name, passing = instance.repository, run.of(TestStatus.PASSED)
        failing = self.config.fail_to_pass or run.of(TestStatus.FAILED)
        for test in self.config.fail_to_pass:
            self._require_failing(name, test, run)
        if not self.config.fail_to_pass:
            self._require_end(instance, run)
        reasons = [run.reasons[test] for test in failing if test in run.reasons]
        kinds = {reason.type for reason in reasons}
        if not passing and kinds and kinds <= {"ModuleNotFoundError", "ImportError"}:
            raise ConfigError(
                f"{name}: every test fails to import what it needs: {reasons[0].message}; "
                f"{_advice(instance)}"
            )
        failing = self._of_bugs(instance, failing, run)
        if run.cut_short is not None:
            logger.warning(f"{name}: {run.cut_short}")
        if not passing and len(run.statuses) > 1 and failing[0] in run.reasons:
            said = run.reasons[failing[0]].message.partition("\n")[0]
            logger.warning(
                f"{name}: none of its {len(run.statuses)} tests passes; the first fails with "
                f"{said!r}; if the tests lack something, {_advice(instance)}"
            )
        if run.unloaded:
            logger.warning(
                f"{name}: tests that can't be imported are left out: {first_of(run.unloaded)}"
            )
        statement = write_statement(instance, failing, run)
        return FoundTests(fail_to_pass=failing, pass_to_pass=passing, statement=statement)

    def _of_bugs(
        self, instance: Instance, failing: Sequence[str], run: SuiteRun
    ) -> tuple[str, ...]:
        """The failing tests without those that lack something here, unless the user names them.
        Raises ConfigError if no others fail."""
        if self.config.fail_to_pass:
            return tuple(failing)
        own = own_modules(instance.files, instance.environment.import_paths)
        lacking = {
            test: run.reasons[test].message
            for test in failing
            if test in run.reasons and lacks_something(run.reasons[test], own)
        }
        rest = tuple(test for test in failing if test not in lacking)
        if lacking:
            test, message = next(iter(lacking.items()))
            many = f"{len(lacking)} tests lack what they need"
            told = "1 test lacks what it needs" if len(lacking) == 1 else many
            told += f" here, such as {test}: {message.strip()}; {_advice(instance)}"
            if not rest:
                raise ConfigError(f"{instance.repository}: no bug is to be seen: {told}")
            logger.warning(f"{instance.repository}: left out: {told}")
        return rest

    def _require_failing(self, name: str, test: str, run: SuiteRun) -> None:
        status = run.statuses.get(test, TestStatus.MISSING)
        told = f"{name}: benchmark.fail_to_pass: {test}"
        if status is TestStatus.MISSING and not run.timed_out:
            hint = the_nearest(test, run.statuses) or f":\n{run.end}"
            raise ConfigError(f"{told} did not run{hint}")
        if status not in (TestStatus.MISSING, TestStatus.FAILED):
            raise ConfigError(f"{told} does not fail, it is {status}; name tests that fail")

    def _require_end(self, instance: Instance, run: SuiteRun) -> None:
        """Raises ConfigError if the tests did not all run, or none of them fails."""
        passing, failing = run.of(TestStatus.PASSED), run.of(TestStatus.FAILED)
        printed = run.causes
        if run.timed_out:
            told = (
                f"its tests did not end in benchmark.test_timeout ({self.test_timeout:g} s): raise "
                "it, name fewer tests in benchmark.test_command, or the one that does not end in "
                "benchmark.fail_to_pass"
            )
        elif failing:
            return
        elif passing:
            told = f"no test fails, {len(passing)} pass: there is no bug to be seen; add a test "
            told += "that shows it"
            if run.unloaded:
                told += f"; these can't be imported: {first_of(run.unloaded)}; "
                told += _advice(instance)
        elif run.unloaded:
            told = f"not one test can be loaded ({first_of(run.unloaded)}); "
            told += f"{_advice(instance)}. {printed}"
        else:
            told = f"not one test ran to its end{_missing_advice(instance, printed)}. {printed}"
        raise ConfigError(f"{instance.repository}: {told}")


@contextmanager
def open_session(
    place: Path | str,
    test: str,
    config: RepositoryConfig | None = None,
    sandbox: SandboxConfig | None = None,
    limits: DebugLimits | None = None,
) -> Iterator[Debugger]:
    """A debug session on one test of a repository, a folder or a git URL, paused at the test's
    first line; `first_stop` of the session says where it is if a fixture fails, say, and a warning
    tells so. It works on a copy in a sandbox of its own. `test` is as in `Launch`; `config` has the
    keys of `benchmark` for a repository, such as `packages`.

    Raises ConfigError if the repository has no tests or lacks what they need, DebuggerError if the
    test can't be started, SandboxError.
    """
    config, sandbox = config or RepositoryConfig(), sandbox or SandboxConfig()
    java = "#" in test and "::" not in test
    benchmark = LocalRepositoryBenchmark(str(place), config, sandbox, test_timeout=0.0, java=java)
    instance = benchmark.installed(benchmark.look(are_named=True))
    # pytest's settings may depend on the folder of the test.
    with open_instance_sandbox(sandbox, replace(instance, fail_to_pass=(test,))) as opened:
        benchmark.prepare(instance, opened)
        with closing(open_debugger(instance.language, opened, limits)) as debugger:
            stop = debugger.start(Launch(test))
            if stop.error is not None:
                told = f"{stop.error}{_missing_advice(instance, stop.error + stop.output)}"
                raise DebuggerError(f"{place}: {test}: {told}\n{stop.output}".strip())
            if stop.state is not State.RUNTIME:
                logger.warning("%s is not paused at its first line: %s", test, render(stop))
            yield debugger
