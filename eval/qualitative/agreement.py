"""How far the rules and a model agree: share, Cohen's kappa, and who said what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from eval.intervals import wilson


@dataclass(frozen=True)
class Agreement:
    """Of two that sort the same things."""

    items: int
    percent: float | None
    """Share of the things that both gave the same label; None where there is none."""
    low: float | None
    high: float | None
    """Its 95 % Wilson interval, in percent."""
    kappa: float | None
    """Cohen's: 1 where they always agree, 0 where no more than by chance; None where chance alone
    would always agree, so that it is not defined."""


def agreement(pairs: Sequence[tuple[str, str]]) -> Agreement:
    """Of pairs of labels, the first one's and the second one's (Cohen 1960)."""
    if not pairs:
        return Agreement(0, None, None, None, None)
    count = len(pairs)
    same = sum(first == second for first, second in pairs) / count
    low, high = wilson(same, count)
    firsts, seconds = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(firsts[label] * seconds[label] for label in firsts) / count**2
    kappa = None if chance == 1 else (same - chance) / (1 - chance)
    return Agreement(count, 100 * same, 100 * low, 100 * high, kappa)
