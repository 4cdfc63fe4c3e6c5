"""Realistic records for tests: a Debug2Fix rollout on a small bug, and its two conversations.

`make_rollout()` is a resolved rollout; keyword arguments replace any field, and the id follows
from the instance, attempt, variant and models. `make_conversations(rollout)` gives the main
agent's conversation and, where the rollout called a subagent, the subagent's.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from collect.errors import FailureKind
from collect.store.messages import Message, ToolCall
from collect.store.records import (
    MODEL_TEACHER,
    ORACLE_TEACHER,
    SCHEMA_VERSION,
    Conversation,
    DebugAnswer,
    EventRow,
    MessageRow,
    Role,
    Rollout,
    StopReason,
    TestRow,
    ToolOutcome,
)
from sandbox.debugger import (
    Action,
    Breakpoint,
    DebugEvent,
    ErrorKind,
    ExceptionInfo,
    Frame,
    Hit,
    RelatedException,
    State,
    Value,
)
from sandbox.debugger import StopReason as DebugStopReason

PATCH = """\
--- a/ledger/cache.py
+++ b/ledger/cache.py
@@ -12,3 +12,3 @@
     def put(self, key, value):
-        self.order.append(key)
+        self.order = [k for k in self.order if k != key] + [key]
         self.items[key] = value
"""
TEST = "tests/test_cache.py::test_put_twice_keeps_one_entry"
QUESTION = "What is in self.order when the assertion fails?"


def make_rollout(instance_id: str = "ledger-cache-1", attempt: int = 0, **changes: Any) -> Rollout:
    """A resolved rollout with one subagent call; `changes` replaces fields."""
    fields: dict[str, Any] = {
        "variant": "debug2fix",
        "main_model": "large",
        "sub_model": "small",
        "benchmark": "bundled",
        "repository": instance_id.rpartition("-")[0] or instance_id,
    } | changes
    identity = [instance_id, attempt, fields["variant"], fields["main_model"], fields["sub_model"]]
    models = (fields["main_model"], fields["sub_model"])
    defaults: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "rollout_id": hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16],
        "run": "test-run",
        "system": "debug2fix",
        "instance_id": instance_id,
        "instance_hash": "0123456789abcdef",
        "language": "python",
        "category": "state",
        "attempt": attempt,
        "seed": attempt,
        "teacher": ORACLE_TEACHER if "oracle" in models else MODEL_TEACHER,
        "sampling": json.dumps({"main": {"temperature": 0.0}}),
        "sandbox": "local",
        "image_digest": None,
        "code_version": "0.1.0",
        "code_commit": None,
        "config_hash": "fedcba9876543210",
        "resolved": True,
        "tampered": None,
        "tests": (TestRow(TEST, "fail_to_pass", "failed", "passed"),),
        "patch": PATCH,
        "patch_marks": (),
        "stop_reason": StopReason.FINISHED,
        "failure_kind": None,
        "failure_type": None,
        "failure_message": None,
        "patch_attempts": 0,
        "actions": json.dumps({"debug_subagent": 1}),
        "main_steps": 4,
        "sub_steps": 3,
        "sub_calls": 1,
        "debug_calls": 2,
        "debug_stops": 1,
        "invalid_tool_calls": 0,
        "refused_tool_calls": 0,
        "main_prompt_tokens": 9_000,
        "main_completion_tokens": 600,
        "sub_prompt_tokens": 5_000,
        "sub_completion_tokens": 300,
        "dollars": 0.04,
        "sub_dollars": 0.01,
        "started_at": 1_760_000_000.25,
        "seconds": 12.5,
        "scoring_seconds": 1.5,
    }
    return Rollout(**defaults | fields)


def make_failed_rollout(
    kind: FailureKind = FailureKind.INFRASTRUCTURE, instance_id: str = "ledger-cache-1", **more: Any
) -> Rollout:
    """A rollout that ended early, without a verdict."""
    fields: dict[str, Any] = {
        "resolved": False,
        "tests": (),
        "patch": "",
        "stop_reason": StopReason.FAILURE,
        "failure_kind": kind,
        "failure_type": "SandboxDead",
        "failure_message": "the sandbox was killed: out of memory",
    }
    return make_rollout(instance_id, **fields | more)


def make_conversations(rollout: Rollout) -> tuple[Conversation, ...]:
    """The main agent's conversation, and the subagent's where the rollout called one."""
    main = _conversation(rollout, 0, Role.MAIN, rollout.main_model, _main_messages(rollout))
    if not rollout.sub_calls:
        return (main,)
    answer = DebugAnswer(QUESTION, "['a', 'a']", "locals at line 14", "ledger/cache.py:13")
    sub = _conversation(
        rollout,
        1,
        Role.DEBUG_SUBAGENT,
        rollout.sub_model,
        _sub_messages(answer),
        parent_conversation_id=main.conversation_id,
        parent_call_id="call_main_1",
        events=(_stop(2), _refusal(4)),
        answer=answer,
    )
    return (main, sub)


def _conversation(
    rollout: Rollout,
    index: int,
    role: Role,
    model: str,
    messages: tuple[MessageRow, ...],
    **more: Any,
) -> Conversation:
    fields: dict[str, Any] = {
        "parent_conversation_id": None,
        "parent_call_id": None,
        "patch_attempt": 0,
        "events": (),
        "answer": None,
    } | more
    return Conversation(
        schema_version=SCHEMA_VERSION,
        conversation_id=f"{rollout.rollout_id}-{index}",
        rollout_id=rollout.rollout_id,
        index=index,
        role=role,
        benchmark=rollout.benchmark,
        instance_id=rollout.instance_id,
        repository=rollout.repository,
        variant=rollout.variant,
        attempt=rollout.attempt,
        model=model,
        teacher=rollout.teacher,
        sampling=json.dumps({"temperature": 0.0}),
        messages=messages,
        tools=json.dumps(_tools(role)),
        final_answer=messages[-1].message.content,
        steps=sum(row.message.role == "assistant" for row in messages),
        stop_reason=StopReason.FINISHED,
        **fields,
    )


def _tools(role: Role) -> list[dict[str, Any]]:
    names = ("bash", "read", "debug_subagent") if role is Role.MAIN else ("debug_start_session",)
    parameters = {"type": "object", "properties": {"test": {"type": "string"}}}
    functions = [{"name": n, "description": f"Run {n}.", "parameters": parameters} for n in names]
    return [{"type": "function", "function": function} for function in functions]


def _reply(content: str, *calls: ToolCall, reasoning: str | None = None) -> MessageRow:
    message = Message("assistant", content, reasoning, tool_calls=calls)
    reason = "tool_calls" if calls else "stop"
    return MessageRow(message, 1_500, 80, 400, 0.01, 0.8, finish_reason=reason)


def _result(call: ToolCall, content: str, outcome: ToolOutcome = ToolOutcome.OK) -> MessageRow:
    message = Message("tool", content, tool_call_id=call.id, name=call.name)
    return MessageRow(message, seconds=0.2, tool_outcome=outcome)


def _main_messages(rollout: Rollout) -> tuple[MessageRow, ...]:
    rows = [
        MessageRow(Message("system", "You fix bugs in a repository.")),
        MessageRow(Message("user", "Putting a key twice evicts one. \u00e9\u4e2d\U0001f41b")),
    ]
    if rollout.sub_calls:
        arguments = json.dumps({"question": QUESTION, "test": TEST})
        call = ToolCall("call_main_1", "debug_subagent", arguments)
        rows += [_reply("", call, reasoning="Look at the state first."), _result(call, "['a']")]
    edit = ToolCall("call_main_2", "bash", '{"command": "sed -i s/append/update/ ledger/cache.py"}')
    broken = ToolCall("call_main_3", "bash", '{"command": ')
    rows += [_reply("", edit, broken), _result(edit, "")]
    rows += [_result(broken, "arguments are not JSON", ToolOutcome.INVALID), _reply("Fixed.")]
    return tuple(rows)


def _sub_messages(answer: DebugAnswer) -> tuple[MessageRow, ...]:
    start = ToolCall("call_sub_1", "debug_start_session", json.dumps({"test": TEST}))
    step = ToolCall("call_sub_2", "debug_control", json.dumps({"action": "step_over"}))
    block = "\n".join(f"<{key}>{value}</{key}>" for key, value in vars(answer).items())
    return (
        MessageRow(Message("system", "You answer questions with a debugger.")),
        MessageRow(Message("user", QUESTION)),
        _reply("", start),
        _result(start, "Stopped at ledger/cache.py:14 in LruCache.put"),
        _reply("", step),
        _result(step, "The program is gone.", ToolOutcome.REFUSED),
        _reply(f"<debug_answer>\n{block}\n</debug_answer>"),
    )


def _stop(message_index: int) -> EventRow:
    causes = (
        RelatedException("caused by", 1, "OSError", "gone"),
        RelatedException("member 1 of 2", 2, "ValueError", "", (), "ledger/cache.py", 9, "load", 2),
    )
    event = DebugEvent(
        Action.START,
        json.dumps({"test": TEST}),
        State.RUNTIME,
        stop_reason=DebugStopReason.BREAKPOINT,
        file="ledger/cache.py",
        line=14,
        function="LruCache.put",
        depth=2,
        thread="MainThread",
        exception=ExceptionInfo("KeyError", "'b'", notes=("of b",), related=causes, unlisted=2),
        return_value=Value("return", "NoneType", "None"),
        output="putting a\n",
        frames=(Frame(0, "ledger/cache.py", 14, "LruCache.put", "self.items[key] = value"),),
        values=(
            Value("self.order", "list", "['a', 'a']", truncated=True),
            Value("size", "", "NameError: name 'size' is not defined", failed=True),
        ),
        collected=(
            Hit(1, "ledger/cache.py", 14, "LruCache.put", (Value("key", "str", "'a'"),)),
            Hit(2, "ledger/cache.py", 14, "LruCache.put", (Value("key", "str", "'b'"),)),
        ),
        breakpoints=(
            Breakpoint(1, "ledger/cache.py", 14, condition="key == 'a'", hits=2, watch=("key",)),
        ),
        source=("13 self.order.append(key)", "14 > self.items[key] = value"),
        notes=("line 12 has no code; the breakpoint was moved to line 14",),
        seconds=0.31,
    )
    return EventRow(message_index, "call_sub_1", event)


def _refusal(message_index: int) -> EventRow:
    event = DebugEvent(
        Action.STEP_OVER,
        "{}",
        State.DONE,
        exit_code=1,
        error_kind=ErrorKind.NOT_ALLOWED,
        error="the program has ended",
        allowed=(Action.RESTART, Action.CLOSE),
    )
    return EventRow(message_index, "call_sub_2", event)
