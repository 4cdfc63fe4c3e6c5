"""The order in which rows are trained."""

from __future__ import annotations

from typing import Any

from collect.errors import ConfigError
from train.turns import assistant_indices

LEVELS = {"easy": 0.0, "medium": 1.0, "hard": 2.0}
UNKNOWN = LEVELS["medium"]
"""Where other rows have a level."""


def difficulty(row: dict[str, Any]) -> tuple[float, int]:
    """How hard a row is: its level, which counts first, and its number of assistant turns.

    Raises ConfigError for a level of another name.
    """
    level = row.get("difficulty")
    turns = len(assistant_indices(row))
    if level is None:
        return UNKNOWN, turns
    if level not in LEVELS:
        raise ConfigError(
            f"conversation {row.get('conversation_id')} has the difficulty {level!r}; "
            f"train.curriculum knows {', '.join(LEVELS)}"
        )
    return LEVELS[level], turns


def from_easy_to_hard(rows: Any) -> Any:
    """A dataset's rows by their columns `level` and `turns`, then by their length in tokens."""
    import numpy
    from pyarrow import compute

    table = rows.data
    tokens = compute.list_value_length(table["input_ids"]).to_numpy()
    keys = (tokens, table["turns"].to_numpy(), table["level"].to_numpy())
    return rows.select(numpy.lexsort(keys))
