"""Relay: a scripted student begins, and the oracle goes on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError

from collect.agents.config import AgentsConfig
from collect.agents.conversation import ConversationLog
from collect.agents.rollout_context import RoleModel
from collect.benchmarks.base import Instance
from collect.benchmarks.opening import open_benchmark
from collect.config import RuntimeConfig
from collect.errors import ConfigError, ContextTooLong
from collect.models.base import Completion, ConversationContext, Sampling, Usage
from collect.models.config import OracleConfig
from collect.models.replay import Recording, ReplayBackend, ReplayModel
from collect.oracle import OracleBackend
from collect.oracle.scripted import answer_block, say
from collect.question_records import Category, Question, QuestionsConfig
from collect.questions.answering import QuestionWork
from collect.questions.asking import question_spec
from collect.relay import RelayBackend
from collect.rollouts.executor import with_players
from collect.rollouts.rollout import RolloutSettings
from collect.rollouts.rows import RunIdentity
from collect.store.messages import Message, ToolSchema
from collect.store.records import Conversation, Role, Rollout
from collect.store.run_store import RunStore
from format.config import FormatConfig
from format.dataset import read_rows, split_file
from format.stage import run_format
from sandbox import SandboxConfig
from tests.collect.models.contexts import context
from tests.scripted_model import ScriptedBackend

LOOK = say("I look for it.", ("grep", {"pattern": "net"}))
TEST = "tests/test_shop.py::test_total"


@pytest.fixture
def reached(shop_questions: list[Question]) -> Question:
    """Whether a line is reached."""
    return next(each for each in shop_questions if each.category is Category.REACHABILITY)


def played(
    student: list[Message],
    question: Question,
    bug: Instance,
    config: QuestionsConfig,
    run: Path,
    *,
    steps: int = 30,
) -> tuple[Rollout, Conversation]:
    """The rows of a relay of these replies and the oracle; the run's folder keeps them."""
    oracle = OracleBackend("oracle", OracleConfig(backend="oracle", sessions="direct"))
    models = {
        "small": RoleModel(ScriptedBackend("small", {"debug_subagent": student}), Sampling()),
        "oracle": RoleModel(oracle, Sampling(), "oracle", must_be_true=True),
    }
    relay = RelayBackend("relay", models["small"], models["oracle"])
    models["relay"] = replace(models["small"], backend=relay, must_be_true=True, student="small")
    settings = RolloutSettings(
        open_benchmark(config.benchmark, SandboxConfig()),
        SandboxConfig(),
        AgentsConfig(start_session="model", sub_max_steps=steps),
        models,
        threading.Event(),
    )
    spec = question_spec(question, bug, "relay", 0)
    row, (conversation,) = QuestionWork(spec, RunIdentity("run", 0), "hash", question).do(settings)
    store = RunStore.open(run)
    store.add(row, [conversation])
    store.close()
    return row, next(store.read_conversations())


def players(conversation: Conversation) -> list[str | None]:
    replies = (row for row in conversation.messages if row.message.role == "assistant")
    return [row.player for row in replies]


def test_the_oracle_goes_on_after_an_invalid_call(
    reached: Question, shop: Instance, shop_config: QuestionsConfig, tmp_path: Path
) -> None:
    """In the student's session, and the row trains the oracle's turns alone."""
    started = say("I start it.", ("debug_start_session", {"test": TEST}))
    student = [LOOK, started, say("I jump.", ("debug_jump", {}))]
    row, conversation = played(student, reached, shop, shop_config, tmp_path)
    assert row.resolved
    assert (row.teacher, conversation.teacher, conversation.model) == ("oracle", "oracle", "relay")
    own = players(conversation)
    assert own[:3] == ["small"] * 3
    assert set(own[3:]) == {"oracle"}
    assert row.invalid_tool_calls == 1
    run_format(FormatConfig(test_fraction=0, min_inspections=None), tmp_path)
    (formatted,) = read_rows(split_file(tmp_path / "sft", "train"))
    assert formatted["turn_quality"][:4] == [*["relayed"] * 3, "recovery"]
    assert formatted["trained_turns"] == [player == "oracle" for player in own]


@pytest.mark.parametrize(
    "bad",
    [
        say(answer_block("q", "`net` is 4711 there.", "net = 4711", "shop.py:18")),
        say(answer_block("q", "It is reached 99 times.", "none", "shop.py:18")),
        say("There.", ("debug_breakpoint", {"action": "set", "location": "secret.py:4"})),
    ],
    ids=["ungrounded", "wrong", "breakpoint"],
)
def test_a_reply_that_leads_astray_is_replaced(
    bad: Message, reached: Question, shop: Instance, shop_config: QuestionsConfig, tmp_path: Path
) -> None:
    row, conversation = played([LOOK, bad], reached, shop, shop_config, tmp_path)
    assert row.resolved
    own = players(conversation)
    assert own[0] == "small"
    assert set(own[1:]) == {"oracle"}
    assert bad.content not in [each.message.content for each in conversation.messages]


class FullOnce(ReplayBackend):
    """Finds the first request too long."""

    is_full = True

    def open(self, context: ConversationContext) -> ReplayModel:
        replayed, backend = super().open(context), self

        class Opened(ReplayModel):
            def complete(
                self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
            ) -> Completion:
                if backend.is_full:
                    backend.is_full = False
                    raise ContextTooLong("full")
                return super().complete(messages, tools, sampling)

        return Opened(replayed._completions, replayed._what)


def test_a_replaced_reply_costs_and_does_not_fill_the_context() -> None:
    """Also if the teacher's is asked for twice."""
    bad, good = (
        say(answer_block("q", f"`net` is {net} there.", f"net = {net}", "shop.py:18"))
        for net in (4711, 4712)
    )
    small, big = (
        kind(name, [Recording((Completion(said, Usage(100, 5), 0.5, 1.0, "stop"),), {})])
        for kind, name, said in ((ReplayBackend, "small", bad), (FullOnce, "big", good))
    )
    relay = RelayBackend("relay", RoleModel(small, Sampling()), RoleModel(big, Sampling()))
    log = ConversationLog(0, Role.DEBUG_SUBAGENT, "relay", "model", "{}", [])
    log.add(Message("user", "x" * 400))
    opened = context(role="debug_subagent")
    so_far = partial(log.row, opened.instance, "questions", 0, "")
    model = relay.open(replace(opened, so_far=so_far))
    with pytest.raises(ContextTooLong):
        model.complete(log.sent(), [], Sampling())
    assert log.add_completion(model.complete(log.sent(), [], Sampling())).content == good.content
    assert (log.usage.total, log.dollars, log.chars_per_token) == (210, 1.0, 4.0)


def test_a_student_that_makes_no_mistake_plays_alone(
    reached: Question, shop: Instance, shop_config: QuestionsConfig, tmp_path: Path
) -> None:
    """Then the conversation is not the oracle's."""
    _, taught = played([say("Hm.")], reached, shop, shop_config, tmp_path / "taught")
    student = [row.message for row in taught.messages if row.player == "oracle"]
    row, conversation = played(student, reached, shop, shop_config, tmp_path)
    assert set(players(conversation)) == {"small"}
    assert row.resolved
    assert (row.teacher, conversation.teacher) == ("model", "model")


def test_a_wrong_answer_of_the_student_alone_is_no_failure(
    shop_questions: list[Question], shop: Instance, shop_config: QuestionsConfig, tmp_path: Path
) -> None:
    """The fix refutes the oracle's answers alone. The last step is the student's."""
    cause = next(each for each in shop_questions if each.category is Category.ROOT_CAUSE)
    read = say("I read it.", ("read_file", {"path": "shop.py"}))
    student = [read, say(answer_block("q", "Inferred: it is wrong.", "none", "shop.py:1"))]
    row, conversation = played(student, cause, shop, shop_config, tmp_path, steps=1)
    assert players(conversation) == ["small", "small"]
    assert (row.resolved, row.failure_kind) == (False, None)
    assert conversation.stop_reason == "step_limit"


def test_a_reply_without_call_and_answer(
    reached: Question, shop: Instance, shop_config: QuestionsConfig, tmp_path: Path
) -> None:
    """The student is reminded, and the oracle answers that."""
    _, conversation = played([say("Hm.")], reached, shop, shop_config, tmp_path)
    assert players(conversation)[:2] == ["small", "oracle"]
    assert conversation.messages[3].message.role == "user"


def test_a_relay_needs_two_other_models() -> None:
    oracle = {"backend": "oracle"}
    relay = {"backend": "relay", "student": "small", "teacher": "oracle"}
    models = {"oracle": oracle, "small": oracle, "relay": relay}
    runtime = RuntimeConfig.model_validate({"models": models})
    assert with_players(runtime, ["oracle", "relay"]) == ["oracle", "relay", "small"]
    for wrong in ("relay", "none"):
        broken = {**models, "relay": {**relay, "student": wrong}}
        with pytest.raises(ValidationError, match=f"of two other models, and '{wrong}' is none"):
            RuntimeConfig.model_validate({"models": broken})


def test_a_relay_is_no_main_agent() -> None:
    small = RoleModel(ScriptedBackend("small", {}), Sampling())
    with pytest.raises(ConfigError, match="can play the Debug Subagent alone"):
        RelayBackend("relay", small, small).open(context(role="main"))
