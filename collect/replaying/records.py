"""What replaying a conversation came to, and where it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import pyarrow as pa

from collect.schema import INT, METADATA, TEXT
from collect.table import Table

FOLDER = "replay"


class ReplayStatus(StrEnum):
    """What a replay says about a recorded conversation."""

    VERIFIED = "verified"
    """The same calls showed the same."""
    DIFFERENT = "different"
    """Two replays showed the same as each other, and other than was recorded."""
    NONDETERMINISTIC = "nondeterministic"
    """Two replays showed different things: nothing is known of the record."""


@dataclass(frozen=True)
class ReplayRow:
    """One conversation that was replayed."""

    rollout_id: str
    conversation_id: str
    instance_id: str
    status: ReplayStatus
    message_index: int | None
    """Of the first observation that differs, in the record; None where all are the same."""
    recorded: str
    """The first line that differs, normalised; of a nondeterministic one, in the first replay."""
    replayed: str


REPLAYS = pa.schema(
    {
        "rollout_id": TEXT,
        "conversation_id": TEXT,
        "instance_id": TEXT,
        "status": TEXT,
        "message_index": INT,
        "recorded": TEXT,
        "replayed": TEXT,
    },
    metadata=METADATA,
)


class ReplayTable:
    """The rows of a folder of rollouts, in `replay/` beside them: resumable, and kept whole."""

    def __init__(self, folder: Path) -> None:
        self._table = Table(folder / FOLDER, REPLAYS)

    def open(self) -> None:
        """Make the folder, and mend what an interrupted writer left."""
        self._table.mend()

    def add(self, rollout_id: str, rows: list[ReplayRow]) -> None:
        """Keep the rows of one rollout. Thread-safe for different ones."""
        table = self._table.arrow([asdict(row) for row in rows])
        self._table.write(rollout_id, table)

    def compact(self) -> None:
        """Merge the part files into one."""
        self._table.compact()

    def rollout_ids(self) -> set[str]:
        """Of those that were replayed."""
        return set(self._table.ids())

    def rows(self) -> Iterator[ReplayRow]:
        """All, in no particular order."""
        for row in self._table.rows():
            yield ReplayRow(**row | {"status": ReplayStatus(row["status"])})


def verified_conversations(folder: Path) -> dict[str, bool]:
    """Whether each replayed conversation of a folder of rollouts was verified, by its id."""
    rows = ReplayTable(folder).rows()
    return {row.conversation_id: row.status is ReplayStatus.VERIFIED for row in rows}
