"""All paired statistics of one evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collect.records import ORACLE_TEACHER, Rollout
from eval.metrics import Arm, arm_of
from eval.paired.choosing import Pair, Standing, named_pairs
from eval.paired.comparing import PairedComparison, compare_pairs
from eval.paired.config import StatisticsConfig
from eval.paired.gain import GainArms, RecoveredGain, recovered_gain
from eval.paired.outcomes import Outcomes, outcomes_by_arm


@dataclass(frozen=True)
class PairedReport:
    """What was compared, and what came of it."""

    comparisons: tuple[PairedComparison, ...] = ()
    gains: tuple[RecoveredGain, ...] = ()
    config: StatisticsConfig = field(default_factory=StatisticsConfig)
    scripted: frozenset[Arm] = frozenset()
    """Arms in which the oracle plays."""
    trial: str = "attempt"
    """What there may be several of about a bug."""

    def __bool__(self) -> bool:
        return bool(self.comparisons or self.gains)


def paired_report(
    rollouts: Sequence[Rollout], config: StatisticsConfig, baseline: str
) -> PairedReport:
    """The comparisons that the config names or leaves to the default, over all arms.

    `baseline` is the variant without a subagent that stands for no gain.
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
    """The same over outcomes of any kind."""
    return PairedReport(
        compare_pairs(outcomes, pairs, config),
        tuple(recovered_gain(each, outcomes, config) for each in gains),
        config,
        frozenset(scripted),
        trial,
    )
