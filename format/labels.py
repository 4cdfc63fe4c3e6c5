"""The columns that say how good a row is, and where it stands."""

from __future__ import annotations

from typing import Any

from format.candidates import Candidate
from format.config import FormatConfig
from format.turn_quality import trained_turns


def label_columns(candidate: Candidate, config: FormatConfig) -> dict[str, Any]:
    """The columns of a candidate that the filters let through, by name."""
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
