"""Tables 3 and 4 of Debug2Fix, and how often the subagent was asked, by arm."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from collect.question_records import Category
from eval.figures import Cell, Figure, FigureKind, Point, Record, Series, Table
from eval.labels import Labels, in_order
from eval.metrics import Arm, InstanceKey, percent, wilson
from eval.qualitative.failure_modes import ENDED_EARLY, MODES, OF_TABLE_4
from eval.qualitative.judge import LABELS, NONE, Judged, JudgeReport
from eval.qualitative.samples import Kind
from eval.qualitative.sessions import ANSWER_MODES, FINISH
from eval.qualitative.study import SOUND, Finding, Study

# What agents that debug do and answer, by arm: figure 5 of Debug2Fix, and what is wrong with the
# answers.


ARM = ("Variant", "Models")

Arms = Mapping[Arm, Sequence[Finding]]


def answer_records(study: Study, labels: Labels) -> list[Record]:
    """What is about subagents alone, whoever asked them."""
    records: list[Record] = [
        tools_table(study, labels),
        *steps_figures(study, labels),
        answers_table(study, labels),
    ]
    return [record for record in records if not is_empty(record)]


def tools_table(study: Study, labels: Labels) -> Table:
    """How often each tool was called by those that debug."""
    rows: list[tuple[Cell, ...]] = []
    for arm in ordered(study.tools):
        counts = Counter[str]()
        for (_, tool), calls in study.tools[arm].items():
            counts[tool] += calls
        total = counts.total() - counts[FINISH]
        sessions = sum(len(each.answers) for each in study.findings if each.arm == arm)
        for tool, calls in counts.most_common():
            if tool != FINISH:
                a_session = calls / sessions
                share = percent(calls, total)
                rows.append((*named(arm, study, labels), tool, calls, share, a_session))
    return Table(
        "subagent_tools",
        "Tools of the subagent",
        "Beside Debug2Fix, figure 5",
        (*ARM, "Tool", "Calls", "% of calls", "Calls a session"),
        tuple(rows),
    )


def steps_figures(study: Study, labels: Labels) -> list[Figure]:
    """Figure 5, one an arm."""
    figures = []
    for number, arm in enumerate(ordered(study.tools), 1):
        counts = study.tools[arm]
        steps = range(1, max((step for step, _ in counts), default=0) + 1)
        tools = sorted({tool for _, tool in counts}, key=lambda tool: (tool == FINISH, tool))
        series = tuple(
            Series(tool, tuple(Point(str(step), counts[step, tool]) for step in steps))
            for tool in tools
        )
        figures.append(
            Figure(
                f"tools_by_step_{number}",
                f"Tools by step: {', '.join(named(arm, study, labels))}",
                "Debug2Fix, figure 5",
                "Step",
                "Calls",
                series,
                FigureKind.STACKED,
                "Of all sessions of the subagent; finish: it answered.",
                in_text=True,
            )
        )
    return figures


def answers_table(study: Study, labels: Labels) -> Table:
    """What was wrong with the answers of subagents, whatever came of their rollouts."""
    rows: list[tuple[Cell, ...]] = []
    described = {SOUND: ("Sound", "None of the following.")}
    described |= {mode.name: (mode.title, mode.description) for mode in ANSWER_MODES}
    for arm, findings in by_arm(study, lambda each: bool(each.answers)).items():
        counts = Counter(mode for each in findings for mode in each.answers)
        good = Counter(mode for each in findings if each.resolved for mode in each.answers)
        for mode, texts in described.items():
            if counts[mode]:
                share = percent(counts[mode], counts.total())
                ends = (good[mode], counts[mode] - good[mode])
                rows.append((*named(arm, study, labels), *texts, counts[mode], share, *ends))
    return Table(
        "answer_failures",
        "What is wrong with answers",
        "Beside Debug2Fix, table 4",
        (*ARM, "Mode", "Description", "Answers", "% of answers", "Resolved", "Unresolved"),
        tuple(rows),
        "Each answer of a subagent by the first mode that holds. Resolved: in rollouts that "
        "resolved their bug; of questions alone, right answers.",
    )


def is_empty(record: Record) -> bool:
    """Whether there is nothing in it."""
    return not (record.rows if isinstance(record, Table) else record.series)


def named(arm: Arm, study: Study, labels: Labels) -> tuple[str, str]:
    """The variant and the models as the tables call them, the scripted ones marked."""
    return labels.variant(arm.variant), labels.models(arm, arm in study.scripted)


def by_arm(study: Study, chosen: Callable[[Finding], bool]) -> Arms:
    """The findings that are chosen, in the order of the tables; arms without one are left out."""
    found: dict[Arm, list[Finding]] = {}
    for each in filter(chosen, study.findings):
        found.setdefault(each.arm, []).append(each)
    return {arm: found[arm] for arm in ordered(found)}


def ordered(arms: Iterable[Arm]) -> list[Arm]:
    """Arms in the order of the papers' tables."""
    present = list(arms)
    order = in_order(arm.variant for arm in present)
    return sorted(present, key=lambda arm: (order.index(arm.variant), arm))


CATEGORY_TITLES: Mapping[Category, str] = {
    Category.EXCEPTION: "Exception Diagnosis",
    Category.ROOT_CAUSE: "Root Cause Analysis",
    Category.LOCAL: "Local Variable Inspection",
    Category.ATTRIBUTE: "Attribute Value Inspection",
    Category.ASSERTION: "Assertion Failure",
    Category.REACHABILITY: "Code Reachability",
    Category.POST_FIX: "Post-Fix Verification",
}
MANY_CALLS = 4
"""So many questions or more are one column."""
WITHOUT_VERDICT = frozenset(mode.name for mode in ENDED_EARLY)


def qualitative_records(study: Study, labels: Labels) -> list[Record]:
    """All that the study has anything for, without a judge."""
    records: list[Record] = [
        calls_table(study, labels),
        *answer_records(study, labels),
        failures_table(study, labels),
        failures_figure(study, labels),
        failed_rollouts(study, labels),
    ]
    return [record for record in records if not is_empty(record)]


def calls_table(study: Study, labels: Labels) -> Table:
    """How often a subagent was asked in a rollout."""
    rows: list[tuple[Cell, ...]] = []
    for arm, findings in by_arm(study, _could_ask).items():
        calls = [len(each.answers) for each in findings]
        counts = Counter(min(each, MANY_CALLS) for each in calls)
        shares = [percent(counts[number], len(calls)) for number in range(MANY_CALLS + 1)]
        mean = sum(calls) / len(calls)
        rows.append((*named(arm, study, labels), len(calls), mean, *shares))
    numbers = (*(str(number) for number in range(MANY_CALLS)), f"{MANY_CALLS} or more")
    return Table(
        "subagent_calls",
        "Calls of the subagent",
        "Beside the call rate of Debug2Fix, table 1",
        (*ARM, "Rollouts", "Calls a rollout", *(f"% with {number}" for number in numbers)),
        tuple(rows),
        "Inspectors are called once for each patch.",
    )


def failures_table(study: Study, labels: Labels) -> Table:
    """Table 4: unresolved rollouts by their primary mode, and by all that hold."""
    rows: list[tuple[Cell, ...]] = []
    for arm, findings in by_arm(study, lambda each: bool(each.modes)).items():
        primary = Counter(each.modes[0] for each in findings)
        holding = Counter(mode for each in findings for mode in each.modes)
        for mode in MODES:
            if holding[mode.name]:
                rows.append(
                    (
                        *named(arm, study, labels),
                        mode.title,
                        mode.description,
                        primary[mode.name],
                        percent(primary[mode.name], len(findings)),
                        holding[mode.name],
                        "yes" if mode.name in OF_TABLE_4 else "",
                    )
                )
    return Table(
        "failure_modes",
        "Why rollouts failed",
        "Debug2Fix, table 4",
        (*ARM, "Mode", "Description", "Primary", "% of failed", "All", "In the paper"),
        tuple(rows),
        "Every rollout that did not resolve its bug, those without a verdict among them, by the "
        "first mode that holds (Primary), and how often each holds at all (All). The paper's table "
        "is of those alone that asked the subagent.",
    )


def failures_figure(study: Study, labels: Labels) -> Figure:
    """The primary modes of table 4 as shares, arm beside arm."""
    arms = by_arm(study, lambda each: bool(each.modes))
    present = {each.modes[0] for findings in arms.values() for each in findings}
    series = tuple(
        Series(
            ", ".join(named(arm, study, labels)),
            tuple(
                Point(mode.title, percent(_primary(findings, mode.name), len(findings)))
                for mode in MODES
                if mode.name in present
            ),
        )
        for arm, findings in arms.items()
    )
    return Figure(
        "failure_modes_by_arm",
        "Why rollouts failed, by arm",
        "Debug2Fix, table 4",
        "Primary mode",
        "% of failed rollouts",
        series,
    )


def failed_rollouts(study: Study, labels: Labels) -> Table:
    """Which rollout failed in which way, to look it up."""
    rows = tuple(
        (
            *named(each.arm, study, labels),
            *each.instance,
            each.attempt,
            each.rollout_id,
            each.modes[0],
            " ".join(each.modes[1:]),
            " ".join(mode or "sound" for mode in each.answers),
        )
        for each in study.findings
        if each.modes
    )
    return Table(
        "failed_rollouts",
        "Failed rollouts",
        "Beside Debug2Fix, table 4",
        (*ARM, "Benchmark", "Bug", "Attempt", "Rollout", "Primary", "Others", "Answers"),
        rows,
        in_text=False,
    )


def _could_ask(finding: Finding) -> bool:
    """Whether there is a subagent, and a verdict on how it was used."""
    return bool(finding.arm.sub_model) and not set(finding.modes) & WITHOUT_VERDICT


def _primary(findings: Sequence[Finding], mode: str) -> int:
    return sum(each.modes[0] == mode for each in findings)


# What a judge said: table 3 of Debug2Fix, and how far it agrees with the rules on failures.


def judge_records(report: JudgeReport, study: Study, labels: Labels) -> list[Table]:
    """All that the judge has said anything of."""
    failures = [each for each in report.judged if each.item.kind is Kind.FAILURE]
    tables = (
        questions_table(report, study, labels),
        agreement_table(report, failures),
        confusion_table(report.model, failures),
    )
    return [table for table in tables if not is_empty(table)]


def questions_table(report: JudgeReport, study: Study, labels: Labels) -> Table:
    """Table 3, for each arm whose main agent asked anything."""
    judged = [each for each in report.judged if each.item.kind is Kind.QUESTION]
    by_arm: defaultdict[Arm, list[tuple[str, InstanceKey]]] = defaultdict(list)
    for each in judged:
        if each.label is not None:
            by_arm[each.item.arm].append((each.label, each.item.instance))
    titles = {each.value: title for each, title in CATEGORY_TITLES.items()} | {NONE: "Other"}
    rows: list[tuple[Cell, ...]] = []
    for arm in ordered(by_arm):
        asked = Counter(category for category, _ in by_arm[arm])
        bugs = Counter(category for category, _ in {*by_arm[arm]})
        for category, description in LABELS[Kind.QUESTION].items():
            if asked[category]:
                texts = (titles[category], description)
                share = percent(asked[category], asked.total())
                counts = (asked[category], share, bugs[category])
                rows.append((*named(arm, study, labels), *texts, *counts))
    unreadable = sum(each.label is None for each in judged)
    return Table(
        "question_categories",
        "What main agents ask",
        "Debug2Fix, table 3",
        (*ARM, "Category", "Description", "Questions", "% of questions", "Bugs"),
        tuple(rows),
        f"By {report.model}, of a sample drawn by chance, without {unreadable} whose replies are "
        f"not one known label.{_missing(report)}",
    )


def agreement_table(report: JudgeReport, failures: Sequence[Judged]) -> Table:
    """How far the rules and the judge give a failure the same mode."""
    pairs = _pairs(failures)
    found = agreement(pairs)
    kappa = None if found.kappa is None else f"{found.kappa:.2f}"
    numbers = (found.items, found.percent, found.low, found.high, kappa)
    return Table(
        "judge_agreement",
        f"Agreement of the rules with {report.model}",
        "Beside Debug2Fix, table 4, which was sorted by hand",
        ("Failures", "Agree %", "95 % from", "to", "Cohen's kappa", "Unreadable"),
        ((*numbers, len(failures) - len(pairs)),) if failures else (),
        "Of a sample drawn by chance. Unreadable: replies that are not one known label, which are "
        f"not among the failures.{_missing(report)}",
    )


def confusion_table(model: str, failures: Sequence[Judged]) -> Table:
    """Failure modes by the rules down, by the model across."""
    pairs = _pairs(failures)
    counts = Counter(pairs)
    known = [*LABELS[Kind.FAILURE]]
    down = sorted({rules for rules, _ in pairs}, key=known.index)
    across = sorted({label for _, label in pairs}, key=known.index)
    return Table(
        "judge_failures",
        f"Failure modes: by the rules, and by {model}",
        "Beside Debug2Fix, table 4",
        ("By the rules", *across),
        tuple((rules, *(counts[rules, label] for label in across)) for rules in down),
    )


def _pairs(failures: Sequence[Judged]) -> list[tuple[str, str]]:
    return [(each.item.by_rules, each.label) for each in failures if each.label is not None]


def _missing(report: JudgeReport) -> str:
    return f" {report.missing} questions and failures have no reply yet." if report.missing else ""


@dataclass(frozen=True)
class Agreement:
    """Agreement of two raters on the same items."""

    items: int
    percent: float | None
    """Share of the things that both gave the same label; None where there is none."""
    low: float | None
    high: float | None
    """Its 95 % Wilson interval, in percent."""
    kappa: float | None
    """Cohen's: 1 where they always agree, 0 where no more than by chance; None where chance alone
    would always agree, so that it is not defined."""


def agreement(pairs: Sequence[tuple[str, str]]) -> Agreement:
    """Agreement over pairs of labels, one of each rater (Cohen 1960)."""
    if not pairs:
        return Agreement(0, None, None, None, None)
    count = len(pairs)
    same = sum(first == second for first, second in pairs) / count
    low, high = wilson(same, count)
    firsts, seconds = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(firsts[label] * seconds[label] for label in firsts) / count**2
    kappa = None if chance == 1 else (same - chance) / (1 - chance)
    return Agreement(count, 100 * same, 100 * low, 100 * high, kappa)
