"""What the oracle leaves to chance when it debugs."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Habits:
    """How it words things, and which detours it makes."""

    rng: random.Random
    direct: bool = False
    """Whether it goes the shortest way only."""

    def detour(self, chance: float) -> bool:
        """Whether to do, this often, what the question does not need."""
        return self.rng.random() < chance and not self.direct
