"""An agent goes on after a full context, a call that its server can't read, and a reply that is no
answer: cut, empty, or with its call in the text.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from collect.agents.conversation import (
    CUT,
    CUT_TEXT,
    EMPTY,
    MALFORMED,
    WRITTEN,
    AgentRun,
    AgentSpec,
    ConversationLog,
)
from collect.agents.tools import Arguments, Tool, Toolbox, ToolReply
from collect.errors import ContextTooLong, RequestRefused
from collect.models.base import Sampling
from collect.models.budget import Budget
from collect.models.config import OpenAIConfig, Retries
from collect.models.endpoint import EndpointBackend
from collect.store.records import Role, StopReason, ToolOutcome
from tests.collect.models.chat_server import Answer, ChatServer, error, reply
from tests.collect.models.contexts import context


class PrintArguments(Arguments):
    count: int


@dataclass(frozen=True)
class Print:
    name: str = "print"
    description: str = "Prints so many characters."
    arguments: type[Arguments] = PrintArguments

    def call(self, arguments: PrintArguments, call_id: str) -> ToolReply:
        return ToolReply("x" * arguments.count)


class Small(ChatServer):
    """Refuses requests with more characters than it takes."""

    def __init__(self, chars: int, refusal: Answer) -> None:
        super().__init__()
        self._chars, self._refusal = chars, refusal

    def _next(self, request: dict[str, Any]) -> Answer:
        return self._refusal if size(request) > self._chars else super()._next(request)


def size(request: dict[str, Any]) -> int:
    return sum(len(message["content"] or "") for message in request["messages"])


def prints(*counts: int) -> Answer:
    calls = []
    for index, count in enumerate(counts):
        function = {"name": "print", "arguments": json.dumps({"count": count})}
        calls.append({"id": f"c{count}-{index}", "type": "function", "function": function})
    # Four characters a token, as far as a size is known here.
    usage = {"prompt_tokens": sum(counts) // 8 or 1, "completion_tokens": 9}
    return reply(None, tool_calls=calls, finish_reason="tool_calls", usage=usage)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


def run(server: ChatServer, max_steps: int = 8) -> tuple[StopReason, ConversationLog]:
    config = OpenAIConfig(
        backend="openai",
        model="large",
        base_url=server.url,
        api_key_env=None,
        retries=Retries(max_retries=1, backoff_base=0.001, outage_wait=0),
    )
    tools: list[Tool] = [Print()]
    spec = AgentSpec("You print.", Toolbox(tools), max_steps, forced_answer="Answer.")
    log = ConversationLog(0, Role.MAIN, "large", "model", "{}", spec.toolbox.schemas())
    with closing(EndpointBackend("main", config, Budget(None), threading.Event())) as opened:
        model = opened.open(context())
        agent = AgentRun(spec, model, Sampling(), log, threading.Event())
        return agent.run("Print."), log


FULL = error(400, "Prompt exceeds max length")


def test_older_results_are_left_out_as_often_as_it_takes() -> None:
    with Small(7_000, FULL).running() as server:
        server.will_answer(*[prints(1_000)] * 6, prints(6_000), reply("Done."))
        reason, log = run(server)
    assert (reason, log.final_answer) == (StopReason.FINISHED, "Done.")
    assert {3, 5, 7} <= log.elided
    assert len(log.rows[-2].message.content) == 6_000, "it is kept"
    assert "x" * 6_000 in str(server.requests[-1])


def test_results_that_are_too_long_together_are_left_out_too() -> None:
    """The model is told so, and can ask for less."""
    with Small(7_000, FULL).running() as server:
        server.will_answer(prints(3_000, 3_000, 3_000), prints(90_000), reply("Done."))
        reason, log = run(server)
    assert (reason, log.final_answer) == (StopReason.FINISHED, "Done.")
    assert [row.elided for row in log.rows if row.message.role == "assistant"] == [
        (),
        (3, 4),
        (3, 4, 5, 7),
    ]
    assert "a tool result of 90000 characters is left out" in str(server.requests[-1])


def test_what_is_too_long_without_results_is_the_models() -> None:
    with Small(5, FULL).running() as server, pytest.raises(ContextTooLong):
        run(server)


UNKNOWN = error(400, "Bad request")


def test_a_long_conversation_that_is_refused_without_a_reason_may_be_too_long() -> None:
    with Small(15_000, UNKNOWN).running() as server:
        server.will_answer(prints(11_000), prints(11_000), reply("Done."))
        reason, log = run(server)
    assert (reason, log.final_answer, log.elided) == (StopReason.FINISHED, "Done.", {3})


@pytest.mark.parametrize(
    ("chars", "counts", "requests"),
    [
        pytest.param(2_000, (1_500, 1_500), 4, id="a short one can't be"),
        pytest.param(5, (), 1, id="nothing can be left out"),
        pytest.param(15_000, (11_000, 19_000, 11_000), 8, id="it does not help"),
    ],
)
def test_one_that_can_not_be_is_the_infrastructures(
    chars: int, counts: tuple[int, ...], requests: int
) -> None:
    class Stubborn(Small):
        def _next(self, request: dict[str, Any]) -> Answer:
            if len(request["messages"]) > 5:
                return UNKNOWN
            return super()._next(request)

    with Stubborn(chars, UNKNOWN).running() as server:
        server.will_answer(*map(prints, counts), reply("Done."))
        with pytest.raises(RequestRefused):
            run(server)
    assert len(server.requests) == requests


def malformed() -> Answer:
    refused = {"code": "tool_use_failed", "failed_generation": "<function=print{"}
    return Answer(400, json.dumps({"error": refused}))


def test_a_call_that_can_not_be_read_is_an_invalid_one(server: ChatServer) -> None:
    server.will_answer(prints(3), malformed(), reply("Done."))
    reason, log = run(server)
    assert (reason, log.final_answer, log.steps) == (StopReason.FINISHED, "Done.", 3)
    said, told = log.rows[4:6]
    assert (said.message.content, said.finish_reason) == ("<function=print{", "malformed_call")
    assert (told.message.content, told.tool_outcome) == (MALFORMED, ToolOutcome.INVALID)
    assert log.count(ToolOutcome.INVALID) == 1


def test_a_reply_that_is_cut_before_it_says_anything_is_none(server: ChatServer) -> None:
    cut = reply(None, finish_reason="length", reasoning_content="I think and think")
    server.will_answer(cut, prints(3), cut, reply("Done."))
    reason, log = run(server)
    assert (reason, log.final_answer, log.steps) == (StopReason.FINISHED, "Done.", 4)
    told = [row for row in log.rows if row.message.content == CUT]
    assert [row.tool_outcome for row in told] == [None, None]
    server.will_answer(cut)
    reason, log = run(server, max_steps=2)
    assert (reason, log.final_answer, log.steps) == (StopReason.STEP_LIMIT, "", 3)


THOUGHT = reply(None, reasoning_content="I print three.")
WRITTEN_CALL = reply('<tool_call>{"name": "print", "arguments": {"count": 3}}</tool_call>')


@pytest.mark.parametrize(
    ("unfinished", "request_text"),
    [
        pytest.param(reply("It is the", finish_reason="length"), CUT_TEXT, id="it is cut"),
        pytest.param(THOUGHT, EMPTY, id="it is only thought"),
        pytest.param(WRITTEN_CALL, WRITTEN, id="its call is in the text"),
    ],
)
def test_a_reply_that_is_no_answer_is_asked_for_again(
    server: ChatServer, unfinished: Answer, request_text: str
) -> None:
    server.will_answer(prints(3), unfinished, reply("Done."))
    reason, log = run(server)
    assert (reason, log.final_answer, log.steps) == (StopReason.FINISHED, "Done.", 3)
    assert log.rows[-2].message.content == request_text


def test_it_is_asked_for_once_in_a_row_and_not_in_the_last_step(server: ChatServer) -> None:
    cut = reply("It is the", finish_reason="length")
    server.will_answer(cut, prints(3), cut, cut)
    reason, log = run(server)
    assert (reason, log.final_answer, log.steps) == (StopReason.FINISHED, "It is the", 4)
    assert log.rows[-1].finish_reason == "length"
    server.will_answer(cut)
    reason, log = run(server, max_steps=1)
    assert (reason, log.final_answer, log.steps) == (StopReason.FINISHED, "It is the", 1)
