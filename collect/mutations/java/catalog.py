"""All kinds of mutations of Java."""

from __future__ import annotations

from collect.mutations.java import conditions, flow, names, numbers, state
from collect.mutations.java.base import JavaKind

JAVA_KINDS: tuple[JavaKind, ...] = (
    *conditions.KINDS,
    *numbers.KINDS,
    *state.KINDS,
    *flow.KINDS,
    *names.KINDS,
)
