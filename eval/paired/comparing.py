"""Two arms against each other: the difference, how sure it is, and what it would take to see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eval.metrics import Arm
from eval.paired.config import StatisticsConfig
from eval.paired.intervals import difference_interval
from eval.paired.outcomes import Aligned, Outcomes, align
from eval.paired.planning import clusters_needed, discordance
from eval.paired.significance import holm, mcnemar, sign_flip


@dataclass(frozen=True)
class PairedComparison:
    """The first arm against the second. Rates are in percent, differences in percentage points;
    None where they share nothing that both were judged on."""

    first: Arm
    second: Arm
    instances: int
    """Bugs that both were judged on, the base of all that follows."""
    left_out: int
    """Bugs that either was tried on and not both were judged on."""
    attempts: int
    """Pairs of attempts at those bugs."""
    first_rate: float | None = None
    second_rate: float | None = None
    difference: float | None = None
    """First minus second."""
    low: float | None = None
    """Bootstrap interval of the difference, by bug."""
    high: float | None = None
    first_better: int = 0
    """Bugs that the first resolved in more of the attempts."""
    second_better: int = 0
    discordance: float | None = None
    """Mean square of the bugs' differences, as a share: with one attempt, of discordant bugs."""
    mcnemar_p: float | None = None
    """McNemar's exact test; None with several attempts, which are not independent."""
    permutation_p: float | None = None
    """Sign-flip permutation test over bugs."""
    p: float | None = None
    """McNemar's where there is one attempt a bug, else the permutation test's."""
    p_corrected: float | None = None
    """The same, by Holm for the number of comparisons."""
    significant: bool | None = None
    """Whether the corrected p-value is below 1 - confidence."""
    margin: float = 0.0
    """In percentage points."""
    non_inferior: bool | None = None
    """Whether the interval's lower end lies above -margin."""
    planned_difference: float = 0.0
    """In percentage points."""
    instances_for_planned: int | None = None
    """Bugs that it takes to see the planned difference, with the discordance found here."""
    instances_for_observed: int | None = None
    """The same for the difference found here; None where there is none."""


def compare_pairs(
    outcomes: Mapping[Arm, Outcomes],
    pairs: Sequence[tuple[Arm, Arm]],
    config: StatisticsConfig,
) -> tuple[PairedComparison, ...]:
    """Every pair, its p-values corrected for all of them."""
    found = [compare_pair(first, second, outcomes, config) for first, second in pairs]
    corrected = iter(holm([each.p for each in found if each.p is not None]))
    return tuple(
        each if each.p is None else _corrected(each, next(corrected), config) for each in found
    )


def compare_pair(
    first: Arm, second: Arm, outcomes: Mapping[Arm, Outcomes], config: StatisticsConfig
) -> PairedComparison:
    """One pair, its p-value uncorrected."""
    pair = align([outcomes[first], outcomes[second]])
    attempts = int(pair.trials.sum())
    found = PairedComparison(first, second, pair.clusters, pair.left_out, attempts)
    return _planned(_tested(_estimated(found, pair, config), pair, config), pair, config)


def _estimated(
    found: PairedComparison, pair: Aligned, config: StatisticsConfig
) -> PairedComparison:
    found = replace(found, margin=config.margin)
    if not pair.clusters:
        return found
    first, second = pair.rates()
    interval = difference_interval(pair, config)
    return replace(
        found,
        first_rate=100 * first,
        second_rate=100 * second,
        difference=100 * (first - second),
        low=100 * interval.low,
        high=100 * interval.high,
        non_inferior=100 * interval.low > -config.margin,
    )


def _tested(found: PairedComparison, pair: Aligned, config: StatisticsConfig) -> PairedComparison:
    if not pair.clusters:
        return found
    gaps = pair.gaps()
    better, worse = int((gaps > 0).sum()), int((gaps < 0).sum())
    exact = mcnemar(better, worse) if (pair.trials == 1).all() else None
    permuted = sign_flip(gaps, config.resamples, config.seed)
    return replace(
        found,
        first_better=better,
        second_better=worse,
        mcnemar_p=exact,
        permutation_p=permuted,
        p=permuted if exact is None else exact,
    )


def _planned(found: PairedComparison, pair: Aligned, config: StatisticsConfig) -> PairedComparison:
    found = replace(found, planned_difference=config.difference)
    if found.difference is None:
        return found
    discordant = discordance(pair)
    return replace(
        found,
        discordance=discordant,
        instances_for_planned=clusters_needed(
            config.difference / 100, discordant, config.power, config.level
        ),
        instances_for_observed=clusters_needed(
            found.difference / 100, discordant, config.power, config.level
        ),
    )


def _corrected(
    found: PairedComparison, p_value: float, config: StatisticsConfig
) -> PairedComparison:
    return replace(found, p_corrected=p_value, significant=p_value < config.level)
