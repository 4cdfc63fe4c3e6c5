"""Decide which conversations become rows: small predicates, in the order of `FILTERS`.

Each takes a candidate, and returns whether to keep it. Its name and docstring appear in
the funnel and the dataset card.
"""

from __future__ import annotations

from collections.abc import Callable

from collect.store.records import Conversation, StopReason, ToolOutcome
from format.candidates import Candidate
from format.translation import PROPOSE, recorded_start
from format.turn_quality import trained_turns
from sandbox.debugger import INSPECTIONS, Action

Predicate = Callable[[Candidate], bool]


def role(candidate: Candidate) -> bool:
    """The agent that held the conversation is one of `roles`."""
    return candidate.conversation.role in candidate.config.roles


def not_held_out(candidate: Candidate) -> bool:
    """The bug is not kept for measuring alone: neither by its id, nor by its hash, nor by its
    repository (`held_out`)."""
    return not candidate.outcome.held_out


def no_failure(candidate: Candidate) -> bool:
    """The rollout ran to its end: no failure of the model, the infrastructure or the budget."""
    return candidate.outcome.failure_kind is None


def resolved(candidate: Candidate) -> bool:
    """The rollout fixed the bug, by the patch a Program Inspector planned (`only_resolved`)."""
    outcome, attempt = candidate.outcome, candidate.conversation.patch_attempt
    in_time = not candidate.inspects or attempt == outcome.patch_attempts
    return (outcome.resolved and in_time) or not candidate.config.only_resolved


def untampered(candidate: Candidate) -> bool:
    """The rollout's code did not interfere with the run of its tests, and its patch does not reach
    for the test runner (`keep_marked_patches`)."""
    outcome, keeps_marked = candidate.outcome, candidate.config.keep_marked_patches
    return not outcome.tampered and (not outcome.patch_marks or keeps_marked)


def session_started(candidate: Candidate) -> bool:
    """A debug session was launched and reached a stop (`require_session`)."""
    events = [row.event for row in candidate.conversation.events]
    launches = (event for event in events if event.action is Action.START or candidate.inspects)
    return any(event.stops_program for event in launches) or not candidate.config.require_session


def stopped(candidate: Candidate) -> bool:
    """The program stopped, rather than ended, at least `min_stops` times; in a Program Inspector's
    session outside the test."""
    events = [row.event for row in candidate.conversation.events]
    # An Inspector's session starts in the test, before any request.
    start = recorded_start(candidate.conversation) if candidate.inspects else None
    test = start.event.file if start else None
    stops = sum(event.stops_program and event.file != test for event in events)
    return stops >= (candidate.config.min_stops or 0)


def inspected(candidate: Candidate) -> bool:
    """Values, fields, the stack or the threads were read at least `min_inspections` times."""
    events = [row.event for row in candidate.conversation.events]
    reads = sum(event.action in INSPECTIONS and event.error_kind is None for event in events)
    return reads >= (candidate.config.min_inspections or 0)


def answered(candidate: Candidate) -> bool:
    """The conversation ends in a well-formed answer, and no call with it, or in a Program
    Inspector's repair plan (`require_answer`)."""
    conversation = candidate.conversation
    calls = [row.message.tool_calls for row in conversation.messages]
    if not candidate.config.require_answer:
        return True
    if not candidate.inspects:
        return conversation.answer is not None and not (calls and calls[-1])
    if not conversation.final_answer.strip():
        return False
    if conversation.stop_reason is StopReason.STEP_LIMIT:
        return True
    proposed = conversation.tools == "[]" or any(c.name == PROPOSE for row in calls for c in row)
    return conversation.stop_reason is StopReason.FINISHED and proposed


def valid_calls(candidate: Candidate) -> bool:
    """At most `max_invalid_tool_calls` tool calls were invalid."""
    outcomes = [row.tool_outcome for row in candidate.conversation.messages]
    limit = candidate.config.max_invalid_tool_calls
    return limit is None or outcomes.count(ToolOutcome.INVALID) <= limit


def translatable(candidate: Candidate) -> bool:
    """All that was called, and what came of it, can be said in the row's `vocabulary`."""
    return candidate.as_row is not None


def exact_arguments(candidate: Candidate) -> bool:
    """All arguments are JSON objects that come back from Parquet exactly as they went in."""
    return candidate.texts is not None


def within_length(candidate: Candidate) -> bool:
    """Messages and tools together have at most `max_characters` characters."""
    limit = candidate.config.max_characters
    return limit is None or characters(candidate.said) <= limit


def grounded(candidate: Candidate) -> bool:
    """At least `min_grounding` of what the answer claims, and the task had not said already, was
    observed in the conversation."""
    least = candidate.config.min_grounding
    score = candidate.grounding.score if least is not None else None
    return least is None or score is None or score >= least


def replay_verified(candidate: Candidate) -> bool:
    """A replay of the conversation's calls showed the same (`only_replay_verified`)."""
    return bool(candidate.replay_verified) or not candidate.config.only_replay_verified


def not_leaked(candidate: Candidate) -> bool:
    """The conversation has none of the labels in `drop_leaks`."""
    return not set(candidate.leaks) & set(candidate.config.drop_leaks)


def trainable(candidate: Candidate) -> bool:
    """There is a turn to train on, of another quality than `masked_turns`."""
    return any(trained_turns(candidate.turn_quality, candidate.config.masked_turns))


def characters(conversation: Conversation) -> int:
    """Total characters of the messages, their calls and the tools."""
    messages = [row.message for row in conversation.messages]
    calls = [call for message in messages for call in message.tool_calls]
    text = sum(len(message.content) + len(message.reasoning or "") for message in messages)
    return text + sum(len(call.name + call.arguments) for call in calls) + len(conversation.tools)


FILTERS: tuple[Predicate, ...] = (
    role,
    not_held_out,
    no_failure,
    resolved,
    untampered,
    session_started,
    stopped,
    inspected,
    answered,
    valid_calls,
    translatable,
    exact_arguments,
    within_length,
    grounded,
    replay_verified,
    not_leaked,
    trainable,
)
"""The filters that need a single conversation only, in order; `format.duplicates` come after
them."""


def rule_of(keep: Predicate) -> str:
    """The condition that kept conversations meet."""
    return " ".join((keep.__doc__ or "").split())
