"""The facts about each rollout of a run, its conversations as candidates for rows with these facts,
and the filters that decide which become rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from sys import intern

import pyarrow as pa

from collect.agents.systems import SYSTEMS, names_of
from collect.benchmarks.held_out import HeldOut
from collect.code.patches import ChangedRange, TestFiles
from collect.errors import TRIED_AGAIN, FailureKind
from collect.question_records import Difficulty, Question
from collect.questions.asking import VARIANT, rollouts_of
from collect.questions.building import DEFAULT_NAME
from collect.questions.claims import has_gap, shows_nothing
from collect.questions.grounding import (
    ClaimKind,
    Grounding,
    Support,
    changed_by,
    fix_touched_location,
    ground,
)
from collect.questions.observations import sets_unnamed_breakpoint
from collect.replay import verified_conversations
from collect.store.files import read_lines
from collect.store.records import (
    ORACLE_TEACHER,
    Conversation,
    Role,
    Rollout,
    StopReason,
    ToolOutcome,
)
from collect.store.run_store import RunStore
from format.carried_out import with_read_arguments
from format.config import CallsPerMessage, FormatConfig, Leak, Vocabulary
from format.dataset import exact_messages
from format.single_calls import with_single_calls
from format.translation import PROPOSE, Untranslatable, recorded_start, to_debug2fix
from format.turn_quality import TurnQuality, takeover, trained_turns, turn_qualities
from sandbox.debugger import INSPECTIONS, Action

CHANGES = ("edit_file", "bash")
"""The main agent's tools that may change files; neither does while the edit gate is closed."""
WITHOUT_SUBAGENT: dict[str, str] = {
    system.name: system.without_subagent
    for system in SYSTEMS.values()
    if system.without_subagent is not None
}
"""Each variant's counterpart without the debugging agent."""
ASK_FIRST = names_of(lambda system: system.asks_first)
"""The variants that can change no file before they ask their subagent."""
DEEP = 4
"""Number of the program's frames below a place from which on it is deep."""


class DifficultyLevel(StrEnum):
    """How far a debugger must go for the answer to a runtime question."""

    EASY = "easy"
    """The first visit of a line, less than `DEEP` frames deep."""
    MEDIUM = "medium"
    """A later visit, or at least `DEEP` frames deep."""
    HARD = "hard"
    """Both of these."""


def level_of(difficulty: Difficulty) -> DifficultyLevel:
    points = (difficulty.hit > 1) + (difficulty.depth >= DEEP)
    return tuple(DifficultyLevel)[points]


_test_files = lru_cache(10_000)(TestFiles)
"""The same for all rollouts on a bug."""


class Pairs:
    """Results of the rollouts without a subagent, to be compared with those that have one.

    Rollouts that failed for other reasons than the model don't count.
    """

    def __init__(self, rollouts: Iterable[Rollout] = ()) -> None:
        self._resolved: dict[tuple[object, ...], bool] = {}
        for rollout in rollouts:
            self.add(rollout)

    def add(self, rollout: Rollout) -> None:
        alone = rollout.variant in WITHOUT_SUBAGENT.values()
        if alone and rollout.failure_kind not in TRIED_AGAIN:
            self._resolved[self._key(rollout, rollout.variant)] = rollout.resolved

    def debug_helped(self, rollout: Rollout) -> int | None:
        """1 if only the rollout with the subagent fixed the bug, -1 if only its counterpart did, 0
        if both or neither; None if there is no counterpart."""
        other = WITHOUT_SUBAGENT.get(rollout.variant)
        if other is None or rollout.failure_kind in TRIED_AGAIN:
            return None
        alone = self._resolved.get(self._key(rollout, other))
        return None if alone is None else int(rollout.resolved) - int(alone)

    def _key(self, rollout: Rollout, variant: str) -> tuple[object, ...]:
        bug = (rollout.benchmark, rollout.instance_id, rollout.instance_hash)
        return (*bug, rollout.attempt, rollout.main_model, variant)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The facts about one rollout. A whole run's outcomes are in memory at once."""

    resolved: bool
    failure_kind: FailureKind | None
    language: str
    teacher: str
    system: str
    patch_attempts: int
    instance_hash: str
    run: str = ""
    tests: TestFiles = field(default_factory=TestFiles)
    changed: tuple[ChangedRange, ...] = ()
    debug_helped: int | None = None
    category: str | None = None
    """Category of the question, or else of the bug."""
    difficulty: DifficultyLevel | None = None
    code_version: str = ""
    question_id: str | None = None
    tampered: bool = False
    """Whether its code interfered with the test run."""
    patch_marks: tuple[str, ...] = ()
    held_out: bool = False
    """Whether its bug is kept for measuring alone."""

    @classmethod
    def of(cls, rollout: Rollout) -> Outcome:
        return cls(
            rollout.resolved,
            rollout.failure_kind,
            intern(rollout.language),
            intern(rollout.teacher),
            intern(rollout.system),
            rollout.patch_attempts,
            intern(rollout.instance_hash),
            intern(rollout.run),
            _test_files(tuple(test.name for test in rollout.tests)),
            changed_by(rollout.patch),
            category=intern(rollout.category) if rollout.category is not None else None,
            code_version=intern(rollout.code_version),
            tampered=rollout.tampered is not None,
            patch_marks=rollout.patch_marks,
        )


def read_outcomes(config: FormatConfig, store: RunStore, held_out: HeldOut) -> dict[str, Outcome]:
    """The outcome of each of the run's rollouts, by id. Raises ConfigError for a file of questions
    that is missing or broken."""
    pairs, asked = Pairs(), set[tuple[str, int]]()
    for rollout in store.read_rollouts():
        pairs.add(rollout)
        if rollout.variant == VARIANT:
            asked.add((rollout.sub_model, rollout.attempt))
    own = store.folder / DEFAULT_NAME
    files = [Path(each) for each in config.questions] or ([own] if own.is_file() else [])
    how = "name the files in format.questions that the run's questions are from"
    answered: dict[str, tuple[str, DifficultyLevel]] = {}
    for path in files if asked else ():
        for rollout_id, question in rollouts_of(read_lines(path, Question, how), asked):
            answered[rollout_id] = question.id, level_of(question.difficulty)
    return {
        row.rollout_id: replace(
            Outcome.of(row),
            debug_helped=pairs.debug_helped(row),
            question_id=answered[row.rollout_id][0] if row.rollout_id in answered else None,
            difficulty=answered[row.rollout_id][1] if row.rollout_id in answered else None,
            held_out=held_out.has(
                row.benchmark, row.instance_id, row.instance_hash, row.repository
            ),
        )
        for row in store.read_rollouts()
    }


@dataclass(frozen=True)
class Candidate:
    conversation: Conversation
    outcome: Outcome
    config: FormatConfig
    asked_early: bool
    """Whether it started before any file could have been changed."""
    replay_verified: bool | None
    """Whether a replay of its calls had the recorded results; None if there was no replay."""
    read_arguments: bool = False
    """Whether arguments of its calls broke a tool's schema, and were read by it."""

    @property
    def inspects(self) -> bool:
        return self.conversation.role is Role.INSPECTOR

    @cached_property
    def as_row(self) -> Conversation | None:
        """The conversation as its row has it; None if the row's vocabulary can't express it."""
        said = self.conversation
        if self.inspects and self.config.vocabulary is Vocabulary.DEBUG2FIX:
            try:
                said = to_debug2fix(said)
            except Untranslatable:
                return None
        one = self.config.calls_per_message is CallsPerMessage.ONE
        return with_single_calls(said) if one else said

    @property
    def said(self) -> Conversation:
        """The conversation as its row has it, or as recorded if a row can't express it."""
        return self.as_row or self.conversation

    @cached_property
    def texts(self) -> list[str] | None:
        """The messages of its row as JSON texts; None if these would not be exact."""
        row = self.as_row
        return None if row is None else exact_messages(row, self.config.reasoning, self.trained)

    @cached_property
    def grounding(self) -> Grounding:
        return ground(self.said, self.outcome.tests)

    @cached_property
    def turn_quality(self) -> tuple[TurnQuality, ...]:
        return turn_qualities(self.said)

    @property
    def trained(self) -> tuple[bool, ...]:
        """For each assistant message, in order, whether it is trained on."""
        return trained_turns(self.turn_quality, self.config.masked_turns)

    @cached_property
    def leaks(self) -> tuple[Leak, ...]:
        """What it may know that a working agent could not."""
        from_test = any(
            claim.kind is ClaimKind.VALUE and claim.grounded is Support.OBSERVED and claim.from_test
            for claim in self.grounding.claims
        )
        oracle = (Leak.ORACLE,) if self.said.teacher == ORACLE_TEACHER else ()
        return (*oracle, *((Leak.EXPECTED_VALUE,) if from_test else ()))

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
        gated = parent.variant in ASK_FIRST
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


@dataclass(frozen=True)
class Chunk:
    """The stored conversations of some rollouts, and all that is known of these."""

    config: FormatConfig
    folder: Path
    """Of the run."""
    prefix: str
    """What the ids of the conversations get."""
    stored: pa.Table
    outcomes: Mapping[str, Outcome]
    """Of the rollouts that have one: they are not still running."""
    verified: Mapping[str, bool]
    """For each conversation that was replayed, whether it was the same."""

    def rollouts(self) -> Iterator[Sequence[Candidate]]:
        """The conversations of each rollout that has an outcome."""
        found = RunStore(self.folder).conversations_in(self.stored, self.outcomes)
        for rollout_id, group in groupby(found, lambda each: each.rollout_id):
            conversations = list(group)
            early = asked_before_changes(conversations)
            candidates = []
            for each in conversations:
                conversation = with_read_arguments(each, self.config.read_arguments)
                candidate = Candidate(
                    _prefixed(conversation, self.prefix) if self.prefix else conversation,
                    self.outcomes[rollout_id],
                    self.config,
                    each.conversation_id in early,
                    self.verified.get(each.conversation_id),
                    read_arguments=conversation is not each,
                )
                candidates.append(candidate)
            yield candidates


class Candidates:
    """The conversations of one or several runs. Can be iterated repeatedly; only those of a few
    rollouts are in memory at a time."""

    def __init__(
        self, config: FormatConfig, runs: Sequence[tuple[RunStore, Mapping[str, Outcome]]]
    ) -> None:
        """Each run is with the outcomes of its rollouts; ids of all but the first get a prefix."""
        self._config = config
        self._runs = [
            (store, outcomes, verified_conversations(store.folder)) for store, outcomes in runs
        ]

    def chunks(self) -> Iterator[Chunk]:
        """All conversations, a few rollouts at a time."""
        for number, (store, outcomes, verified) in enumerate(self._runs):
            prefix = f"{store.folder.resolve().name}/" if number else ""
            for stored in store.conversation_tables():
                rollouts = stored["rollout_id"].unique().to_pylist()
                known = {name: outcomes[name] for name in rollouts if name in outcomes}
                ids = stored["conversation_id"].to_pylist()
                replayed = {name: verified[name] for name in ids if name in verified}
                yield Chunk(self._config, store.folder, prefix, stored, known, replayed)

    def rollouts(self) -> Iterator[Sequence[Candidate]]:
        """The conversations of each rollout that has an outcome."""
        for chunk in self.chunks():
            yield from chunk.rollouts()


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
    """The rollout fixed the bug; a Program Inspector's did, by the patch that it planned
    (`only_resolved`)."""
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
    """The conversation ends in a well-formed answer that gives values and evidence where it
    announces them, and no call with it, or in a Program Inspector's repair plan
    (`require_answer`)."""
    conversation = candidate.conversation
    calls = [row.message.tool_calls for row in conversation.messages]
    if not candidate.config.require_answer:
        return True
    if not candidate.inspects:
        answer = conversation.answer
        if answer is None or (calls and calls[-1]):
            return False
        return not has_gap(answer.answer) and not shows_nothing(answer.evidence)
    if not conversation.final_answer.strip():
        return False
    if conversation.stop_reason is StopReason.STEP_LIMIT:
        return True
    proposed = conversation.tools == "[]" or any(c.name == PROPOSE for row in calls for c in row)
    return conversation.stop_reason is StopReason.FINISHED and proposed


def valid_calls(candidate: Candidate) -> bool:
    """At most `max_invalid_tool_calls` tool calls were invalid, those of a student before its
    teacher took over not counted."""
    conversation = candidate.conversation
    rows = conversation.messages[takeover(conversation) :]
    outcomes = [row.tool_outcome for row in rows]
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
    return any(candidate.trained)


def fully_trained(candidate: Candidate) -> bool:
    """Every turn is trained on (`only_fully_trained`)."""
    return all(candidate.trained) or not candidate.config.only_fully_trained


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
    fully_trained,
)
"""The filters that need a single conversation only, in order; `format.duplicates` come after
them."""


def rule_of(keep: Predicate) -> str:
    """The condition that kept conversations meet."""
    return " ".join((keep.__doc__ or "").split())
