"""Decide which conversations become rows: small predicates, in the order of `build_filters`.

Each takes a candidate and the config, and returns whether to keep the candidate. Its name and
docstring appear in the funnel and the dataset card.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from collect.benchmarks.held_out import HeldOut
from collect.store.records import Conversation, StopReason, ToolOutcome
from format.candidates import Candidate
from format.config import FormatConfig
from format.translation import PROPOSE, recorded_start
from format.turn_quality import trained_turns
from sandbox.debugger import INSPECTIONS, Action

Predicate = Callable[[Candidate, FormatConfig], bool]


@dataclass(frozen=True)
class Filter:
    name: str
    rule: str
    """The condition that kept conversations meet."""
    keep: Predicate


def role(candidate: Candidate, config: FormatConfig) -> bool:
    """The agent that held the conversation is one of `roles`."""
    return candidate.conversation.role in config.roles


def no_failure(candidate: Candidate, config: FormatConfig) -> bool:
    """The rollout ran to its end: no failure of the model, the infrastructure or the budget."""
    return candidate.outcome.failure_kind is None


def resolved(candidate: Candidate, config: FormatConfig) -> bool:
    """The rollout fixed the bug, by the patch a Program Inspector planned (`only_resolved`)."""
    outcome, attempt = candidate.outcome, candidate.conversation.patch_attempt
    in_time = not candidate.inspects or attempt == outcome.patch_attempts
    return (outcome.resolved and in_time) or not config.only_resolved


def untampered(candidate: Candidate, config: FormatConfig) -> bool:
    """The rollout's code did not interfere with the run of its tests, and its patch does not reach
    for the test runner (`keep_marked_patches`)."""
    outcome = candidate.outcome
    return not outcome.tampered and (not outcome.patch_marks or config.keep_marked_patches)


def session_started(candidate: Candidate, config: FormatConfig) -> bool:
    """A debug session was launched and reached a stop (`require_session`)."""
    events = [row.event for row in candidate.conversation.events]
    launches = (event for event in events if event.action is Action.START or candidate.inspects)
    return any(event.stops_program for event in launches) or not config.require_session


def stopped(candidate: Candidate, config: FormatConfig) -> bool:
    """The program stopped, rather than ended, at least `min_stops` times; in a Program Inspector's
    session outside the test."""
    events = [row.event for row in candidate.conversation.events]
    # An Inspector's session starts in the test, before any request.
    start = recorded_start(candidate.conversation) if candidate.inspects else None
    test = start.event.file if start else None
    stops = sum(event.stops_program and event.file != test for event in events)
    return stops >= (config.min_stops or 0)


def inspected(candidate: Candidate, config: FormatConfig) -> bool:
    """Values, fields, the stack or the threads were read at least `min_inspections` times."""
    events = [row.event for row in candidate.conversation.events]
    reads = sum(event.action in INSPECTIONS and event.error_kind is None for event in events)
    return reads >= (config.min_inspections or 0)


def answered(candidate: Candidate, config: FormatConfig) -> bool:
    """The conversation ends in a well-formed answer, and no call with it, or in a Program
    Inspector's repair plan (`require_answer`)."""
    conversation = candidate.conversation
    calls = [row.message.tool_calls for row in conversation.messages]
    if not config.require_answer:
        return True
    if not candidate.inspects:
        return conversation.answer is not None and not (calls and calls[-1])
    if not conversation.final_answer.strip():
        return False
    if conversation.stop_reason is StopReason.STEP_LIMIT:
        return True
    proposed = conversation.tools == "[]" or any(c.name == PROPOSE for row in calls for c in row)
    return conversation.stop_reason is StopReason.FINISHED and proposed


def valid_calls(candidate: Candidate, config: FormatConfig) -> bool:
    """At most `max_invalid_tool_calls` tool calls were invalid."""
    outcomes = [row.tool_outcome for row in candidate.conversation.messages]
    limit = config.max_invalid_tool_calls
    return limit is None or outcomes.count(ToolOutcome.INVALID) <= limit


def translatable(candidate: Candidate, config: FormatConfig) -> bool:
    """All that was called, and what came of it, can be said in the row's `vocabulary`."""
    return candidate.as_row is not None


def exact_arguments(candidate: Candidate, config: FormatConfig) -> bool:
    """All arguments are JSON objects that come back from Parquet exactly as they went in."""
    return candidate.texts is not None


def within_length(candidate: Candidate, config: FormatConfig) -> bool:
    """Messages and tools together have at most `max_characters` characters."""
    return config.max_characters is None or characters(candidate.said) <= config.max_characters


def grounded(candidate: Candidate, config: FormatConfig) -> bool:
    """At least `min_grounding` of what the answer claims, and the task had not said already, was
    observed in the conversation."""
    if config.min_grounding is None:
        return True
    score = candidate.grounding.score
    return score is None or score >= config.min_grounding


def replay_verified(candidate: Candidate, config: FormatConfig) -> bool:
    """A replay of the conversation's calls showed the same (`only_replay_verified`)."""
    return bool(candidate.replay_verified) or not config.only_replay_verified


def not_leaked(candidate: Candidate, config: FormatConfig) -> bool:
    """The conversation has none of the labels in `drop_leaks`."""
    return not set(candidate.leaks) & set(config.drop_leaks)


def trainable(candidate: Candidate, config: FormatConfig) -> bool:
    """There is a turn to train on, of another quality than `masked_turns`."""
    return any(trained_turns(candidate.turn_quality, config.masked_turns))


def build_filters(held_out: HeldOut) -> tuple[Filter, ...]:
    """The filters that need a single conversation only, in order; `format.duplicates` come after
    them."""

    def not_held_out(candidate: Candidate, config: FormatConfig) -> bool:
        """The bug is not kept for measuring alone: neither by its id, nor by its hash, nor by its
        repository (`held_out`)."""
        bug, instance_hash = candidate.conversation, candidate.outcome.instance_hash
        return not held_out.has(bug.benchmark, bug.instance_id, instance_hash, bug.repository)

    predicates: tuple[Predicate, ...] = (
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
    return tuple(
        Filter(keep.__name__, " ".join((keep.__doc__ or "").split()), keep) for keep in predicates
    )


def characters(conversation: Conversation) -> int:
    """Total characters of the messages, their calls and the tools."""
    messages = [row.message for row in conversation.messages]
    calls = [call for message in messages for call in message.tool_calls]
    text = sum(len(message.content) + len(message.reasoning or "") for message in messages)
    return text + sum(len(call.name + call.arguments) for call in calls) + len(conversation.tools)
