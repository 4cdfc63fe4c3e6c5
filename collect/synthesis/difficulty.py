"""How hard a made bug is to find: what two runs of its failing test show, one of the buggy and one
of the correct program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from collect.benchmarks.local import LocalBug
from collect.benchmarks.projects.config import DifficultyConfig, HardFeature
from collect.synthesis.workbench import TrialRun

Frame = tuple[str, ...]
"""Path and function, and more."""


def measure_distance(
    buggy: TrialRun, correct: TrialRun, is_test: Callable[[str], bool]
) -> dict[str, int | bool | None]:
    """Fields of `Difficulty`. Both runs were measured on one test that fails in the buggy one."""
    pairs = enumerate(zip(buggy.returns, correct.returns, strict=False))
    right = next((i for i, (one, other) in pairs if one.effect != other.effect), None)
    if right is None:
        return dict(buggy.distance)
    wrong = buggy.returns[right]
    path = _between(wrong.stack, [frame[:2] for frame in buggy.failure])
    files = {file for file, *_ in path if not is_test(file)} - {wrong.stack[-1][0]}
    return {
        **buggy.distance,
        "right_entries": right,
        "calls_to_failure": wrong.calls_to_end,
        "call_depth": len(wrong.stack) - 1,
        "call_distance": len(path) - 1,
        "file_distance": len(files),
    }


def _between(stack: Sequence[Frame], other: Sequence[Frame]) -> list[Frame]:
    """The frames from the end of one stack to the end of the other, over their last common one."""
    pairs = zip(stack, other, strict=False)
    common = max(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)), 1)
    return [*other[: common - 1 : -1], *stack[common - 1 :]]


def features_of(bug: LocalBug, config: DifficultyConfig) -> list[HardFeature]:
    """What makes a bug hard to find. What was not measured doesn't."""
    measured = bug.difficulty
    if measured is None:
        return []
    has = {
        HardFeature.OFF_TRACEBACK: measured.on_traceback is False,
        HardFeature.DISTANT: (measured.call_distance or 0) >= config.calls,
        HardFeature.OTHER_FILE: (measured.file_distance or 0) >= 1,
        HardFeature.REPEATED: (measured.right_entries or 0) >= config.right_entries,
        HardFeature.EARLY: (measured.calls_to_failure or 0) >= config.calls_to_failure,
        HardFeature.STATE: any(edit.category == "state" for edit in bug.edits),
        HardFeature.INTERACTING: bool(measured.interacting),
        HardFeature.UNREADABLE: (measured.reading_rank or 0) > config.top_k,
    }
    return [feature for feature in HardFeature if has[feature]]


def is_hard_enough(bug: LocalBug, config: DifficultyConfig) -> bool:
    found = features_of(bug, config)
    return set(config.required) <= set(found) and len(found) >= config.at_least
