"""Runs with real debugger conversations, small enough to write in a test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation, EventRow, MessageRow, Rollout
from collect.store.run_store import RunStore
from sandbox.debugger import Action, DebugEvent, State, Value
from tests.records import make_conversations, make_rollout

REPOSITORIES = ("ledger", "textflow", "shopcart", "scheduler", "graphs")


def with_inspection(
    conversation: Conversation, arguments: str = '{"what": "locals"}'
) -> Conversation:
    """The subagent's conversation with one inspection before its last turn."""
    call = ToolCall(f"call-{conversation.conversation_id}", "debug_inspect", arguments)
    reply = MessageRow(Message("assistant", "", tool_calls=(call,)))
    seen = f"self.order = ['a', 'a']  # {conversation.instance_id}\n{own_words(conversation)}"
    result = MessageRow(Message("tool", seen, tool_call_id=call.id, name=call.name))
    event = DebugEvent(
        Action.LOCALS, arguments, State.RUNTIME, values=(Value("self.order", "list", "['a', 'a']"),)
    )
    *before, last = conversation.messages
    return replace(
        conversation,
        messages=(*before, reply, result, last),
        events=(*conversation.events, EventRow(len(before), call.id, event)),
    )


def own_words(conversation: Conversation) -> str:
    """What only sessions on this bug show, so that those on others are no near duplicates."""
    name = conversation.instance_id
    return "\n".join(f"field_{n} = '{hash_of(f'{name} {n}')}'" for n in range(20))


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def make_rollouts(
    count: int = 5, arguments: str = '{"what": "locals"}', **changes: Any
) -> list[tuple[Rollout, tuple[Conversation, ...]]]:
    """Resolved rollouts, each of a repository of its own, with their conversations."""
    made: list[tuple[Rollout, tuple[Conversation, ...]]] = []
    for name in REPOSITORIES[:count]:
        rollout = make_rollout(f"{name}-1", **changes)
        main, sub = make_conversations(rollout)
        made.append((rollout, (main, with_inspection(sub, arguments))))
    return made


def write_run(
    folder: Path, rollouts: Sequence[tuple[Rollout, tuple[Conversation, ...]]] | None = None
) -> Path:
    """A run folder holding these rollouts."""
    store = RunStore.open(folder)
    for rollout, conversations in make_rollouts() if rollouts is None else rollouts:
        store.add(rollout, conversations)
    return folder


def nasty_arguments() -> str:
    """Arguments that a lossy path would change."""
    return json.dumps(
        {
            "none": None,
            "nested": {"deep": [None, {"x": None}], "empty": {}, "list": []},
            "int": 1,
            "float": 1.0,
            "true": True,
            "zero": -0.0,
            "large": 2**63 - 1,
            "text": 'é \u2028 </tool_call> \U0001f41b \\ " \n',
            "null_text": "null",
            "json_text": '{"a": 1}',
        }
    )
