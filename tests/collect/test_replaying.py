"""Recorded runs, driven again in real sandboxes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collect.errors import ConfigError, FailureKind
from collect.replay import (
    Difference,
    ReplayRow,
    ReplayStatus,
    first_difference,
    replay_rows,
    verified_conversations,
)
from collect.store.messages import Message
from collect.store.records import Conversation, MessageRow, Role, ToolOutcome
from collect.store.run_store import RunStore
from format.config import FormatConfig
from format.dataset import read_rows, split_file
from format.stage import run_format
from stepinto import main
from tests.records import make_failed_rollout

RANDOM = "head -c 8 /dev/urandom | od -x"
"""A command that never says the same."""


def observed(text: str, call: str = "c", outcome: ToolOutcome = ToolOutcome.OK) -> MessageRow:
    return MessageRow(Message("tool", text, tool_call_id=call), tool_outcome=outcome)


SAID = MessageRow(Message("assistant", "I look."))


def test_the_first_difference_is_shown() -> None:
    recorded = [SAID, observed("a = 1\nb = 2"), SAID, observed("c = 3")]
    assert first_difference(recorded, recorded) is None
    other = [SAID, observed("a = 1\nb = 20"), SAID, observed("c = 30")]
    assert first_difference(recorded, other) == Difference(1, "b = 2", "b = 20")
    assert first_difference(recorded, recorded[:2]) == Difference(3, "c = 3", "")
    assert first_difference(recorded[:2], recorded) == Difference(2, "", "c = 3")
    refused = [SAID, observed("a = 1\nb = 2", outcome=ToolOutcome.REFUSED), *recorded[2:]]
    assert first_difference(recorded, refused) == Difference(1, "(ok)", "(refused)")
    passed_over = [SAID, observed("a = 1\nb = 2"), SAID, observed("c = 30")]
    assert first_difference(recorded, passed_over, {"c"}) is None


def test_what_the_agent_said_is_no_observation() -> None:
    other = MessageRow(Message("assistant", "I look elsewhere."))
    assert first_difference([SAID, observed("x")], [other, observed("x")]) is None


def collected(folder: Path, bugs: int) -> Path:
    """A run of the oracle's on so many bugs."""
    config = folder / "config.yaml"
    config.write_text(
        f"run: recorded\nruns_folder: {folder}\nmodels: {{oracle: {{backend: oracle}}}}\n"
        "collect: {main: oracle, sub: oracle, variants: [debug2fix_tool_limit],\n"
        "  benchmark: {name: bundled}}\n"
    )
    assert main(["collect", str(config), f"collect.benchmark.limit={bugs}"]) == 0
    return folder / "recorded"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collected(tmp_path_factory.mktemp("runs"), bugs=1)


@pytest.fixture(scope="module")
def recorded_twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collected(tmp_path_factory.mktemp("runs"), bugs=2)


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(recorded, tmp_path / "recorded")


@pytest.fixture
def two(recorded_twice: Path, tmp_path: Path) -> Path:
    """A copy of a run with two rollouts."""
    return shutil.copytree(recorded_twice, tmp_path / "recorded")


def replayed(run: Path) -> dict[str, ReplayRow]:
    return {row.conversation_id: row for row in replay_rows(run)}


def change(run: Path, which: Callable[[Conversation], bool], old: str, new: str) -> str:
    """Put another observation into a conversation; its id."""
    with closing(RunStore.open(run)) as store:
        (chosen,) = (each for each in store.read_conversations() if which(each))
        (rollout,) = store.read_rollouts(only={chosen.rollout_id})
        rows = [
            replace(
                row, message=replace(row.message, content=row.message.content.replace(old, new))
            )
            if row.tool_outcome is not None
            else row
            for row in chosen.messages
        ]
        assert rows != list(chosen.messages)
        others = store.read_conversations(only={chosen.rollout_id})
        kept = [each for each in others if each.conversation_id != chosen.conversation_id]
        store.add(rollout, [*kept, replace(chosen, messages=tuple(rows))])
    return chosen.conversation_id


@pytest.mark.slow
def test_a_run_is_verified_once(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conversations = list(RunStore(two).read_conversations())
    assert main(["replay", str(two), "--limit", "1"]) == 0
    assert "1 rollout left" in capsys.readouterr().out
    first = replayed(two)
    assert 0 < len(first) < len(conversations)
    assert main(["replay", str(two)]) == 0
    assert "100.0%" in capsys.readouterr().out
    rows = replayed(two)
    assert {row.status for row in rows.values()} == {ReplayStatus.VERIFIED}
    assert verified_conversations(two) == {row.conversation_id: True for row in conversations}
    (file,) = (two / "replay").glob("*.parquet")
    before = file.stat().st_mtime_ns
    assert main(["replay", str(two)]) == 0
    assert file.stat().st_mtime_ns == before


def lie(run: Path) -> str:
    """Put a lie into the first subagent's conversation; its id."""
    first = first_sub(run)
    return change(
        run, lambda each: each.conversation_id == first, "Paused at ", "Paused at another/"
    )


def test_a_record_that_lies_is_found(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lying = lie(run)
    assert main(["replay", str(run)]) == 0
    rows = replayed(run)
    found = rows.pop(lying)
    assert {row.status for row in rows.values()} == {ReplayStatus.VERIFIED}
    assert found.status is ReplayStatus.DIFFERENT
    assert found.recorded.startswith("Paused at another/")
    assert found.replayed.startswith("Paused at ")
    assert found.message_index is not None
    message = next(e for e in RunStore(run).read_conversations() if e.conversation_id == lying)
    assert "another/" in message.messages[found.message_index].message.content
    assert f"different: {lying}" in capsys.readouterr().out
    (row,) = trained_rows(run, only_replay_verified=False)
    assert row["replay_verified"] is False
    with pytest.raises(ConfigError, match="'replay_verified' dropped 1"):
        trained_rows(run, only_replay_verified=True)


@pytest.mark.slow
def test_a_record_that_lies_is_not_trained_on(two: Path) -> None:
    lie(two)
    assert main(["replay", str(two)]) == 0
    known = {None: 0, True: 0, False: 0}
    for row in trained_rows(two, only_replay_verified=False):
        known[row["replay_verified"]] += 1
    assert known[False] == 1
    assert known[None] == 0
    verified = list(trained_rows(two, only_replay_verified=True))
    assert len(verified) == known[True] > 0
    assert all(row["replay_verified"] for row in verified)


def trained_rows(run: Path, *, only_replay_verified: bool) -> list[dict[str, Any]]:
    """The training data that is made of the run, all of its observations taken as they are."""
    config = FormatConfig(
        only_replay_verified=only_replay_verified, test_fraction=0, min_grounding=None
    )
    report = run_format(config, run)
    rows = list(read_rows(split_file(run / "sft", "train")))
    assert len(rows) == report.funnel.kept > 0
    return rows


def first_sub(run: Path) -> str:
    """The first subagent's conversation."""
    held = RunStore(run).read_conversations()
    return min(row.conversation_id for row in held if row.role is Role.DEBUG_SUBAGENT)


@pytest.mark.slow
def test_what_never_says_the_same_is_told_from_a_lie(tmp_path: Path) -> None:
    replies = [
        {"tool_calls": [{"name": "bash", "arguments": json.dumps({"command": RANDOM})}]},
        {"content": "Done."},
    ]
    said = tmp_path / "said.jsonl"
    said.write_text(json.dumps({"role": "main", "replies": replies}) + "\n")
    config = tmp_path / "config.yaml"
    config.write_text(
        f"run: dice\nruns_folder: {tmp_path}\n"
        f"models: {{dice: {{backend: replay, path: {said}}}}}\n"
        "collect: {main: dice, sub: dice, variants: [baseline],\n"
        "  benchmark: {name: bundled, limit: 1}}\n"
    )
    assert main(["collect", str(config)]) == 0
    assert main(["replay", str(tmp_path / "dice")]) == 0
    (row,) = replay_rows(tmp_path / "dice")
    assert row.status is ReplayStatus.NONDETERMINISTIC
    assert row.recorded != row.replayed


@pytest.mark.slow
def test_what_failed_before_is_no_record(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(RunStore.open(two)) as store:
        store.rollouts.drop_parts(store.rollouts.ids()[1:])
        store.add(make_failed_rollout(FailureKind.INFRASTRUCTURE, "ledger-3", dollars=0.0), [])
    assert main(["replay", str(two)]) == 0
    assert "1 rollout had failed" in capsys.readouterr().out


def test_a_bug_that_is_gone_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(RunStore.open(run)) as store:
        (row, *_) = store.read_rollouts()
        store.add(replace(row, instance_hash="0" * 16), [])
    assert main(["replay", str(run)]) == 2
    said = capsys.readouterr().err
    assert row.instance_id in said
    assert "has changed since" in said
    assert not list((run / "replay").glob("*.parquet"))


def test_an_empty_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path)]) == 2
    assert "has no rollouts" in capsys.readouterr().err
    RunStore.open(tmp_path).close()
    assert main(["replay", str(tmp_path)]) == 2
    assert "has no rollouts" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_of_a_cluster_is_replayed_on_this_machine(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["runner.backend=ray", "runner.concurrency=128", "runner.ray.per_node=2"]
    assert main(["replay", str(run), "--limit", "1", *settings]) == 0
    assert "100.0%" in capsys.readouterr().out


@pytest.mark.docker
def test_images_that_are_missing_are_told_before_anything_is_done(
    run: Path, image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = f"{image}-that-is-nowhere"
    settings = ["sandbox.backend=docker", f"sandbox.image={missing}"]
    assert main(["replay", str(run), *settings]) == 2
    assert f"are not on this machine: {missing}" in capsys.readouterr().err
    assert not list((run / "replay").glob("*.parquet"))
