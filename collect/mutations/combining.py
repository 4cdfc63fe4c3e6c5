"""Two mistakes in one program."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collect.mutations.base import Mutation

CATEGORY = "combined"


@dataclass(frozen=True)
class CombinedMutation:
    """Several edits of one program, whose lines do not touch, in the order of the text."""

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
        """Of the first part, as everything that follows; the parts have their own."""
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
    """At most `count` pairs, in an order that the seed decides, no mutation in two of them.

    About half of the pairs are in one function, where there are such; the others in two.
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
    """The first that fits, of the wanted sort where there is one."""
    fitting = [other for other in others if _combine(*_ordered(one, other))]
    wanted = (other for other in fitting if (other.scope == one.scope) == same_scope)
    return next(wanted, None) or next(iter(fitting), None)


def _ordered(one: Mutation, another: Mutation) -> tuple[Mutation, Mutation]:
    return (one, another) if one.start <= another.start else (another, one)


def _combine(first: Mutation, second: Mutation) -> bool:
    """Whether both can be made: in statements of their own, the first one before the second."""
    if first.source != second.source or first.path != second.path or first.end >= second.start:
        return False
    return "\n" in first.source[first.end : second.start]
