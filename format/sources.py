"""A run's conversations as candidates, with facts about the bug and the whole rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from collect.benchmarks.opening import open_benchmark, select_instances
from collect.replay import verified_conversations
from collect.store.records import Conversation
from collect.store.run_store import RunStore, conversations_of
from format.attempts import asked_before_changes
from format.candidates import Background, Candidate, Outcome
from format.config import FormatConfig
from format.leaks import gold_lines, reads_git_history

ROWS_PER_CHUNK = 256

GoldLines = Mapping[str, frozenset[str]]
"""The distinctive lines that each gold patch adds, by the bug's hash."""


@dataclass(frozen=True)
class Chunk:
    """All stored conversations of some rollouts, with facts about these.

    Can be sent to another process.
    """

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
        return _unpacked, (sink.getvalue().to_pybytes(), self.outcomes, self.verified)

    def rollouts(self, config: FormatConfig, gold: GoldLines) -> Iterator[Sequence[Candidate]]:
        """The conversations of each rollout."""
        for rollout_id, held in groupby(conversations_of(self.table), _rollout_id):
            outcome = self.outcomes.get(rollout_id)
            if outcome is None:
                continue
            conversations = list(held)
            lines = gold.get(outcome.instance_hash)
            git = any(map(reads_git_history, conversations))
            background = Background(lines, git, asked_before_changes(conversations))
            yield [
                Candidate(
                    each,
                    outcome,
                    config.vocabulary,
                    background,
                    self.verified.get(each.conversation_id),
                    config.reasoning,
                )
                for each in conversations
            ]


class Candidates:
    """Can be iterated repeatedly; only one chunk is in memory at a time."""

    def __init__(
        self, config: FormatConfig, store: RunStore, outcomes: Mapping[str, Outcome]
    ) -> None:
        """`outcomes` are by rollout id. Raises ConfigError for a benchmark whose gold patches can't
        be read."""
        self._config, self._store, self._outcomes = config, store, outcomes
        self.gold = _gold(config)
        self._verified = verified_conversations(store.folder)

    def __iter__(self) -> Iterator[Candidate]:
        for rollout in self.rollouts():
            yield from rollout

    def rollouts(self) -> Iterator[Sequence[Candidate]]:
        """The conversations of each rollout."""
        for chunk in self.chunks():
            yield from chunk.rollouts(self._config, self.gold)

    def chunks(self) -> Iterator[Chunk]:
        """All rollouts in chunks, not yet parsed."""
        for table in self._store.conversation_tables(ROWS_PER_CHUNK):
            rollouts = set(table["rollout_id"].to_pylist()) & self._outcomes.keys()
            held = table["conversation_id"].to_pylist() if self._verified else ()
            yield Chunk(
                table,
                {name: self._outcomes[name] for name in rollouts},
                {name: self._verified[name] for name in held if name in self._verified},
            )


def _unpacked(
    stored: bytes, outcomes: Mapping[str, Outcome], verified: Mapping[str, bool]
) -> Chunk:
    with pa.ipc.open_stream(stored) as reader:
        return Chunk(reader.read_all(), outcomes, verified)


def _gold(config: FormatConfig) -> GoldLines:
    return {
        bug.hash: gold_lines(bug.gold_patch)
        for each in config.gold_benchmarks
        for bug in select_instances(each, open_benchmark(each))
        if bug.gold_patch
    }


def _rollout_id(conversation: Conversation) -> str:
    return conversation.rollout_id
