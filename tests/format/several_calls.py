"""Runs whose Debug Subagents call several tools in a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation, EventRow, MessageRow, Rollout, ToolOutcome
from sandbox.debugger import Action, DebugEvent, State, Value
from tests.format.conversations import make_rollouts

SAID = "I read the <tool_call> tag and both values.\nThen I compare them."
ARGUMENTS = ('{"what": "locals", "frame": 0}', '{"expression": "\'</tool_call>\' + \\"ü\\""}')
RESULTS = ("self.order = ['a', 'a']", "'</tool_call>ü'")


def with_several_calls(
    conversation: Conversation, outcomes: Sequence[ToolOutcome] = (ToolOutcome.OK, ToolOutcome.OK)
) -> Conversation:
    """The subagent's conversation with a reply of two calls before its last turn."""
    name = conversation.instance_id
    calls = [ToolCall(f"two_{n}", "debug_inspect", ARGUMENTS[n]) for n in range(2)]
    message = Message("assistant", SAID, "Which is older?", tool_calls=tuple(calls))
    reply = MessageRow(message, 700, 30, finish_reason="tool_calls", served_model="large-2026")
    told = [
        MessageRow(
            Message("tool", f"{RESULTS[n]} # {name}", tool_call_id=calls[n].id, name=calls[n].name),
            tool_outcome=outcomes[n],
        )
        for n in range(2)
    ]
    *before, last = conversation.messages
    events = [
        EventRow(len(before), call.id, looked(call.arguments, RESULTS[n]))
        for n, call in enumerate(calls)
    ]
    return replace(
        conversation,
        messages=(*before, reply, *told, last),
        events=(*conversation.events, *events),
    )


def looked(arguments: str, value: str) -> DebugEvent:
    values = (Value("self.order", "list", value),)
    return DebugEvent(Action.LOCALS, arguments, State.RUNTIME, values=values)


Held = tuple[Rollout, tuple[Conversation, ...]]


def rollouts_with_several_calls(count: int = 2) -> list[Held]:
    """Resolved rollouts, in the second of which the second of two calls is invalid."""
    made = list[Held]()
    for number, (rollout, (main, sub)) in enumerate(make_rollouts(count)):
        second = ToolOutcome.INVALID if number == 1 else ToolOutcome.OK
        made.append((rollout, (main, with_several_calls(sub, (ToolOutcome.OK, second)))))
    return made
