"""Split a benchmark by repository: no repository is on both sides; and shuffle it, or questions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol, TypeVar


class _Named(Protocol):
    @property
    def id(self) -> str: ...


Named = TypeVar("Named", bound=_Named)


def held_out(repositories: Iterable[str], fraction: float, seed: int = 0) -> frozenset[str]:
    """The repositories that are kept for evaluation.

    The same for the same set, fraction and seed, on every machine and in every stage. Of two or
    more repositories at least one is on each side, unless the fraction is 0 or 1.
    """
    ranked = sorted(set(repositories), key=lambda name: _rank(name, seed))
    count = round(fraction * len(ranked))
    if 0 < fraction < 1 and len(ranked) > 1:
        count = min(max(count, 1), len(ranked) - 1)
    return frozenset(ranked[:count])


def shuffled(items: Iterable[Named], seed: int) -> list[Named]:
    """In an order by chance, where an item more or less does not change that of the others."""
    return sorted(items, key=lambda item: _rank(item.id, seed))


def _rank(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
