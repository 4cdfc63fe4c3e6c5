"""Pairs of attempts at one question, from runs built of records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset

from collect.errors import ConfigError, FailureKind
from format.candidates import asked_before_changes
from format.config import FormatConfig, PreferencesConfig, Why
from format.dataset import read_rows, split_file
from format.preferences import PAIR_COLUMNS, Attempt, choose_pairs
from format.stage import run_format
from tests.format.attempts import attempt
from tests.format.conversations import make_rollouts, write_run
from tests.records import make_conversations, make_failed_rollout, make_rollout

PAIRS = FormatConfig(test_fraction=0, preferences=PreferencesConfig())
UNGROUNDED = "`self.limit` = 4711 at ledger/cache.py:13"


def pairs_of(run: Path) -> list[dict[str, Any]]:
    return list(read_rows(split_file(run / "sft" / "preferences", "train"), kinds=PAIR_COLUMNS))


def test_right_against_wrong_and_short_against_long(tmp_path: Path) -> None:
    right, wrong, long = attempt(0), attempt(1, resolved=False), attempt(2, looks=4)
    others = make_rollouts(3)[1:]
    run = write_run(tmp_path / "run", [right, wrong, long, *others])
    report = run_format(PAIRS, run)
    assert report.outputs == {"preferences": {"train": 3}}
    loaded = load_dataset(
        str(run / "sft" / "preferences"), cache_dir=str(tmp_path / "cache"), split="train"
    )
    rows = {(row["why"], row["chosen_id"], row["rejected_id"]): row for row in loaded}
    names = [made[1][1].conversation_id for made in (right, wrong, long)]
    assert set(rows) == {
        ("correct", names[0], names[1]),
        ("correct", names[2], names[1]),
        ("shorter", names[0], names[2]),
    }
    row = rows["shorter", names[0], names[2]]
    assert [each["role"] for each in row["prompt"]] == ["system", "user"]
    assert row["chosen"][0]["tool_calls"][0]["function"]["name"] == "debug_start_session"
    assert (row["chosen_turns"], row["rejected_turns"]) == (4, 7)
    assert len(row["chosen_trained_turns"]) == row["chosen_turns"]
    assert row["rejected"][-1]["content"].startswith("After attempt 2")
    assert row["tools"][0]["function"]["name"] == "debug_start_session"


def test_an_ungrounded_answer_is_the_worse_one(tmp_path: Path) -> None:
    ungrounded = attempt(1, claim=UNGROUNDED)
    run = write_run(tmp_path / "run", [attempt(0), ungrounded])
    report = run_format(PAIRS, run)
    assert {s.name: s.dropped for s in report.funnel.steps}["grounded"] == 1
    (row,) = pairs_of(run)
    assert (row["why"], row["rejected_id"]) == ("correct", ungrounded[1][1].conversation_id)


def test_failures_and_leaks_are_on_no_side(tmp_path: Path) -> None:
    failed = make_failed_rollout(FailureKind.INFRASTRUCTURE, "ledger-1", attempt=1)
    conversations = make_conversations(failed)
    rollout, (main, sub) = attempt(2, claim="`self.order` = ['a', 'a']", resolved=False)
    file = rollout.tests[0].name.partition("::")[0]
    seen = tuple(replace(row, event=replace(row.event, file=file)) for row in sub.events)
    leaking = replace(sub, events=seen)
    run = write_run(
        tmp_path / "run", [attempt(0), (failed, conversations), (rollout, (main, leaking))]
    )
    with pytest.raises(ConfigError, match="1 attempts are right and 0 wrong"):
        run_format(PAIRS, run)
    assert not (run / "sft").exists()


def test_attempts_in_a_changed_workspace_are_no_siblings() -> None:
    rollout = make_rollout(variant="debug2fix")
    main, sub = make_conversations(rollout)
    assert asked_before_changes((main, sub)) == {main.conversation_id, sub.conversation_id}
    head, (asked, answered, edit, *rest) = main.messages[:2], main.messages[2:]
    later = replace(main, messages=(*head, edit, rest[0], rest[1], asked, answered, rest[-1]))
    assert asked_before_changes((later, sub)) == {main.conversation_id}
    gated = replace(later, variant="debug2fix_tool_limit")
    assert sub.conversation_id in asked_before_changes((gated, sub))


def made(number: int, answer: bytes = b"", model: str = "small") -> Attempt:
    said = b"%d" % number
    return Attempt(
        f"c{number}", model, "ledger", None, number % 2 == 0, 10, b"", said, answer or said
    )


def test_pairs_are_few_spread_and_the_same_each_time() -> None:
    attempts = [made(n) for n in range(8)]
    assert PAIRS.preferences is not None
    pairs = list(choose_pairs(PAIRS.preferences, {b"": attempts}))
    assert len({pair.chosen.conversation_id for pair in pairs}) == 4
    assert len({pair.rejected.conversation_id for pair in pairs}) == 4
    assert pairs == list(choose_pairs(PAIRS.preferences, {b"": attempts[::-1]}))
    other = PAIRS.preferences.model_copy(update={"seed": 1})
    assert pairs != list(choose_pairs(other, {b"": attempts}))


def test_no_answer_is_put_against_itself() -> None:
    assert PAIRS.preferences is not None
    attempts = {b"": [made(0, b"same"), made(1, b"same"), made(3)]}
    (pair,) = choose_pairs(PAIRS.preferences, attempts)
    assert pair.rejected.conversation_id == "c3"


@pytest.mark.parametrize(
    ("chosen_from", "chosen"),
    [((), {"c0"}), (("oracle",), {"c2"}), (("oracle", "small"), {"c0", "c2"}), (("none",), set())],
)
def test_whose_answers_may_be_chosen(chosen_from: tuple[str, ...], chosen: set[str]) -> None:
    attempts = [made(0), made(1), made(2, model="oracle")]
    config = PreferencesConfig(why=(Why.CORRECT,), chosen_from=chosen_from)
    assert {pair.chosen.conversation_id for pair in choose_pairs(config, {b"": attempts})} == chosen


@pytest.mark.parametrize("variant", ["debug2fix", "debug2fix_tool_limit"])
def test_a_main_agents_failure_makes_no_answer_worse(tmp_path: Path, variant: str) -> None:
    """Its patch is what failed; an answer is worse there where it is ungrounded or missing."""
    right, sound = (attempt(n, variant=variant, resolved=n == 0) for n in range(2))
    ungrounded = attempt(2, claim=UNGROUNDED, variant=variant, resolved=False)
    rollout, (main, sub) = attempt(3, variant=variant, resolved=False)
    missing = rollout, (main, replace(sub, answer=None))
    run = write_run(tmp_path / "run", [right, sound, ungrounded, missing])
    run_format(PAIRS, run)
    rejected = {row["rejected_id"] for row in pairs_of(run)}
    assert rejected == {each[1][1].conversation_id for each in (ungrounded, missing)}


def test_equal_attempts_count_once(tmp_path: Path) -> None:
    rollout, (main, sub) = attempt(0)
    again, (main_again, sub_again) = attempt(3)
    same = replace(sub_again, messages=sub.messages, answer=sub.answer)
    run = write_run(
        tmp_path / "run",
        [(rollout, (main, sub)), (again, (main_again, same)), attempt(1, resolved=False)],
    )
    run_format(PAIRS, run)
    assert len(pairs_of(run)) == 1
