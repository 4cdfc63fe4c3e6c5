"""What became of a candidate, and how a folder of bugs was made."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from collect.benchmarks.local import LocalBug
from collect.funnel import FunnelStep
from collect.quantities import counted, duration
from collect.store.record_lines import StrictRecord


class Step(StrEnum):
    """What an edit must get through, in this order."""

    JUDGED = "its tests leave sandbox and factory whole"
    PARSES = "still a program that parses"
    LOADS = "its code and tests still compile and load"
    ENDS = "its tests end"
    FAILS = "a test fails"
    FEW_FAIL = "not too many tests fail"
    REPEATS = "the same tests fail for the same reason again"
    OTHERS_PASS = "other tests pass"
    FIXED = "its tests pass without the edit"
    EACH = "of several edits, each makes a test fail"
    NEW = "no like bug before it"
    WANTED = "not more bugs of its function or project than wanted"


class Outcome(StrictRecord):
    """One candidate's way through the funnel."""

    candidate_id: str
    kind: str
    dropped_at: Step | None = None
    """None: it became a bug, as far as it alone can tell."""
    problem: str = ""
    """The error that kept it from being judged."""
    bug: LocalBug | None = None


class ProjectCard(StrictRecord):
    """What one project gave."""

    name: str
    version: str
    origin: str
    license: str
    refused: str | None = None
    """Why nothing could be made of it."""
    notes: tuple[str, ...] = ()
    tests: int = 0
    """Passed in both runs of the unedited project's suite."""
    failing_tests: int = 0
    flaky_tests: int = 0
    edits_found: int = 0
    edits_reached: int = 0
    """In code that tests run."""
    edits_tried: int = 0
    steps: tuple[FunnelStep, ...] = ()
    bugs: int = 0
    seconds: float = 0.0
    """Of work, all starts of the command together: wall time, with `concurrency` candidates at
    once."""

    def summary(self) -> str:
        """One line of it."""
        if self.refused is not None:
            return f"{self.name}: nothing made: {self.refused}"
        bugs, edits = counted(self.bugs, "bug"), counted(self.edits_tried, "edit")
        took = f"{counted(self.tests, 'test')}, in {duration(self.seconds)}"
        return f"{self.name} {self.version}: {bugs} of {edits}, with {took}"


class Card(StrictRecord):
    """How a folder of bugs was made."""

    bugs: int
    projects: tuple[ProjectCard, ...]
    steps: tuple[FunnelStep, ...]
    kinds: Mapping[str, int]
    """Bugs by the kind of mistake."""
    categories: Mapping[str, int]
    failures: Mapping[str, int]
    """Bugs by the exception of their first failing test."""
    concurrency: int
    seconds: float
    settings: Mapping[str, object]
    """The config's `factory` section."""
    versions: Mapping[str, str]

    @property
    def bugs_per_hour(self) -> float:
        """Of wall time."""
        return 3600 * self.bugs / self.seconds if self.seconds else 0.0
