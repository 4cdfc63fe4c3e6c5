"""Arithmetic with whole cents."""

from __future__ import annotations

from typing import List, Sequence


def percent_of(amount: int, percent: float) -> int:
    """`percent` of `amount`, halves rounded up."""
    return int((amount * round(percent * 100) + 5000) // 10000)


def allocate(amount: int, weights: Sequence[int]) -> List[int]:
    """Split `amount` in proportion to `weights`, losing no cent.

    The cents that don't divide go to the parts with the largest remainders.
    """
    total = sum(weights)
    if total == 0:
        return [0] * len(weights)
    parts = [amount * weight // total for weight in weights]
    left = amount - sum(parts)
    order = sorted(range(len(weights)), key=lambda i: amount * weights[i] % total, reverse=True)
    for position in order[:left]:
        parts[position] += 1
    return parts
