"""One pass over an evaluation's conversations, and the tables of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation, MessageRow, Role, Rollout, ToolOutcome
from eval.config import JudgeConfig
from eval.figures import Figure, Table, without_empty
from eval.metrics import Labels
from eval.qualitative.failure_modes import UNREADABLE, tools_by_step
from eval.qualitative.judge import Item, JudgeReport, drawn
from eval.qualitative.study import (
    Study,
    gold_patches,
    qualitative_records,
    questions_of,
    questions_table,
    study,
)
from tests.records import QUESTION, make_conversations, make_failed_rollout, make_rollout

LABELS = Labels()
WHY = "Why is the order wrong?"


def asking(
    rollout: Rollout, *questions: str, outcome: ToolOutcome = ToolOutcome.OK
) -> Conversation:
    """A main agent's conversation that asks these."""
    main, *_ = make_conversations(rollout)
    rows = []
    for number, question in enumerate(questions):
        arguments = json.dumps({"question": question, "test": "t"})
        call = ToolCall(f"call_{number}", "debug_subagent", arguments)
        rows.append(MessageRow(Message("assistant", tool_calls=(call,))))
        told = Message("tool", "...", tool_call_id=call.id, name=call.name)
        rows.append(MessageRow(told, tool_outcome=outcome))
    return replace(main, messages=(*main.messages[:2], *rows))


def looked_at(rollouts: Iterable[Rollout]) -> Study:
    listed = list(rollouts)
    held = [each for rollout in listed for each in make_conversations(rollout)]
    return study(listed, held, {})


def sample(rollouts: Iterable[Rollout], seed: int) -> list[Item]:
    return drawn(looked_at(rollouts).questions, JudgeConfig(model="judge", limit=5, seed=seed))


def tables(found: Study) -> dict[str, Table]:
    records = qualitative_records(found, LABELS)
    return {each.name: each for each in records if isinstance(each, Table)}


def test_seconds_of_the_subagent_and_of_the_debugger() -> None:
    rollout = make_rollout()
    main, helper = make_conversations(rollout)
    timed = tuple(
        replace(each, event=replace(each.event, seconds=0.25 + number))
        for number, each in enumerate(helper.events)
    )
    found = study([rollout], [main, replace(helper, events=timed)], {})
    # Three replies of 0.8 s and two results of 0.2 s; events of 0.25 s and 1.25 s.
    assert found.seconds[rollout.rollout_id].sub == pytest.approx(2.8)
    assert found.seconds[rollout.rollout_id].debugger == 1.5


def test_what_main_agents_ask() -> None:
    rollouts = [make_rollout("a"), make_rollout("a", attempt=1), make_rollout("b")]
    held = [
        asking(rollouts[0], QUESTION, WHY),
        asking(rollouts[1], WHY),
        asking(rollouts[2], WHY, "Hm.", "Cut off."),
    ]
    said = {QUESTION: "attribute_value", WHY: "root_cause", "Hm.": "none"}
    found = study(rollouts, held, {})
    items = drawn(found.questions, JudgeConfig(model="judge"))
    judged = tuple((item, said.get(item.text)) for item in items)
    table = questions_table(JudgeReport("judge", judged), found, LABELS)
    assert table.name == "question_categories"
    assert [(row[2], *row[4:]) for row in table.rows] == [
        ("Root Cause Analysis", 3, 60.0, 2),
        ("Attribute Value Inspection", 1, 20.0, 1),
        ("Other", 1, 20.0, 1),
    ]
    assert {row[:2] for row in table.rows} == {("Debug2Fix", "large → small")}
    assert "without 1 whose" in table.note


def test_without_a_judge_questions_are_not_sorted() -> None:
    assert "question_categories" not in tables(looked_at([make_rollout("a")]))


def test_only_what_was_asked_counts() -> None:
    rollout = make_rollout()
    assert list(questions_of(asking(rollout, WHY))) == [WHY]
    assert not list(questions_of(asking(rollout, WHY, outcome=ToolOutcome.INVALID)))
    assert not list(questions_of(asking(rollout, "")))
    assert not list(questions_of(replace(asking(rollout, WHY), role=Role.DEBUG_SUBAGENT)))


def test_failures_of_rollouts_and_answers() -> None:
    rollouts = [
        make_rollout("a"),
        make_rollout("b", resolved=False),
        make_rollout("c", resolved=False, sub_calls=0),
        make_failed_rollout(instance_id="d", sub_calls=0),
    ]
    found = tables(looked_at(rollouts))
    assert [(row[2], row[4], row[6], row[7]) for row in found["failure_modes"].rows] == [
        ("Infrastructure", 1, 1, ""),
        ("Debugger Not Used", 1, 1, ""),
        ("Wrong Fix Despite Correct Debugging", 1, 1, "yes"),
        ("Wrong Fix", 0, 2, ""),
    ]
    assert [row[2:5:2] for row in found["answer_failures"].rows] == [("Sound", 2)]
    assert [row[3] for row in found["failed_rollouts"].rows] == ["b", "c", "d"]


def test_tools_by_step() -> None:
    _, sub = make_conversations(make_rollout())
    assert list(tools_by_step(sub)) == [
        (1, "debug_start_session"),
        (2, "debug_control"),
        (3, "finish"),
    ]
    records = qualitative_records(looked_at([make_rollout("a"), make_rollout("b")]), LABELS)
    (figure,) = [each for each in records if each.name == "tools_by_step_1"]
    assert isinstance(figure, Figure)
    assert figure.stacked
    assert [(each.name, [p.value for p in each.points]) for each in figure.series] == [
        ("debug_control", [0, 2, 0]),
        ("debug_start_session", [2, 0, 0]),
        ("finish", [0, 0, 2]),
    ]


def test_actions_in_the_inspector_s_text_are_read() -> None:
    _, sub = make_conversations(make_rollout())
    texts = ["### ACTION\n```\nset_breakpoint(3)\ncontrol_execution('continue')\n```", "Hm."]
    rows = tuple(MessageRow(Message("assistant", text)) for text in texts)
    held = replace(sub, role=Role.INSPECTOR, variant="inspectcoder", messages=rows)
    assert list(tools_by_step(held)) == [
        *((1, "set_breakpoint"), (1, "control_execution"), (2, UNREADABLE)),
    ]


def test_the_oracle_is_marked() -> None:
    rollout = make_rollout(main_model="oracle", sub_model="oracle", resolved=False)
    for table in tables(looked_at([rollout])).values():
        assert {row[1] for row in table.rows} == {"oracle (scripted)"}


def test_conversations_of_other_rollouts_are_passed_over() -> None:
    rollout = make_rollout("a")
    found = study([rollout], make_conversations(make_rollout("other")), {})
    assert [(each.instance[1], each.answers) for each in found.findings] == [("a", ())]


def test_without_anything_there_is_no_table() -> None:
    baseline = make_rollout(variant="baseline", sub_model="", sub_calls=0)
    for found in (looked_at([]), looked_at([baseline])):
        assert without_empty(qualitative_records(found, LABELS)) == []


def test_a_sample_is_the_same_in_whatever_order() -> None:
    rollouts = [make_rollout(f"bug-{n}", resolved=n % 2 == 0) for n in range(30)]
    first = sample(rollouts, seed=3)
    assert first == sample(rollouts[::-1], seed=3)
    assert len(first) == 5
    assert first != sample(rollouts, seed=4)


def test_gold_patches_are_by_bug() -> None:
    assert gold_patches([]) == {}
