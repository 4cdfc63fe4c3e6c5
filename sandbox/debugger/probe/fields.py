"""The fields of an object, page by page."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any, List, Tuple

from .contents import Field, instance_attributes, properties_of, size_of
from .values import render
from .window import Bounds

KEY = Bounds(chars=80, depth=3, items=20, lines=1)
"""For a key that serves as an item's name."""


def fields_of(value: Any, start: int, count: int) -> Tuple[List[Field], int]:
    """`count` items by key or index, otherwise attributes, from the `start`-th on; and their total
    number. Properties are named, not run.

    Uses `type(value)`, since `isinstance` would run a `__class__` of the program's.
    """
    size = size_of(value)
    if size is None:
        own = [item for item in instance_attributes(value) if not item[0].startswith("__")]
        own += properties_of(type(value))
        return own[start : start + count], len(own)
    found = items_of(value, start, start + count)
    more = properties_of(type(value))
    last = max(start - size, 0)
    return (found + more[last:])[:count], size + len(more)


def items_of(value: Any, start: int, end: int) -> List[Field]:
    """Some items of a built-in container, without running a subclass's methods."""
    kind = type(value)
    if issubclass(kind, dict):
        chosen = islice(dict.items(value), start, end)
        return [(f"[{render(key, KEY)[0]}]", item) for key, item in chosen]
    for base in (list, tuple, deque):
        if issubclass(kind, base):
            names = getattr(kind, "_fields", None)
            chosen = islice(base.__iter__(value), start, end)
            return [
                (names[index] if type(names) is tuple else f"[{index}]", item)
                for index, item in enumerate(chosen, start)
            ]
    base_set = set if issubclass(kind, set) else frozenset
    chosen = islice(base_set.__iter__(value), start, end)
    return [(f"{{{index}}}", item) for index, item in enumerate(chosen, start)]
