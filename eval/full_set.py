"""All problems that a benchmark of bugs was made from, including those that were solved."""

from __future__ import annotations

from dataclasses import dataclass

from collect.benchmarks.base import Benchmark
from collect.benchmarks.self_repair.benchmark import SelfRepairBenchmark
from collect.benchmarks.self_repair.problem import card_path, read_card
from collect.synthesis.self_repair.writers import ORACLE


@dataclass(frozen=True)
class FullSet:
    """The problems behind a benchmark's bugs (InspectCoder, section 3.2)."""

    problems: int
    """Number of problems for which a first solution was written."""
    passed: int
    """Number of problems whose first solution passed."""
    bugs: int
    """Number of problems whose first solution became a bug of the benchmark; the others stay
    unsolved."""
    source: str = ""
    """The data set of the problems; empty if unknown."""
    writer: str = ""
    """Who wrote the first solutions; empty if unknown."""

    @property
    def scripted(self) -> bool:
        """Whether the first solutions are correct programs that the oracle broke on purpose."""
        return self.writer == ORACLE

    @property
    def first_pass_rate(self) -> float:
        """Percent of all problems that pass without repair."""
        return 100 * self.passed / self.problems

    def gain(self, resolve_rate: float) -> float:
        """Percentage points that this resolve rate of the bugs adds to the pass rate."""
        return resolve_rate * self.bugs / self.problems

    def pass_rate(self, resolve_rate: float) -> float:
        """Percent of all problems that pass after repair."""
        return self.first_pass_rate + self.gain(resolve_rate)


def full_set_of(benchmark: Benchmark) -> FullSet | None:
    """The full set from the benchmark's card; None if there is no card, or no problem was tried.

    Raises ConfigError if the card is broken.
    """
    if not isinstance(benchmark, SelfRepairBenchmark) or not card_path(benchmark.path).is_file():
        return None
    card = read_card(benchmark.path)
    if not card.problems:
        return None
    return FullSet(card.problems, card.passed, card.bugs, card.source, card.writer)
