"""GitBug-Java (arXiv:2402.02961): its records, from JSON lines or the hub, and its bugs, from local
clones or images."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collect.benchmarks import row_files
from collect.benchmarks.base import Instance, TestResults, TestStatus
from collect.benchmarks.git_clones import GitFailed, borrowed, read_tree
from collect.benchmarks.git_workspace import check_out, seal_history
from collect.code.unified import renamed_files
from collect.errors import ConfigError
from collect.quantities import counted, first_of
from sandbox import Command, CommandResult, ImageWorkspace, Sandbox
from sandbox.errors import JavaUnavailable, SandboxFileError, SandboxUnavailable
from sandbox.java.gradle import gradle_command
from sandbox.java.javac import compiler_errors
from sandbox.java.jdk import Jdk, find_jdk
from sandbox.java.maven import SKIPPED_CHECKS, maven_command
from sandbox.java.project import MISSING, BuildKind, Module
from sandbox.shell import scratch_folder

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


logger = logging.getLogger(__name__)

# Trees of a commit with patches applied, from local clones, which stay unchanged.


KEPT_TREES = 16
"""Limit, because the large trees of many bugs don't fit into memory."""


def find_clone(folder: Path, repository: str) -> Path | None:
    """A repository's clone, bare or not: `owner/name`, `owner-name` or `name` in a folder."""
    owner, _, name = repository.partition("/")
    for place in (f"{owner}/{name}", f"{owner}-{name}", name):
        for clone in (folder / place, folder / f"{place}.git"):
            if (clone / ".git").exists() or (clone / "HEAD").is_file():
                return clone
    return None


class ClonedTree(Mapping[str, bytes]):
    """The files of a commit with patches applied, read on first access.

    Reading raises ConfigError if the clone or commit is missing, or if a patch does not apply.
    """

    def __init__(
        self, folder: Path | None, repository: str, commit: str, patches: tuple[str, ...]
    ) -> None:
        self._folder = folder
        self._repository = repository
        self._commit = commit
        self._patches = patches

    def __getitem__(self, path: str) -> bytes:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def _files(self) -> Mapping[str, bytes]:
        return _tree(self._clone(), self._commit, self._patches)

    def _clone(self) -> Path:
        clone = find_clone(self._folder, self._repository) if self._folder else None
        if clone is not None:
            return clone
        name = self._repository.replace("/", "-")
        address = f"https://github.com/gitbugactions/{self._repository.partition('/')[2]}"
        if self._folder is None:
            raise ConfigError(
                f"the code of {self._repository} is not known: set benchmark.repositories to a "
                f"folder with clones (`git clone {address} {name}` there), or benchmark.image to "
                "the name of images that hold it"
            )
        raise ConfigError(
            f"{self._folder}: no clone of {self._repository}; benchmark.repositories names a "
            f"folder with clones: `git clone {address} {self._folder / name}`"
        )


@lru_cache(maxsize=KEPT_TREES)
def _tree(clone: Path, commit: str, patches: tuple[str, ...]) -> Mapping[str, bytes]:
    with borrowed(_git_folder(clone)) as repository:
        try:
            return read_tree(repository, commit, patches, left_out=())
        except GitFailed as error:
            raise ConfigError(
                f"{clone} at {commit}: {error}; fetch the commit, or clone the repository anew"
            ) from error


def _git_folder(clone: Path) -> Path:
    """The folder with a clone's objects."""
    inside = clone / ".git"
    if not inside.is_file():
        return inside if inside.is_dir() else clone
    # In a worktree or submodule, the file names the folder.
    named = Path(inside.read_text().partition("gitdir:")[2].strip())
    folder = (clone / named).resolve()
    common = folder / "commondir"
    return (folder / common.read_text().strip()).resolve() if common.is_file() else folder


# JUnit's XML reports from Maven and Gradle, which GitBug-Java's expectations come from.


FAILURES = ("failure", "error")
_PLACES = r"""
places() {
    find -L . -type f \( -path '*/target/surefire-reports/*.xml' \
        -o -path '*/target/failsafe-reports/*.xml' -o -path '*/build/test-results/*.xml' \) "$@"
}
"""
_REMOVE = (
    _PLACES
    + r"""
places -exec rm -f {} +
left=$(places | head -n 3)
[ -z "$left" ] || { echo "$left"; exit 1; }
"""
)
"""Checks what is left: `find -L` also fails for a loop of links."""
_GATHER = (
    _PLACES
    + r"""
mkdir -p "$1" && number=0
places | while read -r file; do
    number=$((number + 1)); cp "$file" "$1/$number.xml"
done
"""
)


def remove_reports(sandbox: Sandbox) -> None:
    """Remove the reports of earlier runs. Raises SandboxError if some remain."""
    result = sandbox.run(Command(["sh", "-c", _REMOVE]))
    if result.exit_code:
        raise SandboxFileError(
            f"can't remove the reports of earlier test runs: {result.output.strip()}"
        )


def read_reports(sandbox: Sandbox) -> dict[str, TestStatus]:
    """Every test's status; the worst if several have the same id. Raises SandboxError."""
    with scratch_folder(sandbox) as folder:
        result = sandbox.run(Command(["sh", "-c", _GATHER, "sh", folder]))
        if result.exit_code:
            raise SandboxFileError(
                f"can't gather the reports of the tests: {result.output.strip()}"
            )
        reports = sandbox.read_tree(folder)
    found: dict[str, set[TestStatus]] = {}
    for data in reports.values():
        for test, status in _reported(data):
            found.setdefault(test, set()).add(status)
    return {test: worst(each) for test, each in found.items()}


def _reported(data: bytes) -> Iterator[tuple[str, TestStatus]]:
    """The tests of one report; none if the XML is broken because the JVM ended while writing it."""
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        return
    for case in root.iter("testcase"):
        children = {child.tag for child in case}
        if children & set(FAILURES):
            status = TestStatus.FAILED
        else:
            status = TestStatus.SKIPPED if "skipped" in children else TestStatus.PASSED
        yield test_id(case.get("classname", ""), case.get("name", "")), status


# Run a project's tests with its own build tool, and read the reports.
#
# Upstream runs the project's workflow and compares JUnit's reports by class and name. Only the
# project's own runner produces the same test names (descriptions, invocations of parametrised
# tests), so we use it too, without the workflow.


MAVEN_OPTIONS = ("-Dmaven.test.failure.ignore=true", "-DfailIfNoTests=false", *SKIPPED_CHECKS)
GRADLE_TASKS = ("test", "--continue")
LAST_LINES = 10


def run_project_tests(
    sandbox: Sandbox, build_tool: str, tests: Sequence[str], timeout: float
) -> TestResults:
    """Run all tests of the workspace, and return the statuses of `tests`.

    `timeout` is in seconds, build included; tests reported before it keep their status. Raises
    SandboxUnavailable if the sandbox lacks a JDK or the build tool, SandboxError.
    """
    try:
        command = _command(sandbox, find_jdk(sandbox), build_tool)
    except JavaUnavailable as error:
        raise SandboxUnavailable(str(error)) from error
    remove_reports(sandbox)
    result = sandbox.run(Command(command, timeout=timeout))
    if result.exit_code == MISSING:
        raise SandboxUnavailable(
            f"the sandbox has no {build_tool}: install it there, or use an image that has it"
        )
    found = read_reports(sandbox)
    return TestResults(
        {test: found.get(test, TestStatus.MISSING) for test in tests},
        result.output,
        result.timed_out,
        result.seconds,
        build_failure=None if found else _build_failure(sandbox, result),
    )


def _build_failure(sandbox: Sandbox, result: CommandResult) -> str | None:
    """Why no test was reported, if not because of errors in the sources.

    For a timeout it is unknown whether the build or a test caused it.
    """
    if result.exit_code == 0 or result.timed_out:
        return None
    if any(compiler_errors(result.output, sandbox.workspace)):
        return None
    return "\n".join(result.output.strip().splitlines()[-LAST_LINES:])


def _command(sandbox: Sandbox, jdk: Jdk, build_tool: str) -> list[str]:
    if build_tool == BuildKind.GRADLE:
        return gradle_command(sandbox, jdk, GRADLE_TASKS)
    return maven_command(sandbox, jdk, Module(BuildKind.MAVEN, ".", "."), MAVEN_OPTIONS)


NAME = "gitbug_java"
TEST_TIMEOUT = 1800.0
"""Seconds, build included."""
IMAGE_FOLDER = "/workspace"
MAX_MESSAGE = 500
"""Characters shown of a test's failure."""


class GitBugJavaBenchmark:
    """Reads records from JSON lines or from the hub."""

    name = NAME

    def __init__(
        self,
        path: Path | None = None,
        *,
        hub_id: str | None = None,
        hub_split: str | None = None,
        test_timeout: float = TEST_TIMEOUT,
        repositories: Path | None = None,
        image: str | None = None,
        image_folder: str = IMAGE_FOLDER,
    ) -> None:
        """`repositories` is a folder with clones. With `image`, a name with `{id}`, `{repository}`
        and `{commit}` as placeholders, `image_folder` is a clone inside the image. `test_timeout`
        is in seconds, build included."""
        self.path, self.hub_id, self.hub_split = path, hub_id, hub_split
        self.test_timeout = test_timeout
        self.repositories = repositories
        self.image, self.image_folder = image, image_folder

    @cached_property
    def _records(self) -> dict[str, Record]:
        return read_records(self.path, self.hub_id, self.hub_split)

    @cached_property
    def _instances(self) -> tuple[Instance, ...]:
        found = [self._instance(record) for record in self._records.values()]
        kept = tuple(instance for instance in found if instance.fail_to_pass)
        if len(kept) == len(found):
            return kept
        left_out = first_of([instance.id for instance in found if not instance.fail_to_pass])
        told = (
            f"{self.path or self.hub_id or HUB_ID}: {len(found) - len(kept)} of "
            f"{counted(len(found), 'record')} left out, for no test of theirs fails with the bug "
            f"and passes with the fix: {left_out}"
        )
        if not kept:
            raise ConfigError(f"{told}; check their column actions_runs")
        logger.warning(told)
        return kept

    def instances(self) -> Sequence[Instance]:
        return self._instances

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

    def _instance(self, record: Record) -> Instance:
        before, after = record.before, record.after
        passing = [test for test, status in after.items() if status is TestStatus.PASSED]
        kept = [test for test in passing if before.get(test) is TestStatus.PASSED]
        held = ImageWorkspace(self.image_folder) if self.image else None
        commit = record.previous_commit_hash
        tree = ClonedTree(self.repositories, record.repository, commit, record.patches)
        return Instance(
            id=record.id,
            benchmark=NAME,
            language="java",
            repository=record.repository,
            problem_statement=_problem_statement(record),
            fail_to_pass=tuple(test for test in passing if test not in kept),
            pass_to_pass=tuple(kept),
            gold_patch=record.fix,
            files={} if held else tree,
            test_paths=_test_paths(record),
            image=self._image_of(record),
            image_workspace=held,
            record=record.digest,
            category=record.build_tool,
            commit=commit,
        )

    def _image_of(self, record: Record) -> str | None:
        if self.image is None:
            return None
        names = {
            "{id}": record.id.lower(),
            "{repository}": record.repository.replace("/", "-").lower(),
            "{commit}": record.commit_hash,
        }
        image = self.image
        for name, value in names.items():
            image = image.replace(name, value)
        return image


def _test_paths(record: Record) -> tuple[str, ...]:
    """The files of the test patch, and the test folders in the modules of both patches."""
    files = {path for pair in renamed_files(record.test_patch) for path in pair}
    fixed = {path for pair in renamed_files(record.fix) for path in pair}
    modules = {path.partition("src/")[0] for path in files | fixed if "src/" in path}
    return tuple(sorted(files | {f"{module}src/test" for module in modules}))


def _problem_statement(record: Record) -> str:
    """The issue that the fix refers to, and how the tests fail.

    Upstream has no such text. Pull requests and the commit message are left out: they reveal the
    fix.
    """
    issues = [f"# {i.title}\n\n{i.body or ''}" for i in record.issues if not i.is_pull_request]
    failures = "\n".join(
        f"- `{test.id}`: {_message(test.results[0].type, test.results[0].message)}"
        for test in record.failing
    )
    return "\n\n".join([*map(str.strip, issues), f"These tests fail:\n\n{failures}"]) + "\n"


def _message(kind: str | None, message: str | None) -> str:
    text = ": ".join(part for part in (kind, message) if part) or "failed"
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]} [cut]"
