"""Select which rows to write, by weights and caps on their origin.

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

RULE = "Drawn at random, by its weight and within the caps (`mixture`)."
NONE = "none"
"""Stands for an unknown value."""
HALF = 1 << 32


class Facet(StrEnum):
    """A column whose values can have weights and caps."""

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
Cap = Annotated[int, Field(ge=0)]


class MixtureConfig(StrictRecord):
    """Selects among the rows that passed the filters; `none` means null."""

    weights: Mapping[Facet, Mapping[str, Weight]] = {}
    """Probability to keep a row, by column and value: `{category: {code_reachability: 0.25}}`.
    Weights of several columns are multiplied; 1 for values not named."""
    caps: Mapping[Facet, Cap | Mapping[str, Cap]] = {}
    """Most rows of a value: `{difficulty: {easy: 1000}}`, or of each value: `{category:
    500}`."""
    max_rows: int | None = Field(default=None, ge=1)
    """Maximum rows in total."""
    seed: int = 0
    """Seed for selecting rows."""

    @property
    def facets(self) -> Sequence[Facet]:
        """The columns with settings, in the order of `Facet`."""
        return [facet for facet in FACETS if facet in self.weights or facet in self.caps]

    def weight(self, facet: Facet, value: str) -> float:
        return self.weights.get(facet, {}).get(value, 1.0)

    def cap(self, facet: Facet, value: str) -> int | None:
        """Maximum rows of this value; None: no limit."""
        caps = self.caps.get(facet, {})
        return caps.get(value) if isinstance(caps, Mapping) else caps


class Facets(NamedTuple):
    """A row's values that the mixture and the splits use; many rows share them."""

    repository: str
    values: tuple[str, ...]
    """In the order of `Facet`."""

    @classmethod
    def of(cls, row: Mapping[str, object]) -> Facets:
        values = (row[facet] for facet in FACETS)
        return cls(str(row["repository"]), tuple(NONE if v is None else str(v) for v in values))

    def value(self, facet: Facet) -> str:
        return self.values[FACETS.index(facet)]


def drawn(seed: int, conversation_id: str) -> int:
    key = str(seed).encode()
    digest = hashlib.blake2b(conversation_id.encode(), key=key, digest_size=8).digest()
    return int.from_bytes(digest, "big")


def mixed(config: MixtureConfig, rows: Sequence[Facets], numbers: Sequence[int]) -> bytearray:
    """For each row, 1 if it is kept, else 0. `numbers` are those drawn for the rows: the upper half
    tells the order, the lower half whether a row's weight lets it stay."""
    kept = bytearray(len(rows))
    counts: Counter[tuple[str, str]] = Counter()
    for index in sorted(range(len(rows)), key=lambda index: numbers[index] // HALF):
        values = [(facet, rows[index].value(facet)) for facet in config.facets]
        weight = math.prod(config.weight(facet, value) for facet, value in values)
        if numbers[index] % HALF >= weight * HALF:
            continue
        limits = {(str(facet), value): config.cap(facet, value) for facet, value in values}
        limits["", ""] = config.max_rows
        if all(limit is None or counts[key] < limit for key, limit in limits.items()):
            counts.update(limits.keys())
            kept[index] = 1
    return kept
