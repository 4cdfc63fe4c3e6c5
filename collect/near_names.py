"""What somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'collect'?`; empty where no name is near."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def the_nearest(name: str, known: Iterable[str]) -> str:
    """`; the nearest are cart-1, cart-2`, of long names, which may differ by more; empty where none
    is near."""
    near = get_close_matches(name, list(known), n=3, cutoff=0.4)
    return f"; the nearest are {', '.join(near)}" if near else ""
