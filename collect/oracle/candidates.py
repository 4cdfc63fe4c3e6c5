"""Candidate patches: the gold one among plausible wrong ones, and how the oracle chooses.

As main agent the oracle may not use the gold patch directly. It gets candidates in random order and
takes the one that the subagent's answer points at. If the answer points at none, it chooses at
random.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collect.agents.subagent_task import parse_answer
from collect.benchmarks.base import Instance
from collect.code.patches import (
    ChangedRange,
    Edit,
    PatchError,
    changed_lines,
    diff_trees,
    hunk_edits,
)
from collect.code.source import place_of, read_source
from collect.errors import ModelFailure

LOCATION = re.compile(r"([\w./-]{1,200}\.(?:py|java))[:,]?\s*(?:line\s+)?(\d+)")
NEARBY = 5
"""Lines by which an answer may miss a candidate and still point at it."""


@dataclass(frozen=True)
class Candidate:
    """A patch and its place."""

    ranges: tuple[ChangedRange, ...]
    edits: tuple[Edit, ...]
    place: str
    """The first statement where the debugger can stop, as `file:line`."""
    function: str
    """Qualified name; empty at module level."""

    @property
    def path(self) -> str:
        """The file of `place`."""
        return self.place.rpartition(":")[0]


@dataclass(frozen=True)
class _WrongChange:
    """A possible wrong candidate. A large project has thousands, and a diff takes time, so the diff
    is made later.
    """

    line: ChangedRange
    function: str
    text: str
    """The changed file's whole text."""


def make_candidates(instance: Instance, count: int, rng: random.Random) -> list[Candidate]:
    """The gold patch and up to `count - 1` wrong ones, in random order.

    The wrong ones are in other functions if there are enough, else on other lines.
    """
    gold = gold_candidate(instance)
    taken = {(gold.path, gold.function)}
    spare: list[_WrongChange] = []
    chosen = [gold]
    changes = list(_wrong_changes(instance, gold))
    rng.shuffle(changes)
    for change in changes:
        if len(chosen) == count:
            break
        key = (change.line.path, change.function)
        if key in taken:
            spare.append(change)
        else:
            chosen.append(_wrong_candidate(instance, change))
        taken.add(key)
    for change in spare:
        if len(chosen) < count and all(_apart(change.line, each.ranges) for each in chosen):
            chosen.append(_wrong_candidate(instance, change))
    rng.shuffle(chosen)
    return chosen


def gold_candidate(instance: Instance) -> Candidate:
    """The gold patch as a candidate. Raises ModelFailure if the oracle's tools can't apply it."""
    ranges = tuple(changed_lines(instance.gold_patch))
    try:
        if not ranges:
            raise PatchError("it changes no line that is there, so nothing stops at it")
        edits = tuple(hunk_edits(instance.files, instance.gold_patch))
    except PatchError as error:
        raise ModelFailure(
            f"the oracle can't make the gold patch of {instance.id}: {error}; take another model "
            "for this bug, or leave it out"
        ) from error
    place = place_of(instance.files, ranges)
    return Candidate(ranges, edits, f"{place.path}:{place.line}", place.function)


def choose(answer: str, candidates: list[Candidate], rng: random.Random) -> Candidate:
    """The candidate nearest to the place in an answer, or a random one if it names none."""
    parsed = parse_answer(answer)
    texts = [parsed.location, f"{parsed.answer}\n{parsed.evidence}"] if parsed else [answer]
    for text in texts:
        for path, line in LOCATION.findall(text):
            near = [(_distance(c, path, int(line)), i) for i, c in enumerate(candidates)]
            distance, index = min(near)
            if distance <= NEARBY:
                return candidates[index]
    return rng.choice(candidates)


def _distance(candidate: Candidate, path: str, line: int) -> float:
    """In lines, from its changed lines or its place, which may be far below: the place of a changed
    default value is the function's first statement.
    """
    place = int(candidate.place.rpartition(":")[2])
    distances = [
        max(changed.start - line, line - changed.end, 0)
        for changed in (*candidate.ranges, ChangedRange(candidate.path, place, place))
        if changed.path == path or changed.path.endswith(f"/{path}") or path.endswith(changed.path)
    ]
    return min(distances, default=float("inf"))


def _wrong_changes(instance: Instance, gold: Candidate) -> Iterator[_WrongChange]:
    for path, data in sorted(instance.files.items()):
        is_test = any(path == t or path.startswith(f"{t}/") for t in instance.test_paths)
        source = read_source(path, data) if not is_test else None
        for function in source.functions if source is not None else ():
            for mutation in source.mutations(function) if source is not None else ():
                line = ChangedRange(path, mutation.line, mutation.line)
                if _apart(line, gold.ranges):
                    yield _WrongChange(line, function.name, mutation.text)


def _wrong_candidate(instance: Instance, change: _WrongChange) -> Candidate:
    path = change.line.path
    patch = diff_trees({path: instance.files[path]}, {path: change.text.encode()})
    edits = tuple(hunk_edits(instance.files, patch))
    return Candidate((change.line,), edits, f"{path}:{change.line.start}", change.function)


def _apart(line: ChangedRange, others: Sequence[ChangedRange]) -> bool:
    return all(
        line.path != other.path or line.start > other.end or other.start > line.end
        for other in others
    )
