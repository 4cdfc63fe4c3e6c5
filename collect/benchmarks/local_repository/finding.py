"""Find the failing tests of a repository by running all of them once, and keep what was found.

What was found lies below the user's cache, for one tree, one way to run it and one interpreter: so
a repository whose tests are flaky is the same bug in every start of a run.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from collect.benchmarks.base import Instance, TestStatus
from collect.benchmarks.local_repository.runs import Suite, SuiteRun
from collect.benchmarks.local_repository.statement import write_statement
from collect.benchmarks.ran_in import RanIn
from collect.benchmarks.workspace import open_instance_sandbox
from collect.durable import write_text
from collect.errors import ConfigError
from collect.near_names import the_nearest
from collect.quantities import first_of
from collect.strict_record import StrictRecord
from collect.telling import tell
from sandbox import SandboxConfig
from sandbox.environment import cache_folder

EXTENSIONS = (".c", ".cc", ".cpp", ".pyx", ".rs")
"""Of the sources of Python's extension modules."""
FOLDER = "local-repositories"
IMPORTS = ("ModuleNotFoundError", "ImportError")
ADVICE = {
    "python": "benchmark.packages and benchmark.import_paths say what they need",
    "java": "it must work in the sandbox, without a network; sandbox.java has the options",
}


class FoundTests(StrictRecord):
    """Which tests fail, which pass, and how the first failing one does."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    statement: str


@dataclass(frozen=True)
class Finder:
    """Finds the tests of one repository, and of these failing ones where some are named."""

    suite: Suite
    sandbox: SandboxConfig
    timeout: float
    """Seconds for one run of all tests."""
    named: tuple[str, ...] = ()

    def find(self, instance: Instance) -> FoundTests:
        """The tests of an instance that has none yet.

        Raises ConfigError where there is no bug to be seen, SandboxError.
        """
        path = self._path(instance)
        known = _read(path)
        if known is not None:
            return known
        tell(f"{instance.repository}: running all of its tests, to find those that fail")
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
        facts = [instance.hash, RanIn(self.sandbox).name(instance), type(self.suite).__name__]
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
            tell(f"{name}: {run.cut_short}")
        if not passing and len(run.statuses) > 1 and failing[0] in run.reasons:
            said = run.reasons[failing[0]].message.partition("\n")[0]
            tell(
                f"{name}: none of its {len(run.statuses)} tests passes; the first fails with "
                f"{said!r}; if the tests lack something, {self._advice(instance)}"
            )
        if run.unloaded:
            tell(f"{name}: tests that can't be imported are left out: {first_of(run.unloaded)}")
        statement = write_statement(instance, failing, run)
        return FoundTests(fail_to_pass=failing, pass_to_pass=passing, statement=statement)

    def _failing(self, instance: Instance, run: SuiteRun) -> tuple[str, ...]:
        """The failing tests that make the bug. Raises ConfigError where there are none."""
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
    """What is kept; a file that can't be read, torn or of another version, is none."""
    try:
        return FoundTests.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
