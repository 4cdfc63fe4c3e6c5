"""Candidate patches: the gold one among plausible wrong ones, and how the oracle chooses.

As main agent the oracle may not use the gold patch directly. It gets candidates in random order and
takes the one that the subagent's answer points at. If the answer points at none, it chooses at
random. So it does where it patches a one-file program: its systems differ in what they know when
they choose.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from collect.agents.subagent_task import parse_answer
from collect.benchmarks.base import Instance
from collect.code.patches import (
    ChangedRange,
    Edit,
    PatchError,
    apply_patch,
    changed_lines,
    diff_trees,
    hunk_edits,
)
from collect.code.source import place_of, read_source
from collect.errors import ModelFailure
from collect.oracle.scripted import Turns, say

LOCATION = re.compile(r"([\w./-]{1,200}\.(?:py|java))[:,]?\s*(?:line\s+)?(\d+)")
NEARBY = 5
"""Lines by which an answer may miss a candidate and still point at it."""
FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"^ *\d+  ?", re.MULTILINE)
NOT_YET = "Don't write a repaired program yet"
THOUGHT = "I can't tell from reading alone which of the lines that I suspect is the wrong one."


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


def numbered_code(task: str) -> str:
    """The program in an Inspector's task, without its line numbers."""
    # A coding task may itself contain code blocks.
    found = FENCED.search(task.rpartition("## Buggy Code\n")[2])
    return NUMBER.sub("", found[1]) if found else ""


def newest_code(task: str) -> str:
    """The program in a Patch Coder's task: the last block, since versions come in order."""
    blocks = FENCED.findall(task)
    return str(blocks[-1]) if blocks else ""


def as_it_is(instance: Instance, code: str) -> Instance:
    """The bug with this version of its program, and a gold patch for that version.

    Raises ModelFailure if no correct program is known.
    """
    if not instance.gold_patch:
        raise ModelFailure(
            f"{instance.id} comes without a correct program, and the oracle knows no other; take "
            "a model instead, or bugs that have one"
        )
    correct = apply_patch(instance.files, instance.gold_patch)
    files = {**instance.files, instance.solution: code.encode()}
    patch = diff_trees(files, correct)
    if not patch:
        raise ModelFailure(
            f"{instance.id} still fails with its correct program, and the oracle knows no other"
        )
    return replace(instance, files=files, gold_patch=patch)


def program(instance: Instance) -> str:
    """The program of a bug."""
    return instance.files[instance.solution].decode("utf-8", "replace")


def correct_program(instance: Instance) -> str:
    """The program after the gold patch."""
    return program(replace(instance, files=apply_patch(instance.files, instance.gold_patch)))


@dataclass(frozen=True)
class Patching:
    """The candidate patches of one bug, and how to choose one."""

    instance: Instance
    count: int
    """Number of candidates, including the correct one."""
    rng: random.Random

    def now(self, code: str) -> Instance:
        """The bug with this version of its program. Raises ModelFailure if none is correct."""
        return as_it_is(self.instance, code)

    def choose(self, now: Instance, hint: str) -> Candidate:
        """The candidate that a text points at, or a random one."""
        return choose(hint, make_candidates(now, self.count, self.rng), self.rng)

    def reply(self, now: Instance, hint: str) -> str:
        """A reply with the whole program, patched with the chosen candidate."""
        chosen, code = self.choose(now, hint), program(now)
        for edit in chosen.edits:
            code = code.replace(edit.old, edit.new, 1)
        return f"I change {chosen.place}.\n\n```python\n{code.rstrip()}\n```"


class OraclePatchCoder:
    """Chooses from the correct patch and wrong ones, by the given plan or at random: it can write
    patches, but must be told which is right.
    """

    def __init__(self, patching: Patching) -> None:
        self._patching = patching
        self._reply = ""

    def turns(self, task: str) -> Turns:
        """The whole patched program; a message without a program gets a comment on the last one."""
        said = task
        while True:
            code = newest_code(said)
            if code:
                plan = said.rpartition("### Repair Plan")[2]
                self._reply = self._patching.reply(self._patching.now(code), plan)
            said = "".join((yield say(THOUGHT if NOT_YET in said else self._reply)))

    def last_word(self) -> str:
        return self._reply
