"""Judge each conversation of a run by itself, the slow part of `stepinto format`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from collect.benchmarks.held_out import HeldOut
from format.attempts import Attempt, attempt_of
from format.candidates import Candidate
from format.config import FormatConfig
from format.duplicates import Mark
from format.filters import Filter, build_filters, characters
from format.rows import stored_row
from format.sources import Chunk, GoldLines
from format.turn_quality import trained_turns

# The columns on a row's quality and origin.


def label_columns(candidate: Candidate, config: FormatConfig) -> dict[str, Any]:
    """The label columns of a candidate that passed the filters, by name."""
    grounding = candidate.grounding
    return {
        "category": candidate.outcome.category,
        "difficulty": candidate.outcome.difficulty,
        "grounding": grounding.score,
        "claims": grounding.counts,
        "turn_quality": [label.value for label in candidate.turn_quality],
        "trained_turns": list(trained_turns(candidate.turn_quality, config.masked_turns)),
        "leaks": [leak.value for leak in candidate.leaks],
        "fix_touched_location": candidate.fix_touched_location,
        "debug_helped": candidate.outcome.debug_helped,
        "replay_verified": candidate.replay_verified,
    }


@dataclass(frozen=True, slots=True)
class Row:
    """The row of a kept conversation."""

    columns: dict[str, Any]
    """JSON columns are texts."""
    characters: int
    """Characters of its messages and tools."""
    mark: Mark


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result for one conversation, ignoring duplicates."""

    row: Row | None
    """None if it was dropped."""
    dropped_by: str | None
    """The filter's name."""
    attempt: Attempt | None
    """None if it fits in no pair, or the config requests none."""


@dataclass(frozen=True)
class Judge:
    """Can be sent to another process."""

    config: FormatConfig
    held_out: HeldOut
    gold: GoldLines

    def __reduce__(self) -> tuple[Any, ...]:
        # The filters can't be pickled and are created anew.
        return Judge, (self.config, self.held_out, self.gold)

    def judge(self, chunk: Chunk) -> list[Judgement]:
        """Judge all conversations of a chunk, in order."""
        rollouts = chunk.rollouts(self.config, self.gold)
        return [self._judge(each) for rollout in rollouts for each in rollout]

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        return build_filters(self.held_out)

    def _judge(self, candidate: Candidate) -> Judgement:
        config = self.config
        drops = (each.name for each in self.filters if not each.keep(candidate, config))
        dropped_by = next(drops, None)
        pairs = config.preferences is not None
        attempt = attempt_of(candidate, dropped_by, config) if pairs else None
        row = self._row(candidate) if dropped_by is None else None
        return Judgement(row, dropped_by, attempt)

    def _row(self, candidate: Candidate) -> Row:
        outcome, said, texts = candidate.outcome, candidate.said, candidate.texts
        assert texts is not None, "the filters have let it through"
        columns = stored_row(said, texts, outcome.language, outcome.teacher, outcome.system)
        columns |= label_columns(candidate, self.config)
        return Row(columns, characters(said), Mark.of(said, self.config))
