"""The played sessions in `demonstrations/` are what their card says."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.question_records import Category, Question, read_questions
from collect.questions.scoring import score_text
from collect.store.records import Conversation, Role, Rollout
from collect.store.run_store import RunStore
from format.dataset import read_rows, split_file
from stepinto import main

FOLDER = Path(__file__).resolve().parents[1] / "demonstrations"
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")


@cache
def rollouts() -> dict[str, Rollout]:
    return {row.rollout_id: row for row in RunStore(FOLDER).read_rollouts()}


@cache
def sessions() -> list[Conversation]:
    found = RunStore(FOLDER).read_conversations()
    return [each for each in found if each.role is Role.DEBUG_SUBAGENT]


@cache
def questions() -> dict[tuple[str, str | None], Question]:
    asked = read_questions(FOLDER / "questions.jsonl")
    return {(each.instance_id, each.category.value): each for each in asked}


def test_the_card_counts_what_is_there() -> None:
    languages = Counter(rollouts()[each.rollout_id].language for each in sessions())
    bugs = {row.instance_id for row in rollouts().values()}
    counts = re.search(
        r"(\d+) conversations of Debug Subagents \((\d+) about Java\) over (\d+)", CARD
    )
    assert counts is not None
    assert list(map(int, counts.groups())) == [len(sessions()), languages["java"], len(bugs)]
    assert {row.teacher for row in rollouts().values()} == {"played"}
    assert {category for _, category in questions()} == set(map(str, Category))


def test_every_verdict_is_the_scorers() -> None:
    for each in sessions():
        row = rollouts()[each.rollout_id]
        question = questions().get((row.instance_id, row.category))
        if row.variant == "questions":
            assert question is not None
            assert score_text(question, each.final_answer).correct == row.resolved


def test_no_bug_is_held_out() -> None:
    held_out = {
        instance.id
        for language in ("python", "java")
        for config in [BenchmarkConfig(name="bundled", language=language, split="held_out")]
        for instance in select_instances(config, open_benchmark(config))
    }
    assert not held_out & {row.instance_id for row in rollouts().values()}


@pytest.mark.slow
def test_they_are_formatted_as_the_card_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = re.search(r"leaves (\d+) rows", CARD)
    assert kept is not None
    config = FOLDER.parent / "configs" / "played.yaml"
    monkeypatch.chdir(FOLDER.parent)
    assert main(["format", str(config), f"runs_folder={tmp_path}"]) == 0
    files = [split_file(tmp_path / "played" / "sft", split) for split in ("train", "test")]
    assert sum(len(list(read_rows(file))) for file in files) == int(kept[1])


ELSEWHERE = re.compile(
    r"(?<![\w.])/(usr|opt|root|home|etc|var|work)/|(site|dist)-packages|stepinto/environments"
    r"|getsource|__file__|\bfind /|\bpip (install|download)|\$PYTHONPATH|javap|\.jar\b"
)


def test_no_call_reads_a_copy_of_the_fix() -> None:
    rows = RunStore(FOLDER).read_conversations()
    messages = [each.message for row in rows for each in row.messages]
    calls = [str(call.arguments) for message in messages for call in message.tool_calls]
    assert f"none of the {len(calls):,} calls" in CARD
    assert not [call for call in calls if ELSEWHERE.search(call)]
    observations = [message.content for message in messages if message.role == "tool"]
    assert observations
    assert not [text for text in observations if re.search(r"-packages|stepinto/|/usr/share", text)]
