"""One rollout: a fresh sandbox, the agents at work in it, and the verdict on their patch."""

from __future__ import annotations

import errno
import hashlib
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event

from collect.agents.config import AgentsConfig
from collect.agents.conversation import ConversationLog
from collect.agents.file_tools import prepare_java_workspace
from collect.agents.rollout_context import RoleModel, RolloutContext
from collect.agents.system import System
from collect.agents.systems import SYSTEMS
from collect.benchmarks.base import (
    NO_END,
    Benchmark,
    Confirming,
    Instance,
    TestResults,
    TestStatus,
)
from collect.benchmarks.running import build_outputs, runner_files, shadowing_files
from collect.benchmarks.workspace import (
    Snapshot,
    open_instance_sandbox,
    prepare_patched,
    snapshot,
    with_sources,
)
from collect.code.patches import PatchError, PatchTooLarge, diff_trees, drop_paths, outside
from collect.comparison import Comparison, compare_runs
from collect.console import NO_LOG, RolloutLog
from collect.errors import (
    ConfigError,
    FailureKind,
    ModelFailure,
    OutOfDisk,
    RolloutError,
    RolloutStopped,
)
from collect.store.records import Role, StopReason, TestRow
from sandbox import Sandbox, SandboxConfig
from sandbox.base import backend_name
from sandbox.debugger import Debugger, open_debugger
from sandbox.errors import BuildFailure, SandboxError, SandboxFileError

MAX_FAILURE_CHARS = 4_000
MAX_PATCH_CHARS = 8_000_000
MAX_PATCH_LINES = 200_000
"""Taking a patch apart needs a few hundred bytes per line, however short the line is."""
FAIL_TO_PASS = "fail_to_pass"
PASS_TO_PASS = "pass_to_pass"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class RolloutSpec:
    """Which rollout to do."""

    instance: Instance
    variant: str
    """Name of the system."""
    main: str
    """Name of the main agent's model in the config."""
    sub: str | None
    """Name of the subagent's model; None for systems without one."""
    attempt: int

    @property
    def system(self) -> System:
        return SYSTEMS[self.variant]

    @property
    def id(self) -> str:
        """16 hex digits; the same rollout has the same id in every start of a run."""
        facts = (self.instance.benchmark, self.instance.id, self.variant)
        key = "\0".join((*facts, self.main, self.sub or "", str(self.attempt)))
        return hashlib.sha256(key.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class RolloutSettings:
    """What all rollouts of a run share."""

    benchmark: Benchmark
    sandbox: SandboxConfig
    agents: AgentsConfig
    role_models: Mapping[str, RoleModel]
    """By model name."""
    stop: Event
    log: RolloutLog = NO_LOG
    """The log of this one rollout."""
    comparisons: dict[tuple[str, str], Comparison | None] = field(default_factory=dict)
    """Those made so far, by the bug's hash and the test; all rollouts share them."""

    def open_sandbox(self, instance: Instance) -> Sandbox:
        """A fresh sandbox for agents, see `open_instance_sandbox`."""
        started = time.monotonic()
        sandbox = open_instance_sandbox(self.sandbox, instance)
        seconds, opened = time.monotonic() - started, backend_name(self.sandbox)
        digest = sandbox.image_digest
        self.log.note("sandbox_opened", seconds=seconds, backend=opened, image_digest=digest)
        return sandbox

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        """Make a fresh sandbox the workspace of the agents."""
        self.benchmark.prepare(instance, sandbox)
        if instance.language == "java":
            prepare_java_workspace(sandbox)

    @contextmanager
    def fresh_debugger(self, instance: Instance) -> Iterator[Debugger]:
        """A debugger, not started yet, in a sandbox of its own."""
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            self.prepare(instance, sandbox)
            with closing(
                open_debugger(instance.language, sandbox, self.agents.debugger)
            ) as debugger:
                yield debugger

    def compare(self, instance: Instance, test: str) -> Comparison | None:
        """The runs of a bug's test without and with the gold patch, compared once. None if the
        test can't be debugged. Raises SandboxError."""
        seeded = {"PYTHONHASHSEED": "0", **self.sandbox.environment}
        config = self.sandbox.model_copy(update={"environment": seeded})

        @contextmanager
        def workspace(patch: str) -> Iterator[Sandbox]:
            with open_instance_sandbox(config, instance) as sandbox:
                prepare_patched(self.benchmark, instance, sandbox, patch)
                if instance.language == "java":
                    prepare_java_workspace(sandbox)
                yield sandbox

        key = instance.hash, test
        if key not in self.comparisons:
            self.comparisons[key] = compare_runs(instance, workspace, test)
        return self.comparisons[key]


@dataclass(frozen=True)
class Failure:
    """Why a rollout has no verdict, or ended early."""

    kind: FailureKind
    type: str
    message: str


@dataclass
class RolloutTrace:
    """What a rollout has produced so far, so that a failure loses nothing."""

    logs: list[ConversationLog] = field(default_factory=list)
    stop_reason: StopReason = StopReason.FAILURE
    patch: str = ""
    image_digest: str | None = None
    verdict: Verdict = field(default_factory=lambda: Verdict(()))
    failure: Failure | None = None
    started_at: float = field(default_factory=time.time)
    seconds: float = 0.0
    scoring_seconds: float = 0.0


def run_rollout(spec: RolloutSpec, settings: RolloutSettings) -> RolloutTrace:
    """Do one rollout. Failures become part of the trace, except those of `failure_in`."""
    started, trace = time.monotonic(), RolloutTrace()
    with failure_in(trace):
        run_agents(spec, settings, trace)
    if trace.failure is None or trace.failure.kind is FailureKind.MODEL:
        scoring_started = time.monotonic()
        with failure_in(trace):
            found = score(settings.benchmark, spec.instance, trace.patch, settings.sandbox)
            trace.verdict, seconds = found, time.monotonic() - scoring_started
            trace.patch = drop_paths(trace.patch, found.left_out)
            lists = {"unchecked": found.unchecked, "left_out": found.left_out}
            facts = {name: ", ".join(names) or None for name, names in lists.items()}
            settings.log.note(
                "scored",
                seconds=seconds,
                resolved=found.resolved,
                tampered=found.tampered,
                **facts,
            )
        trace.scoring_seconds = time.monotonic() - scoring_started
    trace.seconds = time.monotonic() - started
    return trace


def run_agents(spec: RolloutSpec, settings: RolloutSettings, trace: RolloutTrace) -> None:
    """Let the agents work in a fresh sandbox; the trace gets their conversations, their patch, and
    failures of the model. Raises ConfigError, RolloutError, RolloutStopped, SandboxError."""
    instance = spec.instance
    main, sub = settings.role_models[spec.main], settings.role_models[spec.sub or spec.main]
    cast = {Role.MAIN: main, Role.PATCH_CODER: main}
    cast |= dict.fromkeys((Role.DEBUG_SUBAGENT, Role.INSPECTOR, Role.SIMULATOR), sub)
    with settings.open_sandbox(instance) as sandbox:
        trace.image_digest = sandbox.image_digest
        settings.prepare(instance, sandbox)
        before = snapshot(instance, sandbox)
        instance = with_sources(instance, sandbox)
        context = RolloutContext(
            instance=instance,
            variant=spec.variant,
            attempt=spec.attempt,
            sandbox=sandbox,
            config=settings.agents,
            role_models={role: for_attempt(each, spec.attempt) for role, each in cast.items()},
            stop=settings.stop,
            logs=trace.logs,
            log=settings.log,
            fresh_debugger=partial(settings.fresh_debugger, spec.instance),
            compare=partial(settings.compare, instance),
        )
        try:
            trace.stop_reason = spec.system.run(context, settings.benchmark)
        except ModelFailure as failure:
            trace.failure = failure_of(failure)
        trace.patch = _patch(instance, spec.system, before, sandbox)


def _patch(instance: Instance, system: System, earlier: Snapshot, sandbox: Sandbox) -> str:
    """What the agent changed, without tests and their configuration; for a system that repairs one
    file only the change of that file. Raises ModelFailure."""
    try:
        before, after = earlier.changes(sandbox)
    except SandboxFileError as error:
        raise ModelFailure(f"the agent left a workspace that can't be read: {error}") from error
    if system.one_file:
        only = instance.solution
        before, after = ({only: t[only]} if only in t else {} for t in (before, after))
    ignored = [*instance.test_paths, *build_outputs(instance)]
    before, after = outside(before, ignored), outside(after, ignored)
    try:
        patch = diff_trees(before, after, MAX_PATCH_LINES)
    except PatchTooLarge as error:
        raise ModelFailure(f"the agent left too many changes: {error}") from error
    if len(patch) > MAX_PATCH_CHARS:
        raise ModelFailure(
            f"the agent left a patch of {len(patch)} characters, more than {MAX_PATCH_CHARS}"
        )
    return drop_paths(patch, runner_files(instance, patch))


def for_attempt(role_model: RoleModel, attempt: int) -> RoleModel:
    """The model with this attempt's seed, if its sampling has a seed."""
    sampling = role_model.sampling
    if sampling.seed is None:
        return role_model
    sampling = sampling.model_copy(update={"seed": sampling.seed + attempt})
    return replace(role_model, sampling=sampling)


@contextmanager
def failure_in(trace: RolloutTrace) -> Iterator[None]:
    """Turn an exception into the trace's failure: a failed rollout is data. Raises RolloutStopped,
    and ConfigError if a model can't be loaded: then there is nothing to record."""
    try:
        yield
    except (RolloutStopped, ConfigError):
        raise
    except Exception as error:
        trace.failure = failure_of(error)


ERRORS = ("collect.errors", "sandbox.errors")
"""Where the types are that a row names; others, which extend them, are a module's own."""


def failure_of(error: Exception) -> Failure:
    """The failure as the row states it."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return failure_of(OutOfDisk(f"no room is left on the disk: {error}"))
    kind, message = FailureKind.INFRASTRUCTURE, str(error)
    if isinstance(error, RolloutError):
        kind = error.kind
    elif not isinstance(error, SandboxError):
        # A defect of StepInto: the row must be enough to find it.
        message = "".join(traceback.format_exception(error))[-MAX_FAILURE_CHARS:]
    kinds = type(error).__mro__
    named = next((each for each in kinds if each.__module__ in ERRORS), kinds[0])
    return Failure(kind, named.__name__, message[:MAX_FAILURE_CHARS])


@dataclass(frozen=True)
class Verdict:
    """The outcome of the tests for a patch."""

    tests: tuple[TestRow, ...]
    skips_count: bool = False
    """Whether a test that passed before may be skipped now."""
    tampered: str | None = None
    """Evidence that the patched code interfered with its own tests; None if there is none."""
    unchecked: tuple[str, ...] = ()
    """Tests that pass, but whose twins can't confirm it."""
    left_out: tuple[str, ...] = ()
    """Files of the patch that took no part: modules in the place of Python's or a library's."""

    @property
    def resolved(self) -> bool:
        """Every test passes and none was tampered with. A test that never ran does not pass, and an
        empty set of tests proves nothing."""
        return bool(self.tests) and self.tampered is None and all(map(self._passes, self.tests))

    def _passes(self, test: TestRow) -> bool:
        may_skip = self.skips_count and test.group == PASS_TO_PASS
        return test.after == TestStatus.PASSED or (may_skip and test.after == TestStatus.SKIPPED)


def score(
    benchmark: Benchmark, instance: Instance, patch: str, sandbox_config: SandboxConfig
) -> Verdict:
    """Apply a patch to the buggy tree and run the instance's tests. Raises SandboxError,
    BuildFailure if the machine may be at fault, and ModelFailure if the patch does not apply or
    the tests don't fit into its tree."""
    results, unchecked = _Scoring(benchmark, instance, sandbox_config).checked(patch)
    unreported = TestStatus.TIMED_OUT if results.timed_out else TestStatus.MISSING
    reported = {t: s for t, s in results.statuses.items() if s is not TestStatus.MISSING}

    def rows(group: str, before: TestStatus, tests: Iterable[str]) -> list[TestRow]:
        return [TestRow(test, group, before, reported.get(test, unreported)) for test in tests]

    failed = rows(FAIL_TO_PASS, TestStatus.FAILED, instance.fail_to_pass)
    passed = rows(PASS_TO_PASS, TestStatus.PASSED, instance.pass_to_pass)
    return Verdict(
        (*failed, *passed), instance.skips_count, results.tampered, unchecked, results.left_out
    )


@dataclass(frozen=True)
class _Scoring:
    """Runs of one bug's tests, each in a fresh sandbox."""

    benchmark: Benchmark
    instance: Instance
    sandbox_config: SandboxConfig

    def checked(self, patch: str) -> tuple[TestResults, tuple[str, ...]]:
        """The outcome for a patch, and the tests that their twins can't confirm.

        A twin that disagrees with its test proves nothing if it also disagrees for the gold patch,
        or if no gold patch is known. Otherwise the patch is at fault if it disagrees again for it;
        also for a function that the patch replaces, if nothing else explains it."""
        results = self.results(patch)
        if not results.doubts:
            return results, ()
        honest = self._honest_doubts(results)
        if results.doubts.keys() <= honest:
            return results, tuple(results.doubts)
        again = self.results(patch)
        doubts = {test: why for test, why in again.doubts.items() if test not in honest}
        if doubts and again.tampered is None:
            test, why = next(iter(doubts.items()))
            again = replace(again, tampered=f"{test}: {why}")
        return again, tuple(again.doubts.keys() & honest)

    def _honest_doubts(self, results: TestResults) -> frozenset[str]:
        """The doubts that don't speak against a patch."""
        of_tests = frozenset(results.doubts.keys() - set(results.of_program))
        gold = self.instance.gold_patch
        try:
            control = self._run(gold)
        except PatchError:
            return of_tests
        passes = all(control.statuses[t] is TestStatus.PASSED for t in self.instance.fail_to_pass)
        if gold and passes:
            return frozenset(control.doubts) - {NO_END}
        # Twins run only if the bug is fixed.
        return of_tests | frozenset(control.of_program) - {NO_END}

    def results(self, patch: str) -> TestResults:
        """The outcome of the tests for a patch. If the build fails outside the sources, the patch
        is at fault only if that happens again, and not without the patch. Raises BuildFailure if it
        also happens without the patch, and ModelFailure if the patch leaves no room for the tests:
        a file where they need a folder."""
        try:
            results = self._run(patch)
        except (PatchError, SandboxFileError) as error:
            self._run("")
            raise ModelFailure(f"the tests can't be laid out over the patch: {error}") from error
        if results.build_failure is not None:
            results = self._run(patch)
        if results.build_failure is not None:
            without = self._run("").build_failure
            if without is not None:
                raise BuildFailure(f"the bug's build fails without the patch, too: {without}")
        return results

    def _run(self, patch: str) -> TestResults:
        deciding = self.instance.fail_to_pass
        with self._prepared(patch) as (scored, sandbox, left_out):
            tests = [*deciding, *self.instance.pass_to_pass]
            results = self.benchmark.run_tests(scored, sandbox, tests)
            results = replace(results, left_out=left_out)
        passing = all(results.statuses[test] is TestStatus.PASSED for test in deciding)
        if not (passing and isinstance(self.benchmark, Confirming)):
            return results
        with self._prepared(patch) as (scored, sandbox, _):
            unconfirmed = self.benchmark.unconfirmed(scored, sandbox)
        return replace(results, doubts={**results.doubts, **unconfirmed})

    @contextmanager
    def _prepared(self, patch: str) -> Iterator[tuple[Instance, Sandbox, tuple[str, ...]]]:
        """The patched bug, in a fresh sandbox, and the files of the patch that were left out."""
        with open_instance_sandbox(self.sandbox_config, self.instance) as sandbox:
            left_out = tuple(shadowing_files(self.instance, patch, sandbox))
            kept = drop_paths(patch, left_out) if left_out else patch
            patched = prepare_patched(self.benchmark, self.instance, sandbox, kept)
            yield replace(patched, is_scored=True), sandbox, left_out
