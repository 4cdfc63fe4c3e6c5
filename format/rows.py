"""Convert a conversation to a row in TRL's conversational tool-calling format.

Messages are stored as JSON (`datasets.Json`), because Arrow's structs would add a null to every
call's arguments for each key of all other calls (huggingface/trl#5118, datasets#7869).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation

Kind = Literal["text", "integer", "number", "flag", "texts", "flags", "claims", "objects"]
"""The type of a column's values, all nullable. `claims` is an integer for each kind of evidence,
`objects` a list of JSON objects, each stored unchanged."""


@dataclass(frozen=True)
class Column:
    """One column."""

    what: str
    kind: Kind = "text"


COLUMNS = {
    "messages": Column(
        "the conversation in TRL's conversational form, tool-call arguments as objects",
        "objects",
    ),
    "tools": Column("JSON schemas of the tools the model was given, in OpenAI's form", "objects"),
    "conversation_id": Column("the conversation's id in the run"),
    "rollout_id": Column("the rollout that the conversation is of"),
    "role": Column("which agent held it: main, debug_subagent, inspector or patch_coder"),
    "benchmark": Column("where the bug is from"),
    "instance_id": Column("the bug"),
    "repository": Column("what the splits keep together"),
    "language": Column("python or java"),
    "system": Column(
        "debug2fix; inspectcoder, with +tools where its Inspector was given its actions as tools"
    ),
    "variant": Column("the agents' set-up"),
    "teacher": Column(
        "oracle where the scripted oracle took part, which knows the gold patch; played where a "
        "person or a program did by hand; else model"
    ),
    "model": Column("which model wrote the assistant's turns: its name in the run's config"),
    "served_model": Column(
        "the name that the server gave for that model; null where it gave none, as the oracle"
    ),
    "resolved": Column("whether the rollout fixed the bug", "flag"),
    "instance_hash": Column("hash of the bug's files, tests and gold patch"),
    "question_id": Column("the runtime question, if the rollout was about one", "text"),
    "prompt_tokens": Column("tokens that the model was sent, over all its replies", "integer"),
    "completion_tokens": Column("tokens that it wrote", "integer"),
    "code_version": Column("the version of StepInto that recorded it"),
    "attempt": Column("0-based", "integer"),
    "category": Column("of the runtime question that was asked, else of the bug; null: not known"),
    "difficulty": Column(
        "easy, medium or hard: of a runtime question, by the visit of the line and the depth of "
        "the frame; null where that is not known"
    ),
    "grounding": Column(
        "share of the answer's claims (values, locations, exceptions) that the conversation had "
        "observed, those the task gave aside; null where none is left",
        "number",
    ),
    "claims": Column("how many of them were observed, given and ungrounded", "claims"),
    "turn_quality": Column(
        "a label for each assistant message, in order: shortened, invalid, refused, repeated, "
        "timeout, tool_error, recovery or ok",
        "texts",
    ),
    "trained_turns": Column(
        "for each assistant message, in order, whether it is trained on; the others are context",
        "flags",
    ),
    "leaks": Column(
        "what the conversation may know that an agent at work could not: oracle, gold_patch, "
        "expected_value, git_history",
        "texts",
    ),
    "fix_touched_location": Column(
        "whether the rollout's patch changed the place that the answer reported, or its function; "
        "null where there is no such place or patch, or that can't be told",
        "flag",
    ),
    "debug_helped": Column(
        "against the same rollout without the subagent: 1 where only this one fixed the bug, -1 "
        "where only the other did, 0 where both or neither; null where there is no pair",
        "integer",
    ),
    "replay_verified": Column(
        "whether `stepinto replay` saw the same when it drove the recorded calls again; null where "
        "it has not",
        "flag",
    ),
}
ASSISTANT = '{"role":"assistant",'
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@lru_cache(64)
def tool_texts(tools: str) -> list[str]:
    """A conversation's tools as JSON texts."""
    return [encode(tool) for tool in json.loads(tools)]


def is_assistant(text: str) -> bool:
    """Whether a message's JSON text from `exact_messages` is the assistant's."""
    return text.startswith(ASSISTANT)


class Reasoning(StrEnum):
    """What becomes of a model's separate reasoning in rows."""

    KEEP = "keep"
    """It is the message's `reasoning_content`."""
    DROP = "drop"
    INLINE = "inline"
    """It begins the content, as `<think>...</think>`."""


def message_object(message: Message, reasoning: Reasoning = Reasoning.KEEP) -> dict[str, Any]:
    """A message in TRL's format. Raises ValueError if arguments are not a JSON object."""
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning and reasoning is Reasoning.KEEP:
        plain["reasoning_content"] = message.reasoning
    if message.reasoning and reasoning is Reasoning.INLINE:
        plain["content"] = f"<think>\n{message.reasoning}\n</think>\n\n{message.content}"
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {"name": call.name, "arguments": call_arguments(call)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        plain |= {"name": message.name, "tool_call_id": message.tool_call_id}
    return plain


def call_arguments(call: ToolCall) -> dict[str, Any]:
    """A call's arguments. Raises ValueError if they are not a JSON object."""
    try:
        arguments = json.loads(call.arguments, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError(f"the arguments of call {call.id} are nested too deeply") from error
    if not isinstance(arguments, dict):
        raise ValueError(f"the arguments of call {call.id} are no JSON object: {call.arguments}")
    return arguments


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def encode(value: Any) -> str:
    """JSON text as stored: compact, with unescaped characters."""
    return ENCODER.encode(value)


def exact_messages(
    conversation: Conversation, reasoning: Reasoning = Reasoning.KEEP
) -> list[str] | None:
    """The messages as JSON texts, or None if reading them back would change or lose a value.

    The reader (`datasets.Json`) has 64-bit numbers and no lone surrogates. Text always survives, so
    only calls are checked.
    """
    from datasets import Json

    reader = Json()
    texts = []
    for row in conversation.messages:
        try:
            text = encode(message_object(row.message, reasoning))
            text.encode()
            calls = row.message.tool_calls
            unchanged = not calls or encode(reader.decode_example(text)) == text
        except (ValueError, RecursionError):
            return None
        if not unchanged:
            return None
        texts.append(text)
    return texts
