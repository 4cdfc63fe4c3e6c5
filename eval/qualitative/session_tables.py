"""What agents that debug do and answer, by arm: figure 5 of Debug2Fix, and what is wrong with the
answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from eval.figures import Cell, Figure, FigureKind, Point, Record, Series, Table
from eval.labels import Labels, in_order
from eval.metrics import Arm, percent
from eval.qualitative.answer_modes import ANSWER_MODES
from eval.qualitative.steps import FINISH
from eval.qualitative.study import SOUND, Finding, Study

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
