"""All paired statistics of one evaluation: which arms are compared, and the results as tables,
figures and rows of plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from collect.questions.asking import VARIANT as QUESTIONS
from collect.store.records import ORACLE_TEACHER, Rollout
from eval.config import ArmName, StatisticsConfig
from eval.figures import Figure, Point, Record, Series, notes, table
from eval.labels import Labels
from eval.metrics import MISSING, Arm, Facts, arm_of, decimal
from eval.paired.comparing import (
    Outcomes,
    PairedComparison,
    RecoveredGain,
    compare_pairs,
    outcomes_by_arm,
    recovered_gain,
)

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
    ) -> PairedReport:
        """The comparisons of these pairs, and the recovered gains, for outcomes of any kind."""
        return PairedReport(
            compare_pairs(outcomes, pairs, self._config),
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
        models = labels.models(arm, arm in self.scripted)
        return models if arm.variant == QUESTIONS else f"{labels.variant(arm.variant)}, {models}"


def paired_report(
    rollouts: Sequence[Rollout], config: StatisticsConfig, baseline: str
) -> PairedReport:
    """The comparisons that the config names or, by default, all relevant ones, over all arms.

    `baseline` is the variant without a subagent that counts as no gain.
    """

    def arm(name: ArmName) -> Arm:
        return Arm(name.variant.value, name.main, name.sub or "")

    outcomes = outcomes_by_arm(rollouts)
    standing = Standing(outcomes, config, baseline)
    pairs = standing.pairs()
    if config.comparisons:
        named = [(arm(each.first), arm(each.second)) for each in config.comparisons]
        pairs = [pair for pair in named if set(pair) <= outcomes.keys()]
    scripted = {arm_of(row) for row in rollouts if row.teacher == ORACLE_TEACHER}
    return standing.report(outcomes, pairs, scripted)


def paired_parts(report: PairedReport, labels: Labels, heading: str = "##") -> list[str]:
    """The section's Markdown parts; empty if nothing was compared."""
    parts = [f"{heading} Paired comparisons"] if report else []
    if report.comparisons:
        parts.append(table(comparisons_table(report, labels)))
    if report.gains:
        parts.append(table(gains_table(report, labels)))
    return [*parts, notes(paired_notes(report, labels))] if report else []


def comparisons_table(report: PairedReport, labels: Labels) -> list[list[str]]:
    head = ["First", "Second", "Bugs", f"{report.trial.capitalize()}s", "Left out", "First %"]
    head += ["Second %", "Difference", "Interval", "First better", "Second better"]
    rows = [[*head, "p", "p (Holm)", "Non-inferior", "Bugs needed"]]
    verdicts = {None: MISSING, True: "yes", False: "no"}
    for each in report.comparisons:
        needed = each.instances_for_planned
        rows.append(
            [
                *(report.name(arm, labels) for arm in (each.first, each.second)),
                *map(str, (each.instances, each.attempts, each.left_out)),
                *(decimal(each.first_rate), decimal(each.second_rate)),
                *(_signed(each.difference), _range(each.low, each.high)),
                *(str(each.first_better), str(each.second_better)),
                *(p_value(each.p), p_value(each.p_corrected)),
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
    if report.comparisons:
        test = "McNemar's exact test"
        if any(each.mcnemar_p is None and each.instances for each in report.comparisons):
            test = (
                "sign-flip permutation test over bugs where one has several "
                f"{report.trial}s, else {test}"
            )
        lines += [
            f"Difference: first minus second in {points}, over the {report.trial}s at which both "
            f"have a verdict; left out are bugs without such. Interval: {100 * config.confidence:g}"
            f" %, a bootstrap of bugs ({config.resamples} resamples, seed {config.seed}).",
            "First better, second better: bugs at which it got more right. p: "
            f"{test}; (Holm): corrected for {len(report.comparisons)} comparisons.",
            f"Non-inferior: the interval's lower end is above -{config.margin:g} {points}. Bugs "
            f"needed: to see {config.difference:g} {points} with {100 * config.power:g} % power at "
            f"the {100 * config.level:g} % level, with the discordance found here.",
        ]
    if report.gains:
        lines.append(
            "Recovered: (small - baseline) / (frontier - baseline), with its bootstrap interval by "
            "bug, moved out where no bug went one way; undefined where the interval of the "
            "frontier's gain includes 0."
        )
    for each in report.gains:
        if each.undefined:
            lines.append(f"Undefined for {report.name(each.small, labels)}: {each.undefined}.")
    return lines


def paired_figures(report: PairedReport, labels: Labels) -> list[Record]:
    differences = tuple(
        Point(
            f"{report.name(each.first, labels)} - {report.name(each.second, labels)}",
            *(each.difference, each.low, each.high),
        )
        for each in report.comparisons
    )
    gains = tuple(
        Point(report.name(each.small, labels), each.share, each.low, each.high)
        for each in report.gains
    )
    figures: list[Record] = []
    if differences:
        series = (Series("first - second", differences),)
        unit = "percentage points, with their interval"
        figures.append(Figure("differences", "Differences of arms", "", "", unit, series))
    if gains:
        series = (Series("in the frontier's place", gains),)
        title = "Share of the frontier's gain that is recovered"
        unit = "% of the frontier's gain over the baseline, with its interval"
        figures.append(Figure("recovered_gain", title, "", "", unit, series))
    return figures


def comparison_facts(report: PairedReport) -> list[Facts]:
    return [_facts(each, ("first", "second"), report) for each in report.comparisons]


def gain_facts(report: PairedReport) -> list[Facts]:
    return [_facts(each, ("small", "frontier", "baseline"), report) for each in report.gains]


def _facts(
    each: PairedComparison | RecoveredGain, sides: Sequence[str], report: PairedReport
) -> Facts:
    fields = asdict(each)
    arms = {side: fields.pop(side) for side in sides}
    row = {f"{side}_{key}": value for side, arm in arms.items() for key, value in arm.items()}
    row["scripted"] = any(getattr(each, side) in report.scripted for side in sides)
    return row | fields


def p_value(value: float | None) -> str:
    """Three decimals, or <0.001 below that."""
    if value is None:
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return decimal(value, "{:+.1f}")


def _range(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"{low:+.1f} to {high:+.1f}"
