"""Calls whose arguments broke their tool's schema and were read by it, such as `"4"` for 4: in rows
they are as they were carried out, or invalid, so that every call that is trained fits its tool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from collect.agents.schema_reading import is_same, read_by_schema
from collect.store.messages import BROKEN, ToolCall
from collect.store.records import Conversation, MessageRow, ToolOutcome


class ReadArguments(StrEnum):
    """What becomes of such a call in rows."""

    CARRIED_OUT = "carried_out"
    """It has the arguments that were carried out."""
    INVALID = "invalid"
    """It has the model's own arguments, and counts as an invalid call."""


@dataclass(frozen=True)
class _Read:
    reply: int
    """Index of the message with the call."""
    position: int
    """Of the call among those of the message."""
    answer: int
    """Index of the tool's answer."""
    arguments: str


def with_read_arguments(conversation: Conversation, kept: ReadArguments) -> Conversation:
    """The conversation with such calls as rows have them; itself if there are none."""
    rows = list(conversation.messages)
    read_calls = list(_read_calls(conversation))
    if not read_calls:
        return conversation
    for read in read_calls:
        if kept is ReadArguments.INVALID:
            rows[read.answer] = replace(rows[read.answer], tool_outcome=ToolOutcome.INVALID)
            continue
        reply = rows[read.reply]
        calls = list(reply.message.tool_calls)
        calls[read.position] = replace(calls[read.position], arguments=read.arguments)
        message = replace(reply.message, tool_calls=tuple(calls))
        rows[read.reply] = replace(reply, message=message)
    return replace(conversation, messages=tuple(rows))


def _read_calls(conversation: Conversation) -> Iterator[_Read]:
    schemas = _parameters(conversation.tools)
    reply = 0
    position = 0
    calls: Sequence[ToolCall] = ()
    for index, row in enumerate(conversation.messages):
        if row.message.role == "assistant":
            reply = index
            position = 0
            calls = row.message.tool_calls
        elif row.message.role == "tool" and position < len(calls):
            arguments = _arguments_read(calls[position], row, schemas)
            if arguments is not None:
                yield _Read(reply, position, index, arguments)
            position += 1


def _arguments_read(call: ToolCall, answer: MessageRow, schemas: Mapping[str, Any]) -> str | None:
    """The arguments that were carried out; None if they are the call's. Records of schema versions
    before 9 don't tell them: the schema does."""
    if answer.carried_out is not None:
        return answer.carried_out
    if answer.tool_outcome is ToolOutcome.INVALID or call.name not in schemas:
        return None
    try:
        said = json.loads(call.arguments or "{}")
    except BROKEN:
        return None
    read = read_by_schema(said, schemas[call.name])
    return None if is_same(read, said) else json.dumps(read, ensure_ascii=False)


@lru_cache(64)
def _parameters(tools: str) -> Mapping[str, Any]:
    """The schemas of the tools' arguments, by name."""
    functions = [tool["function"] for tool in json.loads(tools)]
    return {function["name"]: function.get("parameters", {}) for function in functions}
