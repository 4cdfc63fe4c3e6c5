"""How much of what the rows are made of: weights and caps by where they are from.

What stays is decided by chance, by the seed and each conversation's id: it is the same on every
machine and in any order of the rows, and a larger `max_rows` keeps all that a smaller one has.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import compress
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

RULE = "Drawn at random, by its weight and within the caps (`mixture`)."
NONE = "none"
"""Stands for a value that is not known."""
HALF = 1 << 32


class Facet(StrEnum):
    """A column by whose values rows are weighed."""

    BENCHMARK = "benchmark"
    LANGUAGE = "language"
    SYSTEM = "system"
    ROLE = "role"
    TEACHER = "teacher"
    MODEL = "model"
    CATEGORY = "category"
    DIFFICULTY = "difficulty"


Weight = Annotated[float, Field(ge=0, le=1)]
Cap = Annotated[int, Field(ge=0)]


class MixtureConfig(BaseModel):
    """Which of the rows that the filters leave are written; `none` means null."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: Mapping[Facet, Mapping[str, Weight]] = {}
    """The chance to stay, by column and value: `{category: {code_reachability: 0.25}}`. Of several
    columns they are multiplied; 1 for what is not named."""
    caps: Mapping[Facet, Cap | Mapping[str, Cap]] = {}
    """Most rows of a value: `{difficulty: {easy: 1000}}`, or of each: `{category: 500}`."""
    max_rows: int | None = Field(default=None, ge=1)
    """Of all together."""
    seed: int = 0
    """Decides which rows stay."""

    @property
    def facets(self) -> Sequence[Facet]:
        """The columns that are named, in the order of `Facet`."""
        return [facet for facet in Facet if facet in self.weights or facet in self.caps]

    def weight(self, facet: Facet, value: str) -> float:
        """The chance to stay, for this value."""
        return self.weights.get(facet, {}).get(value, 1.0)

    def cap(self, facet: Facet, value: str) -> int | None:
        """Most rows of this value; None: any number."""
        caps = self.caps.get(facet, {})
        return caps.get(value) if isinstance(caps, Mapping) else caps

    def named(self, facet: Facet) -> set[str]:
        """The column's values that have a weight or a cap of their own."""
        caps = self.caps.get(facet, {})
        return {*self.weights.get(facet, {}), *(caps if isinstance(caps, Mapping) else ())}


class MixtureShare(BaseModel):
    """What the mixture has left of one value."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str
    value: str
    weight: float
    cap: int | None
    before: int
    after: int


class Facets(NamedTuple):
    """What the mixture and the splits go by, of many rows the same."""

    repository: str
    values: tuple[str, ...]
    """In the order of `Facet`."""

    @classmethod
    def of(cls, row: Mapping[str, object]) -> Facets:
        """Those of a row."""
        values = (row[facet] for facet in Facet)
        return cls(str(row["repository"]), tuple(NONE if v is None else str(v) for v in values))

    def value(self, facet: Facet) -> str:
        """A column's value."""
        return self.values[tuple(Facet).index(facet)]


class Chances:
    """A number by chance for each row, from its conversation's id."""

    def __init__(self, seed: int) -> None:
        self._seed = str(seed).encode()
        self._numbers = array("Q")

    def add(self, conversation_id: str) -> None:
        """Draw one more."""
        digest = hashlib.blake2b(conversation_id.encode(), key=self._seed, digest_size=8).digest()
        self._numbers.append(int.from_bytes(digest, "big"))

    def stays(self, index: int, weight: float) -> bool:
        """Whether a row with this chance stays."""
        return self._numbers[index] % HALF < weight * HALF

    def order(self) -> Sequence[int]:
        """The rows by chance: another than the one by which they stay."""
        return sorted(range(len(self._numbers)), key=lambda index: self._numbers[index] // HALF)


def mixed(config: MixtureConfig, rows: Sequence[Facets], chances: Chances) -> bytearray:
    """For each row 1 where it stays, else 0."""
    kept = bytearray(len(rows))
    counts: Counter[tuple[str, str]] = Counter()
    for index in chances.order():
        facets = rows[index]
        weights = (config.weight(facet, facets.value(facet)) for facet in config.facets)
        if not chances.stays(index, math.prod(weights)):
            continue
        limits = list(_limits(config, facets))
        if all(counts[key] < limit for key, limit in limits):
            counts.update(key for key, _ in limits)
            kept[index] = 1
    return kept


def _limits(config: MixtureConfig, facets: Facets) -> Iterator[tuple[tuple[str, str], int]]:
    """What has to be counted of such a row, and how many there may be."""
    for facet in config.facets:
        value = facets.value(facet)
        cap = config.cap(facet, value)
        if cap is not None:
            yield (facet, value), cap
    if config.max_rows is not None:
        yield ("", ""), config.max_rows


def shares(config: MixtureConfig, rows: Sequence[Facets], kept: bytearray) -> list[MixtureShare]:
    """What is left of each value of the columns that the config names."""
    found = []
    for facet in config.facets:
        before = Counter(each.value(facet) for each in rows)
        after = Counter(each.value(facet) for each in compress(rows, kept))
        for value in sorted({*before, *config.named(facet)}):
            weight, cap = config.weight(facet, value), config.cap(facet, value)
            found.append(
                MixtureShare(
                    column=facet,
                    value=value,
                    weight=weight,
                    cap=cap,
                    before=before[value],
                    after=after[value],
                )
            )
    return found
