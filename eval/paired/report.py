"""All paired statistics of one evaluation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from collect.store.records import ORACLE_TEACHER, Rollout
from eval.metrics import Arm, arm_of
from eval.paired.comparing import PairedComparison, compare_pairs
from eval.paired.config import ArmName, StatisticsConfig
from eval.paired.gain import GainArms, RecoveredGain, recovered_gain
from eval.paired.outcomes import Outcomes, outcomes_by_arm

# Select which arms to compare.


Pair = tuple[Arm, Arm]


class Standing:
    """The baseline and frontier that arms are compared with."""

    def __init__(self, arms: Iterable[Arm], config: StatisticsConfig, baseline: str) -> None:
        self.arms = sorted(set(arms))
        self._config, self._baseline = config, baseline

    def baseline_of(self, arm: Arm) -> Arm | None:
        """The no-gain arm with the same main model; None if that is the arm itself."""
        named = self._config.baseline
        wanted = [Arm(self._baseline, arm.main_model, "")]
        if named is not None and arm.sub_model:
            wanted.insert(0, Arm(arm.variant, arm.main_model, named))
        found = next((each for each in wanted if each in self.arms), None)
        return found if found != arm else None

    def frontier_of(self, arm: Arm) -> Arm | None:
        """The arm with the frontier model as sub model; None if that is the arm itself."""
        wanted = Arm(arm.variant, arm.main_model, self._config.frontier or arm.main_model)
        return wanted if arm.sub_model and wanted in self.arms and wanted != arm else None

    def pairs(self) -> list[Pair]:
        """Every arm against its baseline, and every other sub model against the frontier."""
        against = [(arm, self.baseline_of(arm)) for arm in self.arms]
        against += [
            (arm, frontier)
            for arm in self.arms
            if (frontier := self.frontier_of(arm)) is not None and self.baseline_of(frontier) != arm
        ]
        found = [(arm, other) for arm, other in against if other is not None]
        return list(dict.fromkeys(found))

    def gains(self) -> list[GainArms]:
        """Every sub model that has both a frontier and a baseline."""
        return [
            GainArms(arm, frontier, baseline)
            for arm in self.arms
            if (frontier := self.frontier_of(arm)) is not None
            and (baseline := self.baseline_of(arm)) is not None
            and baseline != frontier
        ]


def named_pairs(config: StatisticsConfig, arms: Collection[Arm]) -> list[Pair]:
    """The comparisons that the config names, if their arms exist."""
    pairs = [(arm_named(each.first), arm_named(each.second)) for each in config.comparisons]
    return [pair for pair in pairs if all(arm in arms for arm in pair)]


def all_pairs(arms: Iterable[Arm]) -> list[Pair]:
    """Every arm against every later one."""
    return list(combinations(sorted(set(arms)), 2))


def arm_named(name: ArmName) -> Arm:
    """The arm with this name in a config."""
    return Arm(name.variant.value, name.main, name.sub or "")


@dataclass(frozen=True)
class PairedReport:
    """All comparisons and their results."""

    comparisons: tuple[PairedComparison, ...] = ()
    gains: tuple[RecoveredGain, ...] = ()
    config: StatisticsConfig = field(default_factory=StatisticsConfig)
    scripted: frozenset[Arm] = frozenset()
    """Arms in which the oracle takes part."""
    trial: str = "attempt"
    """The name of a single trial on a bug, of which there may be several."""

    def __bool__(self) -> bool:
        return bool(self.comparisons or self.gains)


def paired_report(
    rollouts: Sequence[Rollout], config: StatisticsConfig, baseline: str
) -> PairedReport:
    """The comparisons that the config names or, by default, all relevant ones, over all arms.

    `baseline` is the variant without a subagent that counts as no gain.
    """
    outcomes = outcomes_by_arm(rollouts)
    standing = Standing(outcomes, config, baseline)
    pairs = named_pairs(config, outcomes) if config.comparisons else standing.pairs()
    scripted = {arm_of(row) for row in rollouts if row.teacher == ORACLE_TEACHER}
    return report_on(outcomes, pairs, standing.gains(), config, scripted=scripted)


def report_on(
    outcomes: Mapping[Arm, Outcomes],
    pairs: Sequence[Pair],
    gains: Sequence[GainArms],
    config: StatisticsConfig,
    *,
    scripted: Iterable[Arm] = (),
    trial: str = "attempt",
) -> PairedReport:
    """The comparisons for outcomes of any kind."""
    return PairedReport(
        compare_pairs(outcomes, pairs, config),
        tuple(recovered_gain(each, outcomes, config) for each in gains),
        config,
        frozenset(scripted),
        trial,
    )
