"""Pairs that share the beginnings of a main agent's rollouts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.bundled import BundledBenchmark
from collect.rollouts.rollout import RolloutSpec
from collect.store.records import Role, Rollout
from collect.store.run_store import RunStore
from eval.stage import forked
from stepinto import main
from tests.collect.models.chat_server import CONFIG, Answer, ChatServer, frontier_at, reply

ANSWER = "<debug_answer>\nquestion: q\nanswer: {}\nevidence: none\nlocation: none\n</debug_answer>"
BUG = "calrules__rent_day_drifts"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


def call(name: str, **arguments: Any) -> Answer:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return reply("I go on.", tool_calls=[{"id": f"c_{name}", "function": function}])


def script(folder: Path, name: str, answer: str) -> str:
    """A subagent that answers at once."""
    replies = [{"content": ANSWER.format(answer)}]
    path = folder / f"{name}.jsonl"
    path.write_text(json.dumps({"role": "debug_subagent", "replies": replies}))
    return f"models.{name}={{backend: replay, path: {path}}}"


def evaluate(server: ChatServer, folder: Path, *overrides: str) -> tuple[int, list[Rollout]]:
    status = main(
        [
            *("eval", str(CONFIG), f"runs_folder={folder}", "run=test", *frontier_at(server)),
            script(folder, "one", "it is 3"),
            script(folder, "two", "it is 4"),
            script(folder, "three", "it is 3"),
            f"eval.benchmark={{name: bundled, instances: [{BUG}]}}",
            "eval.variants=[debug2fix]",
            "eval.statistics={resamples: 1000}",
            "runner.concurrency=1",
            *overrides,
        ]
    )
    return status, list(RunStore(folder / "test" / "eval").read_rollouts())


PAIRS = "eval.pairs=[{main: frontier, sub: one}, {main: frontier, sub: two}, \
{main: frontier, sub: three}]"


def test_later_pairs_begin_as_the_first(server: ChatServer, tmp_path: Path) -> None:
    answers = [
        call("bash", command="ls"),
        call("debug_subagent", question="What is it?", test="tests/test_agenda.py"),
        call("bash", command="echo after"),
        reply("Done."),
    ]
    # The second pair's subagent answers otherwise: only what comes after that is asked for.
    server.will_answer(*answers, *answers[2:])
    status, rows = evaluate(server, tmp_path, "eval.fork=true", PAIRS)
    assert status == 0
    assert len(server.requests) == 6
    by_sub = {row.sub_model: row for row in rows}
    assert {row.main_steps for row in rows} == {4}
    assert len({row.main_prompt_tokens for row in rows}) == 1
    first, second, third = (by_sub[name].dollars for name in ("one", "two", "three"))
    assert second == pytest.approx(first / 2)
    assert third == 0, "its subagent said the same, so that its main agent went the same way"
    store = RunStore(tmp_path / "test" / "eval")
    seen = [
        [row.message.content for row in one.messages if row.message.role == "tool"]
        for one in store.read_conversations()
        if one.role is Role.MAIN
    ]
    assert sorted(each[1].split("answer: ")[1][:7] for each in seen) == [
        "it is 3",
        "it is 3",
        "it is 4",
    ]

    # A second start asks for nothing.
    assert evaluate(server, tmp_path, "eval.fork=true", PAIRS)[0] == 0
    assert len(server.requests) == 6


def test_the_first_pair_of_a_main_model_is_shared() -> None:
    bug = next(iter(BundledBenchmark().instances()))
    pairs = (("a", "x"), ("b", "x"), ("a", "y"))
    specs = [RolloutSpec(bug, "debug2fix", main, sub, 0) for main, sub in pairs]
    assert forked(specs) == {specs[0].id: [specs[2]]}
