"""The verifiers environment `stepinto-repair`: bugs of any benchmark, repaired by Debug2Fix.
docs/environments.md shows its use."""

from __future__ import annotations

import verifiers.v1 as vf

from stepinto_questions import (
    StepIntoConfig,
    StepIntoEnv,
    StepIntoHarness,
    StepIntoTask,
    StepIntoTaskset,
)

__all__ = ["RepairTaskset", "StepIntoEnv", "StepIntoHarness"]


class RepairTask(StepIntoTask):
    @vf.reward
    async def resolved(self, trace: vf.Trace) -> float:
        """1 if all tests pass in a fresh sandbox, and none was tampered with."""
        return self.earned(trace, "resolved")


class RepairTaskset(StepIntoTaskset, vf.Taskset[RepairTask, StepIntoConfig]):
    kind = "repair"
