"""Choose among the mutations of a program or a project."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from collect.mutations.base import Mutation

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
"""How much oftener than one of weight 1 each of a category's kinds is chosen. What a debugger shows
and a reader overlooks weighs most; what the first reader sees, least."""
MAX_PER_SCOPE = 3


def shuffled(mutations: Sequence[Mutation], seed: str) -> Iterator[Mutation]:
    """All of them in an order that the seed decides, taking turns between the kinds."""
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
    """At most `count` of them, kinds taking turns by their category's weight, 1 where it has none.

    No edit twice, and at most `per_scope` in one function. They may be of several programs. The
    order decides as well: the first n are what a smaller count gives.
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
