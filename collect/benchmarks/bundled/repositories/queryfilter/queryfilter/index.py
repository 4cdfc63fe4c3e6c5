"""Indexes by value, and which records a query needs to look at."""

from __future__ import annotations

from typing import Any, Dict, Optional, Set

from .nodes import And, Compare, OneOf, Or, field_value


class Index:
    """The ids of the records with each value of one field."""

    def __init__(self, field: str) -> None:
        self.field = field
        self._ids: Dict[Any, Set[int]] = {}

    def add(self, record: dict) -> None:
        self._ids.setdefault(field_value(record, self.field), set()).add(record["id"])

    def remove(self, record: dict) -> None:
        self._ids.get(field_value(record, self.field), set()).discard(record["id"])

    def find(self, *values: Any) -> Set[int]:
        return set().union(*(self._ids.get(value, set()) for value in values))


def candidates(node: Any, indexes: Dict[str, Index]) -> Optional[Set[int]]:
    """The ids among which all matches are, or None where the indexes can't tell."""
    if isinstance(node, Compare) and node.operator == "=" and node.field in indexes:
        return indexes[node.field].find(node.value)
    if isinstance(node, OneOf) and node.field in indexes:
        return indexes[node.field].find(*node.values)
    if isinstance(node, (And, Or)):
        left, right = candidates(node.left, indexes), candidates(node.right, indexes)
        if left is not None and right is not None:
            return left & right if isinstance(node, And) else left | right
        if isinstance(node, And):
            return right if left is None else left
    return None
