"""One rollout: a fresh sandbox, the agents at work in it, and the verdict on their patch."""

from __future__ import annotations

import errno
import hashlib
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event

from collect.agents.config import AgentsConfig, Variant
from collect.agents.conversation import ConversationLog
from collect.agents.debug2fix import run_debug2fix
from collect.agents.java_workspace import prepare_java_workspace
from collect.agents.rollout_context import RoleModel, RolloutContext
from collect.agents.systems import run_repair
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.running import build_outputs, runner_files
from collect.benchmarks.workspace import Snapshot, open_instance_sandbox, snapshot, with_sources
from collect.code.patches import PatchTooLarge, diff_trees, drop_paths, outside
from collect.errors import (
    ConfigError,
    FailureKind,
    ModelFailure,
    OutOfDisk,
    RolloutError,
    RolloutStopped,
)
from collect.rollout_log import NO_LOG, RolloutLog
from collect.rollouts.scoring import Verdict, score
from collect.store.records import Role, StopReason
from sandbox import Sandbox, SandboxConfig
from sandbox.errors import SandboxError, SandboxFileError
from sandbox.opening import backend_name

MAX_FAILURE_CHARS = 4_000
MAX_PATCH_CHARS = 8_000_000
MAX_PATCH_LINES = 200_000
"""Taking a patch apart needs a few hundred bytes per line, however short the line is."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class RolloutSpec:
    """Which rollout to do."""

    instance: Instance
    variant: Variant
    main: str
    """Name of the main agent's model in the config."""
    sub: str | None
    """Name of the subagent's model; None for variants without one."""
    attempt: int

    @property
    def id(self) -> str:
        """16 hex digits; the same rollout has the same id in every start of a run."""
        facts = (self.instance.benchmark, self.instance.id, self.variant.value)
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

    def open_sandbox(self, instance: Instance) -> Sandbox:
        """A fresh sandbox for agents, see `open_instance_sandbox`."""
        started = time.monotonic()
        sandbox = open_instance_sandbox(self.sandbox, instance)
        self.log.note(
            "sandbox_opened",
            seconds=time.monotonic() - started,
            backend=backend_name(self.sandbox),
            image_digest=sandbox.image_digest,
        )
        return sandbox


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
            trace.verdict = score(settings.benchmark, spec.instance, trace.patch, settings.sandbox)
            settings.log.note(
                "scored",
                seconds=time.monotonic() - scoring_started,
                resolved=trace.verdict.resolved,
                tampered=trace.verdict.tampered,
                unchecked=", ".join(trace.verdict.unchecked) or None,
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
        settings.benchmark.prepare(instance, sandbox)
        if instance.language == "java":
            prepare_java_workspace(sandbox)
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
        )
        try:
            if spec.variant.repairs_one_file:
                trace.stop_reason = run_repair(context, spec.variant, settings.benchmark)
            else:
                trace.stop_reason = run_debug2fix(context, spec.variant)
        except ModelFailure as failure:
            trace.failure = failure_of(failure)
        trace.patch = _patch(instance, spec.variant, before, sandbox)


def _patch(instance: Instance, variant: Variant, earlier: Snapshot, sandbox: Sandbox) -> str:
    """What the agent changed, without tests and their configuration; for a system that repairs one
    file only the change of that file. Raises ModelFailure."""
    try:
        before, after = earlier.changes(sandbox)
    except SandboxFileError as error:
        raise ModelFailure(f"the agent left a workspace that can't be read: {error}") from error
    if variant.repairs_one_file:
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
    return Failure(kind, type(error).__name__, message[:MAX_FAILURE_CHARS])
