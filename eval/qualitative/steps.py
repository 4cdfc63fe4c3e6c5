"""Which tools an agent that debugs calls, step by step (Debug2Fix, figure 5)."""

from __future__ import annotations

from collections.abc import Iterator

from collect.agents.config import Variant
from collect.agents.repair.actions import UnreadableAction, parse_actions
from collect.agents.repair.react import action_block
from collect.messages import Message
from collect.records import Conversation, Role

FINISH = "finish"
UNREADABLE = "unreadable action"
COMMANDS = "debugger command"


def tools_by_step(conversation: Conversation) -> Iterator[tuple[int, str]]:
    """Each call as its step, from 1, and its tool; a reply without one is `finish`."""
    step = 0
    for row in conversation.messages:
        if row.message.role == "assistant":
            step += 1
            for name in _tools(row.message, conversation):
                yield step, name


def _tools(reply: Message, conversation: Conversation) -> list[str]:
    called = [call.name for call in reply.tool_calls]
    if called or conversation.role is not Role.INSPECTOR:
        return called or [FINISH]
    if conversation.variant == Variant.INSPECTCODER_NO_INSPECTWARE:
        return [COMMANDS]
    try:
        return [action.name for action in parse_actions(action_block(reply.content))]
    except UnreadableAction:
        return [UNREADABLE]
