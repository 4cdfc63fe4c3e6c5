"""The records' Parquet form: Arrow schemas and conversions."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from collect.errors import FailureKind
from collect.store.messages import Message, ToolCall
from collect.store.records import (
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
    KillReason,
    State,
    ThreadStack,
    Value,
)
from sandbox.debugger import StopReason as DebugStopReason
from sandbox.text import storable

TEXT, INT, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
VALUE = pa.struct({"name": TEXT, "type": TEXT, "text": TEXT, "truncated": FLAG})
FRAME = pa.struct({"index": INT, "file": TEXT, "line": INT, "function": TEXT, "source": TEXT})
BREAKPOINT = pa.struct(
    {
        "number": INT,
        "file": TEXT,
        "line": INT,
        "function": TEXT,
        "condition": TEXT,
        "temporary": FLAG,
        "hits": INT,
        "exception": TEXT,
        "uncaught": FLAG,
        "pending": FLAG,
    }
)
THREAD = pa.struct({"name": TEXT, "current": FLAG, "doing": TEXT, "frames": pa.list_(FRAME)})
EVENT = pa.struct(
    {
        "message_index": INT,
        "tool_call_id": TEXT,
        "action": TEXT,
        "arguments": TEXT,
        "state": TEXT,
        "stop_reason": TEXT,
        "file": TEXT,
        "line": INT,
        "function": TEXT,
        "depth": INT,
        "thread": TEXT,
        "exception": pa.struct({"type": TEXT, "message": TEXT}),
        "return_value": VALUE,
        "exit_code": INT,
        "output": TEXT,
        "output_truncated": FLAG,
        "frames": pa.list_(FRAME),
        "values": pa.list_(VALUE),
        "breakpoints": pa.list_(BREAKPOINT),
        "threads": pa.list_(THREAD),
        "next_start": INT,
        "source": pa.list_(TEXT),
        "notes": pa.list_(TEXT),
        "error_kind": TEXT,
        "error": TEXT,
        "kill_reason": TEXT,
        "allowed": pa.list_(TEXT),
        "seconds": REAL,
    }
)
MESSAGE = pa.struct(
    {
        "role": TEXT,
        "content": TEXT,
        "reasoning": TEXT,
        "tool_calls": pa.list_(pa.struct({"id": TEXT, "name": TEXT, "arguments": TEXT})),
        "tool_call_id": TEXT,
        "name": TEXT,
        "prompt_tokens": INT,
        "completion_tokens": INT,
        "cached_tokens": INT,
        "dollars": REAL,
        "seconds": REAL,
        "finish_reason": TEXT,
        "tool_outcome": TEXT,
    }
)
METADATA = {"stepinto.schema_version": str(SCHEMA_VERSION)}

ROLLOUTS = pa.schema(
    {
        "schema_version": INT,
        "rollout_id": TEXT,
        "run": TEXT,
        "system": TEXT,
        "variant": TEXT,
        "benchmark": TEXT,
        "instance_id": TEXT,
        "instance_hash": TEXT,
        "repository": TEXT,
        "language": TEXT,
        "category": TEXT,
        "attempt": INT,
        "seed": INT,
        "main_model": TEXT,
        "sub_model": TEXT,
        "teacher": TEXT,
        "sampling": TEXT,
        "sandbox": TEXT,
        "image_digest": TEXT,
        "code_version": TEXT,
        "code_commit": TEXT,
        "config_hash": TEXT,
        "resolved": FLAG,
        "tampered": TEXT,
        "tests": pa.list_(pa.struct({"name": TEXT, "group": TEXT, "before": TEXT, "after": TEXT})),
        "patch": TEXT,
        "patch_marks": pa.list_(TEXT),
        "stop_reason": TEXT,
        "failure_kind": TEXT,
        "failure_type": TEXT,
        "failure_message": TEXT,
        "patch_attempts": INT,
        "actions": TEXT,
        "main_steps": INT,
        "sub_steps": INT,
        "sub_calls": INT,
        "debug_calls": INT,
        "debug_stops": INT,
        "invalid_tool_calls": INT,
        "refused_tool_calls": INT,
        "main_prompt_tokens": INT,
        "main_completion_tokens": INT,
        "sub_prompt_tokens": INT,
        "sub_completion_tokens": INT,
        "dollars": REAL,
        "started_at": REAL,
        "seconds": REAL,
        "scoring_seconds": REAL,
    },
    metadata=METADATA,
)

CONVERSATIONS = pa.schema(
    {
        "schema_version": INT,
        "conversation_id": TEXT,
        "rollout_id": TEXT,
        "index": INT,
        "role": TEXT,
        "parent_conversation_id": TEXT,
        "parent_call_id": TEXT,
        "patch_attempt": INT,
        "benchmark": TEXT,
        "instance_id": TEXT,
        "repository": TEXT,
        "variant": TEXT,
        "attempt": INT,
        "model": TEXT,
        "teacher": TEXT,
        "sampling": TEXT,
        "messages": pa.list_(MESSAGE),
        "tools": TEXT,
        "events": pa.list_(EVENT),
        "final_answer": TEXT,
        "answer": pa.struct({"question": TEXT, "answer": TEXT, "evidence": TEXT, "location": TEXT}),
        "steps": INT,
        "stop_reason": TEXT,
    },
    metadata=METADATA,
)


def plain(record: Any) -> Any:
    """A record as dicts, lists and scalars, nested as its Arrow schema is."""
    if isinstance(record, MessageRow | EventRow):
        inner = record.message if isinstance(record, MessageRow) else record.event
        outer = {k: plain(v) for k, v in vars(record).items() if v is not inner}
        return plain(inner) | outer
    if hasattr(record, "__dataclass_fields__"):
        return {name: plain(getattr(record, name)) for name in record.__dataclass_fields__}
    if isinstance(record, tuple | list):
        return [plain(item) for item in record]
    if isinstance(record, str) and not record.isascii():
        return storable(record)
    return record


def rollout_from_plain(row: dict[str, Any]) -> Rollout:
    """The inverse of `plain` for a rollout."""
    kind = row["failure_kind"]
    return Rollout(
        **row
        | {
            "tests": tuple(_test(test) for test in row["tests"]),
            "patch_marks": tuple(map(sys.intern, row["patch_marks"])),
            "stop_reason": StopReason(row["stop_reason"]),
            "failure_kind": FailureKind(kind) if kind else None,
        }
    )


def _test(row: dict[str, str]) -> TestRow:
    """Test rows are shared: rows of one bug name the same tests, and there may be thousands."""
    return TestRow(**{field: sys.intern(text) for field, text in row.items()})


def conversation_from_plain(row: dict[str, Any]) -> Conversation:
    """The inverse of `plain` for a conversation."""
    return Conversation(
        **row
        | {
            "role": Role(row["role"]),
            "messages": tuple(_message(message) for message in row["messages"]),
            "events": tuple(_event(event) for event in row["events"]),
            "answer": DebugAnswer(**row["answer"]) if row["answer"] else None,
            "stop_reason": StopReason(row["stop_reason"]),
        }
    )


def _message(row: dict[str, Any]) -> MessageRow:
    inner = ("role", "content", "reasoning", "tool_call_id", "name")
    message = Message(
        **{key: row[key] for key in inner},
        tool_calls=tuple(ToolCall(**call) for call in row["tool_calls"]),
    )
    outcome = row["tool_outcome"]
    rest = {key: value for key, value in row.items() if key not in (*inner, "tool_calls")}
    return MessageRow(message, **rest | {"tool_outcome": ToolOutcome(outcome) if outcome else None})


def _event(row: dict[str, Any]) -> EventRow:
    event = {key: row[key] for key in row if key not in ("message_index", "tool_call_id")}
    reason, kind, killed = event["stop_reason"], event["error_kind"], event["kill_reason"]
    event |= {
        "action": Action(event["action"]),
        "state": State(event["state"]),
        "stop_reason": DebugStopReason(reason) if reason else None,
        "error_kind": ErrorKind(kind) if kind else None,
        "kill_reason": KillReason(killed) if killed else None,
        "exception": ExceptionInfo(**event["exception"]) if event["exception"] else None,
        "return_value": Value(**event["return_value"]) if event["return_value"] else None,
        "frames": tuple(Frame(**frame) for frame in event["frames"]),
        "values": tuple(Value(**value) for value in event["values"]),
        "breakpoints": tuple(Breakpoint(**point) for point in event["breakpoints"]),
        "threads": tuple(_thread(thread) for thread in event["threads"]),
        "source": tuple(event["source"]),
        "notes": tuple(event["notes"]),
        "allowed": tuple(Action(action) for action in event["allowed"]),
    }
    return EventRow(row["message_index"], row["tool_call_id"], DebugEvent(**event))


def _thread(row: dict[str, Any]) -> ThreadStack:
    return ThreadStack(**row | {"frames": tuple(Frame(**frame) for frame in row["frames"])})
