"""The outcome of a candidate, and how a folder of bugs was made."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from collect.benchmarks.local import LocalBug
from collect.quantities import FunnelStep, counted, duration
from collect.store.record_lines import StrictRecord


class Step(StrEnum):
    """The steps that an edit must pass, in order."""

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
    """None: it became a bug, before comparison with other candidates."""
    problem: str = ""
    """The error that prevented a judgement."""
    bug: LocalBug | None = None


class ProjectCard(StrictRecord):
    """The results for one project."""

    name: str
    version: str
    origin: str
    license: str
    refused: str | None = None
    """Why no bugs could be made from it."""
    notes: tuple[str, ...] = ()
    tests: int = 0
    """Number of tests that passed in both runs of the unedited project's suite."""
    failing_tests: int = 0
    flaky_tests: int = 0
    edits_found: int = 0
    edits_reached: int = 0
    """Number of edits in code that tests run."""
    edits_tried: int = 0
    steps: tuple[FunnelStep, ...] = ()
    bugs: int = 0
    seconds: float = 0.0
    """Wall time of the work over all starts of the command, with `concurrency` candidates at
    once."""

    def summary(self) -> str:
        """The results in one line."""
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
    """Number of bugs by kind of mistake."""
    categories: Mapping[str, int]
    failures: Mapping[str, int]
    """Number of bugs by the exception of their first failing test."""
    concurrency: int
    seconds: float
    settings: Mapping[str, object]
    """The config's `factory` section."""
    versions: Mapping[str, str]

    @property
    def bugs_per_hour(self) -> float:
        """Bugs per hour of wall time."""
        return 3600 * self.bugs / self.seconds if self.seconds else 0.0
