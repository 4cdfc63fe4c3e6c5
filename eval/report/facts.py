"""The facts of each rollout that the index shows, and the selection of rollouts."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from collect.questions.asking import VARIANT as QUESTIONS
from collect.store.records import ORACLE_TEACHER, Rollout
from collect.store.run_store import RunStore
from eval.metrics import Arm, arm_of, has_verdict

SOURCES = (("collect", ""), ("eval", "eval"), ("questions", "eval/questions"))
"""Stages of a run, and the folders with their rollouts."""


class Outcome(StrEnum):
    RESOLVED = "resolved"
    UNRESOLVED = "not resolved"
    TAMPERED = "tampered"
    RIGHT = "right"
    """A runtime question was answered correctly."""
    WRONG = "wrong"
    FAILED = "failed"
    """Failed because of the infrastructure or the budget: says nothing about a model."""


@dataclass(frozen=True)
class Source:
    stage: str
    folder: Path


@dataclass(frozen=True, slots=True, order=True)
class RolloutFacts:
    """One row of the index; rows are sorted by field order."""

    stage: str
    benchmark: str
    instance_id: str
    category: str
    arm: Arm
    attempt: int
    rollout_id: str
    scripted: bool
    outcome: Outcome
    failure: str
    """Kind and type; empty if nothing failed."""
    steps: int
    """Completions of all agents."""
    tokens: int
    dollars: float
    seconds: float
    stops: int
    """How often the debugged program stopped."""


@dataclass(frozen=True)
class Selection:
    """Which rollouts get pages. An empty field selects all."""

    limit: int | None = None
    outcomes: frozenset[str] = frozenset()
    variants: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    """Main or sub models."""
    instances: tuple[str, ...] = ()
    """Glob patterns for bug ids."""

    def wants(self, facts: RolloutFacts) -> bool:
        arm = facts.arm
        return (
            (not self.outcomes or facts.outcome in self.outcomes)
            and (not self.variants or arm.variant in self.variants)
            and (not self.models or not self.models.isdisjoint((arm.main_model, arm.sub_model)))
            and (
                not self.instances
                or any(fnmatchcase(facts.instance_id, pattern) for pattern in self.instances)
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

    @property
    def rollouts(self) -> int:
        return self.outcomes.total()


def sources_of(run: Path) -> list[Source]:
    """The stages of a run that have rollouts."""
    sources = [Source(stage, run / below) for stage, below in SOURCES]
    return [each for each in sources if any((each.folder / "rollouts").glob("*.parquet"))]


def choose(sources: Iterable[Source], selection: Selection) -> tuple[list[RolloutFacts], Totals]:
    """The first selected rollouts, in order, and the counts over all rollouts."""
    totals = Totals()

    def matching() -> Iterator[RolloutFacts]:
        for source in sources:
            for row in RunStore(source.folder).read_rollouts():
                failure = f"{row.failure_kind}: {row.failure_type}" if row.failure_kind else ""
                facts = RolloutFacts(
                    stage=source.stage,
                    benchmark=row.benchmark,
                    instance_id=row.instance_id,
                    category=row.category or "",
                    arm=arm_of(row),
                    attempt=row.attempt,
                    rollout_id=row.rollout_id,
                    scripted=row.teacher == ORACLE_TEACHER,
                    outcome=outcome_of(row),
                    failure=failure,
                    steps=row.main_steps + row.sub_steps,
                    tokens=row.tokens,
                    dollars=row.dollars,
                    seconds=row.seconds,
                    stops=row.debug_stops,
                )
                totals.outcomes[facts.stage, facts.arm, facts.scripted, facts.outcome] += 1
                totals.dollars += facts.dollars
                if facts.failure:
                    totals.failures[facts.stage, facts.failure] += 1
                if selection.wants(facts):
                    totals.matching += 1
                    yield facts

    if selection.limit is None:
        return sorted(matching()), totals
    return heapq.nsmallest(selection.limit, matching()), totals


def outcome_of(row: Rollout) -> Outcome:
    if not has_verdict(row):
        return Outcome.FAILED
    if row.variant == QUESTIONS:
        return Outcome.RIGHT if row.resolved else Outcome.WRONG
    if row.tampered is not None:
        return Outcome.TAMPERED
    return Outcome.RESOLVED if row.resolved else Outcome.UNRESOLVED
