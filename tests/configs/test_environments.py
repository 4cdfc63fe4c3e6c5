"""Environments of RL frameworks: real sandboxes and sessions, and a model behind a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.bundled import BundledBenchmark
from collect.errors import InfrastructureFailure
from collect.question_records import Category, Location, ValueAsk, ValueTruth
from collect.store.run_store import RunStore
from configs.environments import Environment, Policy, QuestionsEnvironment, RepairEnvironment
from configs.loading import load_config
from format.config import FormatConfig
from format.stage import run_format
from sandbox.leftovers import PREFIX
from tests.collect.models.chat_server import Answer, ChatServer, error, reply
from tests.collect.questions.asked import question
from tests.shop_bug import write_shop

KEY = "key-of-one-rollout"
TEST = "tests/test_shop.py::test_total"
PLACE = Location(file="shop.py", line=20, last_line=20, function="Cart.total")
FIX = "sed -i 's/net - self.rate/net + self.rate/' shop.py"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config with one bug and one question."""
    shop = write_shop(tmp_path / "shop")
    bug = BundledBenchmark(shop).instances()[0]
    asked = question(
        Category.LOCAL,
        ValueAsk(expression="net", place=PLACE, hit=1),
        ValueTruth(type="int", text="47"),
    )
    of_bug = {"benchmark": bug.benchmark, "instance_id": bug.id, "instance_hash": bug.hash}
    of_bug |= {
        "repository": bug.repository,
        "question": "What is `net` at shop.py:20?",
        "test": TEST,
    }
    questions = tmp_path / "questions.jsonl"
    questions.write_text(asked.model_copy(update=of_bug).model_dump_json() + "\n")
    settings = {
        "run": "test",
        "runs_folder": str(tmp_path / "runs"),
        "collect": {
            "benchmark": {"name": "bundled", "path": str(shop)},
            "variants": ["baseline"],
        },
        "questions": {
            "benchmark": {"name": "bundled", "path": str(shop)},
            "output": str(questions),
        },
    }
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(settings))
    return path


def tool(name: str, **arguments: Any) -> Answer:
    call = {"name": name, "arguments": json.dumps(arguments)}
    return reply("", tool_calls=[{"id": "c", "function": call}])


def answered(value: int) -> Answer:
    return reply(
        f"<debug_answer>\nQuestion: net?\nAnswer: `net` is {value}.\nEvidence: locals\n"
        "Location: shop.py:20\n</debug_answer>"
    )


def policy(server: ChatServer) -> Policy:
    return Policy("student", server.url, KEY)


def test_a_question_is_answered_in_a_real_session_and_recorded(
    config: Path, server: ChatServer
) -> None:
    environment = QuestionsEnvironment(load_config(config), record=True)
    ((task, asked),) = environment.tasks.items()
    assert asked == "What is `net` at shop.py:20?"
    start = {"test": TEST, "breakpoints": ["shop.py:20"], "watch": ["net"], "stop_at_test": False}
    look = tool("debug_start_session", **start)
    server.will_answer(look, answered(47), answered(47))
    found = [asyncio.run(environment.roll_out(task, policy(server))) for _ in range(2)]
    right, guessed = (dict(each.rewards) for each in found)
    assert right == {"correct": 1.0, "facts": 1.0, "form": 1.0, "invalid_calls": 0.0}
    assert set(guessed.values()) == {0.0}
    assert found[0].metrics["debug_calls"] == 1
    assert set(server.keys) == {f"Bearer {KEY}"}
    environment.close()
    rows = list(RunStore(load_config(config).folder).read_rollouts())
    assert {row.attempt: row.resolved for row in rows} == {0: True, 1: True}
    assert {row.sub_model for row in rows} == {"student"}
    chosen = FormatConfig(test_fraction=0, min_inspections=None)
    report = run_format(chosen, load_config(config).folder)
    assert report.splits["train"].rows == 1


def test_a_bug_is_repaired_and_judged_in_a_fresh_sandbox(config: Path, server: ChatServer) -> None:
    environment = RepairEnvironment(load_config(config))
    ((task, asked),) = environment.tasks.items()
    assert asked == "The total is too low."
    server.will_answer(tool("bash", command=FIX), reply("Done."))
    scores = asyncio.run(environment.roll_out(task, policy(server)))
    assert dict(scores.rewards) == {"resolved": 1.0}
    assert scores.metrics["tests_passed"] == 1.0
    server.will_answer(tool("bash", command="touch empty"), reply("Done."))
    scores = asyncio.run(environment.roll_out(task, policy(server)))
    assert dict(scores.rewards) == {"resolved": 0.0}
    environment.close()


def test_a_cancelled_rollout_leaves_no_sandbox(
    config: Path, server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))

    def sandboxes() -> list[Path]:
        return list((tmp_path / "temporary").glob(f"{PREFIX}*"))

    environment = RepairEnvironment(load_config(config, ["runner.concurrency=1"]))
    server.will_answer(reply(hold=True))

    async def cancel() -> None:
        (task,) = environment.tasks
        begun = asyncio.create_task(environment.roll_out(task, policy(server)))
        waiting = asyncio.create_task(environment.roll_out(task, policy(server)))
        await asyncio.to_thread(server.arrived.acquire)
        assert sandboxes()
        for each in (waiting, begun):
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each

    asyncio.run(cancel())
    assert not sandboxes()
    environment.close()
    assert len(server.requests) == 1


def test_a_failed_server_says_nothing_about_the_model(config: Path, server: ChatServer) -> None:
    environment: Environment = RepairEnvironment(load_config(config), record=True)
    server.will_answer(error(401, "no such key"))
    (task,) = environment.tasks
    with pytest.raises(InfrastructureFailure, match="no such key"):
        asyncio.run(environment.roll_out(task, policy(server)))
    environment.close()


@pytest.mark.skipif(
    find_spec("verifiers") is None, reason="needs verifiers, in its own environment"
)
def test_verifiers_finds_both_environments(config: Path) -> None:
    from verifiers.v1.utils.loaders import load_environment, resolve_env_config

    for name, rewards in (
        ("stepinto-questions", {"correct", "facts", "form", "invalid_calls"}),
        ("stepinto-repair", {"resolved"}),
    ):
        settings = {"taskset": {"id": name, "config": str(config)}}
        environment = load_environment(resolve_env_config(settings))
        (task,) = environment.taskset
        assert {each.__name__ for each in task.hooks("reward")} == rewards
        assert [each.id for each in environment.config.agent_harnesses().values()] == [name]
