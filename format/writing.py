"""What the format stage writes of the rows that it keeps: a dataset, and further forms of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from collect.errors import ConfigError
from format.candidates import Candidate
from format.config import FormatConfig
from format.dataset import SplitWriter
from format.kept import KeptRows
from format.report import SplitStatistics
from format.sources import Candidates
from format.splits import TEST, TRAIN, Splits
from format.steps import FOLDER as STEPS
from format.steps import STEP_COLUMNS, step_rows
from format.trajectories import FOLDER as ATIF
from format.trajectories import TrajectoryWriter, trajectories


@dataclass
class Written:
    """What lies in the folder."""

    statistics: dict[str, SplitStatistics]
    """Of the rows, by split."""
    outputs: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many rows each further form has, by its folder and split."""
    conversations: dict[str, str] = field(default_factory=dict)
    """The split of each conversation, where a further form needs it."""


def write_rows(
    config: FormatConfig, kept: KeptRows, mixed: bytearray, splits: Splits, folder: Path
) -> Written:
    """Write the rows that are in the mixture, and their steps where the config wants them.

    Raises ConfigError where none is left to train on.
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
            name: stack.enter_context(closing(SplitWriter(folder / STEPS, name, STEP_COLUMNS)))
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
        written.outputs[STEPS] = dict(counts)
    return written


def write_trajectories(source: Candidates, written: Written, folder: Path) -> None:
    """Write the rollouts of which there is a row, in ATIF."""
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
