"""The user's own repository with failing tests, as a benchmark of one bug."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from collect.benchmarks.base import Environment, Instance, TestResults, TestStatus
from collect.benchmarks.config import RepositoryConfig
from collect.benchmarks.git_clones import is_git_url
from collect.benchmarks.local_repository.suites import SHOWN_OUTPUT, Suite, SuiteRun, choose_suite
from collect.benchmarks.marks import EnvironmentFingerprint
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.issue_text import read_symptom, write_issue
from collect.benchmarks.projects.java_layout import without_outputs
from collect.benchmarks.projects.layout import arrange
from collect.benchmarks.projects.project import ProjectRefused, Source
from collect.benchmarks.projects.sources import fetch
from collect.benchmarks.pytest_run import runner_in
from collect.benchmarks.workspace import open_instance_sandbox
from collect.errors import ConfigError
from collect.field_errors import the_nearest
from collect.quantities import first_of
from collect.store.atomic_files import write_text
from collect.store.record_lines import StrictRecord
from sandbox import Sandbox, SandboxConfig
from sandbox.environment import cache_folder

logger = logging.getLogger(__name__)

# The problem statement for a repository with failing tests, if the user gives none.


SUFFIXES = (".md", ".txt", ".rst")
SHOWN_TESTS = 10


def read_statement(given: str) -> str:
    """The given text, or the content of the file that it names. Raises ConfigError."""
    if not given.endswith(SUFFIXES) or len(given.split()) != 1:
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
    the runner reports it, else the runner's output."""
    reason = run.reasons.get(failing[0])
    if reason is None or not reason.place:
        return _printed(failing, run)
    symptom = read_symptom(
        instance.repository,
        failing,
        files=instance.files,
        exception=reason.type,
        message=reason.message,
        output=run.output,
    )
    issue = write_issue(symptom, instance.id).strip()
    said = f"The first one fails with:\n\n```\n{reason.message[:SHOWN_OUTPUT]}\n```"
    return f"{issue}\n\n{_named(failing)}\n\n{said}\n"


def _printed(failing: Sequence[str], run: SuiteRun) -> str:
    how = "does not end" if run.timed_out else "fails"
    said = f"\n\nThe end of what was printed:\n\n```\n{run.end}\n```" if run.end else ""
    return f"`{failing[0]}` {how}\n\n{_named(failing)}{said}\n"


def _named(failing: Sequence[str]) -> str:
    shown = "\n".join(f"- `{test}`" for test in failing[:SHOWN_TESTS])
    more = len(failing) - SHOWN_TESTS
    return f"Failing tests:\n\n{shown}" + (f"\n- and {more} more" if more > 0 else "")


# Run all tests of a repository once to find the failing ones, and cache the result.
#
# The cache is keyed by tree, run settings and interpreter, so that a repository with flaky tests
# remains the same bug in every start of a run.


EXTENSIONS = (".c", ".cc", ".cpp", ".pyx", ".rs")
"""Source suffixes of Python extension modules."""
FOLDER = "local-repositories"
IMPORTS = ("ModuleNotFoundError", "ImportError")
ADVICE = {
    "python": "benchmark.packages and benchmark.import_paths say what they need",
    "java": "it must work in the sandbox, without a network; sandbox.java has the options",
}


class FoundTests(StrictRecord):
    """Which tests fail, which pass, and how the first failing one fails."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    statement: str


@dataclass(frozen=True)
class Finder:
    """Finds the failing tests of one repository, or of the named tests."""

    suite: Suite
    sandbox: SandboxConfig
    timeout: float
    """Seconds for one run of all tests."""
    named: tuple[str, ...] = ()

    def find(self, instance: Instance) -> FoundTests:
        """The tests of an instance that has none yet.

        Raises ConfigError if no bug is visible, SandboxError.
        """
        path = self._path(instance)
        known = _read(path)
        if known is not None:
            return known
        logger.info(f"{instance.repository}: running all of its tests, to find those that fail")
        found = self._found(instance, self._run(instance))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, found.model_dump_json(indent=1) + "\n")
        return found

    def _advice(self, instance: Instance) -> str:
        advice = ADVICE[self.suite.language]
        sources = [path for path in instance.files if path.endswith(EXTENSIONS)]
        if self.suite.language == "python" and sources:
            advice += (
                f"; extension modules ({first_of(sources, 2)}) are not built here: build them in "
                "the folder, or name a release of the project in benchmark.packages"
            )
        return advice

    def _path(self, instance: Instance) -> Path:
        facts = [
            instance.hash,
            EnvironmentFingerprint(self.sandbox).name(instance),
            type(self.suite).__name__,
        ]
        digest = hashlib.sha256(json.dumps([*facts, self.named, repr(self.suite)]).encode())
        return cache_folder() / FOLDER / f"{digest.hexdigest()[:16]}.json"

    def _run(self, instance: Instance) -> SuiteRun:
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            sandbox.write_files(instance.files)
            return self.suite.run_all(sandbox, self.timeout)

    def _found(self, instance: Instance, run: SuiteRun) -> FoundTests:
        name = instance.repository
        if not run.of(TestStatus.FAILED) and not run.of(TestStatus.PASSED) and not self.named:
            raise ConfigError(f"{name}: {self._nothing_ran(instance, run)}")
        failing = self._failing(instance, run)
        passing = run.of(TestStatus.PASSED)
        unloadable = [run.reasons[test] for test in failing if test in run.reasons]
        if not passing and unloadable and all(each.type in IMPORTS for each in unloadable):
            raise ConfigError(
                f"{name}: every test fails to import what it needs: {unloadable[0].message}; "
                f"{self._advice(instance)}"
            )
        if run.cut_short is not None:
            logger.warning(f"{name}: {run.cut_short}")
        if not passing and len(run.statuses) > 1 and failing[0] in run.reasons:
            said = run.reasons[failing[0]].message.partition("\n")[0]
            logger.warning(
                f"{name}: none of its {len(run.statuses)} tests passes; the first fails with "
                f"{said!r}; if the tests lack something, {self._advice(instance)}"
            )
        if run.unloaded:
            logger.warning(
                f"{name}: tests that can't be imported are left out: {first_of(run.unloaded)}"
            )
        statement = write_statement(instance, failing, run)
        return FoundTests(fail_to_pass=failing, pass_to_pass=passing, statement=statement)

    def _failing(self, instance: Instance, run: SuiteRun) -> tuple[str, ...]:
        """The failing tests that define the bug. Raises ConfigError if there are none."""
        name = instance.repository
        if self.named:
            for test in self.named:
                self._require_failing(name, test, run)
            return self.named
        if run.timed_out:
            raise ConfigError(f"{name}: {self._no_end()}")
        failing = run.of(TestStatus.FAILED)
        if not failing:
            left = f"; these can't be imported: {first_of(run.unloaded)}; {self._advice(instance)}"
            raise ConfigError(
                f"{name}: no test fails, {len(run.of(TestStatus.PASSED))} pass: there is no bug to "
                f"be seen; add a test that shows it{left if run.unloaded else ''}"
            )
        return failing

    def _require_failing(self, name: str, test: str, run: SuiteRun) -> None:
        status = run.statuses.get(test)
        if status is TestStatus.FAILED or (run.timed_out and status in (None, TestStatus.MISSING)):
            return
        if status is None or status is TestStatus.MISSING:
            hint = the_nearest(test, run.statuses) or f":\n{run.end}"
            raise ConfigError(f"{name}: benchmark.fail_to_pass: {test} did not run{hint}")
        raise ConfigError(
            f"{name}: benchmark.fail_to_pass: {test} does not fail, it is {status}; name tests "
            "that fail"
        )

    def _nothing_ran(self, instance: Instance, run: SuiteRun) -> str:
        if run.timed_out:
            return self._no_end()
        if run.unloaded:
            return (
                f"not one test can be loaded ({first_of(run.unloaded)}); "
                f"{self._advice(instance)}. The end of what was printed:\n{run.end}"
            )
        return f"not one test ran to its end. The end of what was printed:\n{run.end}"

    def _no_end(self) -> str:
        return (
            f"its tests did not end in benchmark.test_timeout ({self.timeout:g} s): raise it, name "
            "fewer tests in benchmark.test_command, or the one that does not end in "
            "benchmark.fail_to_pass"
        )


def _read(path: Path) -> FoundTests | None:
    """The cached result; None if the file is unreadable, incomplete or of another version."""
    try:
        return FoundTests.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


ADDOPTS = "PYTEST_ADDOPTS"


class LocalRepositoryBenchmark:
    """The bug in a folder or git URL."""

    name = "local"

    def __init__(
        self,
        place: str,
        config: RepositoryConfig,
        sandbox: SandboxConfig,
        *,
        test_timeout: float,
        java: bool = False,
    ) -> None:
        """`sandbox` runs the tests to find the failing ones; `test_timeout` is in seconds for one
        run of them; `java` selects the Java tests, whatever other tests there are."""
        self.place = place
        self.config = config
        self.sandbox = sandbox
        self.test_timeout = test_timeout
        self.java = java

    def instances(self) -> Sequence[Instance]:
        return (self._found[0],)

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        return self._found[1].run(instance, sandbox, list(tests), self.test_timeout)

    @cached_property
    def _found(self) -> tuple[Instance, Suite]:
        """The bug and its tests. Raises ConfigError, SandboxError."""
        told = self.config.problem_statement
        statement = None if told is None else read_statement(told)
        project = self._project()
        source = fetch(project, FactoryConfig(max_tree_mb=self.config.max_tree_mb))
        bare = _without_tests(source)
        suite = choose_suite(bare, self.config.test_command, self.java)
        environment = self._environment(project, source, suite)
        if suite.language == "python":
            self._refuse_own_runner(source.files, environment.import_paths)
        bare = replace(
            bare, language=suite.language, test_paths=suite.test_paths, environment=environment
        )
        finder = Finder(suite, self.sandbox, self.test_timeout, self.config.fail_to_pass)
        found = finder.find(bare)
        instance = replace(
            bare,
            problem_statement=statement or found.statement,
            fail_to_pass=found.fail_to_pass,
            pass_to_pass=found.pass_to_pass,
        )
        return instance, suite

    def _project(self) -> ProjectConfig:
        config = self.config
        from_git = is_git_url(self.place) or config.commit is not None
        return ProjectConfig(
            git=self.place if from_git else None,
            revision=config.commit,
            folder=None if from_git else self.place,
            packages=config.packages,
            import_paths=config.import_paths,
        )

    def _refuse_own_runner(self, files: Iterable[str], import_paths: Sequence[str]) -> None:
        own = runner_in(files, import_paths)
        if own is not None:
            raise ConfigError(
                f"{self.place}: {own}: the tests of pytest, and of the packages it is made of, "
                "can't be judged: they would be run by, and test, the pytest that is installed; "
                "take another repository, or rename this module if it is none of pytest's"
            )

    def _environment(self, project: ProjectConfig, source: Source, suite: Suite) -> Environment:
        """What the tests need, installed if they are in Python. Raises ConfigError."""
        own = self.config.variables
        if suite.language == "java":
            return Environment(variables=own)
        tests = suite.test_paths or (".",)
        wanted = project.model_copy(update={"tests": tests})
        try:
            arranged = arrange(wanted, source, self.sandbox)
        except ProjectRefused as error:
            told = "benchmark.packages says what to install instead, [] for nothing"
            raise ConfigError(f"{error}; {told}") from error
        for note in arranged.notes:
            logger.warning(
                f"{source.name}: {note}; benchmark.packages says what to install instead"
            )
        environment = arranged.environment
        variables = _variables(environment.variables, suite.options, own)
        return replace(environment, variables=variables)


def _without_tests(source: Source) -> Instance:
    """The bug, with what its files alone show."""
    return Instance(
        id=re.sub(r"[^\w.-]+", "-", source.slug),
        benchmark=LocalRepositoryBenchmark.name,
        language="python",
        repository=source.name,
        problem_statement="",
        fail_to_pass=(),
        pass_to_pass=(),
        gold_patch="",
        files=without_outputs(source.files),
        commit=source.origin.rpartition("@")[2] if source.origin.startswith("git:") else "",
    )


def _variables(
    needed: Mapping[str, str], options: Sequence[str], own: Mapping[str, str]
) -> dict[str, str]:
    """Variables for pytest, the command's options, and last the user's variables."""
    options_of_all = (needed.get(ADDOPTS, ""), shlex.join(options), own.get(ADDOPTS, ""))
    return {**needed, **own, ADDOPTS: " ".join(filter(None, options_of_all))}
