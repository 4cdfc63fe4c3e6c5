"""What a conversation observed, and where two of them differ.

An observation is what a call was answered with, normalised (`collect.normalising`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from collect.normalising import normalised
from collect.records import MessageRow

SHOWN = 400
"""Characters of a line that a difference shows."""


@dataclass(frozen=True)
class Difference:
    """The first thing that two conversations of the same calls saw differently."""

    message_index: int
    """In the recorded conversation."""
    recorded: str
    """The first line that differs, without what passes; empty where there is none."""
    replayed: str


def first_difference(
    recorded: Sequence[MessageRow],
    replayed: Sequence[MessageRow],
    passed_over: Collection[str] = (),
) -> Difference | None:
    """Compare observation by observation; those that answer `passed_over`, call ids, are not."""
    pairs = zip_longest(_observations(recorded, passed_over), _observations(replayed, passed_over))
    for ours, theirs in pairs:
        if ours is None or theirs is None:
            index = ours[0] if ours else len(recorded)
            return Difference(index, _first_line(ours), _first_line(theirs))
        if ours[1:] != theirs[1:]:
            return Difference(ours[0], *_unlike_lines(ours, theirs))
    return None


Observation = tuple[int, str | None, str]
"""Index of the message, what became of the call, and the normalised text."""


def _observations(
    rows: Sequence[MessageRow], passed_over: Collection[str]
) -> Iterator[Observation]:
    for index, row in enumerate(rows):
        answers_call = row.message.role == "tool" or row.tool_outcome is not None
        if answers_call and row.message.tool_call_id not in passed_over:
            outcome = row.tool_outcome.value if row.tool_outcome else None
            yield index, outcome, normalised(row.message.content)


def _unlike_lines(ours: Observation, theirs: Observation) -> tuple[str, str]:
    lines = zip_longest(ours[2].splitlines(), theirs[2].splitlines(), fillvalue="")
    for left, right in lines:
        if left != right:
            return left[:SHOWN], right[:SHOWN]
    return f"({ours[1]})", f"({theirs[1]})"


def _first_line(observation: Observation | None) -> str:
    return observation[2].partition("\n")[0][:SHOWN] if observation else ""
