"""What a comparison of a benchmark with training data found: `contamination.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from pydantic import computed_field

from collect.strict_record import StrictRecord

BOUNDS = (0.2, 0.5, 0.8)
"""Shares over which the report counts bugs."""


class Shared(StrictRecord):
    """The n-grams of one text, each counted once."""

    shared: int
    """That the training data has."""
    of: int
    """All; 0 where the text has fewer words than an n-gram."""
    first_in: str = ""
    """The training row that was first to have the most of them."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def share(self) -> float | None:
        """From 0 to 1; None for a text that is too short to tell."""
        return self.shared / self.of if self.of else None


class BugOverlap(StrictRecord):
    """One bug of the benchmark."""

    benchmark: str
    instance_id: str
    repository: str
    same_id: bool
    """A row is of this bug, by benchmark and id."""
    same_hash: bool
    """A row is of a bug that is the same in all its parts."""
    same_commit: bool
    same_repository: bool
    problem: Shared
    """Of the problem statement."""
    patch: Shared
    """Of the text after the gold patch, without what the text before has too."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def share(self) -> float:
        """1 for the same bug, else the larger share of problem and patch."""
        if self.same_id or self.same_hash:
            return 1.0
        return max(self.problem.share or 0.0, self.patch.share or 0.0)

    @property
    def in_training(self) -> bool:
        """Whether anything of it is in the training data, its repository alone included."""
        same = self.same_id or self.same_hash or self.same_commit or self.same_repository
        return same or self.share > 0


class ContaminationReport(StrictRecord):
    """All bugs of a benchmark."""

    training: tuple[str, ...]
    """Where the training data is from."""
    rows: int
    ngram_words: int
    bugs: tuple[BugOverlap, ...]

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def problem(self) -> Shared:
        """Over all problem statements."""
        return _sum(bug.problem for bug in self.bugs)

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def patch(self) -> Shared:
        """Over all patches."""
        return _sum(bug.patch for bug in self.bugs)

    @property
    def worst(self) -> tuple[BugOverlap, ...]:
        """All bugs, the largest share first."""
        return tuple(sorted(self.bugs, key=lambda bug: -bug.share))

    def over(self, share: float) -> int:
        """How many bugs have a larger share than this."""
        return sum(bug.share > share for bug in self.bugs)

    def counts(self) -> dict[str, int]:
        """How many bugs are in the training data, by what says so."""
        kinds: dict[str, Callable[[BugOverlap], object]] = {
            "same id": lambda bug: bug.same_id,
            "same in all parts (hash)": lambda bug: bug.same_hash,
            "same commit": lambda bug: bug.same_commit,
            "same repository": lambda bug: bug.same_repository,
            "any n-gram of the problem": lambda bug: bug.problem.shared,
            "any n-gram of the patch": lambda bug: bug.patch.shared,
            "problem too short for n-grams": lambda bug: not bug.problem.of,
            "patch too short for n-grams": lambda bug: not bug.patch.of,
        }
        counted = {name: sum(map(bool, map(test, self.bugs))) for name, test in kinds.items()}
        return counted | {f"share over {bound:.0%}": self.over(bound) for bound in BOUNDS}


def _sum(parts: Iterable[Shared]) -> Shared:
    counted = [(part.shared, part.of) for part in parts]
    return Shared(shared=sum(n for n, _ in counted), of=sum(n for _, n in counted))
