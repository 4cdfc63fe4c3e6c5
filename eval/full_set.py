"""What a benchmark of bugs was made from: all problems, not only those that were got wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FullSet:
    """The problems behind a benchmark's bugs (InspectCoder, section 3.2)."""

    problems: int
    """All that a first solution was written for."""
    passed: int
    """Those whose first solution passed."""
    bugs: int
    """Those whose first solution became a bug of the benchmark; the rest stays unsolved."""
    model: str = ""
    """Who wrote the first solutions; empty where that is not known."""

    @property
    def first_pass_rate(self) -> float:
        """Percent of all problems that pass without repair."""
        return 100 * self.passed / self.problems

    def gain(self, resolve_rate: float) -> float:
        """Percentage points that resolving so many percent of the bugs adds to the pass rate."""
        return resolve_rate * self.bugs / self.problems

    def pass_rate(self, resolve_rate: float) -> float:
        """Percent of all problems that pass after it."""
        return self.first_pass_rate + self.gain(resolve_rate)
