"""The tree of a query, and what it says about one record."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Any, Tuple

_ORDERED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def field_value(record: dict, name: str) -> Any:
    """The value of a field; `a.b` looks into a nested record. None where there is none."""
    value: Any = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


@dataclass(frozen=True)
class Compare:
    field: str
    operator: str
    value: Any

    def matches(self, record: dict) -> bool:
        found = field_value(record, self.field)
        if self.operator == "=":
            return found == self.value
        if self.operator == "!=":
            return found != self.value
        if found is None or self.value is None:
            return False
        return _ORDERED[self.operator](found, self.value)


@dataclass(frozen=True)
class OneOf:
    field: str
    values: Tuple[Any, ...]

    def matches(self, record: dict) -> bool:
        return field_value(record, self.field) in self.values


@dataclass(frozen=True)
class Like:
    """`%` stands for any text, `_` for one character. Case doesn't matter."""

    field: str
    pattern: str

    def matches(self, record: dict) -> bool:
        parts = {"%": ".*", "_": "."}
        regex = "".join(parts.get(char, re.escape(char)) for char in self.pattern)
        return bool(re.fullmatch(regex, str(field_value(record, self.field) or ""), re.I | re.S))


@dataclass(frozen=True)
class Has:
    field: str
    value: Any

    def matches(self, record: dict) -> bool:
        return self.value in (field_value(record, self.field) or ())


@dataclass(frozen=True)
class Not:
    operand: Any

    def matches(self, record: dict) -> bool:
        return not self.operand.matches(record)


@dataclass(frozen=True)
class And:
    left: Any
    right: Any

    def matches(self, record: dict) -> bool:
        return self.left.matches(record) and self.right.matches(record)


@dataclass(frozen=True)
class Or:
    left: Any
    right: Any

    def matches(self, record: dict) -> bool:
        return self.left.matches(record) or self.right.matches(record)


@dataclass(frozen=True)
class Everything:
    """The empty query."""

    def matches(self, record: dict) -> bool:
        return True
