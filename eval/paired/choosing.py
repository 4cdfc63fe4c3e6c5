"""Which arms are compared with which."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations

from eval.metrics import Arm
from eval.paired.config import ArmName, StatisticsConfig
from eval.paired.gain import GainArms

Pair = tuple[Arm, Arm]


class Standing:
    """What each of some arms is measured against."""

    def __init__(self, arms: Iterable[Arm], config: StatisticsConfig, baseline: str) -> None:
        self.arms = sorted(set(arms))
        self._config, self._baseline = config, baseline

    def baseline_of(self, arm: Arm) -> Arm | None:
        """The arm with the same main model that stands for no gain; None where it is the arm."""
        named = self._config.baseline
        wanted = [Arm(self._baseline, arm.main_model, "")]
        if named is not None and arm.sub_model:
            wanted.insert(0, Arm(arm.variant, arm.main_model, named))
        found = next((each for each in wanted if each in self.arms), None)
        return found if found != arm else None

    def frontier_of(self, arm: Arm) -> Arm | None:
        """The arm with the frontier model in the sub model's place; None where it is the arm."""
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
    """The comparisons that the config names, as far as there are such arms."""
    pairs = [(arm_named(each.first), arm_named(each.second)) for each in config.comparisons]
    return [pair for pair in pairs if all(arm in arms for arm in pair)]


def all_pairs(arms: Iterable[Arm]) -> list[Pair]:
    """Every arm against every later one."""
    return list(combinations(sorted(set(arms)), 2))


def arm_named(name: ArmName) -> Arm:
    """The arm that a config names."""
    return Arm(name.variant.value, name.main, name.sub or "")
