"""Rows with one call in each message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from collect.store.messages import ReplyTokens
from format.config import CallsPerMessage, FormatConfig, PreferencesConfig
from format.dataset import read_rows, split_file
from format.preferences import PAIR_COLUMNS
from format.single_calls import with_single_calls
from format.stage import run_format
from format.turn_quality import TurnQuality, turns
from tests.format.attempts import attempt
from tests.format.conversations import make_rollouts, write_run
from tests.format.several_calls import (
    RESULTS,
    SAID,
    rollouts_with_several_calls,
    with_several_calls,
)

ONE = FormatConfig(test_fraction=0, max_invalid_tool_calls=1, calls_per_message=CallsPerMessage.ONE)


def rows_of(run: Path, config: FormatConfig = ONE) -> list[dict[str, Any]]:
    run_format(config, run)
    return list(read_rows(split_file(run / "sft", "train")))


def test_each_call_has_its_message_and_is_followed_by_its_result(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rollouts_with_several_calls())
    all_calls = rows_of(run, ONE.model_copy(update={"calls_per_message": CallsPerMessage.ALL}))
    rows = rows_of(run)
    for row, before in zip(rows, all_calls, strict=True):
        *_, first, told, second, told_too, answer = row["messages"]
        assert (first["content"], first["reasoning_content"]) == (SAID, "Which is older?")
        assert (second["content"], "reasoning_content" in second) == ("", False)
        calls = [call for part in (first, second) for call in part["tool_calls"]]
        *_, reply, _, _, _ = before["messages"]
        assert calls == reply["tool_calls"]
        ids = [call["id"] for call in calls]
        assert [told["tool_call_id"], told_too["tool_call_id"]] == ids
        assert told["content"].startswith(RESULTS[0])
        assert answer == before["messages"][-1]
        assert row["completion_tokens"] == before["completion_tokens"]


def test_each_message_has_its_label_and_says_whether_it_is_trained_on(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rollouts_with_several_calls())
    for row in rows_of(run):
        replies = [each for each in row["messages"] if each["role"] == "assistant"]
        assert [each["train"] for each in replies] == row["trained_turns"]
        assert len(row["turn_quality"]) == len(replies)
        assert not any("train" in each for each in row["messages"] if each not in replies)
    good, bad = (row["turn_quality"] for row in rows_of(run))
    assert good[-3:] == ["ok", "ok", "ok"]
    assert bad[-3:] == ["ok", "invalid", "ok"]


def test_events_and_results_left_out_are_found_at_their_new_places() -> None:
    [(_, (_, sub))] = make_rollouts(1)
    twice = with_several_calls(with_several_calls(sub))
    *before, last = twice.messages
    first = len(before) - 6
    told = [at for at, row in enumerate(before) if row.message.role == "tool"]
    elided = (told[0], told[-1])
    tokens = ReplyTokens((1, 2), (3,), (-0.5,))
    rows = [replace(row, tokens=tokens) if row.message.tool_calls else row for row in before]
    divided = with_single_calls(replace(twice, messages=(*rows, replace(last, elided=elided))))
    assert [len(row.message.tool_calls) for row in divided.messages[first:]] == [
        *(1, 0) * 4,
        0,
    ]
    moved = [divided.messages[at].message.content for at in divided.messages[-1].elided]
    assert moved == [twice.messages[at].message.content for at in elided]
    for turn in turns(divided):
        ids = [call.id for call in turn.row.message.tool_calls]
        assert [row.message.tool_call_id for row in turn.answers] == ids
        assert {row.tool_call_id for row in turn.events} <= set(ids)
        parts_of_one = bool(ids) and ids[0].startswith("two_")
        assert (turn.row.tokens is None) == (parts_of_one or not ids)
    assert len(divided.events) == len(twice.events)


def test_a_reply_without_all_results_keeps_the_calls_order() -> None:
    [(_, (_, sub))] = make_rollouts(1)
    *before, first, second, last = with_several_calls(sub).messages
    swapped = with_single_calls(replace(sub, messages=(*before, second, first, last), events=()))
    ids = [row.message.tool_call_id for row in swapped.messages if row.message.role == "tool"]
    assert ids[-2:] == ["two_0", "two_1"]
    stopped = with_single_calls(replace(sub, messages=(*before, second), events=()))
    assert [row.message.role for row in stopped.messages[-3:]] == ["assistant", "assistant", "tool"]


def test_pairs_have_a_message_for_each_call_too(tmp_path: Path) -> None:
    made = [attempt(0, looks=1), attempt(1, looks=4)]
    several = [(rollout, (main, with_several_calls(sub))) for rollout, (main, sub) in made]
    config = ONE.model_copy(update={"preferences": PreferencesConfig(), "max_similarity": None})
    run = write_run(tmp_path / "run", several)
    run_format(config, run)
    (pair,) = read_rows(split_file(run / "sft" / "preferences", "train"), kinds=PAIR_COLUMNS)
    for side in ("chosen", "rejected"):
        assert all(len(each.get("tool_calls", "1")) == 1 for each in pair[side])
        replies = [each for each in pair[side] if each["role"] == "assistant"]
        assert len(replies) == pair[f"{side}_turns"]
    assert len(pair["chosen_trained_turns"]) == pair["chosen_turns"]


def test_only_rows_with_every_turn_trained_are_kept_if_so_set(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rollouts_with_several_calls())
    masked = {"only_fully_trained": True, "masked_turns": (TurnQuality.INVALID,)}
    (row,) = rows_of(run, ONE.model_copy(update=masked))
    assert row["trained_turns"] == [True] * len(row["trained_turns"])
