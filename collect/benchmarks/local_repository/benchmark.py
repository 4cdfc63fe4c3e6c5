"""The user's own repository with failing tests, as a benchmark of one bug."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from collect.benchmarks.base import Environment, Instance, TestResults, TestStatus
from collect.benchmarks.config import RepositoryConfig
from collect.benchmarks.git_clones import is_git_url
from collect.benchmarks.local_repository.suites import (
    SHOWN_OUTPUT,
    CommandSuite,
    Suite,
    SuiteRun,
    choose_suite,
)
from collect.benchmarks.marks import EnvironmentFingerprint
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.issue_text import read_symptom, write_issue
from collect.benchmarks.projects.layout import arrange, without_outputs
from collect.benchmarks.projects.project import ProjectRefused, Source
from collect.benchmarks.projects.sources import fetch
from collect.benchmarks.pytest_run import runner_in
from collect.benchmarks.running import StoredBenchmark
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

SHOWN_TESTS = 10


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
    the runner reports it, else the runner's output."""
    shown = "\n".join(f"- `{test}`" for test in failing[:SHOWN_TESTS])
    more = len(failing) - SHOWN_TESTS
    named = f"Failing tests:\n\n{shown}" + (f"\n- and {more} more" if more > 0 else "")
    reason = run.reasons.get(failing[0])
    if reason is None or not reason.place:
        how = "does not end" if run.timed_out else "fails"
        said = f"\n\nThe end of what was printed:\n\n```\n{run.end}\n```" if run.end else ""
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
    said = f"The first one fails with:\n\n```\n{reason.message[:SHOWN_OUTPUT]}\n```"
    return f"{issue}\n\n{named}\n\n{said}\n"


# Run all tests of a repository once to find the failing ones, and cache the result.
#
# The cache is keyed by tree, run settings and interpreter, so that a repository with flaky tests
# remains the same bug in every start of a run.

EXTENSIONS = (".c", ".cc", ".cpp", ".pyx", ".rs")
"""Source suffixes of Python extension modules."""
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
        facts = [
            instance.hash,
            EnvironmentFingerprint(self.sandbox).name(instance),
            type(self.suite).__name__,
            self.named,
            repr(self.suite),
        ]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        path = cache_folder() / "local-repositories" / f"{digest}.json"
        # A file may be missing, incomplete or of another version.
        with suppress(FileNotFoundError, ValidationError):
            return FoundTests.model_validate_json(path.read_bytes())
        logger.info(f"{instance.repository}: running all of its tests, to find those that fail")
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            sandbox.write_files(instance.files)
            run = self.suite.run_all(sandbox, self.timeout)
        found = self._judged(instance, run)
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

    def _judged(self, instance: Instance, run: SuiteRun) -> FoundTests:
        name, passing = instance.repository, run.of(TestStatus.PASSED)
        failing = self.named or run.of(TestStatus.FAILED)
        for test in self.named:
            self._require_failing(name, test, run)
        if not self.named:
            self._require_end(instance, run)
        reasons = [run.reasons[test] for test in failing if test in run.reasons]
        kinds = {reason.type for reason in reasons}
        if not passing and kinds and kinds <= {"ModuleNotFoundError", "ImportError"}:
            raise ConfigError(
                f"{name}: every test fails to import what it needs: {reasons[0].message}; "
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

    def _require_failing(self, name: str, test: str, run: SuiteRun) -> None:
        status = run.statuses.get(test, TestStatus.MISSING)
        if status is TestStatus.FAILED or (run.timed_out and status is TestStatus.MISSING):
            return
        told = f"{name}: benchmark.fail_to_pass: {test}"
        if status is TestStatus.MISSING:
            hint = the_nearest(test, run.statuses) or f":\n{run.end}"
            raise ConfigError(f"{told} did not run{hint}")
        raise ConfigError(f"{told} does not fail, it is {status}; name tests that fail")

    def _require_end(self, instance: Instance, run: SuiteRun) -> None:
        """Raises ConfigError if the tests did not all run, or none of them fails."""
        passing, failing = run.of(TestStatus.PASSED), run.of(TestStatus.FAILED)
        printed = f"The end of what was printed:\n{run.end}"
        if run.timed_out:
            told = (
                f"its tests did not end in benchmark.test_timeout ({self.timeout:g} s): raise it, "
                "name fewer tests in benchmark.test_command, or the one that does not end in "
                "benchmark.fail_to_pass"
            )
        elif failing:
            return
        elif passing:
            told = f"no test fails, {len(passing)} pass: there is no bug to be seen; add a test "
            told += "that shows it"
            if run.unloaded:
                told += f"; these can't be imported: {first_of(run.unloaded)}; "
                told += self._advice(instance)
        elif run.unloaded:
            names = first_of(run.unloaded)
            told = f"not one test can be loaded ({names}); {self._advice(instance)}. {printed}"
        else:
            told = f"not one test ran to its end. {printed}"
        raise ConfigError(f"{instance.repository}: {told}")


ADDOPTS = "PYTEST_ADDOPTS"


@dataclass(eq=False)
class LocalRepositoryBenchmark(StoredBenchmark):
    """The bug in a folder or git URL."""

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
        return (self._found[0],)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        suite = self._found[1]
        if isinstance(suite, CommandSuite):
            return suite.run(sandbox, list(tests), self.test_timeout)
        return super().run_tests(instance, sandbox, tests)

    @cached_property
    def _found(self) -> tuple[Instance, Suite]:
        config, told = self.config, self.config.problem_statement
        statement = None if told is None else read_statement(told)
        from_git = is_git_url(self.place) or config.commit is not None
        project = ProjectConfig(
            git=self.place if from_git else None,
            revision=config.commit,
            folder=None if from_git else self.place,
            packages=config.packages,
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
        )
        suite = choose_suite(bare, config.test_command, self.java)
        environment = self._environment(project, source, suite)
        bare = replace(
            bare, language=suite.language, test_paths=suite.test_paths, environment=environment
        )
        found = Finder(suite, self.sandbox, self.test_timeout, config.fail_to_pass).find(bare)
        instance = replace(
            bare,
            problem_statement=statement or found.statement,
            fail_to_pass=found.fail_to_pass,
            pass_to_pass=found.pass_to_pass,
        )
        return instance, suite

    def _environment(self, project: ProjectConfig, source: Source, suite: Suite) -> Environment:
        """What the tests need, installed if they are in Python. Raises ConfigError."""
        own = self.config.variables
        if suite.language == "java":
            return Environment(variables=own)
        wanted = project.model_copy(update={"tests": suite.test_paths or (".",)})
        advice = "benchmark.packages says what to install instead"
        try:
            arranged = arrange(wanted, source, self.sandbox)
        except ProjectRefused as error:
            raise ConfigError(f"{error}; {advice}, [] for nothing") from error
        for note in arranged.notes:
            logger.warning(f"{source.name}: {note}; {advice}")
        environment = arranged.environment
        runner = runner_in(source.files, environment.import_paths)
        if runner is not None:
            raise ConfigError(
                f"{self.place}: {runner}: the tests of pytest, and of the packages it is made of, "
                "can't be judged: they would be run by, and test, the pytest that is installed; "
                "take another repository, or rename this module if it is none of pytest's"
            )
        # The variables for pytest, the command's options, and last the user's variables.
        needed = environment.variables
        options = (needed.get(ADDOPTS, ""), shlex.join(suite.options), own.get(ADDOPTS, ""))
        variables = {**needed, **own, ADDOPTS: " ".join(filter(None, options))}
        return replace(environment, variables=variables)
