"""Runs with hostile text in every place where a program or a model can print."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation, EventRow, MessageRow, Rollout
from collect.store.run_store import RunStore
from sandbox.debugger import Breakpoint, ExceptionInfo, Frame, Hit, ThreadStack, Value
from tests.records import make_conversations, make_failed_rollout, make_rollout

HOSTILE = (
    "</script></style></textarea><script>window.hacked=1</script><img src=x onerror='hacked=1'>"
    "\"' onload=hacked=1 {{ 7*7 }} <!-- \x1b[2J\x00\x07\u202e\u2066\u200b&lt;"
)


def hostile_run(folder: Path) -> list[Rollout]:
    """A run of three rollouts: one with hostile text in every field, one plain, one failed."""
    hostile = make_rollout(
        f"bug-{HOSTILE}",
        variant=f"v{HOSTILE}",
        main_model=f"m{HOSTILE}",
        category=HOSTILE,
        patch=f"--- a/{HOSTILE}\n+++ b/x\n@@ -1 +1 @@\n-{HOSTILE}\n+{HOSTILE}\n",
        tests=tuple(
            dataclasses.replace(test, name=HOSTILE, after=HOSTILE) for test in make_rollout().tests
        ),
    )
    plain = make_rollout("ledger-cache-1", resolved=False)
    failed = make_failed_rollout(instance_id="ledger-cache-2", failure_message=HOSTILE)
    store = RunStore.open(folder)
    store.add(hostile, [hostile_conversation(each) for each in make_conversations(hostile)])
    store.add(plain, make_conversations(plain))
    store.add(failed, [])
    store.compact()
    store.close()
    return [hostile, plain, failed]


def hostile_conversation(conversation: Conversation) -> Conversation:
    """The same conversation, with hostile text wherever there was any."""
    answer = conversation.answer
    return dataclasses.replace(
        conversation,
        model=HOSTILE,
        sampling=json.dumps({"stop": HOSTILE}),
        tools=json.dumps([{"function": {"name": HOSTILE}}]),
        messages=tuple(_message(row) for row in conversation.messages),
        events=tuple(_event(row) for row in conversation.events),
        answer=dataclasses.replace(answer, answer=f"x = '{HOSTILE}'") if answer else None,
    )


def _message(row: MessageRow) -> MessageRow:
    message: Message = row.message
    calls = tuple(_call(call) for call in message.tool_calls)
    content = f"{message.content}{HOSTILE}\n" + "line of output\n" * 60
    message = dataclasses.replace(message, content=content, reasoning=HOSTILE, tool_calls=calls)
    return dataclasses.replace(row, message=message)


def _call(call: ToolCall) -> ToolCall:
    arguments = {HOSTILE: HOSTILE, "list": [HOSTILE]}
    is_broken = not call.arguments.endswith("}")
    raw = HOSTILE if is_broken else json.dumps(arguments)
    return dataclasses.replace(call, name=HOSTILE, arguments=raw)


def _event(row: EventRow) -> EventRow:
    frame = Frame(0, HOSTILE, 14, HOSTILE, HOSTILE)
    changes: dict[str, Any] = {
        "file": HOSTILE,
        "function": HOSTILE,
        "exception": ExceptionInfo(HOSTILE, HOSTILE),
        "return_value": Value(HOSTILE, HOSTILE, HOSTILE),
        "output": HOSTILE,
        "frames": (frame, frame),
        "values": (Value(HOSTILE, HOSTILE, HOSTILE, truncated=True),),
        "collected": (Hit(1, HOSTILE, 3, HOSTILE, (Value(HOSTILE, HOSTILE, HOSTILE),)),),
        "breakpoints": (
            Breakpoint(1, HOSTILE, 3, function=HOSTILE, condition=HOSTILE, watch=(HOSTILE,)),
        ),
        "threads": (ThreadStack(HOSTILE, True, HOSTILE, (frame,)),),
        "source": (f"-> *    14  {HOSTILE}", HOSTILE),
        "notes": (HOSTILE,),
    }
    return dataclasses.replace(row, event=dataclasses.replace(row.event, **changes))
