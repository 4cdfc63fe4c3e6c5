"""How hard a made bug is to find: by what two runs of its failing test show, one of the buggy and
one of the correct program; and by the reading baseline."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from collect.benchmarks.base import Language
from collect.benchmarks.local import LocalBug
from collect.benchmarks.projects.config import DifficultyConfig, HardFeature
from collect.benchmarks.projects.project import is_below
from collect.code.patches import equal_at_start
from collect.code.source import find_test, read_source
from collect.code.syntax import FunctionRange
from collect.synthesis.workbench import TrialRun
from sandbox.text import source_lines

_AT_SIGHT: Mapping[Language, str] = {
    "python": """
        early_return inverted_test lost_update negated_condition nested_yield off_by_one
        reset_in_loop swallowed_exception swapped_arguments swapped_results
        wrong_arithmetic_operator wrong_boolean_operator wrong_boundary wrong_division
        wrong_flag wrong_function wrong_loop_control wrong_slice_end wrong_start
    """,
    "java": """
        dropped_cast dropped_offset early_return ignored_result integer_division lossy_comparison
        missing_break negated_condition off_by_one_bound overwritten_total reference_equality
        reversed_comparison self_assignment swapped_arguments swapped_branches unconditional
        wrong_arithmetic_operator wrong_boolean_operator wrong_constant wrong_flag
        wrong_loop_control wrong_method wrong_rounding wrong_start
    """,
}
"""Kinds of edit that look wrong to whoever reads the function."""
_WRONG_RESULTS = ("AssertionError", "AssertionFailedError", "ComparisonFailure")
"""What tests raise if a result is not what they expect."""

Frame = tuple[str, ...]
"""Path and function, and more."""


def measure_distance(
    buggy: TrialRun, correct: TrialRun, test_paths: Sequence[str]
) -> dict[str, int | bool | None]:
    """Fields of `Difficulty`. Both runs were measured on one test that fails in the buggy one."""
    pairs = enumerate(zip(buggy.returns, correct.returns, strict=False))
    right = next((i for i, (one, other) in pairs if one.effect != other.effect), None)
    if right is None:
        return {**buggy.distance, "functions": correct.distance.get("functions")}
    wrong = buggy.returns[right]
    path = _between(wrong.stack, [frame[:2] for frame in buggy.failure])
    files = {file for file, *_ in path if not is_below(file, test_paths)} - {wrong.stack[-1][0]}
    return {
        **buggy.distance,
        "functions": correct.distance.get("functions"),
        "right_entries": right,
        "calls_to_failure": wrong.calls_to_end,
        "call_depth": len(wrong.stack) - 1,
        "call_distance": len(path) - 1,
        "file_distance": len(files),
    }


def _between(stack: Sequence[Frame], other: Sequence[Frame]) -> list[Frame]:
    """The frames from the end of one stack to the end of the other, over their last common one."""
    common = max(equal_at_start(stack, other), 1)
    return [*other[: common - 1 : -1], *stack[common - 1 :]]


def is_natural(kind: str, language: Language) -> bool:
    """Whether code with an edit of this kind reads like correct code."""
    return kind not in _AT_SIGHT[language].split()


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
        HardFeature.NATURAL: bool(bug.edits)
        and all(is_natural(e.kind, bug.language) for e in bug.edits),
        HardFeature.WIDE: (measured.functions or 0) >= config.functions,
        HardFeature.RARE: (measured.reaching_tests or 0)
        >= (1 + config.passing_per_failing) * measured.failing_tests,
        HardFeature.SILENT: bug.failure is not None and bug.failure.type in _WRONG_RESULTS,
        HardFeature.UNREADABLE: (measured.reading_rank or 0) > config.top_k,
    }
    return [feature for feature in HardFeature if has[feature]]


def is_hard_enough(bug: LocalBug, config: DifficultyConfig) -> bool:
    found = features_of(bug, config)
    return set(config.required) <= set(found) and len(found) >= config.at_least


# The reading baseline: where a reader who does not run the program looks for a bug. It ranks the
# project's functions by the failure's traceback, by the names in the failing test, and by how
# similar their text is to the issue's. A bug whose faulty function it ranks high needs no debugger.

TRACEBACK_WEIGHT = 2.0
"""Weight of the traceback's innermost frame; the others have half of the next one's. The test's
names and the similarity of texts have up to 1 each."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


@dataclass(frozen=True)
class Function:
    """A function of a project."""

    path: str
    place: FunctionRange
    words: Mapping[str, int]

    @property
    def called(self) -> str:
        """The name that a call of it shows."""
        owner, _, name = self.place.name.rpartition(".")
        return owner.rpartition(".")[2] if name in ("__init__", "<init>") else name


@dataclass(frozen=True)
class Clues:
    """What a reader has."""

    issue: str
    test: str
    """The failing test's function and its source."""
    traceback: Sequence[tuple[str, str, int]]
    """Path, function and line of each frame, from the test inwards."""


def rank_functions(
    files: Mapping[str, bytes], paths: Iterable[str], clues: Clues
) -> list[Function]:
    """The functions of some files, the most suspect first."""
    functions = [each for path in paths for each in functions_of(path, files[path])]
    by_similarity = _similarities(functions, Counter(_words(clues.issue)))
    named = set(_IDENTIFIER.findall(clues.test))
    homonyms = Counter(function.called for function in functions)

    def score(index: int) -> float:
        function = functions[index]
        by_name = 1 / math.sqrt(homonyms[function.called]) if function.called in named else 0.0
        frames = (
            TRACEBACK_WEIGHT / 2**distance
            for distance, (path, _, line) in enumerate(reversed(clues.traceback))
            if path == function.path and function.place.first <= line <= function.place.last
        )
        return max(frames, default=0.0) + by_name + by_similarity[index]

    order = sorted(range(len(functions)), key=lambda index: (-score(index), index))
    return [functions[index] for index in order]


def reading_rank(ranked: Sequence[Function], faulty: set[tuple[str, str]]) -> int | None:
    """The rank of the first of these functions, given as path and qualified name, from 1. For a
    method that is gone, or a class, it is that of the class's first one."""
    names = {(each.path, each.place.name) for each in ranked}
    classes = {(path, name.rpartition(".")[0]) for path, name in faulty - names} | (faulty - names)

    def is_faulty(function: Function) -> bool:
        owner = function.place.name.rpartition(".")[0]
        return (function.path, function.place.name) in faulty or (
            owner != "" and (function.path, owner) in classes
        )

    return next((n for n, each in enumerate(ranked, start=1) if is_faulty(each)), None)


def test_function(files: Mapping[str, bytes], test: str) -> str:
    """Name and source of a test; its name alone if it is not in its file."""
    path, name = find_test(files, test)
    lines = source_lines(files.get(path, b"").decode("utf-8", "replace"))
    for each in functions_of(path, files.get(path, b"")):
        if each.called == name:
            return "\n".join([name, *lines[each.place.first - 1 : each.place.last]])
    return name


@lru_cache(maxsize=4096)
def functions_of(path: str, data: bytes) -> Sequence[Function]:
    lines = source_lines(data.decode("utf-8", "replace"))
    return [
        Function(
            path, each, Counter(_words("\n".join([each.name, *lines[each.first - 1 : each.last]])))
        )
        for each in read_source(path, data).functions
    ]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _similarities(functions: Sequence[Function], words: Mapping[str, int]) -> list[float]:
    """The TF-IDF cosine between each function's words and these, divided by the largest."""
    spread = Counter(word for function in functions for word in function.words)
    weights = {word: math.log((1 + len(functions)) / count) for word, count in spread.items()}

    def vector(counts: Mapping[str, int]) -> dict[str, float]:
        return {w: (1 + math.log(n)) * weights[w] for w, n in counts.items() if w in weights}

    query = vector(words)
    found = []
    for function in functions:
        own = vector(function.words)
        length = math.sqrt(sum(weight**2 for weight in own.values())) or 1.0
        found.append(sum(weight * own[w] for w, weight in query.items() if w in own) / length)
    largest = max(found, default=0.0) or 1.0
    return [each / largest for each in found]
