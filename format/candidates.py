"""A run's conversations as candidates for rows, with facts about the bug and the whole rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import pyarrow as pa

from collect.agents.config import Variant
from collect.questions.grounding import Grounding, fix_touched_location, ground
from collect.replay import verified_conversations
from collect.store.records import Conversation, Role
from collect.store.run_store import RunStore, conversations_of
from format.config import FormatConfig, Vocabulary
from format.leaks import Leak, leaks_of, reads_git_history
from format.outcomes import Outcome
from format.rows import exact_messages
from format.translation import Untranslatable, to_debug2fix
from format.turn_quality import TurnQuality, turn_qualities

ROWS_PER_CHUNK = 256
CHANGES = ("edit_file", "bash")
"""The main agent's tools that may change files; neither does while the edit gate is closed."""


@dataclass(frozen=True)
class Candidate:
    """A conversation and its rollout's outcome."""

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
        """The claims of its answer, and the evidence for each."""
        return ground(self.said, self.outcome.tests)

    @cached_property
    def turn_quality(self) -> tuple[TurnQuality, ...]:
        return turn_qualities(self.said)

    @cached_property
    def leaks(self) -> tuple[Leak, ...]:
        """What it may know that a working agent could not."""
        told, lines = self.outcome, self.outcome.gold_lines
        return leaks_of(self.said, told.teacher, self.grounding, lines, self.git_history)

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


@dataclass(frozen=True)
class Chunk:
    """All stored conversations of some rollouts, with facts about these.

    Can be sent to another process.
    """

    config: FormatConfig
    table: pa.Table
    outcomes: Mapping[str, Outcome]
    """By rollout. A rollout without an outcome is still running; its conversations don't count."""
    verified: Mapping[str, bool]
    """Whether the replay matched, by conversation; only for replayed ones."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default pickle of a table slice would include the whole table.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table)
        stored = sink.getvalue().to_pybytes()
        return _unpacked, (self.config, stored, self.outcomes, self.verified)

    def rollouts(self) -> Iterator[Sequence[Candidate]]:
        stored = conversations_of(self.table)
        for rollout_id, held in groupby(stored, lambda each: each.rollout_id):
            outcome = self.outcomes.get(rollout_id)
            if outcome is None:
                continue
            conversations = list(held)
            git_history = any(map(reads_git_history, conversations))
            early = asked_before_changes(conversations)
            yield [
                Candidate(
                    each,
                    outcome,
                    self.config,
                    git_history,
                    each.conversation_id in early,
                    self.verified.get(each.conversation_id),
                )
                for each in conversations
            ]


def _unpacked(config: FormatConfig, stored: bytes, *facts: Any) -> Chunk:
    with pa.ipc.open_stream(stored) as reader:
        return Chunk(config, reader.read_all(), *facts)


class Candidates:
    """Can be iterated repeatedly; only one chunk is in memory at a time."""

    def __init__(
        self, config: FormatConfig, store: RunStore, outcomes: Mapping[str, Outcome]
    ) -> None:
        """`outcomes` are by rollout id."""
        self._config, self._store, self._outcomes = config, store, outcomes
        self._verified = verified_conversations(store.folder)

    def __iter__(self) -> Iterator[Candidate]:
        for rollout in self.rollouts():
            yield from rollout

    def rollouts(self) -> Iterator[Sequence[Candidate]]:
        for chunk in self.chunks():
            yield from chunk.rollouts()

    def chunks(self) -> Iterator[Chunk]:
        """All rollouts in chunks, not yet parsed."""
        for table in self._store.conversation_tables(ROWS_PER_CHUNK):
            rollouts = set(table["rollout_id"].to_pylist()) & self._outcomes.keys()
            held = table["conversation_id"].to_pylist() if self._verified else ()
            yield Chunk(
                self._config,
                table,
                {name: self._outcomes[name] for name in rollouts},
                {name: self._verified[name] for name in held if name in self._verified},
            )
