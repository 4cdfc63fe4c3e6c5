"""Select among the mutations of a program or a project."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collect.synthesis.mutations.base import Mutation

CATEGORY_WEIGHTS: Mapping[str, float] = {
    "state": 4.0,
    "default": 3.0,
    "iteration": 3.0,
    "unit": 3.0,
    "absence": 2.0,
    "boundary": 2.0,
    "exception": 2.0,
    "inheritance": 2.0,
    "order": 2.0,
    "call": 1.5,
    "data": 1.5,
    "name": 1.5,
    "flow": 1.0,
    "arithmetic": 0.5,
    "condition": 0.5,
}
"""How often each of a category's kinds is selected, relative to weight 1. High for bugs that a
debugger shows and a reader overlooks; low for bugs that any reader sees."""
MAX_PER_SCOPE = 3


def shuffled(mutations: Sequence[Mutation], seed: str) -> Iterator[Mutation]:
    """All mutations in a seeded order, alternating between the kinds."""
    generator = random.Random(seed)
    by_kind = _shuffled_kinds(mutations, generator)
    kinds = sorted(by_kind)
    generator.shuffle(kinds)
    for turn in range(max(map(len, by_kind.values()), default=0)):
        yield from (by_kind[kind][turn] for kind in kinds if turn < len(by_kind[kind]))


def chosen(
    mutations: Sequence[Mutation],
    seed: str,
    count: int,
    *,
    weights: Mapping[str, float] = CATEGORY_WEIGHTS,
    per_scope: int = MAX_PER_SCOPE,
) -> list[Mutation]:
    """At most `count` mutations, alternating between kinds by their category's weight (default 1).

    No edit twice, and at most `per_scope` in one function. They may be from several programs. The
    order is stable: a smaller count gives a prefix of the result.
    """
    generator = random.Random(seed)
    by_kind = _shuffled_kinds(sorted(mutations, key=_identity), generator)
    ranked: list[tuple[float, Mutation]] = []
    for kind in sorted(by_kind):
        phase = generator.random()
        for turn, mutation in enumerate(by_kind[kind]):
            ranked.append(((turn + phase) / weights.get(mutation.category, 1.0), mutation))
    ranked.sort(key=lambda pair: pair[0])
    return _limited((mutation for _, mutation in ranked), count, per_scope)


def _limited(mutations: Iterator[Mutation], count: int, per_scope: int) -> list[Mutation]:
    taken: list[Mutation] = []
    edits: set[tuple[object, ...]] = set()
    scopes: Counter[tuple[str, str, str]] = Counter()
    for mutation in mutations:
        if len(taken) >= count:
            break
        scope = (mutation.path, mutation.source, mutation.scope)
        edit = (mutation.path, mutation.source, mutation.start, mutation.end, mutation.text)
        if scopes[scope] < per_scope and edit not in edits:
            scopes[scope] += 1
            edits.add(edit)
            taken.append(mutation)
    return taken


def _identity(mutation: Mutation) -> tuple[str, int, int, str]:
    return mutation.path, mutation.start, mutation.end, mutation.text


def _shuffled_kinds(
    mutations: Sequence[Mutation], generator: random.Random
) -> dict[str, list[Mutation]]:
    by_kind: defaultdict[str, list[Mutation]] = defaultdict(list)
    for mutation in mutations:
        by_kind[mutation.kind].append(mutation)
    for of_one_kind in by_kind.values():
        generator.shuffle(of_one_kind)
    return by_kind


# Two mistakes in one program.


CATEGORY = "combined"


@dataclass(frozen=True)
class CombinedMutation:
    """Several edits of one program, in text order, whose lines do not touch."""

    parts: tuple[Mutation, ...]

    def __post_init__(self) -> None:
        for first, second in zip(self.parts, self.parts[1:], strict=False):
            if not _combine(first, second):
                raise ValueError(
                    f"mutations of lines {first.line} and {second.line} can't be combined: they "
                    "must be of one program, in the order of its text, and a line apart"
                )

    @property
    def kind(self) -> str:
        """The parts' kinds, joined by "+"."""
        return "+".join(part.kind for part in self.parts)

    @property
    def category(self) -> str:
        return CATEGORY

    @property
    def line(self) -> int:
        """Line of the first part, as for all following properties; the parts have their own."""
        return self.parts[0].line

    @property
    def scope(self) -> str:
        return self.parts[0].scope

    @property
    def scope_lines(self) -> tuple[int, int]:
        return self.parts[0].scope_lines

    @property
    def path(self) -> str:
        return self.parts[0].path

    @property
    def source(self) -> str:
        return self.parts[0].source

    def apply(self) -> str:
        """The broken program."""
        code = self.source
        for part in reversed(self.parts):
            code = code[: part.start] + part.text + code[part.end :]
        return code


def combined(mutations: Sequence[Mutation], seed: str, count: int) -> Iterator[CombinedMutation]:
    """At most `count` pairs in a seeded order, with no mutation in two of them.

    About half of the pairs are within one function, if there are enough; the others in two.
    """
    generator = random.Random(seed)
    left = sorted(mutations, key=lambda mutation: (mutation.path, mutation.start, mutation.text))
    generator.shuffle(left)
    while left and count > 0:
        one = left.pop()
        partner = _partner(one, left, same_scope=generator.random() < 0.5)
        if partner is not None:
            left.remove(partner)
            count -= 1
            yield CombinedMutation(_ordered(one, partner))


def _partner(one: Mutation, others: Sequence[Mutation], same_scope: bool) -> Mutation | None:
    """The first partner that fits, preferably in the requested scope."""
    fitting = [other for other in others if _combine(*_ordered(one, other))]
    wanted = (other for other in fitting if (other.scope == one.scope) == same_scope)
    return next(wanted, None) or next(iter(fitting), None)


def _ordered(one: Mutation, another: Mutation) -> tuple[Mutation, Mutation]:
    return (one, another) if one.start <= another.start else (another, one)


def _combine(first: Mutation, second: Mutation) -> bool:
    """Whether both can be applied: in separate statements, the first one before the second."""
    if first.source != second.source or first.path != second.path or first.end >= second.start:
        return False
    return "\n" in first.source[first.end : second.start]
