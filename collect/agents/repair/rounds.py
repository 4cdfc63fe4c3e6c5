"""The rounds of a repair: patch, run the public tests, go on with the first that fails
(InspectCoder, section 2.4.2)."""

from __future__ import annotations

from collect.agents.config import Variant
from collect.agents.repair.failing import first_failing
from collect.agents.repair.records import CodeVersion, FailingTest, Patch, RepairSystem, Round
from collect.agents.repair.systems import open_system
from collect.agents.rollout_context import RolloutContext
from collect.benchmarks.base import Benchmark
from collect.errors import InfrastructureFailure
from collect.records import StopReason


def run_repair(context: RolloutContext, variant: Variant, benchmark: Benchmark) -> StopReason:
    """Let a system repair the instance's program, which is left in the sandbox as it ends up.

    Raises RolloutError, RolloutStopped, SandboxError.
    """
    failing = first_failing(benchmark, context.instance, context.sandbox)
    if failing is None:
        raise InfrastructureFailure(
            f"{context.instance.id}: all public tests pass before the repair; check the bug with "
            "`stepinto bench verify`"
        )
    return _rounds(context, open_system(context, variant), benchmark, failing)


def _rounds(
    context: RolloutContext, system: RepairSystem, benchmark: Benchmark, failing: FailingTest
) -> StopReason:
    version = CodeVersion(1, _read(context), failing)
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


def _read(context: RolloutContext) -> str:
    return context.sandbox.read_file(context.instance.solution).decode("utf-8", "replace")
