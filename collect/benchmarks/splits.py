"""Split a benchmark by repository, and draw bugs or questions from it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar


class _Named(Protocol):
    @property
    def id(self) -> str: ...


Named = TypeVar("Named", bound=_Named)


def held_out(repositories: Iterable[str], fraction: float, seed: int = 0) -> frozenset[str]:
    """The repositories held out for evaluation.

    Deterministic for a set, fraction and seed, on every machine and in every stage. Of two or more
    repositories at least one is on each side, unless the fraction is 0 or 1.
    """
    ranked = sorted(set(repositories), key=lambda name: _rank(name, seed))
    count = round(fraction * len(ranked))
    if 0 < fraction < 1 and len(ranked) > 1:
        count = min(max(count, 1), len(ranked) - 1)
    return frozenset(ranked[:count])


def drawn(items: Sequence[Named], seed: int | None, limit: int | None) -> Sequence[Named]:
    """At most `limit` items: the first ones, or with a seed, the first ones in a random order, in
    which an item's place beside the others does not depend on them."""
    if seed is not None:
        items = sorted(items, key=lambda item: _rank(item.id, seed))
    return items[:limit]


def _rank(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
