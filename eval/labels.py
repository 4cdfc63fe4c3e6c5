"""Names of variants and models in the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from collect.agents.config import Variant
from collect.config import RuntimeConfig
from collect.models.config import ManualConfig, OracleConfig
from eval.metrics import Arm, ArmMetrics

DEBUG2FIX_NAMES: dict[str, str] = {
    Variant.BASELINE: "Baseline",
    Variant.DEBUG_TOOLS_ONLY: "Debug Tools Only",
    Variant.DEBUG2FIX: "Debug2Fix",
    Variant.DEBUG2FIX_TOOL_LIMIT: "Debug2Fix (w/ Tool Limit)",
}
"""Debug2Fix's names (its section 5.5), in the order of its tables."""
REPAIR_NAMES: dict[str, str] = {
    Variant.SIMPLE_DEBUGGING: "Simple-Debugging",
    Variant.RUBBER_DUCKING: "Rubber-Ducking",
    Variant.TRACE_REASONING: "Trace-Reasoning",
    Variant.SWE_AGENT: "SWE-Agent",
    Variant.AUTOSD: "AutoSD",
    Variant.LDB_LINE: "LDB (Line-Level)",
    Variant.LDB_BLOCK: "LDB (Block-Level)",
    Variant.LDB_FUNCTION: "LDB (Function-Level)",
    Variant.INSPECTCODER: "InspectCoder",
    Variant.INSPECTCODER_NO_INSPECTION: "w/o BI Strategy",
    Variant.INSPECTCODER_NO_MODIFICATION: "w/o RM Strategy",
    Variant.INSPECTCODER_NO_DEBUGGER: "w/o debugger tool",
    Variant.INSPECTCODER_NO_INSPECTWARE: "w/o InspectWare",
}
"""InspectCoder's names, in the order of its tables 1 and 2."""
ABLATIONS: frozenset[str] = frozenset(
    variant for variant, name in REPAIR_NAMES.items() if name.startswith("w/o ")
)
VARIANT_NAMES = DEBUG2FIX_NAMES | REPAIR_NAMES


@dataclass(frozen=True)
class Labels:
    scripted: Collection[str] = ("oracle",)
    """Names of the models that are the oracle."""
    played: Collection[str] = ()
    """Names of the models that are played by hand."""

    def variant(self, variant: str) -> str:
        return VARIANT_NAMES.get(variant, variant)

    def models(self, arm: Arm, scripted: bool) -> str:
        """`main → sub`, a single name if both are the same; scripted and played ones are marked."""
        names = list(dict.fromkeys(name for name in (arm.main_model, arm.sub_model) if name))
        known = [name for name in names if name in self.scripted]
        # An arm recorded as scripted is marked even if no name tells which model it is.
        marked = known if known or not scripted else names
        marks = dict.fromkeys(self.played, " (played)") | dict.fromkeys(marked, " (scripted)")
        return " → ".join(name + marks.get(name, "") for name in names)

    def arm(self, metrics: ArmMetrics) -> tuple[str, str]:
        return self.variant(metrics.arm.variant), self.models(metrics.arm, metrics.scripted)

    def pair(self, pair: tuple[str, str], arms: Iterable[ArmMetrics]) -> str:
        """As `models`, for the main and sub model of a table or column, which at least one arm
        has."""
        own = [m for m in arms if (m.arm.main_model, m.arm.sub_model) == pair]
        return self.models(own[0].arm, any(m.scripted for m in own))


def labels_of(runtime: RuntimeConfig) -> Labels:
    models = runtime.models.items()
    return Labels(
        scripted=[name for name, model in models if isinstance(model, OracleConfig)],
        played=[name for name, model in models if isinstance(model, ManualConfig)],
    )


def in_order(variants: Iterable[str]) -> list[str]:
    """The distinct variants in the order of the papers' tables, unknown ones last."""
    present = set(variants)
    known = [variant for variant in VARIANT_NAMES if variant in present]
    return known + sorted(present - set(known))


def ordered(arms: Iterable[Arm]) -> list[Arm]:
    """The arms in the order of the papers' tables."""
    present = sorted(arms)
    order = in_order(arm.variant for arm in present)
    return sorted(present, key=lambda arm: order.index(arm.variant))


def ordered_metrics(arms: Iterable[ArmMetrics]) -> list[ArmMetrics]:
    by_arm = {m.arm: m for m in arms}
    return [by_arm[arm] for arm in ordered(by_arm)]
