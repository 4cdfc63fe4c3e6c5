"""Verify bugs, whose tests must fail before the gold patch and pass after it and whose fix must not
be readable in the sandbox, and mark them: by these marks collect and eval skip bugs."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError
from rich.table import Table

from collect.benchmarks.base import Benchmark, Instance, Language, TestResults, TestStatus
from collect.benchmarks.fix_copies import CopySearch, search_copies
from collect.benchmarks.workspace import open_instance_sandbox, patch_workspace
from collect.code.patches import PatchError
from collect.errors import InfrastructureFailure
from collect.quantities import first_of
from collect.store.files import StrictRecord
from collect.threads import run_in_threads
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.base import backend_name
from sandbox.engine import connect, digest_of, find_image, image_or_none
from sandbox.environment import cache_folder
from sandbox.errors import (
    CommandRefused,
    ImageMissing,
    JavaUnavailable,
    SandboxError,
    SandboxFileError,
    SandboxUnavailable,
)
from sandbox.java.jdk import find_jdk
from sandbox.languages.python.interpreters import too_old
from sandbox.languages.python.own_environment import read_environment

NO_GOLD = "no gold patch is known: only that the tests fail was checked"
UNSEARCHED = "not fully searched for copies of the fix"


class Mark(StrEnum):
    """The result of running a bug's tests before and after its gold patch, and of searching its
    sandbox."""

    OK = "ok"
    BROKEN = "broken"
    """Not as claimed: a test wrongly fails or passes, the gold patch does not apply, or the tests
    do not end with it."""
    FLAKY = "flaky"
    """A test's result differs between runs."""
    SLOW = "slow"
    """Its tests take too long, or do not end because of the bug."""
    ZERO_TESTS = "zero_tests"
    """No test ran, or the bug names none."""
    FIX_READABLE = "fix_readable"
    """Its sandbox has a copy of the fix or of a hidden test, which an agent can read."""
    OLD_PYTHON = "old_python"
    """Its sandbox has a CPython in which nothing can be debugged."""
    NO_GOLD = "no_gold"
    """Its tests fail as claimed; without a gold patch nothing more could be checked."""


SKIPPED = (
    *(Mark.BROKEN, Mark.FLAKY, Mark.SLOW, Mark.ZERO_TESTS, Mark.FIX_READABLE, Mark.OLD_PYTHON),
)
"""Bugs with these marks are skipped by collect and eval, unless a config says otherwise."""


class Finding(StrictRecord):
    mark: Mark
    text: str


class Verification(StrictRecord):
    benchmark: str
    instance_id: str
    instance_hash: str
    repository: str
    ran_in: str
    """The environment that ran the tests, named as by `EnvironmentFingerprint`."""
    findings: tuple[Finding, ...] = ()
    gold_known: bool = True
    repeats: int = Field(default=1, ge=1)
    seconds_before: float = 0.0
    """Duration of the longest test run on the buggy code."""
    seconds_after: float = 0.0
    slow_over: float | None = None
    """Limit in seconds above which a run makes the bug slow; None: no limit."""
    unsearched: str | None = None
    """Why the sandbox was not, or not fully, searched for copies of the fix; empty if it was. None:
    verified before there was such a search."""
    verified_at: float = Field(default_factory=time.time)
    """Unix time, seconds."""
    failure: str = ""
    """Why verification failed, if a sandbox or the machine did not work. Never stored: such a bug
    has no mark, and is verified again."""

    @classmethod
    def of(cls, instance: Instance, ran_in: str, **facts: Any) -> Self:
        """The verification of an instance; `facts` are the other fields."""
        return cls(
            benchmark=instance.benchmark,
            instance_id=instance.id,
            instance_hash=instance.hash,
            repository=instance.repository,
            ran_in=ran_in,
            gold_known=bool(instance.gold_patch),
            **facts,
        )

    @property
    def marks(self) -> tuple[Mark, ...]:
        """In the order of `Mark`; empty if verification failed."""
        if self.failure:
            return ()
        found = {finding.mark for finding in self._all_findings()}
        whole = Mark.OK if self.gold_known else Mark.NO_GOLD
        return tuple(mark for mark in Mark if mark in found) or (whole,)

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(finding.text for finding in self._all_findings())

    @property
    def note(self) -> str:
        if self.failure:
            return self.failure
        notes = [] if self.gold_known else [NO_GOLD]
        notes += [f"{UNSEARCHED}: {self.unsearched}"] if self.unsearched else []
        return "\n".join(notes)

    @property
    def needs_search(self) -> bool:
        """Whether `bench verify` searches again: it never did, or the user may since have removed
        what it found."""
        return self.unsearched is None or Mark.FIX_READABLE in self.marks

    @property
    def ok(self) -> bool:
        return not self.failure and not self.problems

    def _all_findings(self) -> tuple[Finding, ...]:
        seconds = max(self.seconds_before, self.seconds_after)
        if self.slow_over is None or seconds <= self.slow_over:
            return self.findings
        text = f"slow: {seconds:.1f} s, more than {self.slow_over:g}"
        return (*self.findings, Finding(mark=Mark.SLOW, text=text))


class EnvironmentFingerprint:
    """Names the environment that runs a bug's tests, for which alone a mark is valid."""

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._known: dict[tuple[Language, str | None, str | None, str | None], str] = {}

    def name(self, instance: Instance) -> str:
        """`local, Python 3.12.3`, or `docker, sha256:...`, plus any further settings. Raises
        SandboxUnavailable, ImageMissing."""
        environment = instance.environment
        key = (instance.language, instance.image, environment.python, environment.folder)
        if key in self._known:
            return self._known[key]
        config = self._config
        docker = config.backend == "docker"
        if not docker:
            what = self._version(instance)
        elif image := config.image or instance.image:
            with closing(connect()) as client:
                what = digest_of(find_image(client, image))
        else:
            raise SandboxUnavailable(
                "the docker sandbox needs an image: set sandbox.image, or use a benchmark whose "
                "instances name one"
            )
        parts = [backend_name(config), what, *([config.python] if docker and config.python else [])]
        own = config.model_dump(include={"packages", "import_paths", "environment"})
        own = {name: value for name, value in own.items() if value}
        if environment.folder is not None and not docker and config.python is None:
            own["folder"] = read_environment(Path(environment.folder)).digest
        parts += [json.dumps(own, sort_keys=True)] if own else []
        self._known[key] = ", ".join(parts)
        return self._known[key]

    def known_name(self, instance: Instance) -> str | None:
        """As `name`; None if nothing on this machine can run the instance."""
        with suppress(SandboxError):
            return self.name(instance)
        return None

    def _version(self, instance: Instance) -> str:
        # Without the bug's packages, which take time to install and are in its hash anyway.
        python = {"python_version": instance.environment.python}
        with open_sandbox(self._config.model_copy(update=python), instance.image) as sandbox:
            if instance.language == "java":
                try:
                    return f"Java {find_jdk(sandbox).version}"
                except JavaUnavailable as error:
                    raise SandboxUnavailable(str(error)) from error
            code = "import platform; print('Python', platform.python_version())"
            return sandbox.run(Command([sandbox.python, "-I", "-c", code])).output.strip()


class Verifications:
    """All verifications on this machine: one file per benchmark, one JSON line per verification.
    Safe for threads and concurrent processes.

    Each is valid for one bug, by its hash, and one environment. A line is written as soon as a bug
    is verified, so that an interruption loses only bugs in progress; the last line for a key wins.
    Unreadable lines, incomplete or of another version, are ignored.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` None: in the user's cache."""
        self.folder = folder or cache_folder() / "verifications"
        self._found: dict[str, dict[tuple[str, str], Verification]] = {}
        """By benchmark, and by the instance's hash and the environment."""
        self._lock = threading.Lock()

    def any_of(self, benchmark: str) -> bool:
        """Whether any bug of a benchmark was verified; if not, no instance needs to be hashed."""
        with self._lock:
            return bool(self._of(benchmark))

    def find(self, instance: Instance, ran_in: str) -> Verification | None:
        """The newest verification of a bug in the environment `ran_in`."""
        with self._lock:
            return self._of(instance.benchmark).get((instance.hash, ran_in))

    def add(self, verification: Verification) -> None:
        """Store a verification. Raises ValueError if it has a `failure`."""
        if verification.failure:
            raise ValueError(f"{verification.instance_id} has no mark: {verification.failure}")
        key = (verification.instance_hash, verification.ran_in)
        path = self.path(verification.benchmark)
        with self._lock:
            self._of(verification.benchmark)[key] = verification
            path.parent.mkdir(parents=True, exist_ok=True)
            # A single write, so that lines of several processes don't mix; a leading line break
            # protects this line from one that a full disk cut off.
            with path.open("ab", buffering=0) as file:
                file.write(f"\n{verification.model_dump_json()}\n".encode())

    def path(self, benchmark: str) -> Path:
        return self.folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', benchmark)}.jsonl"

    def _of(self, benchmark: str) -> dict[tuple[str, str], Verification]:
        if benchmark not in self._found:
            found = self._found[benchmark] = {}
            path = self.path(benchmark)
            for line in path.read_bytes().split(b"\n") if path.is_file() else ():
                with suppress(ValidationError):
                    read = Verification.model_validate_json(line)
                    found[read.instance_hash, read.ran_in] = read
        return self._found[benchmark]


def with_verifications(
    instances: Iterable[Instance], ran_in: EnvironmentFingerprint, verifications: Verifications
) -> Iterator[tuple[Instance, Verification | None]]:
    """Each instance with its stored verification; None if it was never verified in this sandbox."""
    for instance in instances:
        name = ran_in.known_name(instance) if verifications.any_of(instance.benchmark) else None
        yield instance, verifications.find(instance, name) if name is not None else None


def note_verified(
    instances: Iterable[Instance],
    sandbox: SandboxConfig,
    verifications: Verifications | None = None,
) -> None:
    """Mark bugs as correct, for code that makes them and has already run their tests. Raises
    SandboxUnavailable, ImageMissing."""
    verifications = verifications or Verifications()
    ran_in = EnvironmentFingerprint(sandbox)
    for instance in instances:
        verifications.add(Verification.of(instance, ran_in.name(instance)))


def required_images(instances: Iterable[Instance], sandbox: SandboxConfig) -> list[str]:
    """The bugs' distinct images, in their order; empty if the sandbox is not a container."""
    images = (sandbox.image or instance.image for instance in instances)
    found = list(dict.fromkeys(filter(None, images)))
    return found if sandbox.backend == "docker" else []


def require_images(instances: Iterable[Instance], sandbox: SandboxConfig) -> None:
    """Raises ImageMissing, which names the missing images and how to get them, EngineDown."""
    images = required_images(instances, sandbox)
    if not images:
        return
    with closing(connect()) as client:
        missing = [image for image in images if image_or_none(client, image) is None]
    if missing:
        raise ImageMissing(
            f"{len(missing)} of the {len(images)} images that these bugs need are not on this "
            f"machine: {first_of(missing)}. `stepinto bench pull CONFIG` fetches "
            "them; benchmark.instances and benchmark.limit choose fewer bugs"
        )


MAX_FINDINGS = 50
"""Limit of findings that are kept of one bug."""
DISK_IS_FULL = "No space left on device"


def judged(
    instance: Instance, before: Sequence[TestResults], after: Sequence[TestResults]
) -> tuple[Finding, ...]:
    """The findings of one bug from its test runs; `after` is empty if there is no gold patch."""
    if not instance.fail_to_pass:
        return (Finding(mark=Mark.ZERO_TESTS, text="zero tests: fail_to_pass is empty"),)
    found: list[tuple[Mark, str]] = []
    unsteady: set[str] = set()
    for when, runs in (("before", before), ("after", after)):
        if any(run.timed_out for run in runs):
            # The bug may be an endless loop: then nothing is wrong, but it takes its time.
            found.append((Mark.SLOW if when == "before" else Mark.BROKEN, f"{when}: timed out"))
        elif runs and {*runs[0].statuses.values()} <= {TestStatus.MISSING}:
            said = " / ".join(runs[0].output.strip().splitlines()[-3:])
            found.append((Mark.ZERO_TESTS, f"{when}: zero tests ran: {said}"))
        cut_short = next((run.cut_short for run in runs if run.cut_short), None)
        if cut_short is not None and when == "after":
            # Before the patch, this may be the bug.
            found.append((Mark.BROKEN, f"{when}: {cut_short}"))
        for test in runs[0].statuses if runs else ():
            if len({run.statuses[test] for run in runs}) > 1:
                unsteady.add(test)
                found.append((Mark.FLAKY, f"{when}: flaky: {test}"))
    if not any(mark is Mark.ZERO_TESTS for mark, _ in found):
        texts = _of_statuses(instance, unsteady, before[0], after[0] if after else None)
        found += [(Mark.BROKEN, text) for text in texts]
    findings = [Finding(mark=mark, text=text) for mark, text in found]
    if len(findings) > MAX_FINDINGS:
        more = f"and {len(findings) - MAX_FINDINGS} more"
        findings = [*findings[:MAX_FINDINGS], Finding(mark=findings[-1].mark, text=more)]
    return tuple(findings)


def _of_statuses(
    instance: Instance, unsteady: set[str], before: TestResults, after: TestResults | None
) -> Iterator[str]:
    """Tests with the same result in every run, if it is not what the bug claims."""
    for test in instance.fail_to_pass:
        was = before.statuses[test]
        if test in unsteady:
            continue
        if was is not TestStatus.FAILED and not before.timed_out:
            yield f"does not fail before: {test} is {was}"
        if after is not None and after.statuses[test] is not TestStatus.PASSED:
            yield f"does not pass after: {test} is {_how(test, after)}"
    fine = {TestStatus.PASSED, *([TestStatus.SKIPPED] if instance.skips_count else [])}
    for test in instance.pass_to_pass:
        was = before.statuses[test]
        unknown = before.timed_out and was is TestStatus.MISSING
        becomes = TestStatus.PASSED if after is None else after.statuses[test]
        if test not in unsteady and ((was not in fine and not unknown) or becomes not in fine):
            then = "" if after is None else f" and {_how(test, after)} after"
            yield f"other test: {test} is {_how(test, before)} before{then}"


def _how(test: str, results: TestResults) -> str:
    """A test's status, and what of it can't be loaded."""
    cause = results.not_loaded.get(test)
    status = str(results.statuses[test])
    return status if cause is None else f"{status} ({cause} can't be imported or compiled)"


def verify_instance(
    benchmark: Benchmark,
    instance: Instance,
    sandbox_config: SandboxConfig,
    repeats: int = 1,
    *,
    ran_in: EnvironmentFingerprint | None = None,
) -> Verification:
    """Run the tests before and after the gold patch, if there is one, and search for copies of the
    fix, each in a fresh sandbox. If that or the machine fails, the verification reports so, and
    nothing about the bug."""
    name = ""
    old: set[Finding] = set()

    def run_tests(patch: str) -> TestResults:
        everything = replace(instance, files={**instance.files, **instance.hidden_files})
        with open_instance_sandbox(sandbox_config, instance) as sandbox:
            old.update(old_python(instance, sandbox))
            benchmark.prepare(everything, sandbox)
            if patch:
                patch_workspace(sandbox, patch)
            tests = [*instance.fail_to_pass, *instance.pass_to_pass]
            return benchmark.run_tests(instance, sandbox, tests)

    try:
        name = (ran_in or EnvironmentFingerprint(sandbox_config)).name(instance)
        before = [run_tests("") for _ in range(repeats)]
        after = [
            run_tests(instance.gold_patch) for _ in range(repeats if instance.gold_patch else 0)
        ]
    except (PatchError, SandboxFileError, CommandRefused) as error:
        outputs = [f"{type(error).__name__}: {error}"]
        finding = Finding(mark=Mark.BROKEN, text=outputs[0])
        verification = Verification.of(instance, name, findings=(finding,))
    except (SandboxError, InfrastructureFailure, OSError) as error:
        return Verification.of(instance, name, failure=f"{type(error).__name__}: {error}")
    else:
        verification = Verification.of(
            instance,
            name,
            findings=(*old, *judged(instance, before, after)),
            repeats=repeats,
            seconds_before=max(run.seconds for run in before),
            seconds_after=max((run.seconds for run in after), default=0.0),
        )
        outputs = [run.output for run in [*before, *after]]
    if verification.problems and any(DISK_IS_FULL in output for output in outputs):
        # Then test results say nothing about the bug.
        failure = f"{DISK_IS_FULL}: make room on this machine, and verify again"
        return verification.model_copy(update={"findings": (), "failure": failure})
    return searched(benchmark, instance, sandbox_config, verification)


def old_python(instance: Instance, sandbox: Sandbox) -> tuple[Finding, ...]:
    """The finding that a bug can't be debugged in its sandbox. Raises SandboxError."""
    old = too_old(sandbox) if instance.language == "python" else ""
    return (Finding(mark=Mark.OLD_PYTHON, text=old),) if old else ()


def searched(
    benchmark: Benchmark,
    instance: Instance,
    sandbox_config: SandboxConfig,
    verification: Verification,
) -> Verification:
    """A verification with the result of searching the bug's sandbox for copies of its fix, in the
    place of an earlier search's."""
    try:
        search = search_copies(benchmark, instance, sandbox_config)
    except (PatchError, SandboxFileError, CommandRefused) as error:
        # Of the bug itself, which its tests' findings tell.
        search = CopySearch(unsearched=f"{type(error).__name__}: {error}")
    except (SandboxError, InfrastructureFailure, OSError) as error:
        return verification.model_copy(update={"failure": f"{type(error).__name__}: {error}"})
    findings = [each for each in verification.findings if each.mark is not Mark.FIX_READABLE]
    if search.copies:
        path, copy = search.copies[0]
        others = f", and {len(search.copies) - 1} more" if len(search.copies) > 1 else ""
        text = f"{path} after the fix can be read in {copy}{others} (sandbox.hidden_paths hides it)"
        findings.append(Finding(mark=Mark.FIX_READABLE, text=text))
    update = {"findings": tuple(findings), "unsearched": search.unsearched}
    return verification.model_copy(update=update)


def verify(
    benchmark: Benchmark,
    instances: Sequence[Instance],
    sandbox_config: SandboxConfig,
    *,
    repeats: int = 1,
    slow_over: float | None = None,
    workers: int = 2,
    again: bool = False,
    verifications: Verifications | None = None,
    on_done: Callable[[Verification], None] = lambda _: None,
) -> list[Verification]:
    """Verify bugs in parallel, and store the results in `verifications`, whose own are reused if
    they have enough runs, unless `again`. Of those that were never searched for copies of the fix,
    or had some, only the search is made again.

    `repeats` are the runs on each side of the gold patch: flaky tests show only in more than one. A
    bug is slow if a run takes more than `slow_over` seconds. Returns the verifications in the bugs'
    order, without those not made before Ctrl-C. `on_done` is called from worker threads.
    """
    ran_in = EnvironmentFingerprint(sandbox_config)
    known: dict[str, Verification] = {}
    if verifications is not None and not again:
        for instance, found in with_verifications(instances, ran_in, verifications):
            if found is not None and found.repeats >= repeats:
                known[instance.id] = found
    done: dict[str, Verification] = {}

    def one(instance: Instance) -> None:
        verification = known.get(instance.id)
        if verification is None:
            verification = verify_instance(
                benchmark, instance, sandbox_config, repeats, ran_in=ran_in
            )
        elif verification.needs_search:
            verification = searched(benchmark, instance, sandbox_config, verification)
        verification = verification.model_copy(update={"slow_over": slow_over})
        is_new = verification != known.get(instance.id)
        if verifications is not None and is_new and not verification.failure:
            verifications.add(verification)
        done[instance.id] = verification
        on_done(verification)

    run_in_threads(instances, one, workers, threading.Event())
    return [done[instance.id] for instance in instances if instance.id in done]


LISTED = 60
"""Up to this many bugs are all listed; of more, only those with problems."""
UNVERIFIED = ("not verified",)


def verification_table(verifications: Sequence[Verification]) -> Table:
    well = sum(verification.ok for verification in verifications)
    counts = Counter(str(mark) for each in verifications for mark in each.marks or UNVERIFIED)
    table = Table(
        title=f"{well} of {len(verifications)} instances are as they claim",
        caption=", ".join(f"{count} {mark}" for mark, count in counts.most_common()),
    )
    for column in ("instance", "repository"):
        table.add_column(column, overflow="fold")
    for column in ("before (s)", "after (s)"):
        table.add_column(column, justify="right")
    for column in ("marks", "problems"):
        table.add_column(column, overflow="fold")
    for done in verifications:
        if len(verifications) <= LISTED or not done.ok:
            seconds = (f"{done.seconds_before:.1f}", f"{done.seconds_after:.1f}")
            marks = ", ".join(done.marks or UNVERIFIED)
            remarks = "\n".join(filter(None, [*done.problems, done.note])) or "-"
            table.add_row(done.instance_id, done.repository, *seconds, marks, remarks)
    return table
