"""Outcomes of arms, made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.metrics import Arm
from eval.paired import Aligned, Outcomes

SMALL = Arm("debug2fix", "large", "small")
FRONTIER = Arm("debug2fix", "large", "large")
BASELINE = Arm("baseline", "large", "")


def once(results: Sequence[bool | int], repository: str = "ledger") -> Outcomes:
    """One attempt at each of so many bugs."""
    return several([[int(result)] for result in results], repository)


def several(results: Sequence[Sequence[int]], repository: str = "ledger") -> Outcomes:
    """Several attempts at each of so many bugs of a repository."""
    return {
        (f"{repository}-{number}", repository): {
            attempt: bool(result) for attempt, result in enumerate(attempts)
        }
        for number, attempts in enumerate(results)
    }


def table(both: int, only_first: int, only_second: int, neither: int) -> Aligned:
    """Two arms with one attempt a bug, as a 2 x 2 table has them."""
    first = [1] * both + [1] * only_first + [0] * (only_second + neither)
    second = [1] * both + [0] * only_first + [1] * only_second + [0] * neither
    return Aligned(np.array([first, second]), np.ones(len(first), dtype=np.int64), 0)
