"""Compare arms on what all of them were judged on: differences, their uncertainty, the number of
bugs needed, and the share of the frontier's gain as subagent that a small model also achieves.

Outcomes form independent clusters: a bug with its attempts, a bug with the questions about it, or
all of a repository's bugs. Within a cluster they depend on each other, so every test and interval
here uses the cluster as its unit. Attempts are paired by their number, which is also that of their
seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from collect.quantities import counted
from collect.store.records import ORACLE_TEACHER, Rollout
from eval.config import ArmName, StatisticsConfig
from eval.figures import Figure, Point, Record, Series, Table, notes, table
from eval.metrics import (
    MISSING,
    Arm,
    Facts,
    Labels,
    arm_of,
    cluster_of,
    decimal,
    has_verdict,
    instance_of,
)

Counts = NDArray[np.int64]
Bug = tuple[str, ...]
"""What identifies a bug, and last the name of its repository."""
Outcomes = Mapping[Bug, Mapping[Any, bool]]
"""By bug and attempt. A bug without attempts was tried but never judged."""
SHOWN_DIFFERENCES = 25
"""Most rows of the differences without one repository in tables.md; the CSV file has all."""
CORRELATION = 0.1
"""Assumed between the outcomes of bugs of one repository, where the data can't show it."""
BATCH = 1000
"""Resamples per batch, to limit memory."""


@dataclass(frozen=True)
class Aligned:
    """Some arms, reduced to the attempts for which all of them have a verdict."""

    successes: Counts
    """One row per arm, one column per cluster."""
    trials: Counts
    """Number of attempts per cluster, at least one."""
    left_out: int
    """Number of bugs that were not judged in all arms."""
    names: Sequence[Any] = ()
    """The clusters' keys."""
    judged: int | None = None
    """Number of bugs in the clusters; None if each cluster is one bug."""

    @property
    def clusters(self) -> int:
        return len(self.trials)

    @property
    def bugs(self) -> int:
        return self.clusters if self.judged is None else self.judged

    @property
    def independent(self) -> float:
        """The number of independent bugs that say as much: by Kish's design effect. One cluster
        says nothing about others."""
        if self.clusters in (1, self.bugs):
            return self.clusters
        shares = self.trials / self.trials.sum()
        size = self.bugs * float((shares**2).sum())
        return self.bugs / (1 + CORRELATION * (size - 1))

    def rates(self) -> list[float]:
        """Share of successes of each arm, in 0..1; needs at least one cluster."""
        return [float(row.sum() / self.trials.sum()) for row in self.successes]

    def gaps(self) -> Counts:
        """By cluster, the first arm's successes minus the second's."""
        gaps: Counts = self.successes[0] - self.successes[1]
        return gaps


def outcomes_by_arm(rollouts: Iterable[Rollout]) -> dict[Arm, dict[Bug, dict[Any, bool]]]:
    """Whether each arm's rollouts resolved their bug, without rollouts that have no verdict."""
    arms: dict[Arm, dict[Bug, dict[Any, bool]]] = {}
    for row in rollouts:
        bug = (*instance_of(row), row.repository)
        attempts = arms.setdefault(arm_of(row), {}).setdefault(bug, {})
        if has_verdict(row):
            attempts[row.attempt] = row.resolved
    return arms


def align(arms: Sequence[Outcomes], cluster: str = "bug") -> Aligned:
    """The arms on their shared attempts, in a deterministic order, by bug or by repository."""
    tried = set[Bug]().union(*arms)
    clusters: dict[Any, list[tuple[Bug, Any]]] = {}
    judged = 0
    for bug in sorted(tried, key=repr):
        shared = set.intersection(*(set(arm.get(bug, ())) for arm in arms))
        if shared:
            judged += 1
            clusters.setdefault(cluster_of(bug, cluster), []).extend(
                (bug, attempt) for attempt in shared
            )
    successes = [
        [sum(arm[bug][attempt] for bug, attempt in held) for held in clusters.values()]
        for arm in arms
    ]
    return Aligned(
        np.array(successes, dtype=np.int64).reshape(len(arms), len(clusters)),
        np.array([len(held) for held in clusters.values()], dtype=np.int64),
        len(tried) - judged,
        tuple(clusters),
        judged,
    )


def differences_without(pair: Aligned) -> dict[Any, float]:
    """The difference of the two arms' rates without each cluster, by its name; empty if there is
    only one."""
    if pair.clusters < 2:
        return {}
    gaps, trials = pair.gaps(), pair.trials
    left = (gaps.sum() - gaps) / (trials.sum() - trials)
    return dict(zip(pair.names, left.tolist(), strict=True))


def discordance(pair: Aligned) -> float:
    """With one attempt per bug, the share of bugs that exactly one of the arms resolves.

    With several attempts: the mean square of the clusters' differences, which is equal for one
    attempt. Different cluster sizes don't count as a difference.
    """
    trials, gaps = pair.trials, pair.gaps()
    difference = gaps.sum() / trials.sum()
    spread = np.mean((gaps - difference * trials) ** 2) / trials.mean() ** 2
    return float(spread + difference**2)


def clusters_needed(difference: float, discordant: float, power: float, level: float) -> int | None:
    """The number of clusters with which a two-sided paired test detects a difference in -1..1.

    The formula of Miettinen (1968) and Connor (1987) for McNemar's test with the observed
    discordance, which is at least the difference. None if the difference is 0.
    """
    if difference == 0:
        return None
    spread = max(discordant, abs(difference))
    sure = float(stats.norm.isf(level / 2)) * math.sqrt(spread)
    seen = float(stats.norm.isf(1 - power)) * math.sqrt(spread - difference**2)
    return math.ceil((sure + seen) ** 2 / difference**2)


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p-value of McNemar's exact test, from the numbers of discordant pairs.

    Only for one attempt per bug, because it assumes independent pairs.
    """
    discordant = only_first + only_second
    return float(stats.binomtest(only_first, discordant).pvalue) if discordant else 1.0


def sign_flip(gaps: Counts, resamples: int, seed: int) -> float:
    """The two-sided p-value of a permutation test that swaps the two arms within whole clusters.

    Several attempts at one bug succeed and fail together, so McNemar's test over all pairs of
    attempts finds too many differences (Eliasziw and Donner 1991; Durkalski et al. 2003). If the
    arms do not differ, a bug's attempts as a whole could belong to the other arm: swapping them
    flips the sign of the bug's gap, whatever the dependence within it. With one attempt per bug
    this is McNemar's exact test. Tries all permutations if there are at most `resamples`, else that
    many random ones.
    """
    moved = gaps[gaps != 0].astype(float)
    if len(moved) < 2:
        return 1.0
    result = stats.permutation_test(
        (moved,),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected by Holm (1979): any false discovery is at most as likely as the level."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


# Intervals for statistics of paired arms, by cluster.
#
# The t distribution with one degree of freedom less than there are clusters, and the spread of the
# clusters' differences, with one more bug on which the arms differ, half for each (Agresti and Min
# 2005). In simulations of 10 to 200 bugs, of 5 to 30 repositories with 4 to 25 bugs each, and of
# arms that differ on 2 % to 90 % of the bugs, it contained the truth in 91 % to 100 % at a level of
# 5 %; less often if most bugs of a repository go the same way, with fewer than 20 repositories.
#
# The spread only knows what was seen: for ten bugs on which two arms agree, the interval would have
# no width. So if no cluster went one way, that end of the interval is extended to the bound of an
# exact test: if more than a share u of bugs went that way, the chance to see none among n would be
# less than half the level. That is the rule of three (Hanley and Lippman-Hand 1983) at any level:
# u = 1 - (level / 2) ** (1 / n). Since a repository's bugs may go the same way, n is not their
# number but that of independent bugs that say as much.


def difference_interval(pair: Aligned, config: StatisticsConfig) -> tuple[float, float]:
    """Interval of the first arm's rate minus the second's, in -1..1; needs a cluster."""
    gaps, trials = pair.gaps(), pair.trials
    estimate = float(gaps.sum() / trials.sum())
    unseen = unseen_share(pair.independent, config.level)
    if (gaps * trials[0] == gaps[0] * trials).all():
        # All clusters have the same difference: they have no spread.
        return estimate - unseen * (1 + estimate), estimate + unseen * (1 - estimate)
    variance = covariance(gaps, gaps, trials) + 1 / (pair.bugs + 2) ** 2
    error = critical(pair, config) * math.sqrt(variance)
    low, high = estimate - error, estimate + error
    low = low if (gaps < 0).any() else min(low, estimate - unseen)
    high = high if (gaps > 0).any() else max(high, estimate + unseen)
    return max(low, -1.0), min(high, 1.0)


def covariance(first: Counts, second: Counts, trials: Counts) -> float:
    """Of two ratios of sums to the sum of the trials, by cluster (the linearised estimator); needs
    two clusters."""
    clusters, total = len(trials), trials.sum()
    of_first = first - first.sum() / total * trials
    of_second = second - second.sum() / total * trials
    return float((of_first * of_second).sum() * clusters / (clusters - 1) / total**2)


def critical(arms: Aligned, config: StatisticsConfig) -> float:
    """The t distribution's value for a two-sided interval; needs two clusters."""
    return float(stats.t.isf(config.level / 2, arms.clusters - 1))


def unseen_share(bugs: float, level: float) -> float:
    """The largest plausible share of something that none of this many independent bugs shows."""
    return float(1 - (level / 2) ** (1 / bugs))


@dataclass(frozen=True)
class PairedComparison:
    """The first arm against the second. Rates are in percent, differences in percentage points;
    None if no bug was judged in both."""

    first: Arm
    second: Arm
    instances: int
    """Bugs judged in both arms, the base of all other fields."""
    left_out: int
    """Bugs tried in either arm, but not judged in both."""
    attempts: int
    """Pairs of attempts at those bugs."""
    repositories: int = 0
    """Number of repositories that these bugs are of."""
    first_rate: float | None = None
    second_rate: float | None = None
    difference: float | None = None
    """First minus second."""
    low: float | None = None
    """Interval of the difference, by bug or repository."""
    high: float | None = None
    without: Mapping[str, float] = field(default_factory=dict)
    """The difference without each repository, by its name; empty if there is only one."""
    first_better: int = 0
    """Bugs that the first arm resolved in more attempts than the second."""
    second_better: int = 0
    discordance: float | None = None
    """Mean square of the bugs' differences, as a share; with one attempt, of discordant bugs."""
    p: float | None = None
    """Of McNemar's exact test with one attempt per cluster. Several attempts are not independent:
    of the sign-flip permutation test over clusters."""
    p_corrected: float | None = None
    """The p-value corrected by Holm for the number of primary comparisons; None of an exploratory
    one, which the config does not name among its comparisons."""
    significant: bool | None = None
    """Whether the corrected p-value is below 1 - confidence."""
    exploratory: bool = False
    non_inferior: bool | None = None
    """Whether the interval's lower end is above -margin."""
    instances_for_planned: int | None = None
    """Bugs needed to detect the planned difference, with the observed discordance, and as many a
    repository as here if those are the clusters."""

    @property
    def range_without(self) -> tuple[float | None, float | None]:
        """The smallest and the largest difference without one repository."""
        values = self.without.values()
        return min(values, default=None), max(values, default=None)


def compare_pairs(
    outcomes: Mapping[Arm, Outcomes],
    pairs: Sequence[tuple[Arm, Arm]],
    config: StatisticsConfig,
    exploratory: Sequence[tuple[Arm, Arm]] = (),
) -> tuple[PairedComparison, ...]:
    """Compare every pair, correct the p-values for their number, and add the exploratory ones."""
    found = [compare_pair(first, second, outcomes, config) for first, second in pairs]
    others = [compare_pair(first, second, outcomes, config) for first, second in exploratory]
    tested = [number for number, each in enumerate(found) if each.p is not None]
    corrected = holm([each.p for each in found if each.p is not None])
    for number, p_value in zip(tested, corrected, strict=True):
        significant = p_value < config.level
        found[number] = replace(found[number], p_corrected=p_value, significant=significant)
    return (*found, *(replace(each, exploratory=True) for each in others))


def compare_pair(
    first: Arm, second: Arm, outcomes: Mapping[Arm, Outcomes], config: StatisticsConfig
) -> PairedComparison:
    """Compare one pair, without correction of the p-value."""
    arms = [outcomes[first], outcomes[second]]
    bugs, repositories = align(arms), align(arms, "repository")
    attempts = int(bugs.trials.sum())
    found = PairedComparison(first, second, bugs.clusters, bugs.left_out, attempts)
    if not attempts:
        return found
    pair = repositories if config.cluster == "repository" else bugs
    first_rate, second_rate = pair.rates()
    difference = 100 * (first_rate - second_rate)
    low, high = difference_interval(pair, config)
    gaps = bugs.gaps()
    better, worse = int((gaps > 0).sum()), int((gaps < 0).sum())
    single = attempts == pair.clusters
    p_value = (
        mcnemar(better, worse) if single else sign_flip(pair.gaps(), config.resamples, config.seed)
    )
    needed = clusters_needed(config.difference / 100, discordance(pair), config.power, config.level)
    return replace(
        found,
        repositories=repositories.clusters,
        first_rate=100 * first_rate,
        second_rate=100 * second_rate,
        difference=difference,
        low=100 * low,
        high=100 * high,
        without={name: 100 * value for name, value in differences_without(repositories).items()},
        first_better=better,
        second_better=worse,
        discordance=discordance(bugs),
        p=p_value,
        non_inferior=100 * low > -config.margin,
        instances_for_planned=needed and math.ceil(needed * bugs.clusters / pair.clusters),
    )


@dataclass(frozen=True)
class RecoveredGain:
    """(small - baseline) / (frontier - baseline), in percent of the frontier's gain."""

    small: Arm
    frontier: Arm
    baseline: Arm
    instances: int
    """Bugs judged in all three arms."""
    left_out: int
    """Bugs tried in some arm, but not judged in all."""
    gain: float | None = None
    """The frontier's rate minus the baseline's, in percentage points."""
    gain_low: float | None = None
    gain_high: float | None = None
    share: float | None = None
    """In percent; None if undefined."""
    low: float | None = None
    """Its interval, by bug or repository."""
    high: float | None = None
    undefined: str = ""
    """Why there is no share; empty if there is one."""


def recovered_gain(
    arms: tuple[Arm, Arm, Arm], outcomes: Mapping[Arm, Outcomes], config: StatisticsConfig
) -> RecoveredGain:
    """The share for a small, a frontier and a baseline arm; undefined if the interval of the
    frontier's gain includes 0 or is below it."""
    held = [outcomes[arm] for arm in arms]
    aligned = align(held, config.cluster)
    found = RecoveredGain(*arms, align(held).clusters, aligned.left_out)
    if not aligned.clusters:
        return replace(found, undefined="there is no bug that all three arms were judged on")
    pair = replace(aligned, successes=aligned.successes[1:])
    low, high = difference_interval(pair, config)
    small, frontier, baseline = aligned.rates()
    gain = frontier - baseline
    found = replace(found, gain=100 * gain, gain_low=100 * low, gain_high=100 * high)
    if high < 0:
        return replace(found, undefined="the frontier is worse than the baseline")
    if low <= 0:
        why = "the interval of the frontier's gain includes 0: there may be nothing to recover"
        return replace(found, undefined=why)
    share = (small - baseline) / gain
    low, high = _share_interval(aligned, share, gain, config)
    return replace(found, share=100 * share, low=100 * low, high=100 * high)


def _share_interval(
    arms: Aligned, share: float, gain: float, config: StatisticsConfig
) -> tuple[float, float]:
    """Fieller's interval (1954) for a ratio, widened like a difference's if no cluster went a way
    that would change the share; needs an interval of the gain above 0.

    It holds each share that does not contradict the arms: `recovered - share * gain` of the
    clusters may be 0. If a share u of unseen bugs were lost by the small model to the frontier or
    the baseline, the recovered share would be u / gain smaller; if won, larger.
    """
    (small, frontier, baseline), trials = arms.successes, arms.trials
    recovered, gained = small - baseline, frontier - baseline
    squared = critical(arms, config) ** 2
    # The ends are the roots of a * share**2 - 2 * b * share + c.
    a = gain**2 - squared * covariance(gained, gained, trials)
    b = share * gain**2 - squared * covariance(recovered, gained, trials)
    c = (share * gain) ** 2 - squared * covariance(recovered, recovered, trials)
    half = math.sqrt(max(b**2 - a * c, 0.0))
    low, high = (b - half) / a, (b + half) / a
    others = arms.successes[1:]
    # All clusters may have the same share: up to a rounding error.
    spread = high - low > 1e-6
    lost = spread and (small < others).any(axis=1).all()
    won = spread and (small > others).any(axis=1).all()
    unseen = unseen_share(arms.independent, config.level) / gain
    return (low if lost else min(low, share - unseen), high if won else max(high, share + unseen))


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
        pairs = [(arm, base) for arm in self.arms if (base := self.baseline_of(arm)) is not None]
        for arm in self.arms:
            frontier = self.frontier_of(arm)
            if frontier is not None and self.baseline_of(frontier) != arm:
                pairs.append((arm, frontier))
        return list(dict.fromkeys(pairs))

    def gains(self) -> list[tuple[Arm, Arm, Arm]]:
        found = []
        for arm in self.arms:
            frontier, baseline = self.frontier_of(arm), self.baseline_of(arm)
            if frontier is not None and baseline is not None and baseline != frontier:
                found.append((arm, frontier, baseline))
        return found

    def report(
        self,
        outcomes: Mapping[Arm, Outcomes],
        pairs: Sequence[Pair],
        scripted: Iterable[Arm],
        trial: str = "attempt",
        exploratory: Sequence[Pair] = (),
    ) -> PairedReport:
        """The comparisons of these pairs, and the recovered gains, for outcomes of any kind."""
        return PairedReport(
            compare_pairs(outcomes, pairs, self._config, exploratory),
            tuple(recovered_gain(arms, outcomes, self._config) for arms in self.gains()),
            self._config,
            frozenset(scripted),
            trial,
        )


@dataclass(frozen=True)
class PairedReport:
    comparisons: tuple[PairedComparison, ...] = ()
    gains: tuple[RecoveredGain, ...] = ()
    config: StatisticsConfig = field(default_factory=StatisticsConfig)
    scripted: frozenset[Arm] = frozenset()
    """Arms in which the oracle takes part."""
    trial: str = "attempt"
    """The name of a single trial on a bug, of which there may be several."""

    def __bool__(self) -> bool:
        return bool(self.comparisons or self.gains)

    def name(self, arm: Arm, labels: Labels) -> str:
        return labels.name(arm, arm in self.scripted)


def paired_report(
    rollouts: Sequence[Rollout], config: StatisticsConfig, baseline: str
) -> PairedReport:
    """All relevant comparisons over all arms; those that the config names are primary.

    `baseline` is the variant without a subagent that counts as no gain.
    """

    def arm(name: ArmName) -> Arm:
        return Arm(name.variant, name.main, name.sub or "")

    outcomes = outcomes_by_arm(rollouts)
    standing = Standing(outcomes, config, baseline)
    named = [(arm(each.first), arm(each.second)) for each in config.comparisons]
    every = [pair for pair in standing.pairs() if {pair, pair[::-1]}.isdisjoint(named)]
    primary = [pair for pair in named if set(pair) <= outcomes.keys()]
    scripted = {arm_of(row) for row in rollouts if row.teacher == ORACLE_TEACHER}
    if not named:
        return standing.report(outcomes, every, scripted)
    return standing.report(outcomes, primary, scripted, exploratory=every)


def paired_parts(report: PairedReport, labels: Labels, heading: str = "##") -> list[str]:
    """The section's Markdown parts; empty if nothing was compared."""
    parts = [f"{heading} Paired comparisons"] if report else []
    if report.comparisons:
        parts.append(table(comparisons_table(report, labels)))
    if report.gains:
        parts.append(table(gains_table(report, labels)))
    return [*parts, notes(paired_notes(report, labels))] if report else []


def comparisons_table(report: PairedReport, labels: Labels) -> list[list[str]]:
    head = ["First", "Second", "Repositories", "Bugs", f"{report.trial.capitalize()}s"]
    head += ["Left out", "First %", "Second %", "Difference", "Interval", "Without one repository"]
    head += ["First better", "Second better"]
    rows = [[*head, "p", "p (Holm)", "Non-inferior", "Bugs needed"]]
    verdicts = {None: MISSING, True: "yes", False: "no"}
    for each in report.comparisons:
        needed = each.instances_for_planned
        rows.append(
            [
                *(report.name(arm, labels) for arm in (each.first, each.second)),
                *map(str, (each.repositories, each.instances, each.attempts, each.left_out)),
                *(decimal(each.first_rate), decimal(each.second_rate)),
                *(_signed(each.difference), _range(each.low, each.high)),
                _range(*each.range_without),
                *(str(each.first_better), str(each.second_better)),
                p_value(each.p),
                "exploratory" if each.exploratory else p_value(each.p_corrected),
                verdicts[each.non_inferior],
                MISSING if needed is None else str(needed),
            ]
        )
    return rows


def gains_table(report: PairedReport, labels: Labels) -> list[list[str]]:
    head = ["Small", "Frontier", "Baseline", "Bugs", "Left out"]
    rows = [[*head, "Frontier's gain", "Recovered %"]]
    for each in report.gains:
        share = "undefined"
        if each.share is not None:
            low = "-inf" if each.low is None else f"{each.low:.1f}"
            high = "inf" if each.high is None else f"{each.high:.1f}"
            share = f"{each.share:.1f} ({low} to {high})"
        names = [report.name(arm, labels) for arm in (each.small, each.frontier, each.baseline)]
        gain = f"{_signed(each.gain)} ({_range(each.gain_low, each.gain_high)})"
        rows.append([*names, str(each.instances), str(each.left_out), gain, share])
    return rows


def paired_notes(report: PairedReport, labels: Labels) -> list[str]:
    config, points, lines = report.config, "percentage points", []
    by_repository = config.cluster == "repository"
    clusters = "repositories" if by_repository else "bugs"
    if report.comparisons:
        test = "McNemar's exact test"
        if by_repository or any(each.attempts > each.instances for each in report.comparisons):
            test = (
                f"sign-flip permutation test over {clusters} where one has several "
                f"{report.trial}s, else {test}"
            )
        primary = sum(not each.exploratory for each in report.comparisons)
        others = ""
        if primary < len(report.comparisons):
            others = (
                "Exploratory: not named in eval.statistics.comparisons; its p is not corrected, "
                "and shows no difference by itself."
            )
        lines += [
            f"Difference: first minus second in {points}, over the {report.trial}s at which both "
            f"have a verdict; left out are bugs without such. Interval: {100 * config.confidence:g}"
            f" %, from the t distribution over {clusters}, moved out if none went one way.",
            "First better, second better: bugs at which it got more right. p: "
            f"{test}; (Holm): corrected for {counted(primary, 'comparison')}. {others}".rstrip(),
            "Without one repository: the smallest and the largest difference if the bugs of any "
            "one repository are left out.",
            f"Non-inferior: the interval's lower end is above -{config.margin:g} {points}. Bugs "
            f"needed: to see {config.difference:g} {points} with {100 * config.power:g} % power at "
            f"the {100 * config.level:g} % level, with the discordance found here.",
        ]
    if report.gains:
        lines.append(
            "Recovered: (small - baseline) / (frontier - baseline), with Fieller's interval "
            f"over {clusters}, moved out if none went one way; undefined if the interval of "
            "the frontier's gain includes 0."
        )
    for each in report.gains:
        if each.undefined:
            lines.append(f"Undefined for {report.name(each.small, labels)}: {each.undefined}.")
    return lines


def leave_one_out(report: PairedReport, labels: Labels) -> Table:
    rows = tuple(
        (report.name(each.first, labels), report.name(each.second, labels), repository, difference)
        for each in report.comparisons
        for repository, difference in sorted(each.without.items(), key=lambda item: item[1])
    )
    return Table(
        "leave_one_out",
        "Differences without one repository",
        "",
        ("First", "Second", "Without", "Difference"),
        rows,
        "First minus second in percentage points, over the bugs of all other repositories.",
        in_text=len(rows) <= SHOWN_DIFFERENCES,
    )


def paired_records(report: PairedReport, labels: Labels) -> list[Record]:
    differences = tuple(
        Point(
            f"{report.name(each.first, labels)} - {report.name(each.second, labels)}",
            *(each.difference, each.low, each.high, report.name(each.first, labels)),
        )
        for each in report.comparisons
    )
    gains = tuple(
        Point((name := report.name(each.small, labels)), each.share, each.low, each.high, name)
        for each in report.gains
    )
    unit = "percentage points, first minus second, with their interval"
    title = "Share of the frontier's gain that is recovered"
    of_gain = "% of the frontier's gain over the baseline, with its interval"
    compared = (Series("first - second", differences),)
    recovered = (Series("in the frontier's place", gains),)
    return [
        leave_one_out(report, labels),
        Figure("differences", "Differences of arms", "", "", unit, compared),
        Figure("recovered_gain", title, "", "", of_gain, recovered),
    ]


def paired_facts(report: PairedReport) -> dict[str, list[Facts]]:
    """Tables of plain numbers: `comparisons` and `recovered_gain`."""

    def facts(each: PairedComparison | RecoveredGain, *sides: str) -> Facts:
        fields = asdict(each)
        if isinstance(each, PairedComparison):
            del fields["without"]
            fields["lowest_without"], fields["highest_without"] = each.range_without
        arms = {side: fields.pop(side) for side in sides}
        row = {f"{side}_{key}": value for side, arm in arms.items() for key, value in arm.items()}
        row["scripted"] = any(getattr(each, side) in report.scripted for side in sides)
        return row | fields

    return {
        "comparisons": [facts(each, "first", "second") for each in report.comparisons],
        "recovered_gain": [facts(each, "small", "frontier", "baseline") for each in report.gains],
    }


def p_value(value: float | None) -> str:
    """Three decimals, or <0.001 below that."""
    if value is None:
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return decimal(value, "{:+.1f}")


def _range(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"{low:+.1f} to {high:+.1f}"
