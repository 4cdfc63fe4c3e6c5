"""Repair rounds: patch, run the public tests, continue with the first that fails (InspectCoder,
section 2.4.2).
"""

from __future__ import annotations

from collect.agents.baselines.autosd import ScientificDebugger
from collect.agents.baselines.ldb import Ldb, Level
from collect.agents.baselines.self_debugging import (
    RUBBER_DUCKING,
    SIMPLE_DEBUGGING,
    TRACE_REASONING,
    SelfDebugging,
)
from collect.agents.baselines.swe_agent import SweAgent
from collect.agents.config import Variant
from collect.agents.inspectcoder.inspector import Inspector
from collect.agents.inspectcoder.patching import (
    CodeVersion,
    Patch,
    RepairSystem,
    Round,
    first_failing,
)
from collect.agents.rollout_context import RolloutContext
from collect.benchmarks.base import Benchmark
from collect.errors import InfrastructureFailure
from collect.store.records import StopReason

PROCEDURES = {
    Variant.SIMPLE_DEBUGGING: SIMPLE_DEBUGGING,
    Variant.RUBBER_DUCKING: RUBBER_DUCKING,
    Variant.TRACE_REASONING: TRACE_REASONING,
}
LEVELS = {
    Variant.LDB_LINE: Level.LINE,
    Variant.LDB_BLOCK: Level.BLOCK,
    Variant.LDB_FUNCTION: Level.FUNCTION,
}


def open_system(context: RolloutContext, variant: Variant) -> RepairSystem:
    """The system for a variant, for one rollout."""
    if variant in PROCEDURES:
        return SelfDebugging(context, PROCEDURES[variant])
    if variant in LEVELS:
        return Ldb(context, LEVELS[variant])
    if variant is Variant.SWE_AGENT:
        return SweAgent(context)
    if variant is Variant.AUTOSD:
        return ScientificDebugger(context)
    return Inspector(context, variant)


def run_repair(context: RolloutContext, variant: Variant, benchmark: Benchmark) -> StopReason:
    """Let a system repair the instance's program; the result stays in the sandbox.

    Raises RolloutError, RolloutStopped, SandboxError.
    """
    failing = first_failing(benchmark, context.instance, context.sandbox)
    if failing is None:
        raise InfrastructureFailure(
            f"{context.instance.id}: all public tests pass before the repair; check the bug with "
            "`stepinto bench verify`"
        )
    system = open_system(context, variant)
    program = context.sandbox.read_file(context.instance.solution).decode("utf-8", "replace")
    version = CodeVersion(1, program, failing)
    history: list[tuple[CodeVersion, Patch]] = []
    for number in range(1, context.config.repair.max_patch_attempts + 1):
        patch = system.repair(Round(number, version, tuple(history)))
        history.append((version, patch))
        if patch.code is None:
            context.reset(version.code)
        else:
            context.reset(patch.code)
            still_failing = first_failing(benchmark, context.instance, context.sandbox)
            if still_failing is None:
                return StopReason.FINISHED
            version = CodeVersion(version.number + 1, patch.code, still_failing)
        if system.exhausted:
            return StopReason.STEP_LIMIT
    return StopReason.ATTEMPT_LIMIT
