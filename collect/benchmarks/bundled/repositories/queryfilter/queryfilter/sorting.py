"""Ordering records by several fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Sequence

from .nodes import field_value


@dataclass(frozen=True)
class Term:
    field: str
    descending: bool = False


def parse_order(text: str) -> List[Term]:
    """`"-price, name"` as terms. The id comes last, so that no two records are equal."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    terms = [Term(part.lstrip("-"), part.startswith("-")) for part in parts]
    if all(term.field != "id" for term in terms):
        terms.append(Term("id"))
    return terms


def sort_values(record: dict, terms: Sequence[Term]) -> List[Any]:
    return [field_value(record, term.field) for term in terms]


def compare(left: Sequence[Any], right: Sequence[Any], terms: Sequence[Term]) -> int:
    """Negative, 0 or positive, for two lists of sort values. Missing ones are always last."""
    for a, b, term in zip(left, right, terms):
        if a == b:
            continue
        if a is None or b is None:
            return 1 if a is None else -1
        before = a > b if term.descending else a < b
        return -1 if before else 1
    return 0
