"""The records of GitBug-Java (arXiv:2402.02961), from JSON lines or from the hub.

`actions_runs` holds three runs of the project's workflow: on the parent commit, on the parent with
the fix's tests, and on the fix. If the tests failed already (`strategy` FAIL_PASS), there is no
second run and no test patch.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collect.benchmarks import row_files
from collect.benchmarks.base import TestStatus
from collect.errors import ConfigError
from collect.quantities import first_of

logger = logging.getLogger(__name__)

HUB_ID = "gitbugactions/gitbug-java"
SPLIT = "test"
SETTING = "benchmark.path"
SUFFIXES = (".json", ".jsonl")
PARAMETERS = re.compile(r"^(\w+)\{([^}]*)\}")
ID_DIGITS = 12
"""Hex digits of the commit in a bug's id."""
STATUSES = {
    "Passed": TestStatus.PASSED,
    "Failure": TestStatus.FAILED,
    "Error": TestStatus.FAILED,
    "Skipped": TestStatus.SKIPPED,
}


def _from_json(value: object) -> object:
    """On the hub, nested columns are JSON strings."""
    return json.loads(value) if isinstance(value, str) else value


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Result(_Row):
    """How a test ended."""

    result: str
    message: str | None = None
    type: str | None = None


class TestCase(_Row):
    """One test of a run, named as in JUnit's XML."""

    __test__ = False

    classname: str
    name: str
    results: tuple[Result, ...] = Field(min_length=1)

    @property
    def id(self) -> str:
        """The test's id in an instance."""
        return test_id(self.classname, self.name)

    @property
    def status(self) -> TestStatus:
        """The worst of several results: FAILED, then SKIPPED."""
        found = {STATUSES.get(each.result, TestStatus.FAILED) for each in self.results}
        return worst(found)


class Run(_Row):
    """One run of a workflow."""

    tests: tuple[TestCase, ...]
    build_tool: str = ""


Runs = Annotated[tuple[tuple[Run, ...] | None, ...], BeforeValidator(_from_json)]


class Issue(_Row):
    """The issue that the fix's commit refers to."""

    title: str = ""
    body: str | None = None
    is_pull_request: bool = False


class Record(_Row):
    """Only the upstream columns that we use."""

    repository: str = Field(pattern=r"^[\w-][\w.-]*/\.?[\w-][\w.-]*$")
    commit_hash: str = Field(pattern=r"^[0-9a-f]{40}$")
    previous_commit_hash: str = Field(pattern=r"^[0-9a-f]{40}$")
    bug_patch: str
    test_patch: str
    non_code_patch: str
    strategy: str
    actions_runs: Runs = Field(min_length=3)
    issues: Annotated[tuple[Issue, ...], BeforeValidator(_from_json)] = ()

    @property
    def id(self) -> str:
        """`owner-name-` and the fix's commit."""
        return f"{self.repository.replace('/', '-')}-{self.commit_hash[:ID_DIGITS]}"

    @property
    def patches(self) -> tuple[str, ...]:
        """Patches that turn the parent commit into the buggy version: the fix's non-code files, if
        the fix has code too, and its tests."""
        other = self.non_code_patch if self.bug_patch else ""
        return tuple(patch for patch in (other, self.test_patch) if patch)

    @property
    def fix(self) -> str:
        """From the buggy version to the correct one."""
        return self.bug_patch or self.non_code_patch

    @property
    def build_tool(self) -> str:
        """`maven` or `gradle`."""
        return next((run.build_tool for run in self.actions_runs[2] or ()), "")

    @property
    def failing(self) -> Sequence[TestCase]:
        """The tests that failed with the bug, and how."""
        return [test for test in _tests(self._before) if test.status is TestStatus.FAILED]

    @property
    def before(self) -> Mapping[str, TestStatus]:
        """Each test's status with the bug."""
        return statuses(_tests(self._before))

    @property
    def after(self) -> Mapping[str, TestStatus]:
        """Each test's status with the fix."""
        return statuses(_tests(self.actions_runs[2]))

    @property
    def digest(self) -> str:
        """16 hex digits over everything that defines the bug."""
        facts = [self.previous_commit_hash, *self.patches, self.fix]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def _before(self) -> Sequence[Run] | None:
        return self.actions_runs[0 if self.strategy == "FAIL_PASS" else 1]


def test_id(class_name: str, name: str) -> str:
    """`package.Class#method`, with anything else in the report's name: invocations of a
    parametrised test and descriptive names are separate tests. A class alone has no method name."""
    # Versions of Surefire differ in how they write parameters.
    name = PARAMETERS.sub(r"\1(\2)", name).removesuffix("()")
    return f"{class_name}#{name}" if name else class_name


def statuses(tests: Sequence[TestCase]) -> dict[str, TestStatus]:
    """By id; the worst status if several have the same id."""
    found: dict[str, set[TestStatus]] = defaultdict(set)
    for test in tests:
        found[test.id].add(test.status)
    return {test: worst(each) for test, each in found.items()}


def worst(found: set[TestStatus]) -> TestStatus:
    """FAILED before SKIPPED before PASSED."""
    for status in (TestStatus.FAILED, TestStatus.SKIPPED):
        if status in found:
            return status
    return TestStatus.PASSED


def read_records(path: Path | None, hub_id: str | None, split: str | None) -> dict[str, Record]:
    """The records of a file, of all files of a folder, or of a split on the hub, by id.

    Raises ConfigError.
    """
    files = None if path is None else _files(path)
    empty = [file for file in files or () if file.is_file() and not file.read_bytes().strip()]
    if empty and empty == files:
        raise ConfigError(
            f"{first_of(list(map(str, empty)))}: nothing is in it; get the file again, or name "
            "another in benchmark.path"
        )
    if empty:
        names = first_of([file.name for file in empty])
        logger.warning(f"{path}: {len(empty)} of {len(files or ())} files are empty: {names}")
    rows = row_files.open_rows(files, hub_id or HUB_ID, SETTING, split=split or SPLIT)
    return row_files.checked_by_id(rows, Record, "GitBug-Java", lambda record: record.id)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
    if not files:
        raise ConfigError(f"{path}: no file that ends in {' or '.join(SUFFIXES)}")
    return files


def _tests(runs: Sequence[Run] | None) -> list[TestCase]:
    return [test for run in runs or () for test in run.tests]
