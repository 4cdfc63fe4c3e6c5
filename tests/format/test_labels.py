"""The columns that say how good a row is: in the rows, the report, the card, and as filters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset

from collect.questions.asking import as_question
from collect.questions.scoring import score
from collect.store.messages import Message
from collect.store.records import Conversation, MessageRow, Rollout, ToolOutcome
from format.config import FormatConfig, Leak
from format.dataset import read_rows, split_file
from format.stage import run_format
from tests.collect.questions.asked import value
from tests.format.conversations import make_rollouts, write_run
from tests.records import make_conversations, make_rollout

Held = tuple[Rollout, tuple[Conversation, ...]]
ALL_TRAIN = FormatConfig(test_fraction=0)


def rows_of(run: Path) -> dict[str, dict[str, Any]]:
    return {row["repository"]: row for row in read_rows(split_file(run / "sft", "train"))}


def changed(held: Held, **changes: Any) -> Held:
    rollout, (main, sub) = held
    return rollout, (main, replace(sub, **changes))


def claiming(held: Held, answer: str) -> Held:
    said = held[1][1].answer
    assert said is not None
    return changed(held, answer=replace(said, answer=answer))


def repeated(held: Held) -> Held:
    """The inspection again, and again."""
    *before, call, result, last = held[1][1].messages
    seen = held[1][1].events[-1]
    again = (replace(seen, message_index=seen.message_index + n) for n in (2, 4))
    events = (*held[1][1].events, *again)
    return changed(held, messages=(*before, *(call, result) * 3, last), events=events)


def refused_throughout(held: Held) -> Held:
    """Every turn is refused; the answer is, too, as if it were not the end."""
    rows = held[1][1].messages
    refused = ToolOutcome.REFUSED
    bad = [replace(r, tool_outcome=refused) if r.message.role == "tool" else r for r in rows]
    again = MessageRow(Message("user", "Go on."))
    return changed(held, messages=(*bad, again, bad[-1], again))


def test_the_columns_come_back_as_datasets_reads_them(tmp_path: Path) -> None:
    first, second = make_rollouts(2, teacher="oracle")
    baseline = make_rollout("ledger-1", variant="baseline", sub_calls=0, resolved=False)
    second = repeated(claiming(second, "`limit` = 99 in self.order = ['a', 'a']"))
    held = [first, second, (baseline, make_conversations(baseline))]
    run = write_run(tmp_path / "run", held)
    run_format(FormatConfig(test_fraction=0, min_grounding=None), run)
    loaded = load_dataset(str(run / "sft"), cache_dir=str(tmp_path / "cache"))["train"]
    rows = {row["repository"]: row for row in loaded}
    assert rows == rows_of(run)
    one, other = rows["ledger"], rows["textflow"]
    assert (one["grounding"], one["claims"]["ungrounded"]) == (1.0, 0)
    assert other["grounding"] == pytest.approx(2 / 3)
    assert other["claims"] == {"observed": 2, "given": 0, "ungrounded": 1}
    assert one["turn_quality"] == ["ok", "refused", "recovery", "ok"]
    assert one["trained_turns"] == [True, False, True, True]
    assert other["turn_quality"][-3:] == ["repeated", "repeated", "ok"]
    assert other["trained_turns"][-3:] == [False, False, True]
    assert one["leaks"] == ["oracle"]
    assert (one["fix_touched_location"], one["debug_helped"]) == (True, 1)
    assert other["debug_helped"] is None
    assistants = [m for m in one["messages"] if m["role"] == "assistant"]
    assert len(assistants) == len(one["trained_turns"]) == len(one["turn_quality"])


def test_report_and_card_count_the_labels(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(3))
    report = run_format(ALL_TRAIN, run)
    labels = report.splits["train"].labels
    assert labels["grounding"] == {"1": 3}
    assert labels["turn_quality"] == {"ok": 6, "refused": 3, "recovery": 3}
    assert labels["trained_turns"] == {"true": 9, "false": 3}
    assert labels["leaks"] == {"none": 3}
    assert labels["debug_helped"] == {"null": 3}
    card = (run / "sft" / "README.md").read_text()
    assert "| turn_quality | refused | 3 |" in card
    assert "| trained_turns | list<item: bool> |" in card


def test_each_filter_drops_what_it_should(tmp_path: Path) -> None:
    held = make_rollouts(5)
    held[1] = claiming(held[1], "`limit` is 99")
    held[2] = changed(held[2], teacher="oracle")
    held[3] = refused_throughout(held[3])
    _, (_, sub) = held[0]
    again = make_rollout("ledger-1", attempt=1)
    near = replace(make_conversations(again)[1], messages=sub.messages, events=sub.events)
    thinking = [
        replace(row, message=replace(row.message, reasoning="Let me see."))
        if row.message.role == "assistant"
        else row
        for row in near.messages
    ]
    held.append((again, (replace(near, messages=tuple(thinking)),)))
    run = write_run(tmp_path / "run", held)
    config = FormatConfig(test_fraction=0, drop_leaks=(Leak.ORACLE,))
    funnel = run_format(config, run).funnel
    dropped = {step.name: step.dropped for step in funnel.steps if step.dropped}
    assert dropped == {
        "role": 5,
        "grounded": 1,
        "not_leaked": 1,
        "trainable": 1,
        "not_near_duplicate": 1,
    }
    off = FormatConfig(test_fraction=0, min_grounding=None, masked_turns=(), max_similarity=None)
    assert run_format(off, run).funnel.kept == 6
    assert rows_of(run)["shopcart"]["leaks"] == ["oracle"]


def test_of_runtime_questions_only_right_answers_are_kept(tmp_path: Path) -> None:
    held = make_rollouts(2)
    asked = value("['a', 'a']", "list", "self.order")
    for number, text in enumerate(("`self.order` = ['a', 'a']", "`self.order` = ['b', 'b']")):
        rollout, (_, sub) = claiming(held[number], text)
        assert sub.answer is not None
        right = score(asked, sub.answer).correct
        row, conversations = as_question(asked, right, rollout, [sub])
        held[number] = row, tuple(conversations)
    run = write_run(tmp_path / "run", held)
    config = ALL_TRAIN.model_copy(update={"min_grounding": None})
    assert {s.name: s.dropped for s in run_format(config, run).funnel.steps}["resolved"] == 1
    assert list(rows_of(run)) == ["ledger"]
