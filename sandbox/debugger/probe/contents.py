"""The contents of values: items, attributes, and fields that can be shown without running code."""

from __future__ import annotations

import types
from collections import deque
from typing import Any, List, Optional, Tuple

Field = Tuple[str, object]


def instance_attributes(value: object) -> List[Field]:
    """The attributes that an object itself holds: its `__dict__` and its slots."""
    found = {}
    try:
        found.update(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        found.clear()  # a class with slots only
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for given in (slots,) if isinstance(slots, str) else tuple(slots):
            private = given.startswith("__") and not given.endswith("__")
            name = "_" + base.__name__.lstrip("_") + given if private else given
            slot = base.__dict__.get(name)
            if type(slot) is types.MemberDescriptorType:
                try:
                    found[name] = slot.__get__(value)
                except AttributeError:
                    continue
    return [(str(name), item) for name, item in found.items()]


def dataclass_fields(value: object) -> Optional[List[Field]]:
    """The fields in a `repr` made by `dataclass`; None if there is none."""
    kind = type(value)
    written = getattr(getattr(kind, "__repr__", None), "__wrapped__", None)
    made = getattr(getattr(written, "__code__", None), "co_filename", "") == "<string>"
    fields = getattr(kind, "__dataclass_fields__", None)
    if not made or type(fields) is not dict:
        return None
    shown = [field.name for field in fields.values() if field.repr and hasattr(value, field.name)]
    return [(name, getattr(value, name)) for name in shown]


def named_fields(value: Any) -> Optional[List[Field]]:
    """The fields of a named tuple that has its original `repr`."""
    kind = type(value)
    code = getattr(getattr(kind, "__repr__", None), "__code__", None)
    names = getattr(kind, "_fields", None)
    if type(names) is not tuple or not issubclass(kind, tuple):
        return None
    if code is None or not code.co_filename.endswith("collections/__init__.py"):
        return None
    return list(zip(names, tuple.__iter__(value)))  # noqa: B905  # CPython 3.8 has no strict


def size_of(value: Any) -> Optional[int]:
    """Number of items of a built-in container."""
    kind = type(value)
    for base in (dict, list, tuple, set, frozenset, deque):
        if issubclass(kind, base):
            return int(base.__len__(value))
    return None


class NotEvaluated:
    """Stands for a property, which must not be run just to be shown."""

    def __repr__(self) -> str:
        return "<property, not evaluated>"


def properties_of(kind: type) -> List[Field]:
    names = []
    for base in kind.__mro__:
        names += [name for name, item in base.__dict__.items() if type(item) is property]
    return [(name, NotEvaluated()) for name in dict.fromkeys(names) if not name.startswith("__")]
