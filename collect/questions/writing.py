"""From an ask that was kept to the line of the file."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from functools import cached_property

from collect.benchmarks.base import Instance
from collect.patches import changed_lines, changed_paths, reverse_patch
from collect.questions.comparing import is_comparable
from collect.questions.program import Program
from collect.questions.records import Ask, Category, Difficulty, PostFixAsk, Question
from collect.questions.tracing import Stop, Trace
from collect.questions.truths import Finding
from collect.questions.wording import hints, word


@dataclass(frozen=True)
class Runs:
    """Two runs of one test, in fresh sandboxes."""

    test: str
    program: Program
    first: Trace
    second: Trace
    patch: str = ""
    """What was changed in the workspace before both."""

    @cached_property
    def unsteady(self) -> frozenset[tuple[str, str]]:
        """The files and functions in which the runs differ in any value, or visit of a statement.

        Where the order of objects in a set decides, as by their addresses, two runs agree on
        single values by chance.
        """
        pairs = ((self.first, self.second), (self.second, self.first))
        return frozenset(
            (stop.statement.place.file, stop.statement.place.function)
            for one, other in pairs
            for stop in one.stops
            if not _is_alike(stop, other)
        )


def _is_alike(stop: Stop, other: Trace) -> bool:
    position = other.position(stop.statement.place, stop.hit)
    if position is None:
        return False
    again = other.stops[position].locals
    return all(
        value.text == again[name].text
        or not (is_comparable(value.text) and is_comparable(again[name].text))
        for name, value in stop.locals.items()
        if name in again
    )


@dataclass(frozen=True)
class Kept:
    """An ask that has passed the rules."""

    category: Category
    ask: Ask
    finding: Finding
    runs: Runs


def write(instance: Instance, seed: int, kept: Kept) -> Question:
    """The question, worded by seed."""
    runs, ask = kept.runs, kept.ask
    facts = [instance.benchmark, instance.id, runs.test, runs.patch, ask.model_dump_json()]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:10]
    rng = random.Random(f"{seed}\0{digest}")
    text = word(
        ask,
        rng,
        source=_source(ask, runs.program),
        compares=getattr(kept.finding.truth, "expected", True) is not None,
        changed=_changed(runs),
    )
    return Question(
        id=f"{instance.id}.{kept.category}.{digest}",
        benchmark=instance.benchmark,
        instance_id=instance.id,
        instance_hash=instance.hash,
        repository=instance.repository,
        language=instance.language,
        category=kept.category,
        question=text,
        test=runs.test,
        hints=hints(ask, rng),
        patch=runs.patch,
        ask=ask,
        truth=kept.finding.truth,
        evidence=kept.finding.seen,
        difficulty=_difficulty(kept),
    )


def _source(ask: Ask, program: Program) -> str:
    """The text of the line that is asked about."""
    place = getattr(ask.value if isinstance(ask, PostFixAsk) else ask, "place", None)
    module = program.module(place.file) if place is not None else None
    return module.lines[place.line - 1].strip() if place is not None and module is not None else ""


def _changed(runs: Runs) -> str:
    """`Cart.total in shop/cart.py`: what a patch changed."""
    for path in sorted(changed_paths(runs.patch)) if runs.patch else ():
        module = runs.program.modules.get(path)
        if module is None:
            continue
        lines = [
            each.start for each in changed_lines(reverse_patch(runs.patch)) if each.path == path
        ]
        statements = [module.at(line) for line in lines]
        names = [each.place.function for each in statements if each is not None]
        return f"`{names[0]}` in {path}" if names else path
    return ""


def _difficulty(kept: Kept) -> Difficulty:
    seen = kept.finding.seen[0]
    return Difficulty(
        hit=max(seen.hit, 1),
        depth=seen.depth,
        stops=sum(kept.runs.first.hits.values()),
        in_test=kept.runs.program.tests.get(seen.place.rpartition(":")[0]) is not None,
    )
