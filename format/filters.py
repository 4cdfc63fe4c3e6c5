"""Which conversations become rows: small predicates, applied in the order of `PREDICATES`.

Each takes a candidate and the config, and is true for what stays. Its name and docstring are
what the funnel and the dataset card say of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from collect.errors import FailureKind
from collect.records import Conversation, Rollout, ToolOutcome
from format.config import FormatConfig
from format.rows import exact_messages
from sandbox.debugger import Action, DebugEvent, StopReason

INSPECTIONS = (
    Action.LOCALS,
    Action.EVALUATE,
    Action.STACK,
    Action.THREADS,
    Action.FIELDS,
    Action.RUN_CODE,
)


@dataclass(frozen=True)
class Outcome:
    """What the filters and rows need of a rollout."""

    resolved: bool
    failure_kind: FailureKind | None
    language: str
    teacher: str
    system: str

    @classmethod
    def of(cls, rollout: Rollout) -> Outcome:
        """The outcome of one rollout."""
        return cls(
            rollout.resolved,
            rollout.failure_kind,
            rollout.language,
            rollout.teacher,
            rollout.system,
        )


@dataclass(frozen=True)
class Candidate:
    """One conversation and how its rollout ended."""

    conversation: Conversation
    outcome: Outcome


Predicate = Callable[[Candidate, FormatConfig], bool]


@dataclass(frozen=True)
class Filter:
    """One step of the funnel."""

    name: str
    rule: str
    """What is true of the conversations that it keeps."""
    keep: Predicate


def role(candidate: Candidate, config: FormatConfig) -> bool:
    """The agent that held the conversation is one of `roles`."""
    return candidate.conversation.role in config.roles


def no_failure(candidate: Candidate, config: FormatConfig) -> bool:
    """The rollout ran to its end: no failure of the model, the infrastructure or the budget."""
    return candidate.outcome.failure_kind is None


def resolved(candidate: Candidate, config: FormatConfig) -> bool:
    """The rollout fixed the bug (`only_resolved`)."""
    return candidate.outcome.resolved or not config.only_resolved


def session_started(candidate: Candidate, config: FormatConfig) -> bool:
    """A debug session was launched and reached a stop (`require_session`)."""
    events = [row.event for row in candidate.conversation.events]
    started = any(event.action is Action.START and at_stop(event) for event in events)
    return started or not config.require_session


def stopped(candidate: Candidate, config: FormatConfig) -> bool:
    """The program stopped, rather than ended, at least `min_stops` times."""
    events = [row.event for row in candidate.conversation.events]
    return sum(map(at_stop, events)) >= (config.min_stops or 0)


def inspected(candidate: Candidate, config: FormatConfig) -> bool:
    """Values, fields, the stack or the threads were read at least `min_inspections` times."""
    events = [row.event for row in candidate.conversation.events]
    reads = sum(event.action in INSPECTIONS and event.error_kind is None for event in events)
    return reads >= (config.min_inspections or 0)


def answered(candidate: Candidate, config: FormatConfig) -> bool:
    """The conversation ends in a well-formed answer, and no call with it (`require_answer`)."""
    conversation = candidate.conversation
    calls = conversation.messages[-1].message.tool_calls if conversation.messages else ()
    return (conversation.answer is not None and not calls) or not config.require_answer


def valid_calls(candidate: Candidate, config: FormatConfig) -> bool:
    """At most `max_invalid_tool_calls` tool calls were invalid."""
    outcomes = [row.tool_outcome for row in candidate.conversation.messages]
    limit = config.max_invalid_tool_calls
    return limit is None or outcomes.count(ToolOutcome.INVALID) <= limit


def exact_arguments(candidate: Candidate, config: FormatConfig) -> bool:
    """All arguments are JSON objects that come back from Parquet exactly as they went in."""
    return exact_messages(candidate.conversation) is not None


def within_length(candidate: Candidate, config: FormatConfig) -> bool:
    """Messages and tools together have at most `max_characters` characters."""
    limit = config.max_characters
    return limit is None or characters(candidate.conversation) <= limit


def at_stop(event: DebugEvent) -> bool:
    """Whether the action brought the program to a stop at which it can be looked at."""
    ended = (None, StopReason.EXITED, StopReason.KILLED)
    return event.stop_reason not in ended


def unique() -> Predicate:
    """A predicate that remembers what it let through."""
    seen: set[bytes] = set()

    def unique(candidate: Candidate, config: FormatConfig) -> bool:
        """No row before it has the same messages, call ids aside (`deduplicate`)."""
        key = session_key(candidate.conversation)
        if config.deduplicate and key in seen:
            return False
        seen.add(key)
        return True

    return unique


PREDICATES: tuple[Predicate, ...] = (
    role,
    no_failure,
    resolved,
    session_started,
    stopped,
    inspected,
    answered,
    valid_calls,
    exact_arguments,
    within_length,
)
"""The filters without memory; `unique` comes after them."""


def build_filters() -> tuple[Filter, ...]:
    """All filters in order, for one pass over the conversations."""
    predicates = (*PREDICATES, unique())
    return tuple(Filter(keep.__name__, keep.__doc__ or "", keep) for keep in predicates)


def characters(conversation: Conversation) -> int:
    """Characters of the messages, their calls and the tools."""
    messages = [row.message for row in conversation.messages]
    calls = [call for message in messages for call in message.tool_calls]
    text = sum(len(message.content) + len(message.reasoning or "") for message in messages)
    return text + sum(len(call.name + call.arguments) for call in calls) + len(conversation.tools)


def session_key(conversation: Conversation) -> bytes:
    """Hash of what was said and called, without the call ids, which differ on every run."""
    said = [
        [row.message.role, row.message.content, row.message.reasoning, row.message.name]
        + [[call.name, call.arguments] for call in row.message.tool_calls]
        for row in conversation.messages
    ]
    return hashlib.sha256(json.dumps(said).encode()).digest()
