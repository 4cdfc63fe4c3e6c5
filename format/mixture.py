"""Select which rows to write, by weights and shares of their origin.

The selection depends only on the seed and each conversation's id: it is the same on every machine
and for any order of rows, and a larger `max_rows` keeps everything that a smaller one does.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

from pydantic import Field

from collect.store.files import StrictRecord

RULE = "Drawn at random, by its weight and within the limits (`mixture`)."
NONE = "none"
"""Stands for an unknown value."""
HALF = 1 << 32


class Facet(StrEnum):
    """A column whose values can have weights and shares."""

    BENCHMARK = "benchmark"
    LANGUAGE = "language"
    SYSTEM = "system"
    ROLE = "role"
    TEACHER = "teacher"
    MODEL = "model"
    CATEGORY = "category"
    DIFFICULTY = "difficulty"


FACETS = tuple(Facet)
Weight = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]


class MixtureConfig(StrictRecord):
    """Selects among the rows that passed the filters; `none` means null."""

    weights: Mapping[Facet, Mapping[str, Weight]] = {}
    """Probability to keep a row, by column and value: `{category: {code_reachability: 0.25}}`.
    Weights of several columns are multiplied; 1 for values not named."""
    max_rows: int | None = Field(default=None, ge=1)
    """Maximum rows in total."""
    best: int | None = Field(default=None, ge=1)
    """Most rows of each model about the same runtime question, or about the same bug for other
    rows. The best stay: those with the fewest turns that are not trained on, then the fewest turns.
    All else comes after that."""
    least_shares: Mapping[Facet, Mapping[str, Share]] = {}
    """Least share of a value among the rows: `{model: {small: 0.75}}` drops other rows, as drawn,
    until three in four are of `small`. After all else."""
    seed: int = 0
    """Seed for selecting rows."""

    def weight(self, row: Facets) -> float:
        """The product of the weights of the row's values."""
        of_values = (each.get(row.value(facet), 1.0) for facet, each in self.weights.items())
        return math.prod(of_values)


class Facets(NamedTuple):
    """A row's values that the mixture and the splits use; many rows share them."""

    repository: str
    example: str
    """The runtime question, or else the bug."""
    values: tuple[str, ...]
    """In the order of `Facet`."""

    @classmethod
    def of(cls, row: Mapping[str, object]) -> Facets:
        values = tuple(NONE if row[facet] is None else str(row[facet]) for facet in FACETS)
        example = f"{row['instance_hash']} {row['question_id'] or ''}"
        return cls(str(row["repository"]), example, values)

    def value(self, facet: Facet) -> str:
        return self.values[FACETS.index(facet)]


def drawn(seed: int, conversation_id: str) -> int:
    key = str(seed).encode()
    digest = hashlib.blake2b(conversation_id.encode(), key=key, digest_size=8).digest()
    return int.from_bytes(digest, "big")


def effort(row: Mapping[str, object]) -> int:
    """A number that is smaller for a better row about the same example."""
    trained = row["trained_turns"]
    assert isinstance(trained, list)
    return trained.count(False) * HALF + len(trained)


def mixed(
    config: MixtureConfig,
    rows: Sequence[Facets],
    numbers: Sequence[int],
    efforts: Sequence[int],
) -> bytearray:
    """For each row, 1 if it is kept, else 0. `numbers` are those drawn for the rows: the upper half
    tells the order, the lower half whether a row's weight lets it stay."""
    kept = bytearray(len(rows))
    order = sorted(range(len(rows)), key=lambda index: numbers[index] // HALF)
    for index in _best(config.best, rows, order, efforts):
        kept[index] = numbers[index] % HALF < config.weight(rows[index]) * HALF
    chosen = [index for index in order if kept[index]]
    for index in chosen[config.max_rows :] if config.max_rows is not None else ():
        kept[index] = 0
    before = -1
    # What makes room for one share may be missing in another.
    while before != (before := sum(kept)):
        for facet, shares in config.least_shares.items():
            for value, share in shares.items():
                stay = [index for index in order if kept[index]]
                others = [index for index in stay if rows[index].value(facet) != value]
                # Without the rounding, 1 - 0.9 would allow less than one row in ten.
                most = round((len(stay) - len(others)) * (1 - share) / share, 6)
                for index in others[int(most) :]:
                    kept[index] = 0
    return kept


def _best(
    most: int | None, rows: Sequence[Facets], order: Sequence[int], efforts: Sequence[int]
) -> list[int]:
    """The rows in their order, of each model at most so many about the same example."""
    if most is None:
        return list(order)
    taken: Counter[tuple[str, str]] = Counter()
    best = set()
    for index in sorted(order, key=lambda index: efforts[index]):
        of = rows[index].example, rows[index].value(Facet.MODEL)
        if taken[of] < most:
            taken[of] += 1
            best.add(index)
    return [index for index in order if index in best]
