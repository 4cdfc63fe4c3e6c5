"""GitBug-Java (arXiv:2402.02961): bugs of Java projects, with what every test did before and after
their fixes. Records come from JSON lines or the hub, the code from local clones or images."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, ClassVar
from xml.etree import ElementTree

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collect.benchmarks import row_files
from collect.benchmarks.base import Instance, TestResults, TestStatus
from collect.benchmarks.git_clones import GitFailed, borrowed, read_tree
from collect.benchmarks.java_run import run_java_tests
from collect.benchmarks.running import StoredBenchmark
from collect.benchmarks.workspace import check_out, run_checked, seal_history
from collect.code.patches import named_files
from collect.errors import ConfigError
from collect.quantities import counted, first_of
from sandbox import Command, ImageWorkspace, Sandbox
from sandbox.errors import BuildFailure, JavaUnavailable, SandboxFileError, SandboxUnavailable
from sandbox.java.gradle import gradle_command
from sandbox.java.javac import compiler_errors
from sandbox.java.jdk import find_jdk
from sandbox.java.maven import SKIPPED_CHECKS, maven_command
from sandbox.java.project import MISSING, BuildKind, Module
from sandbox.shell import scratch_folder

logger = logging.getLogger(__name__)

HUB_ID = "gitbugactions/gitbug-java"
SUFFIXES = (".json", ".jsonl")
NAMED_METHOD = re.compile(r"(#\w+).*", re.DOTALL)
PARAMETERS = re.compile(r"^(\w+)\{([^}]*)\}")
STATUSES = {"Passed": TestStatus.PASSED, "Skipped": TestStatus.SKIPPED}
"""Others are failures and errors."""
TAGS = {"failure": "Failure", "error": "Error", "skipped": "Skipped"}
"""The results by their tags in JUnit's XML."""
MAX_MESSAGE = 500
"""Characters shown of a test's failure."""
WORSE = (TestStatus.PASSED, TestStatus.SKIPPED, TestStatus.FAILED)


def _from_json(value: object) -> object:
    """On the hub, nested columns are JSON strings."""
    return json.loads(value) if isinstance(value, str) else value


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Result(_Row):
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
        """`package.Class#method`, with anything else in the report's name: invocations of a
        parametrised test and descriptive names are separate tests. A class alone has no method."""
        # Versions of Surefire differ in how they write parameters.
        name = PARAMETERS.sub(r"\1(\2)", self.name).removesuffix("()")
        return f"{self.classname}#{name}" if name else self.classname

    @property
    def status(self) -> TestStatus:
        found = (STATUSES.get(each.result, TestStatus.FAILED) for each in self.results)
        return max(found, key=WORSE.index)


class Run(_Row):
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
        """`owner-name-` and 12 digits of the fix's commit."""
        return f"{self.repository.replace('/', '-')}-{self.commit_hash[:12]}"

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
    def tests_before(self) -> list[TestCase]:
        """The tests as they ended with the bug."""
        runs = self.actions_runs[0 if self.strategy == "FAIL_PASS" else 1]
        return [test for run in runs or () for test in run.tests]

    @property
    def tests_after(self) -> list[TestCase]:
        """The tests as they ended with the fix."""
        return [test for run in self.actions_runs[2] or () for test in run.tests]

    @property
    def problem_statement(self) -> str:
        """The issue that the fix refers to, and how the tests fail; upstream has no such text. Pull
        requests and the commit message are left out: they reveal the fix."""
        issues = [
            f"# {issue.title}\n\n{issue.body or ''}".strip()
            for issue in self.issues
            if not issue.is_pull_request
        ]
        failures = []
        for test in self.tests_before:
            if test.status is TestStatus.FAILED:
                told = (test.results[0].type, test.results[0].message)
                text = ": ".join(filter(None, told)) or "failed"
                text = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]} [cut]"
                failures.append(f"- `{test.id}`: {text}")
        return "\n\n".join([*issues, "These tests fail:\n\n" + "\n".join(failures)]) + "\n"


def worst_by_id(tests: Iterable[TestCase]) -> dict[str, TestStatus]:
    """The status of each test; the worst if there are several."""
    worst: dict[str, TestStatus] = {}
    for test in tests:
        worst[test.id] = max(worst.get(test.id, test.status), test.status, key=WORSE.index)
    return worst


def read_records(path: Path | None, hub_id: str | None, split: str | None) -> dict[str, Record]:
    """The records of a file, a folder's files, or a split on the hub, by id. Raises ConfigError."""
    files = None if path is None else [path]
    if path is not None and path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
        if not files:
            raise ConfigError(f"{path}: no file that ends in {' or '.join(SUFFIXES)}")
    rows = row_files.open_rows(files, hub_id or HUB_ID, "benchmark.path", split=split or "test")
    return row_files.checked_by_id(rows, Record, "GitBug-Java", lambda record: record.id)


@dataclass(frozen=True, eq=False)
class ClonedTree(Mapping[str, bytes]):
    """The files of a commit with patches applied, read on first access from a clone, which stays
    unchanged. Raises ConfigError if it or the commit is missing, or if a patch does not apply."""

    folder: Path | None
    """Has clones, bare or not, as `owner-name`."""
    repository: str
    commit: str
    patches: tuple[str, ...]

    def __getitem__(self, path: str) -> bytes:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def _files(self) -> Mapping[str, bytes]:
        owner, _, name = self.repository.partition("/")
        address = f"https://github.com/gitbugactions/{name}"
        if self.folder is None:
            raise ConfigError(
                f"the code of {self.repository} is not known: set benchmark.repositories to a "
                f"folder with clones (`git clone {address} {owner}-{name}` there), or "
                "benchmark.image to the name of images that hold it"
            )
        clone = self.folder / f"{owner}-{name}"
        for git_folder in (clone / ".git", clone):
            if (git_folder / "HEAD").is_file():
                return _tree(git_folder, self.commit, self.patches)
        raise ConfigError(
            f"{self.folder}: no clone of {self.repository}; benchmark.repositories names a "
            f"folder with clones: `git clone {address} {clone}`"
        )


# The large trees of many bugs don't fit into memory.
@lru_cache(maxsize=16)
def _tree(git_folder: Path, commit: str, patches: tuple[str, ...]) -> Mapping[str, bytes]:
    with borrowed(git_folder) as repository:
        try:
            return read_tree(repository, commit, patches, left_out=())
        except GitFailed as error:
            raise ConfigError(
                f"{git_folder} at {commit}: {error}; fetch the commit, or clone the repository anew"
            ) from error


# Run a project's tests with its own build tool, and read JUnit's XML reports. Upstream runs the
# project's workflow; only the project's own runner produces the same test names (descriptions,
# invocations of parametrised tests).

MAVEN_OPTIONS = ("-Dmaven.test.failure.ignore=true", "-DfailIfNoTests=false", *SKIPPED_CHECKS)
_PLACES = r"""
places() {
    find -L . -type f \( -path '*/target/surefire-reports/*.xml' \
        -o -path '*/target/failsafe-reports/*.xml' -o -path '*/build/test-results/*.xml' \) "$@"
}
"""
# Checks what is left: `find -L` also fails for a loop of links.
_REMOVE = r"""
places -exec rm -f {} +
left=$(places | head -n 3)
[ -z "$left" ] || { echo "$left"; exit 1; }
"""
_GATHER = r"""
mkdir -p "$1" && number=0
places | while read -r file; do
    number=$((number + 1)); cp "$file" "$1/$number.xml"
done
[ "$(du -sk "$1" | cut -f1)" -le "$2" ] || { echo "more than $2 KiB of them"; exit 1; }
"""
MAX_REPORTS = 256 * 1024
"""KiB of all reports of one run."""
MAX_DEPTH = 100
"""Levels of a report's elements."""
MAX_CASES = 100_000
"""Tests in all reports of one run."""
CHUNK = 1 << 16
"""Bytes that are parsed at once."""


def run_project_tests(
    sandbox: Sandbox, build_tool: str, tests: Sequence[str], timeout: float
) -> TestResults:
    """Run all tests of the workspace, and return the statuses of `tests`.

    `timeout` is in seconds, build included; tests reported before it keep their status. Raises
    SandboxUnavailable if the sandbox lacks a JDK or the build tool, SandboxError.
    """
    try:
        jdk = find_jdk(sandbox)
        if build_tool == BuildKind.GRADLE:
            command = gradle_command(sandbox, jdk, ("test", "--continue"))
        else:
            module = Module(BuildKind.MAVEN, ".", ".")
            command = maven_command(sandbox, jdk, module, MAVEN_OPTIONS)
    except JavaUnavailable as error:
        raise SandboxUnavailable(str(error)) from error
    remove_reports(sandbox)
    result = sandbox.run(Command(command, timeout=timeout))
    # A build that started has printed something; what a program does then is no missing tool.
    if result.exit_code == MISSING and not result.output.strip():
        raise SandboxUnavailable(
            f"the sandbox has no {build_tool}: install it there, or use an image that has it"
        )
    found = read_reports(sandbox)
    build_failure = None
    # After a timeout it is unknown whether the build or a test caused it.
    failed = not found and result.exit_code != 0 and not result.timed_out
    if failed and not any(compiler_errors(result.output, sandbox.workspace)):
        build_failure = "\n".join(result.output.strip().splitlines()[-10:])
    return TestResults(
        {test: found.get(test, TestStatus.MISSING) for test in tests},
        result.output,
        result.timed_out,
        result.seconds,
        build_failure=build_failure,
    )


def unconfirmed(sandbox: Sandbox, tests: Sequence[str], timeout: float) -> dict[str, str]:
    """The tests that don't pass under StepInto's own runner, and what it says. Raises
    SandboxError."""
    methods = {test: NAMED_METHOD.sub(r"\1", test) for test in tests}
    try:
        results = run_java_tests(sandbox, tuple(dict.fromkeys(methods.values())), timeout)
    except (SandboxUnavailable, BuildFailure) as error:
        return dict.fromkeys(tests, f"StepInto's own runner can't run it: {error}")
    if results.tampered is not None:
        return dict.fromkeys(tests, results.tampered)
    statuses = {test: results.statuses[method] for test, method in methods.items()}
    return {
        test: f"it passes in the build tool's report alone, and is {status} in a signed one"
        for test, status in statuses.items()
        if status is not TestStatus.PASSED
    }


def remove_reports(sandbox: Sandbox) -> None:
    """Remove the reports of earlier runs. Raises SandboxError if some remain."""
    problem = "can't remove the reports of earlier test runs"
    run_checked(sandbox, problem, "sh", "-c", _PLACES + _REMOVE)


def read_reports(sandbox: Sandbox) -> dict[str, TestStatus]:
    """Every test's status; the worst if several have the same id. Raises SandboxError."""
    with scratch_folder(sandbox) as folder:
        problem = "can't gather the reports of the tests"
        run_checked(sandbox, problem, "sh", "-c", _PLACES + _GATHER, "sh", folder, str(MAX_REPORTS))
        reports = sandbox.read_tree(folder)
    cases = _Cases()
    for data in reports.values():
        cases.read(data)
    return worst_by_id(cases.found)


class _Cases:
    """Takes the tests out of reports as they are parsed, without a tree: a program may have written
    any."""

    def __init__(self) -> None:
        self.found: list[TestCase] = []
        self._case: Mapping[str, str] | None = None
        self._results: list[Result] = []
        self._depth = 0

    def read(self, data: bytes) -> None:
        """Raises SandboxFileError if there are too many."""
        known = len(self.found)
        self._case = None
        self._depth = 0
        parser = ElementTree.XMLParser(target=self)
        try:
            for start in range(0, len(data), CHUNK):
                parser.feed(data[start : start + CHUNK])
            parser.close()
        except ElementTree.ParseError:
            # The JVM ended while writing it.
            del self.found[known:]

    def close(self) -> None:
        """For the parser."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH or len(self.found) >= MAX_CASES:
            raise SandboxFileError(
                f"the reports of the tests have more than {MAX_DEPTH} levels or {MAX_CASES} tests"
            )
        if tag == "testcase":
            self._case = attributes
            self._results = []
        elif tag in TAGS:
            self._results.append(Result(result=TAGS[tag]))

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "testcase" and self._case is not None:
            names = {key: self._case.get(key, "") for key in ("classname", "name")}
            results = (*self._results, Result(result="Passed"))
            self.found.append(TestCase(**names, results=results))
            self._case = None


@dataclass(eq=False, kw_only=True)
class GitBugJavaBenchmark(StoredBenchmark):
    name: ClassVar[str] = "gitbug_java"
    path: Path | None = field(default=None, kw_only=False)
    hub_id: str | None = None
    hub_split: str | None = None
    test_timeout: float = 1800.0
    """Seconds, build included."""
    repositories: Path | None = None
    image: str | None = None
    """A name with `{id}`, `{repository}` and `{commit}` as placeholders."""
    image_folder: str = "/workspace"
    """The clone inside the image."""

    @cached_property
    def _records(self) -> dict[str, Record]:
        return read_records(self.path, self.hub_id, self.hub_split)

    def _read(self) -> Sequence[Instance]:
        found = [self._instance(record) for record in self._records.values()]
        kept = [instance for instance in found if instance.fail_to_pass]
        if left_out := [instance.id for instance in found if not instance.fail_to_pass]:
            told = (
                f"{self.path or self.hub_id or HUB_ID}: {len(left_out)} of "
                f"{counted(len(found), 'record')} left out, for no test of theirs fails with the "
                f"bug and passes with the fix: {first_of(left_out)}"
            )
            if not kept:
                raise ConfigError(f"{told}; check their column actions_runs")
            logger.warning(told)
        return kept

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        if instance.image_workspace is None:
            sandbox.write_files(instance.files)
            return
        record = self._records[instance.id]
        check_out(sandbox, record.previous_commit_hash, record.patches)
        seal_history(sandbox, record.previous_commit_hash)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        tool = self._records[instance.id].build_tool
        return run_project_tests(sandbox, tool, list(tests), self.test_timeout)

    def unconfirmed(self, instance: Instance, sandbox: Sandbox) -> Mapping[str, str]:
        """What StepInto's own runner, whose report is signed, says of the deciding tests that don't
        pass under it: any program can write the reports of a build tool."""
        return unconfirmed(sandbox, instance.fail_to_pass, self.test_timeout)

    def _instance(self, record: Record) -> Instance:
        commit, before = record.previous_commit_hash, worst_by_id(record.tests_before)
        after = worst_by_id(record.tests_after)
        passing = [test for test, status in after.items() if status is TestStatus.PASSED]
        kept = [test for test in passing if before.get(test) is TestStatus.PASSED]
        # The files of the test patch, and the test folders in the modules of both patches.
        test_paths = named_files(record.test_patch)
        paths = test_paths | named_files(record.fix)
        modules = {path.partition("src/")[0] for path in paths if "src/" in path}
        test_paths |= {f"{module}src/test" for module in modules}
        facts = json.dumps([commit, *record.patches, record.fix])
        image = self.image
        if image is not None:
            image = image.replace("{id}", record.id.lower())
            image = image.replace("{repository}", record.repository.replace("/", "-").lower())
            image = image.replace("{commit}", record.commit_hash)
        tree = ClonedTree(self.repositories, record.repository, commit, record.patches)
        return Instance(
            id=record.id,
            benchmark=self.name,
            language="java",
            repository=record.repository,
            problem_statement=record.problem_statement,
            fail_to_pass=tuple(test for test in passing if test not in kept),
            pass_to_pass=tuple(kept),
            gold_patch=record.fix,
            files={} if image else tree,
            test_paths=tuple(sorted(test_paths)),
            image=image,
            image_workspace=ImageWorkspace(self.image_folder) if image else None,
            record=hashlib.sha256(facts.encode()).hexdigest()[:16],
            category=record.build_tool,
            commit=commit,
        )
