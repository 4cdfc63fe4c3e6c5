"""Laying one tree over another."""

from __future__ import annotations

from .parser import Append
from .tree import Tree


def merge(below: Tree, above: Tree) -> Tree:
    """A new tree with the values of `above`, and those of `below` that it doesn't set.

    Sections are merged key by key. Neither of the two is changed, now or through the result.
    """
    result = {key: copy_of(value) for key, value in below.items()}
    for key, value in above.items():
        old = result.get(key)
        if isinstance(value, dict):
            result[key] = merge(old if isinstance(old, dict) else {}, value)
        elif isinstance(value, Append):
            result[key] = _extended(old, value)
        else:
            result[key] = value
    return result


def copy_of(value):
    """The value, or a deep copy where it is a section."""
    if isinstance(value, dict):
        return {key: copy_of(item) for key, item in value.items()}
    return value


def _extended(old, more: Append) -> str:
    """The longer list. It stays an `Append` until a layer with a full list is met."""
    if not old or isinstance(old, dict):
        return more
    return type(old)("%s, %s" % (old, more))
