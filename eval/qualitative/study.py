"""One pass over the conversations of an evaluation: answers, tools by step, failures, and the main
agents' questions; and their tables, Debug2Fix's tables 3 and 4 and figure 5 among them, by arm.

Of each rollout only names, numbers and questions stay, so that the texts of a large run need not
fit into memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from collect.agents.debug2fix import DebugSubagent
from collect.benchmarks.base import Instance
from collect.code.patches import ChangedRange
from collect.questions.grounding import changed_by
from collect.store.records import ORACLE_TEACHER, Conversation, Role, Rollout
from eval.figures import Cell, Figure, Point, Record, Series, Table
from eval.metrics import Arm, InstanceKey, Labels, Seconds, arm_of, instance_of, ordered, percent
from eval.qualitative.failure_modes import (
    ANSWER_MODES,
    FINISH,
    MAIN_DEBUGS,
    MODES,
    NOT_DONE,
    OF_TABLE_4,
    modes_of_rollout,
    session_of,
    tools_by_step,
)
from eval.qualitative.judge import CATEGORIES, LABELS, NONE, Item, JudgeReport

DEBUGGERS = (Role.DEBUG_SUBAGENT, Role.INSPECTOR)
SOUND, NO_FINDING = "", "no_finding"
"""Stand for the mode of an answer that has none: with a finding, and without."""
GoldPatches = Mapping[InstanceKey, Sequence[ChangedRange]]


@dataclass(frozen=True)
class Finding:
    rollout_id: str
    arm: Arm
    instance: InstanceKey
    attempt: int
    resolved: bool
    answers: tuple[str, ...]
    """The primary mode of each answer; `SOUND` and `NO_FINDING` among them."""
    modes: tuple[str, ...]
    """The modes of an unresolved rollout, the primary one first."""


@dataclass
class Study:
    findings: list[Finding] = field(default_factory=list)
    tools: dict[Arm, Counter[tuple[int, str]]] = field(default_factory=lambda: defaultdict(Counter))
    """Calls of those that debug, by step and tool."""
    questions: list[Item] = field(default_factory=list)
    """What main agents asked their subagents."""
    seconds: dict[str, Seconds] = field(default_factory=dict)
    """By id of a rollout with conversations."""
    scripted: set[Arm] = field(default_factory=set)
    """Arms with the oracle as a model."""


def gold_patches(instances: Iterable[Instance]) -> GoldPatches:
    """What the gold patches change; nothing of a bug that has none."""
    return {(each.benchmark, each.id): changed_by(each.gold_patch) for each in instances}


def study(
    rollouts: Iterable[Rollout],
    conversations: Iterable[Conversation],
    gold: GoldPatches,
) -> Study:
    """Look at every rollout once.

    Conversations of one rollout come together; a rollout may have none, and conversations of other
    rollouts are passed over.
    """
    waiting = {rollout.rollout_id: rollout for rollout in rollouts}
    result = Study()
    result.scripted = {arm_of(row) for row in waiting.values() if row.teacher == ORACLE_TEACHER}
    for rollout_id, group in groupby(conversations, key=lambda each: each.rollout_id):
        rollout = waiting.pop(rollout_id, None)
        if rollout is not None:
            held = sorted(group, key=lambda each: each.index)
            _look_at(rollout, held, gold, result)
            result.seconds[rollout_id] = seconds_of(held)
            about = (instance_of(rollout), arm_of(rollout), rollout.attempt)
            questions = (text for each in held for text in questions_of(each))
            for number, text in enumerate(questions):
                result.questions.append(Item(f"{rollout_id}-{number}", *about, text))
    for rollout in waiting.values():
        _look_at(rollout, [], gold, result)
    result.findings.sort(key=lambda each: (each.arm, each.instance, each.attempt))
    return result


def _look_at(
    rollout: Rollout, conversations: Sequence[Conversation], gold: GoldPatches, result: Study
) -> None:
    arm, instance = arm_of(rollout), instance_of(rollout)
    changed = changed_by(rollout.patch)
    tests = [test.name for test in rollout.tests]
    sessions = []
    for each in conversations:
        by_itself = each.variant in MAIN_DEBUGS and each.events
        if each.role in DEBUGGERS or by_itself:
            sessions.append(session_of(each, tests, changed))
            if each.role is not Role.MAIN:
                result.tools[arm].update(tools_by_step(each))
    answers = tuple(
        [*each.modes, SOUND if each.finds else NO_FINDING][0] for each in sessions if each.answers
    )
    modes = modes_of_rollout(rollout, sessions, changed, gold.get(instance, ()))
    told = () if rollout.resolved else tuple(modes)
    result.findings.append(
        Finding(rollout.rollout_id, arm, instance, rollout.attempt, rollout.resolved, answers, told)
    )


def seconds_of(conversations: Sequence[Conversation]) -> Seconds:
    debugging = [each for each in conversations if each.role in DEBUGGERS]
    return Seconds(
        sum(row.seconds for each in debugging for row in each.messages),
        sum(row.event.seconds for each in conversations for row in each.events),
    )


def questions_of(conversation: Conversation) -> Iterator[str]:
    """What a main agent asked its subagent; nothing in a conversation of another agent's."""
    if conversation.role is not Role.MAIN:
        return
    answered = {row.message.tool_call_id: row.tool_outcome for row in conversation.messages}
    for row in conversation.messages:
        for call in row.message.tool_calls:
            question = call.text("question") if call.name == DebugSubagent.name else ""
            if question.strip() and answered.get(call.id) not in NOT_DONE:
                yield question


# The tables.


ARM = ("Variant", "Models")
Row = tuple[Cell, ...]


def answer_records(study: Study, labels: Labels) -> list[Record]:
    return [*steps_figures(study, labels), answers_table(study, labels)]


def qualitative_records(study: Study, labels: Labels) -> list[Record]:
    """All but what needs a judge."""
    return [*answer_records(study, labels), *failure_records(study, labels)]


def _named(arm: Arm, study: Study, labels: Labels) -> tuple[str, str]:
    """The variant and the models as the tables call them, the scripted ones marked."""
    return labels.variant(arm.variant), labels.models(arm, arm in study.scripted)


def _by_arm(
    study: Study, labels: Labels, chosen: Callable[[Finding], bool]
) -> dict[tuple[str, str], list[Finding]]:
    """The chosen findings by the arms' names, in the order of the tables; no arm without one."""
    found: dict[Arm, list[Finding]] = defaultdict(list)
    for each in filter(chosen, study.findings):
        found[each.arm].append(each)
    return {_named(arm, study, labels): found[arm] for arm in ordered(found)}


def steps_figures(study: Study, labels: Labels) -> list[Figure]:
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
                f"Tools by step: {', '.join(_named(arm, study, labels))}",
                "Debug2Fix, figure 5",
                "Step",
                "Calls",
                series,
                stacked=True,
                note="Of all sessions of the subagent; finish: it answered.",
                in_text=True,
            )
        )
    return figures


def answers_table(study: Study, labels: Labels) -> Table:
    """What was wrong with the answers of subagents, whatever came of their rollouts."""
    rows: list[Row] = []
    nothing = ("No Finding", "None of the others: the answer says that it found nothing.")
    described = {SOUND: ("Sound", "None of the following."), **ANSWER_MODES, NO_FINDING: nothing}
    for names, findings in _by_arm(study, labels, lambda each: bool(each.answers)).items():
        counts = Counter(mode for each in findings for mode in each.answers)
        good = Counter(mode for each in findings if each.resolved for mode in each.answers)
        for mode, texts in described.items():
            if counts[mode]:
                share = percent(counts[mode], counts.total())
                ends = (good[mode], counts[mode] - good[mode])
                rows.append((*names, *texts, counts[mode], share, *ends))
    return Table(
        "answer_failures",
        "What is wrong with answers",
        "Beside Debug2Fix, table 4",
        (*ARM, "Mode", "Description", "Answers", "% of answers", "Resolved", "Unresolved"),
        tuple(rows),
        "Each answer of a subagent by the first mode that holds. Resolved: in rollouts that "
        "resolved their bug; of questions alone, right answers.",
    )


def failure_records(study: Study, labels: Labels) -> list[Record]:
    """Table 4: unresolved rollouts by their primary mode, and by all that hold; as a figure, arm
    beside arm; and which rollout failed in which way, to look it up."""
    arms = _by_arm(study, labels, lambda each: bool(each.modes))
    present = {each.modes[0] for findings in arms.values() for each in findings}
    rows: list[Row] = []
    series = []
    for names, findings in arms.items():
        primary = Counter(each.modes[0] for each in findings)
        holding = Counter(mode for each in findings for mode in each.modes)
        points = []
        for mode, (title, description) in MODES.items():
            share = percent(primary[mode], len(findings))
            if mode in present:
                points.append(Point(title, share, arm=", ".join(names)))
            if holding[mode]:
                in_paper = "yes" if mode in OF_TABLE_4 else ""
                numbers = (primary[mode], share, holding[mode], in_paper)
                rows.append((*names, title, description, *numbers))
        series.append(Series(", ".join(names), tuple(points)))
    table = Table(
        "failure_modes",
        "Why rollouts failed",
        "Debug2Fix, table 4",
        (*ARM, "Mode", "Description", "Primary", "% of failed", "All", "In the paper"),
        tuple(rows),
        "Every rollout that did not resolve its bug, those without a verdict among them, by the "
        "first mode that holds (Primary), and how often each holds at all (All). The paper's table "
        "counts only those that asked the subagent.",
    )
    figure = Figure(
        "failure_modes_by_arm",
        "Why rollouts failed, by arm",
        "Debug2Fix, table 4",
        "Primary mode",
        "% of failed rollouts",
        tuple(series),
    )
    failed = tuple(
        (
            *_named(each.arm, study, labels),
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
    listed = Table(
        "failed_rollouts",
        "Failed rollouts",
        "Beside Debug2Fix, table 4",
        (*ARM, "Benchmark", "Bug", "Attempt", "Rollout", "Primary", "Others", "Answers"),
        failed,
        in_text=False,
    )
    return [table, figure, listed]


def questions_table(report: JudgeReport, study: Study, labels: Labels) -> Table:
    """Table 3, as a judge sorts the questions, for each arm whose main agent asked anything."""
    by_arm: defaultdict[Arm, list[tuple[str, InstanceKey]]] = defaultdict(list)
    for item, label in report.judged:
        if label is not None:
            by_arm[item.arm].append((label, item.instance))
    unreadable = sum(label is None for _, label in report.judged)
    missing = f" {report.missing} questions have no reply yet." if report.missing else ""
    titles = {category.value: title for category, (title, _) in CATEGORIES.items()}
    rows: list[Row] = []
    for arm in ordered(by_arm):
        asked = Counter(category for category, _ in by_arm[arm])
        bugs = Counter(category for category, _ in {*by_arm[arm]})
        for category, description in LABELS.items():
            if asked[category]:
                texts = ("Other" if category == NONE else titles[category], description)
                share = percent(asked[category], asked.total())
                numbers = (asked[category], share, bugs[category])
                rows.append((*_named(arm, study, labels), *texts, *numbers))
    return Table(
        "question_categories",
        "What main agents ask",
        "Debug2Fix, table 3",
        (*ARM, "Category", "Description", "Questions", "% of questions", "Bugs"),
        tuple(rows),
        f"By {report.model}, of a sample drawn by chance, without {unreadable} whose replies are "
        f"not one known label.{missing}",
    )
