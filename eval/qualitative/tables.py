"""Tables 3 and 4 of Debug2Fix, and how often the subagent was asked, by arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from collect.questions.records import Category
from eval.figures import Cell, Figure, Point, Record, Series, Table
from eval.labels import Labels
from eval.metrics import percent
from eval.qualitative.failure_modes import ENDED_EARLY, MODES, OF_TABLE_4
from eval.qualitative.question_rules import DESCRIPTIONS
from eval.qualitative.session_tables import ARM, answer_records, by_arm, is_empty, named
from eval.qualitative.study import UNKNOWN, Finding, Study

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
    """All that the study has anything for."""
    records: list[Record] = [
        questions_table(study, labels),
        calls_table(study, labels),
        *answer_records(study, labels),
        failures_table(study, labels),
        failures_figure(study, labels),
        failed_rollouts(study, labels),
    ]
    return [record for record in records if not is_empty(record)]


def questions_table(study: Study, labels: Labels) -> Table:
    """Table 3, for each arm whose main agent asked anything."""
    rows: list[tuple[Cell, ...]] = []
    for arm, findings in by_arm(study, lambda each: bool(each.questions)).items():
        asked = Counter(category for each in findings for category in each.questions)
        pairs = {(each.instance, category) for each in findings for category in each.questions}
        bugs = Counter(category for _, category in pairs)
        for category in (*Category, UNKNOWN):
            if asked[category]:
                rows.append(
                    (
                        *named(arm, study, labels),
                        *_described(category),
                        asked[category],
                        percent(asked[category], asked.total()),
                        bugs[category],
                    )
                )
    return Table(
        "question_categories",
        "What main agents ask",
        "Debug2Fix, table 3",
        (*ARM, "Category", "Description", "Questions", "% of questions", "Bugs"),
        tuple(rows),
        "By the rules in eval/qualitative/question_rules.py, over the questions of all rollouts.",
    )


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


def _described(category: str) -> tuple[str, str]:
    if category == UNKNOWN:
        return "Other", "No rule holds."
    return CATEGORY_TITLES[Category(category)], DESCRIPTIONS[Category(category)]


def _primary(findings: Sequence[Finding], mode: str) -> int:
    return sum(each.modes[0] == mode for each in findings)
