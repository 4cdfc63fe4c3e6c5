"""Replies that a strict server does not take back as they came: the conversation goes on, and the
row has what was said."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.agents.conversation import ConversationLog
from collect.errors import ConfigError, EndpointFailure
from collect.models.received import Form, own_items, portable, received
from collect.store.messages import Message, ToolCall
from collect.store.records import ToolOutcome
from tests.collect.models.strict_server import (
    APIS,
    StrictServer,
    nine_characters,
    said_of,
    saying,
    strict,
    whole,
)

LS = '{"command": "ls"}'


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def replies(log: ConversationLog) -> list[Message]:
    return [row.message for row in log.rows if row.message.role == "assistant"]


apis = pytest.mark.parametrize("api", APIS)


@apis
def test_ids_are_unique_in_a_reply_and_in_the_conversation(api: str) -> None:
    with StrictServer(api, strict).running() as server:
        twice = saying(api, None, ("bash:0", "bash", LS), ("bash:0", "bash", LS))
        server.will_answer(twice, twice, saying(api, "Done."))
        log = server.converse()
    assert not server.refused
    calls = [call for reply in replies(log) for call in reply.tool_calls]
    assert [call.id for call in calls] == ["bash:0", "bash:1", "bash:2", "bash:3"]
    assert [call.said_id for call in calls] == [None, "bash:0", "bash:0", "bash:0"]
    answers = [row.message.tool_call_id for row in log.rows if row.message.role == "tool"]
    assert answers == [call.id for call in calls]


@apis
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("bash<|channel|>commentary", "bash_channel_commentary"),
        ("functions.bash", "functions_bash"),
        ("bash ", "bash"),
        ("x" * 300, "x" * 64),
        ("7z", "_7z"),
        ("", "unnamed"),
        (None, "unnamed"),
        ("执行", "unnamed"),
    ],
)
def test_a_name_that_is_none_is_an_invalid_call(api: str, name: str | None, sent: str) -> None:
    with StrictServer(api, strict).running() as server:
        server.will_answer(saying(api, None, ("c1", name, LS)), saying(api, "Done."))
        log = server.converse()
    assert not server.refused
    call = replies(log)[0].tool_calls[0]
    assert (call.name, call.said_name) == (sent, name or "")
    [answer] = [row for row in log.rows if row.message.role == "tool"]
    assert answer.tool_outcome is ToolOutcome.INVALID
    assert (name or "")[:200] in answer.message.content
    assert "The tools are: bash." in answer.message.content


@apis
@pytest.mark.parametrize(
    ("call_id", "sent"),
    [
        ("call_" + "0123456789abcdef" * 8, "call_" + "0123456789abcdef" * 2 + "012"),
        ("a b\n<|im_end|>", "a_b_im_end"),
        ("\ud83d", "call"),
    ],
)
def test_an_id_that_no_server_takes_back_is_another(api: str, call_id: str, sent: str) -> None:
    with StrictServer(api, strict).running() as server:
        server.will_answer(saying(api, None, (call_id, "bash", LS)), saying(api, "Done."))
        log = server.converse()
    assert not server.refused
    call = replies(log)[0].tool_calls[0]
    assert call.id == sent
    assert call.said_id == call_id.replace("\ud83d", "\ufffd")


@apis
@pytest.mark.parametrize(
    "arguments",
    ["", "null", "[1]", "{", '{"command": NaN}', '{"command": "\\ud83d"}', '{"command": 1e999}'],
)
def test_arguments_that_no_request_can_hold(api: str, arguments: str) -> None:
    with StrictServer(api, strict).running() as server:
        server.will_answer(saying(api, None, ("c1", "bash", arguments)), saying(api, "Done."))
        log = server.converse()
    assert not server.refused
    [answer] = [row for row in log.rows if row.message.role == "tool"]
    assert answer.tool_outcome is ToolOutcome.INVALID


@apis
@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_reply_without_anything_can_be_asked_for_more(api: str, text: str | None) -> None:
    with StrictServer(api, strict).running() as server:
        server.will_answer(saying(api, text), saying(api, "Done."))
        log = server.converse()
    assert not server.refused
    assert [reply.content for reply in replies(log)] == [text or "", "Done."]


@apis
def test_ids_that_the_server_refuses_are_sent_in_a_form_that_all_take(api: str) -> None:
    """A gateway can send a conversation on to another provider than the one that replied."""
    with StrictServer(api, strict, nine_characters).running() as server:
        calls = ("functions.bash:0", "bash", LS), ("toolu_01", "bash", LS)
        server.will_answer(*[saying(api, None, *calls)] * 2, saying(api, "Done."))
        log = server.converse()
    assert len(server.refused) == 1, "the form is kept for the rest of the conversation"
    assert [call.id for call in replies(log)[0].tool_calls] == ["functions.bash:0", "toolu_01"]


def test_a_refusal_in_every_form_is_told_in_its_first_words() -> None:
    def never(api: str, request: dict[str, Any]) -> str | None:
        return "no tool results" + "!" * len(server.requests) if len(server.requests) > 1 else None

    with StrictServer("openai", never).running() as server:
        server.will_answer(saying("openai", None, ("c1", "bash", LS)))
        with pytest.raises(EndpointFailure, match="no tool results!!\\."):
            server.converse()
    assert len(server.requests) == 3


def test_a_bad_request_without_an_earlier_reply_is_sent_once() -> None:
    server = StrictServer("openai", lambda api, request: "unknown field")
    with server.running(), pytest.raises(EndpointFailure):
        server.converse()
    assert len(server.requests) == 1


# What a provider wants back.


SIGNED = {"extra_content": {"google": {"thought_signature": "c2lnbmF0dXJl"}}}


def test_a_chat_servers_own_fields_come_back_to_it() -> None:
    function = {"name": "bash", "arguments": LS, "provider_specific_fields": {"signature": "c2ln"}}
    first = {"id": "c1", "type": "function", "index": 0, "function": function, **SIGNED}
    second = {"id": "c2", "type": "function", "index": 1, "function": {"name": "bash"}}
    details = [{"type": "reasoning.encrypted", "data": "b3BhcXVl", "format": "x"}]
    message = {"content": "I look.", "tool_calls": [first, second], "reasoning_details": details}
    unsaid: dict[str, Any] = {
        "refusal": None,
        "annotations": [],
        "audio": None,
        "provider_specific_fields": {},
    }
    with StrictServer("openai", strict).running() as server:
        asked = whole(choices=[{"message": message | unsaid}])
        server.will_answer(asked, saying("openai", "Done."))
        log = server.converse()
    [sent] = [each for each in server.requests[1]["messages"] if each["role"] == "assistant"]
    assert sent.keys() == {"role", "content", "tool_calls", "reasoning_details"}
    assert sent["reasoning_details"] == details
    one, other = sent["tool_calls"]
    assert one == {"id": "c1", "type": "function", "function": function, **SIGNED}
    assert other == {
        "id": "c2",
        "type": "function",
        "function": {"name": "bash", "arguments": "{}"},
    }
    assert replies(log)[-1].provider_items is None


def needs_signature(api: str, request: dict[str, Any]) -> str | None:
    for message in request["messages"]:
        for call in message.get("tool_calls", ())[:1]:
            if "thought_signature" not in str(call.get("extra_content")):
                return "Function call is missing a thought_signature in functionCall parts."
    return None


def test_gemini_takes_the_calls_of_another_model() -> None:
    with StrictServer("openai", needs_signature).running() as server:
        unsigned = saying("openai", None, ("c1", "bash", LS), ("c2", "bash", LS))
        server.will_answer(unsigned, unsigned, saying("openai", "Done."))
        log = server.converse()
    assert len(server.refused) == 1
    assert all(reply.provider_items is None for reply in replies(log)), "the row has what was said"


def needs_reasoning(api: str, request: dict[str, Any]) -> str | None:
    for at, message in enumerate(request["messages"]):
        if message["role"] == "assistant" and "reasoning_content" not in message:
            return f"reasoning_content is missing in assistant tool call message at index {at}"
    return None


@pytest.mark.parametrize(("field", "refused"), [("reasoning_content", 0), (None, 1)])
def test_reasoning_goes_back_to_a_server_that_wants_it(field: str | None, refused: int) -> None:
    with StrictServer("openai", needs_reasoning).running() as server:
        call = ("c1", "bash", LS)
        thought = saying("openai", None, call, reasoning_content="I look.")
        server.will_answer(
            thought,
            saying("openai", None, call, reasoning_content=""),
            *[saying("openai", "Done.")],
        )
        server.converse(reasoning_field=field)
    assert len(server.refused) == refused
    sent = [each for each in server.requests[-1]["messages"] if each["role"] == "assistant"]
    assert [each["reasoning_content"] for each in sent] == ["I look.", "", ""]


THOUGHT = {"type": "thinking", "thinking": "Hmm.", "signature": "c2ln"}
USE = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}


def blocks_refused(api: str, request: dict[str, Any]) -> str | None:
    for turn in request["messages"]:
        blocks = turn["content"]
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return "messages: text content blocks must contain non-whitespace text"
        if blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            return "The final block in an assistant message cannot be `thinking`."
        if any(block["type"] == "thinking" and not block["signature"] for block in blocks):
            return "Invalid `signature` in `thinking` block"
    return None


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([THOUGHT, {"type": "text", "text": ""}, USE], [THOUGHT, USE]),
        ([{"type": "redacted_thinking", "data": "b3Bh"}, USE],) * 2,
        ([THOUGHT, USE, USE], [THOUGHT, USE, USE | {"id": "t2"}]),
        ([THOUGHT], [THOUGHT, {"type": "text", "text": "(no text)"}]),
        ([{**THOUGHT, "signature": ""}], [{"type": "text", "text": "(no text)"}]),
        ([USE | {"caller": {"type": "direct"}}],) * 2,
        ([USE | {"input": None}], [USE | {"input": {"malformed_arguments": "null"}}]),
        ("I look.", [{"type": "text", "text": "I look."}]),
        (None, [{"type": "text", "text": "(no text)"}]),
    ],
)
def test_blocks_of_messages_come_back_as_the_api_takes_them(given: Any, sent: Any) -> None:
    with StrictServer("anthropic", strict, blocks_refused).running() as server:
        server.will_answer(whole(content=given), saying("anthropic", "Done."))
        server.converse(thinking={"type": "enabled", "budget_tokens": 1024})
    assert not server.refused
    assert server.requests[1]["messages"][1]["content"] == sent


def test_a_model_that_thinks_takes_over_from_one_that_did_not() -> None:
    def needs_thought(api: str, request: dict[str, Any]) -> str | None:
        said = [turn["content"] for turn in request["messages"] if turn["role"] == "assistant"]
        if "thinking" in request and said and said[-1][0]["type"] != "thinking":
            return (
                "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
            )
        return None

    with StrictServer("anthropic", needs_thought).running() as server:
        server.will_answer(whole(content=[USE]), saying("anthropic", "Done."))
        server.converse(thinking={"type": "enabled", "budget_tokens": 1024})
    assert len(server.refused) == 1


REASONED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALLED = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "bash", "arguments": LS}
REBUILT = {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": LS}


def lone_reasoning(api: str, request: dict[str, Any]) -> str | None:
    follows = ("reasoning", "function_call", "message")
    for item, following in pairwise([*request["input"], {}]):
        if item.get("type") == "reasoning" and following.get("type") not in follows:
            return "Item 'rs_1' was provided without its required following item."
    return None


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([REASONED], [{"role": "assistant", "content": "(no text)"}]),
        ([REASONED, CALLED], [REASONED, CALLED]),
        ([REASONED, CALLED, REASONED], [REASONED, CALLED]),
        ([REASONED, CALLED, CALLED], [REASONED, CALLED, CALLED | {"call_id": "c2"}]),
        (
            [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}, CALLED],
            [REBUILT],
        ),
        ([CALLED | {"arguments": "{"}], [REBUILT | {"arguments": '{"malformed_arguments": "{"}'}]),
    ],
)
def test_items_of_responses_come_back_as_the_api_takes_them(given: Any, sent: Any) -> None:
    with StrictServer("responses", strict, lone_reasoning).running() as server:
        server.will_answer(whole(output=given), saying("responses", "Done."))
        server.converse()
    assert not server.refused
    found = [each for each in server.requests[1]["input"] if each.get("role") != "user"]
    assert [each for each in found if each.get("type") != "function_call_output"] == sent


# The start's check.


def test_a_start_finds_out_in_which_form_a_server_takes_its_own_calls() -> None:
    with StrictServer("openai", nine_characters).running() as server:
        asked = saying("openai", None, ("c1", "evaluate", '{"expression": "total"}'))
        server.will_answer(asked, asked)
        backend = server.open()
        assert backend.ask_first(tools=True).startswith("called a tool")
        assert len(server.refused) == 1
        assert backend.form == Form(portable=True)


@apis
def test_a_server_that_refuses_its_own_call_ends_the_start(api: str) -> None:
    def refuses(api: str, request: dict[str, Any]) -> str | None:
        return "no tool results" if said_of(api, request).answered else None

    with StrictServer(api, refuses).running() as server:
        server.will_answer(saying(api, None, ("c1", "evaluate", '{"expression": "total"}')))
        with pytest.raises(ConfigError, match=r"refuses the next request.*no tool results"):
            server.open().ask_first(tools=True)


# The layer itself.


words = st.text(max_size=80) | st.sampled_from(["bash", "bash:0", "bash:1", "c1", "c2", "c"])


@given(st.lists(st.lists(st.tuples(words, words), max_size=5), max_size=5))
def test_whatever_is_received_can_be_sent_and_is_received_once(said: Any) -> None:
    used = set[str]()
    for calls in said:
        made = tuple(ToolCall(call_id, name, "{}") for call_id, name in calls)
        message = received(Message("assistant", tool_calls=made), used)
        for call, (call_id, name) in zip(message.tool_calls, calls, strict=True):
            assert call.id not in used
            used.add(call.id)
            assert re.fullmatch("[A-Za-z0-9_.:-]{1,40}", call.id)
            assert re.fullmatch("[A-Za-z_][A-Za-z0-9_-]{0,63}", call.name)
            assert call_id == (call.id if call.said_id is None else call.said_id)
            assert name == (call.name if call.said_name is None else call.said_name)
        earlier = used - {call.id for call in message.tool_calls}
        assert received(message, earlier) == message, "a recorded reply is as it was"


def test_ids_that_count_up_end() -> None:
    calls = tuple(ToolCall("9" * 40, "bash", "{}") for _ in range(128))
    ids = [call.id for call in received(Message("assistant", tool_calls=calls), ()).tool_calls]
    assert len(set(ids)) == 128
    assert max(map(len, ids)) <= 40


def test_many_equal_ids_take_no_hours() -> None:
    """With a search from the begin for each, these would be five billion steps."""
    calls = [ToolCall("x", "bash", "{}") for _ in range(50_000)]
    calls += [ToolCall(f"{'y' * 35}{number:05}z", "bash", "{}") for number in range(25_000)] * 2
    reply = Message("assistant", tool_calls=tuple(calls))
    ids = {call.id for call in received(reply, ()).tool_calls}
    assert len(ids) == len(calls)
    assert max(map(len, ids)) <= 40


def test_a_field_that_no_request_can_hold_does_not_end_the_conversation() -> None:
    """Python's servers write NaN, which is no JSON."""
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": LS}}
    message = {"content": None, "tool_calls": [call], "scores": {"mean": float("nan"), "n": 2}}
    with StrictServer("openai").running() as server:
        server.will_answer(
            whole(choices=[{"message": message}]),
            saying("openai", "Done."),
        )
        log = server.converse()
    assert replies(log)[-1].content == "Done."
    [sent] = [each for each in server.requests[1]["messages"] if each["role"] == "assistant"]
    assert sent["scores"] == {"mean": None, "n": 2}


def test_calls_and_answers_fit_in_a_portable_form() -> None:
    call = ToolCall("functions.bash:0", "bash", LS)
    asked = portable(Message("assistant", " ", tool_calls=(call,), provider_items='{"chat": {}}'))
    answer = portable(Message("tool", "a.py", tool_call_id=call.id, name="bash"))
    assert asked.tool_calls[0].id == answer.tool_call_id
    assert re.fullmatch("[a-z0-9]{9}", str(answer.tool_call_id))
    assert (asked.content, asked.provider_items) == ("", None)


@pytest.mark.parametrize("items", ["{", "[1]", '{"anthropic": 3}', '{"anthropic": [3, null]}'])
def test_items_that_no_run_wrote_are_none(items: str) -> None:
    assert own_items(Message("assistant", provider_items=items), "anthropic", lambda _: {}) == []
