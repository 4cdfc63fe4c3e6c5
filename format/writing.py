"""Write the rows that the format stage keeps: a dataset, and additional formats of it."""

from __future__ import annotations

import shutil
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from format.candidates import Candidate
from format.columns import Column, Kind
from format.config import FormatConfig
from format.dataset import SplitWriter, read_rows, split_file
from format.mixture import Chances, Facets, MixtureConfig, MixtureShare, mixed, shares
from format.report import SplitStatistics
from format.rows import COLUMNS, is_assistant
from format.sources import Candidates
from format.splits import TEST, TRAIN, Splits
from format.trajectories import FOLDER as ATIF
from format.trajectories import TrajectoryWriter, trajectories

# Rows of single steps, in TRL's prompt-completion format: one row per trained turn, with the
# context that the model saw and its reply.


FOLDER = "steps"
KEYS = (
    "conversation_id",
    "rollout_id",
    "role",
    "benchmark",
    "instance_id",
    "repository",
    "language",
    "system",
    "variant",
    "teacher",
    "model",
    "attempt",
    "category",
    "difficulty",
)
"""The columns of a conversation's row that its steps also have."""
STEP_COLUMNS = {
    "prompt": Column("all messages before the turn, as the model was sent them", Kind.OBJECTS),
    "completion": Column("the turn: one message of the assistant", Kind.OBJECTS),
    "tools": COLUMNS["tools"],
    "step": Column("which of the conversation's assistant turns it is, from 0", Kind.INTEGER),
    "steps": Column("how many assistant turns the conversation has", Kind.INTEGER),
    "turn_quality": Column("the turn's label: timeout, tool_error, recovery, ok ..."),
    **{name: COLUMNS[name] for name in KEYS},
}


def step_rows(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The trained steps of a conversation's row; messages are JSON texts."""
    messages = row["messages"]
    turns = [i for i, message in enumerate(messages) if is_assistant(message)]
    facts = {name: row[name] for name in ("tools", *KEYS)}
    for step, (index, trained) in enumerate(zip(turns, row["trained_turns"], strict=True)):
        if trained:
            yield facts | {
                "prompt": messages[:index],
                "completion": [messages[index]],
                "step": step,
                "steps": len(turns),
                "turn_quality": row["turn_quality"][step],
            }


# Rows that passed the filters, in a temporary file until the mixture and the splits are known. Only
# their facets, which are small, are in memory.


NAME = "kept"


class StagedRows:
    """Rows in input order; each is read once more after all were added."""

    def __init__(self, folder: Path, mixture: MixtureConfig) -> None:
        """Store the rows in a subfolder of this folder, until `remove`."""
        self._folder, self._mixture = folder / NAME, mixture
        self._writer = SplitWriter(self._folder, NAME)
        self._chances = Chances(mixture.seed)
        self._known: dict[Facets, Facets] = {}
        self._characters = array("L")
        self.facets: list[Facets] = []
        """The facets of each row."""

    def __len__(self) -> int:
        return len(self.facets)

    def add(self, row: dict[str, Any], characters: int) -> None:
        """Add a row; `characters` counts its messages and tools."""
        facets = Facets.of(row)
        self.facets.append(self._known.setdefault(facets, facets))
        self._characters.append(characters)
        self._chances.add(row["conversation_id"])
        self._writer.add(row)

    def mixed(self) -> bytearray:
        """For each row, 1 if the mixture keeps it, else 0."""
        return mixed(self._mixture, self.facets, self._chances)

    def shares(self, kept: bytearray) -> list[MixtureShare]:
        """What the mixture keeps."""
        return shares(self._mixture, self.facets, kept)

    def rows(self) -> Iterator[tuple[dict[str, Any], int]]:
        """The rows, with JSON columns as texts, and the number of characters of each."""
        self._writer.close()
        stored = read_rows(split_file(self._folder, NAME), decoded=False)
        yield from zip(stored, self._characters, strict=True)

    def remove(self) -> None:
        """Remove the temporary file."""
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class Written:
    """The contents of the folder."""

    statistics: dict[str, SplitStatistics]
    """Statistics of the rows, by split."""
    outputs: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of rows of each additional format, by folder and split."""
    conversations: dict[str, str] = field(default_factory=dict)
    """The split of each conversation, if an additional format needs it."""


def write_rows(
    config: FormatConfig, kept: StagedRows, mixed: bytearray, splits: Splits, folder: Path
) -> Written:
    """Write the rows of the mixture, and their steps if the config requests them.

    Raises ConfigError if no rows are left to train on.
    """
    sides = [
        splits.of(facets.repository) if stays else None
        for facets, stays in zip(kept.facets, mixed, strict=True)
    ]
    if TRAIN not in sides:
        raise ConfigError(
            f"format.mixture leaves none of the {len(kept)} rows to train on; give more weight to "
            "what they are of, or higher caps"
        )
    names = [name for name in (TRAIN, TEST) if name in sides]
    written = Written({name: SplitStatistics() for name in names})
    with ExitStack() as stack:
        rows = {name: stack.enter_context(closing(SplitWriter(folder, name))) for name in names}
        steps = {
            name: stack.enter_context(closing(SplitWriter(folder / FOLDER, name, STEP_COLUMNS)))
            for name in (names if config.steps else ())
        }
        counts: Counter[str] = Counter()
        for (row, characters), split in zip(kept.rows(), sides, strict=True):
            if split is None:
                continue
            rows[split].add(row)
            written.statistics[split].add(row, characters)
            if config.atif:
                written.conversations[row["conversation_id"]] = split
            for step in step_rows(row) if config.steps else ():
                steps[split].add(step)
                counts[split] += 1
    if config.steps:
        written.outputs[FOLDER] = dict(counts)
    return written


def write_trajectories(source: Candidates, written: Written, folder: Path) -> None:
    """Write the rollouts with at least one row, in ATIF."""
    with closing(TrajectoryWriter(folder)) as writer:
        for rollout in source.rollouts():
            split = next(_splits_of(rollout, written.conversations), None)
            if split is not None:
                held = [each.conversation for each in rollout]
                writer.add(split, trajectories(held, rollout[0].outcome))
    written.outputs[ATIF] = dict(writer.written)


def _splits_of(rollout: Sequence[Candidate], splits: Mapping[str, str]) -> Iterator[str]:
    ids = (each.conversation.conversation_id for each in rollout)
    return (splits[each] for each in ids if each in splits)
