"""Split a benchmark by repository: no repository is on both sides; and shuffle it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from collect.benchmarks.base import Instance


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


def shuffled(instances: Iterable[Instance], seed: int) -> list[Instance]:
    """In an order by chance, where an instance more or less does not change that of the others."""
    return sorted(instances, key=lambda instance: _rank(instance.id, seed))


def _rank(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
