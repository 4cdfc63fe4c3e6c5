"""Guards to build transitions from."""

from __future__ import annotations

from .definition import Guard


def at_least(key: str, minimum) -> Guard:
    """The context's value is `minimum` or more."""
    return lambda context: context.get(key, 0) >= minimum


def equals(key: str, value) -> Guard:
    return lambda context: context.get(key) == value


def all_of(*guards: Guard) -> Guard:
    return lambda context: all(guard(context) for guard in guards)


def negation(guard: Guard) -> Guard:
    return lambda context: not guard(context)
