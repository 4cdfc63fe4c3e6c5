"""Which system a variant is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from collect.agents.config import Variant
from collect.agents.repair.autosd import ScientificDebugger
from collect.agents.repair.inspector import Inspector
from collect.agents.repair.ldb import Ldb
from collect.agents.repair.ldb_blocks import Level
from collect.agents.repair.patching import PatchCoder
from collect.agents.repair.records import Patch, RepairSystem, Round
from collect.agents.repair.self_debugging import (
    RUBBER_DUCKING,
    SIMPLE_DEBUGGING,
    TRACE_REASONING,
    SelfDebugging,
)
from collect.agents.repair.swe_agent import SweAgent
from collect.agents.rollout_context import RolloutContext


class Diagnoser(Protocol):
    """What finds out what is wrong, for a Patch Coder to mend."""

    def diagnose(self, current: Round) -> str:
        """The root cause and a repair plan, or what else the Patch Coder is to know."""

    @property
    def exhausted(self) -> bool:
        """Whether its reasoning steps are used up."""


@dataclass(frozen=True)
class DiagnoseAndPatch:
    """Two agents: one finds the cause, the other writes the patch (InspectCoder, figure 2)."""

    diagnoser: Diagnoser
    coder: PatchCoder

    def repair(self, current: Round) -> Patch:
        return self.coder.patch(current, self.diagnoser.diagnose(current))

    @property
    def exhausted(self) -> bool:
        return self.diagnoser.exhausted


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
    """The system of a variant, for one rollout."""
    if variant in PROCEDURES:
        return SelfDebugging(context, PROCEDURES[variant])
    if variant in LEVELS:
        return Ldb(context, LEVELS[variant])
    if variant is Variant.SWE_AGENT:
        return SweAgent(context)
    if variant is Variant.AUTOSD:
        return DiagnoseAndPatch(ScientificDebugger(context), PatchCoder(context))
    return DiagnoseAndPatch(Inspector(context, variant), PatchCoder(context))
