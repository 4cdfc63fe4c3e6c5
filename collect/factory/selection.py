"""Which of the verified bugs are kept: no two alike, and not too many of one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from collect.benchmarks.local_records import LocalBug
from collect.factory.candidates import Place
from collect.factory.config import FactoryConfig
from collect.factory.records import Outcome, Step


class Selection:
    """Takes a project's outcomes in their order."""

    def __init__(self, config: FactoryConfig) -> None:
        self._config = config
        self._patches: set[str] = set()
        self._symptoms: set[tuple[object, ...]] = set()
        self._functions: Counter[Place] = Counter()
        self.kept: list[LocalBug] = []
        self.dropped: Counter[Step] = Counter()
        self.problems: list[str] = []
        """Errors that kept candidates from being judged."""

    @property
    def full(self) -> bool:
        """Whether there are as many bugs as wanted."""
        return len(self.kept) >= self._config.bugs_per_project

    def is_crowded(self, places: Iterable[Place]) -> bool:
        """Whether there are as many bugs as wanted of one of these places already."""
        wanted = self._config.bugs_per_function
        return any(self._functions[place] >= wanted for place in places)

    def add(self, outcome: Outcome) -> None:
        """Keep the outcome's bug, or count the step that it fell at."""
        step = outcome.dropped_at
        if step is None and outcome.bug is not None:
            step = self._judge(outcome.bug)
            if step is None:
                self.kept.append(outcome.bug)
        if step is not None:
            self.dropped[step] += 1
        if outcome.problem:
            self.problems.append(outcome.problem)

    def add_all(self, outcomes: Sequence[Outcome]) -> None:
        """One after the other."""
        for outcome in outcomes:
            self.add(outcome)

    def _judge(self, bug: LocalBug) -> Step | None:
        places = {(edit.path, edit.scope) for edit in bug.edits}
        # Two edits of one place that the same tests catch in the same way are one bug to a user.
        symptom = (frozenset(places), bug.fail_to_pass, bug.failure)
        if bug.gold_patch in self._patches or symptom in self._symptoms:
            return Step.NEW
        if self.is_crowded(places) or self.full:
            return Step.WANTED
        self._patches.add(bug.gold_patch)
        self._symptoms.add(symptom)
        self._functions.update(places)
        return None
