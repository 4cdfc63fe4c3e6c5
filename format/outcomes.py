"""The facts about each rollout of a run that filters and rows need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from sys import intern

from collect.agents.config import Variant
from collect.benchmarks.held_out import HeldOut
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.code.patches import ChangedRange, TestFiles
from collect.errors import TRIED_AGAIN, FailureKind
from collect.question_records import Difficulty, Question
from collect.questions.asking import VARIANT, rollouts_of
from collect.questions.building import DEFAULT_NAME
from collect.questions.grounding import changed_by
from collect.store.files import read_lines
from collect.store.records import Rollout
from collect.store.run_store import RunStore
from format.config import FormatConfig
from format.leaks import gold_lines

BUGS_AT_HAND = 10_000
WITHOUT_SUBAGENT: dict[str, str] = {
    Variant.DEBUG2FIX.value: Variant.BASELINE.value,
    Variant.DEBUG2FIX_TOOL_LIMIT.value: Variant.BASELINE.value,
    Variant.INSPECTCODER.value: Variant.SIMPLE_DEBUGGING.value,
}
"""Each variant's counterpart without the debugging agent."""
DEEP = 4
"""Number of the program's frames below a place from which on it is deep."""


class DifficultyLevel(StrEnum):
    """How far a debugger must go for the answer to a runtime question."""

    EASY = "easy"
    """The first visit of a line, less than `DEEP` frames deep."""
    MEDIUM = "medium"
    """A later visit, or at least `DEEP` frames deep."""
    HARD = "hard"
    """Both of these."""


def level_of(difficulty: Difficulty) -> DifficultyLevel:
    points = (difficulty.hit > 1) + (difficulty.depth >= DEEP)
    return tuple(DifficultyLevel)[points]


_test_files = lru_cache(BUGS_AT_HAND)(TestFiles)
"""The same for all rollouts on a bug."""


class Pairs:
    """Results of the rollouts without a subagent, to be compared with those that have one.

    Rollouts that failed for other reasons than the model don't count.
    """

    def __init__(self, rollouts: Iterable[Rollout] = ()) -> None:
        self._resolved: dict[tuple[object, ...], bool] = {}
        for rollout in rollouts:
            self.add(rollout)

    def add(self, rollout: Rollout) -> None:
        alone = rollout.variant in WITHOUT_SUBAGENT.values()
        if alone and rollout.failure_kind not in TRIED_AGAIN:
            self._resolved[self._key(rollout, rollout.variant)] = rollout.resolved

    def debug_helped(self, rollout: Rollout) -> int | None:
        """1 if only the rollout with the subagent fixed the bug, -1 if only its counterpart did, 0
        if both or neither; None if there is no counterpart."""
        other = WITHOUT_SUBAGENT.get(rollout.variant)
        if other is None or rollout.failure_kind in TRIED_AGAIN:
            return None
        alone = self._resolved.get(self._key(rollout, other))
        return None if alone is None else int(rollout.resolved) - int(alone)

    def _key(self, rollout: Rollout, variant: str) -> tuple[object, ...]:
        bug = (rollout.benchmark, rollout.instance_id, rollout.instance_hash)
        return (*bug, rollout.attempt, rollout.main_model, variant)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The facts about one rollout. A whole run's outcomes are in memory at once."""

    resolved: bool
    failure_kind: FailureKind | None
    language: str
    teacher: str
    system: str
    patch_attempts: int
    instance_hash: str
    run: str = ""
    tests: TestFiles = field(default_factory=TestFiles)
    changed: tuple[ChangedRange, ...] = ()
    debug_helped: int | None = None
    category: str | None = None
    """Category of the question, or else of the bug."""
    difficulty: DifficultyLevel | None = None
    code_version: str = ""
    question_id: str | None = None
    tampered: bool = False
    """Whether its code interfered with the test run."""
    patch_marks: tuple[str, ...] = ()
    held_out: bool = False
    """Whether its bug is kept for measuring alone."""
    gold_lines: frozenset[str] | None = None
    """Distinctive lines that the gold patch adds; None if it is not available."""

    @classmethod
    def of(cls, rollout: Rollout) -> Outcome:
        return cls(
            rollout.resolved,
            rollout.failure_kind,
            intern(rollout.language),
            intern(rollout.teacher),
            intern(rollout.system),
            rollout.patch_attempts,
            intern(rollout.instance_hash),
            intern(rollout.run),
            _test_files(tuple(test.name for test in rollout.tests)),
            changed_by(rollout.patch),
            category=intern(rollout.category) if rollout.category is not None else None,
            code_version=intern(rollout.code_version),
            tampered=rollout.tampered is not None,
            patch_marks=rollout.patch_marks,
        )


def read_gold_lines(config: FormatConfig) -> dict[str, frozenset[str]]:
    """The lines of the gold patches of `gold_benchmarks`, by the bugs' hashes. Raises ConfigError
    for a benchmark that can't be read."""
    return {
        bug.hash: gold_lines(bug.gold_patch)
        for each in config.gold_benchmarks
        for bug in select_instances(each, open_benchmark(each))
        if bug.gold_patch
    }


def read_outcomes(
    config: FormatConfig, store: RunStore, held_out: HeldOut, gold: Mapping[str, frozenset[str]]
) -> dict[str, Outcome]:
    """The outcome of each of the run's rollouts, by id. Raises ConfigError for a file of questions
    that is missing or broken."""
    pairs, asked = Pairs(), set[tuple[str, int]]()
    for rollout in store.read_rollouts():
        pairs.add(rollout)
        if rollout.variant == VARIANT:
            asked.add((rollout.sub_model, rollout.attempt))
    own = store.folder / DEFAULT_NAME
    files = [Path(each) for each in config.questions] or ([own] if own.is_file() else [])
    how = "name the files in format.questions that the run's questions are from"
    answered: dict[str, tuple[str, DifficultyLevel]] = {}
    for path in files if asked else ():
        for rollout_id, question in rollouts_of(read_lines(path, Question, how), asked):
            answered[rollout_id] = question.id, level_of(question.difficulty)
    return {
        row.rollout_id: replace(
            Outcome.of(row),
            debug_helped=pairs.debug_helped(row),
            question_id=answered[row.rollout_id][0] if row.rollout_id in answered else None,
            difficulty=answered[row.rollout_id][1] if row.rollout_id in answered else None,
            held_out=held_out.has(
                row.benchmark, row.instance_id, row.instance_hash, row.repository
            ),
            gold_lines=gold.get(row.instance_hash),
        )
        for row in store.read_rollouts()
    }
