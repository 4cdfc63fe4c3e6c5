"""The rollouts that a report shows, and their selection."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from collect.questions.asking import VARIANT as QUESTIONS
from collect.store.records import ORACLE_TEACHER, Rollout
from collect.store.run_store import RunStore
from eval.metrics import Arm, arm_of, has_verdict, instance_of

SOURCES = (("collect", ""), ("eval", "eval"), ("questions", "eval/questions"))
"""Stages of a run, and the folders with their rollouts."""
Bug = tuple[str, str, str]
"""Benchmark, id and repository."""
MOST_PAGES = 1000
"""Rollouts that get pages if nothing else is said."""


class Outcome(StrEnum):
    RESOLVED = "resolved"
    UNRESOLVED = "not resolved"
    UNJUDGED = "not judged"
    """No tests were run: a recorded session without deciding tests."""
    TAMPERED = "tampered"
    RIGHT = "right"
    """A runtime question was answered correctly."""
    WRONG = "wrong"
    FAILED = "failed"
    """Failed because of the infrastructure or the budget: says nothing about a model."""


@dataclass(frozen=True)
class ShownRollout:
    stage: str
    row: Rollout

    @property
    def order(self) -> tuple[object, ...]:
        """Its place in the index."""
        row = self.row
        return (self.stage, row.benchmark, row.instance_id, self.arm, row.attempt, row.rollout_id)

    @property
    def arm(self) -> Arm:
        return arm_of(self.row)

    @property
    def scripted(self) -> bool:
        return self.row.teacher == ORACLE_TEACHER

    @property
    def outcome(self) -> Outcome:
        row = self.row
        if not has_verdict(row):
            return Outcome.FAILED
        if row.variant == QUESTIONS:
            return Outcome.RIGHT if row.resolved else Outcome.WRONG
        if row.tampered is not None:
            return Outcome.TAMPERED
        if row.failure_kind is None and not row.tests:
            return Outcome.UNJUDGED
        return Outcome.RESOLVED if row.resolved else Outcome.UNRESOLVED

    @property
    def failure(self) -> str:
        """Kind and type; empty if nothing failed."""
        row = self.row
        return f"{row.failure_kind}: {row.failure_type}" if row.failure_kind else ""


@dataclass(frozen=True)
class Selection:
    """Which rollouts get pages. An empty field selects all."""

    limit: int | None = MOST_PAGES
    """None: all."""
    at_random: bool = False
    """Whether the limit draws rollouts at random, always the same ones, and not the first."""
    outcomes: frozenset[str] = frozenset()
    variants: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    """Main or sub models."""
    instances: tuple[str, ...] = ()
    """Glob patterns for bug ids."""

    def wants(self, shown: ShownRollout) -> bool:
        arm = shown.arm
        return (
            (not self.outcomes or shown.outcome in self.outcomes)
            and (not self.variants or arm.variant in self.variants)
            and (not self.models or not self.models.isdisjoint((arm.main_model, arm.sub_model)))
            and (
                not self.instances
                or any(fnmatchcase(shown.row.instance_id, pattern) for pattern in self.instances)
            )
        )


@dataclass
class Totals:
    """Counts over all rollouts, selected or not; small however many there are."""

    outcomes: Counter[tuple[str, Arm, bool, Outcome]] = field(default_factory=Counter)
    """By stage, arm, whether it is scripted, and outcome."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By stage and failure."""
    matching: int = 0
    """Rollouts that match the selection, ignoring the limit."""
    dollars: float = 0.0
    tokens: int = 0
    bugs: dict[str, set[Bug]] = field(default_factory=lambda: defaultdict(set))
    """By stage."""
    versions: set[str] = field(default_factory=set)
    """Versions and commits of the code that did the rollouts."""
    times: list[float] = field(default_factory=list)
    """When the first and the last one began, Unix time in seconds."""

    @property
    def rollouts(self) -> int:
        return self.outcomes.total()

    def add(self, shown: ShownRollout) -> None:
        stage, row = shown.stage, shown.row
        self.outcomes[stage, shown.arm, shown.scripted, shown.outcome] += 1
        if shown.failure:
            self.failures[stage, shown.failure] += 1
        self.dollars += row.dollars
        self.tokens += row.tokens
        self.bugs[stage].add((*instance_of(row), row.repository))
        commit, _, changed = (row.code_commit or "").partition("-")
        built = f"{commit[:12]}{', changed' if changed else ''}"
        self.versions.add(f"{row.code_version} ({built})" if commit else row.code_version)
        every = (*self.times, row.started_at)
        self.times = [min(every), max(every)]


def sources_of(run: Path) -> dict[str, Path]:
    """The folders of the stages of a run that have rollouts, by stage."""
    folders = {stage: run / below for stage, below in SOURCES}
    return {name: at for name, at in folders.items() if any((at / "rollouts").glob("*.parquet"))}


def choose(sources: Mapping[str, Path], selection: Selection) -> tuple[list[ShownRollout], Totals]:
    """The first or the drawn ones of the selected rollouts, in order, and the counts over all."""
    totals = Totals()

    def matching() -> Iterator[ShownRollout]:
        for stage, folder in sources.items():
            for row in RunStore(folder).read_rollouts():
                shown = ShownRollout(stage, row)
                totals.add(shown)
                if selection.wants(shown):
                    totals.matching += 1
                    yield shown

    if selection.limit is None:
        return sorted(matching(), key=lambda each: each.order), totals
    if selection.at_random:
        # Ids are hashes, so that the smallest ones are a random sample, and part of a larger one.
        drawn = heapq.nsmallest(selection.limit, matching(), key=lambda each: each.row.rollout_id)
        return sorted(drawn, key=lambda each: each.order), totals
    return heapq.nsmallest(selection.limit, matching(), key=lambda each: each.order), totals
