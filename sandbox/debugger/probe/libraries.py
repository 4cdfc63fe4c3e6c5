"""The fields of arrays, tables and mocks, which hold what matters in C or under private names."""

from __future__ import annotations

import sys
from typing import Any, Callable, NamedTuple

from .fields import fields_of
from .values import KEY, Field, instance_attributes, render

OF_MOCKS = (
    *("return_value", "side_effect", "called", "call_count", "call_args", "mock_calls"),
    *("await_count", "await_args"),
)
"""What a mock keeps under these names with `_mock_` before them."""


class Shown(NamedTuple):
    """What is to be shown of a value: some facts, then its items."""

    facts: list[Field]
    size: int = 0
    item: Callable[[int], Field] = lambda index: ("", None)

    def page(self, start: int, count: int) -> tuple[list[Field], int]:
        """`count` of them from the `start`-th on, and their total number."""
        total = len(self.facts) + self.size
        chosen = range(start, min(start + count, total))
        first_item = len(self.facts)
        fields = [
            self.facts[index] if index < first_item else self.item(index - first_item)
            for index in chosen
        ]
        return fields, total


def shown_fields(value: Any, start: int, count: int) -> tuple[list[Field], int]:
    """`count` of any value's items and attributes, from the `start`-th on, and their number."""
    known = library_fields(value)
    return fields_of(value, start, count) if known is None else known.page(start, count)


def library_fields(value: Any) -> Shown | None:
    """What to show of a value of a library's type; None of any other."""
    bases = type(value).__mro__
    for module, name, describe in KNOWN:
        kind = vars(sys.modules[module]).get(name) if module in sys.modules else None
        if kind is not None and any(base is kind for base in bases):
            return describe(value)
    return None


def array(value: Any) -> Shown:
    """Its rows; a value without dimensions is its only one."""
    facts = facts_of(value, ("shape", "dtype", "requires_grad", "grad"))
    if not value.shape:
        return Shown([*facts, ("[()]", value.item())])
    return Shown(facts, len(value), lambda index: (f"[{index}]", value[index]))


def frame(value: Any) -> Shown:
    """Its columns."""
    facts, columns = facts_of(value, ("shape", "index")), value.columns
    return Shown(facts, len(columns), lambda index: (key(columns[index]), value.iloc[:, index]))


def series(value: Any) -> Shown:
    """Its values, by their labels."""
    facts, labels = facts_of(value, ("shape", "dtype", "name")), value.index
    return Shown(facts, len(value), lambda index: (key(labels[index]), value.iloc[index]))


def mock(value: Any) -> Shown:
    """What it gives and how it was called, and its attributes."""
    own = dict(instance_attributes(value))
    facts = [(name, own["_mock_" + name]) for name in OF_MOCKS if "_mock_" + name in own]
    children = own.get("_mock_children")
    facts += children.items() if type(children) is dict else ()
    given = [item for item in own.items() if item[0][0] != "_" and item[0] != "method_calls"]
    return Shown([*facts, *given])


def facts_of(value: Any, names: tuple[str, ...]) -> list[Field]:
    """Those attributes that it has, and those that a subclass's objects have been given."""
    facts = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    given = [item for item in instance_attributes(value) if item[0][:1] != "_"]
    return [*facts, *given]


def key(label: Any) -> str:
    return f"[{render(label, KEY)[0]}]"


KNOWN: tuple[tuple[str, str, Callable[[Any], Shown]], ...] = (
    ("numpy", "ndarray", array),
    ("torch", "Tensor", array),
    ("pandas", "DataFrame", frame),
    ("pandas", "Series", series),
    ("unittest.mock", "NonCallableMock", mock),
    ("mock.mock", "NonCallableMock", mock),
)
"""Types by their module and name, which the program may not have imported."""
