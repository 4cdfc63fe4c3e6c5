"""A run's conversations as candidates for rows, with facts about the bug and the whole rollout; and
the filters that decide which become rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from collect.agents.config import Variant
from collect.questions.grounding import Grounding, fix_touched_location, ground
from collect.questions.observations import sets_unnamed_breakpoint
from collect.replay import verified_conversations
from collect.store.records import Conversation, Role, StopReason, ToolOutcome
from collect.store.run_store import RunStore
from format.config import FormatConfig, Vocabulary
from format.dataset import exact_messages
from format.leaks import Leak, leaks_of, reads_git_history
from format.outcomes import Outcome
from format.translation import PROPOSE, Untranslatable, recorded_start, to_debug2fix
from format.turn_quality import TurnQuality, trained_turns, turn_qualities
from sandbox.debugger import INSPECTIONS, Action

CHANGES = ("edit_file", "bash")
"""The main agent's tools that may change files; neither does while the edit gate is closed."""


@dataclass(frozen=True)
class Candidate:
    conversation: Conversation
    outcome: Outcome
    config: FormatConfig
    git_history: bool
    """Whether an agent of its rollout has looked at later commits."""
    asked_early: bool
    """Whether it started before any file could have been changed."""
    replay_verified: bool | None
    """Whether a replay of its calls had the recorded results; None if there was no replay."""

    @property
    def inspects(self) -> bool:
        return self.conversation.role is Role.INSPECTOR

    @cached_property
    def as_row(self) -> Conversation | None:
        """The conversation in its row's vocabulary; None if that can't express it."""
        if not self.inspects or self.config.vocabulary is Vocabulary.NATIVE:
            return self.conversation
        try:
            return to_debug2fix(self.conversation)
        except Untranslatable:
            return None

    @property
    def said(self) -> Conversation:
        """The conversation in its row's vocabulary, or as recorded if that can't express it."""
        return self.as_row or self.conversation

    @cached_property
    def texts(self) -> list[str] | None:
        """The messages of its row as JSON texts; None if these would not be exact."""
        row = self.as_row
        return None if row is None else exact_messages(row, self.config.reasoning)

    @cached_property
    def grounding(self) -> Grounding:
        return ground(self.said, self.outcome.tests)

    @cached_property
    def turn_quality(self) -> tuple[TurnQuality, ...]:
        return turn_qualities(self.said)

    @cached_property
    def leaks(self) -> tuple[Leak, ...]:
        """What it may know that a working agent could not."""
        lines = self.outcome.gold_lines
        return leaks_of(self.said, self.grounding, lines, self.git_history)

    @property
    def fix_touched_location(self) -> bool | None:
        return fix_touched_location(self.said, self.outcome.changed)


def asked_before_changes(conversations: Sequence[Conversation]) -> frozenset[str]:
    """The conversations of a rollout that started before any file could have been changed.

    Includes conversations without a caller: a question of `stepinto bench answer`.
    """
    early = {each.conversation_id for each in conversations if each.parent_conversation_id is None}
    for parent in conversations:
        reached: set[str | None] = set()
        gated = parent.variant == Variant.DEBUG2FIX_TOOL_LIMIT
        for call in (call for row in parent.messages for call in row.message.tool_calls):
            reached.add(call.id)
            gated = gated and call.name != "debug_subagent"
            if call.name in CHANGES and not gated:
                break
        early |= {
            each.conversation_id
            for each in conversations
            if each.parent_conversation_id == parent.conversation_id
            and each.parent_call_id in reached
        }
    return frozenset(early)


def _prefixed(conversation: Conversation, prefix: str) -> Conversation:
    parent = conversation.parent_conversation_id
    return replace(
        conversation,
        rollout_id=prefix + conversation.rollout_id,
        conversation_id=prefix + conversation.conversation_id,
        parent_conversation_id=prefix + parent if parent is not None else None,
    )


class Candidates:
    """The conversations of one or several runs. Can be iterated repeatedly; only those of one
    rollout are in memory at a time."""

    def __init__(
        self, config: FormatConfig, runs: Sequence[tuple[RunStore, Mapping[str, Outcome]]]
    ) -> None:
        """Each run is with the outcomes of its rollouts; ids of all but the first get a prefix."""
        self._config = config
        self._runs = [
            (store, outcomes, verified_conversations(store.folder)) for store, outcomes in runs
        ]

    def rollouts(self) -> Iterator[Sequence[Candidate]]:
        """The conversations of each rollout that has an outcome: it is not still running."""
        for number, (store, outcomes, verified) in enumerate(self._runs):
            prefix = f"{store.folder.resolve().name}/" if number else ""
            stored = store.read_conversations(finished=outcomes)
            for rollout_id, held in groupby(stored, lambda each: each.rollout_id):
                conversations = list(held)
                git_history = any(map(reads_git_history, conversations))
                early = asked_before_changes(conversations)
                yield [
                    Candidate(
                        _prefixed(each, prefix) if prefix else each,
                        outcomes[rollout_id],
                        self._config,
                        git_history,
                        each.conversation_id in early,
                        verified.get(each.conversation_id),
                    )
                    for each in conversations
                ]


# The filters: small predicates of a candidate, whether it is kept. Their names and docstrings
# appear in the funnel and the dataset card.


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


def confirmed(candidate: Candidate) -> bool:
    """The conversation did not fail. An oracle's fails if the buggy and the fixed run refute what
    it says of place and value."""
    return candidate.conversation.stop_reason is not StopReason.FAILURE


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


def grounded_actions(candidate: Candidate) -> bool:
    """Every breakpoint is in a file that the task or a tool's answer had named before. A Program
    Inspector's are in the program that its task shows."""
    return candidate.inspects or not sets_unnamed_breakpoint(candidate.said)


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
    confirmed,
    valid_calls,
    translatable,
    exact_arguments,
    within_length,
    grounded,
    grounded_actions,
    replay_verified,
    not_leaked,
    trainable,
)
"""The filters that need a single conversation only, in order; `format.duplicates` come after
them."""


def rule_of(keep: Predicate) -> str:
    """The condition that kept conversations meet."""
    return " ".join((keep.__doc__ or "").split())
