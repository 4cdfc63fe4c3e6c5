"""The items and attributes of a value, to be looked at one by one."""

from __future__ import annotations

import builtins
import types
from collections import deque
from contextlib import suppress
from functools import partial
from gc import get_referents
from itertools import islice
from typing import Any

from .values import KEY, PLAIN, Field, instance_attributes, is_one_of, render, size_of


def behind(value: Any) -> Any:
    """The mapping that a read-only view of it shows; any other value as it is."""
    while type(value) is types.MappingProxyType:
        value = get_referents(value)[0]
    return value


class NotEvaluated:
    """Stands for properties, which must not be run just to be shown."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __repr__(self) -> str:
        named = f": {', '.join(self.names)}" if len(self.names) > 1 else ""
        return f"<property, not evaluated{named}>"


FEW_PROPERTIES = 8
"""So many have a line each; more have one together, without private ones."""


def properties_of(kind: type) -> list[Field]:
    every: dict[str, None] = {}
    for base in kind.__mro__:
        properties = [name for name, item in base.__dict__.items() if type(item) is property]
        every.update(dict.fromkeys(name for name in properties if not name.startswith("__")))
    if len(every) <= FEW_PROPERTIES:
        return [(name, NotEvaluated([name])) for name in every]
    public = [name for name in every if not name.startswith("_")]
    return [("properties", NotEvaluated(public))]


def fields_of(value: Any, start: int, count: int) -> tuple[list[Field], int]:
    """`count` items by key or index and attributes, from the `start`-th on; and their total number.
    Properties are named, not run.

    Uses `type(value)`, since `isinstance` would run a `__class__` of the program's.
    """
    value = behind(value)
    size = size_of(value)
    more = [item for item in instance_attributes(value) if not item[0].startswith("__")]
    more += captured(value)
    more += properties_of(type(value))
    if size is None:
        return more[start : start + count], len(more)
    found = items_of(value, start, start + count)
    last = max(start - size, 0)
    return (found + more[last:])[:count], size + len(more)


OF_EXCEPTION = ("args", "__cause__", "__context__")


def captured(value: Any) -> list[Field]:
    """What a function's closure and defaults hold, what `functools.partial` has taken, or what an
    exception was given and came from."""
    if issubclass(type(value), BaseException):
        given = [(name, vars(BaseException)[name].__get__(value)) for name in OF_EXCEPTION]
        notes = vars(BaseException)["__dict__"].__get__(value).get("__notes__")
        given += [*built_in_attributes(type(value), value), ("__notes__", notes)]
        return given[:1] + [item for item in given[1:] if item[1] is not None]
    if issubclass(type(value), partial):
        return [(name, getattr(value, name)) for name in ("func", "args", "keywords")]
    if type(value) is not types.FunctionType:
        return []
    found: list[Field] = []
    code = value.__code__
    for name, cell in zip(code.co_freevars, value.__closure__ or ()):  # noqa: B905
        try:
            found.append((name, cell.cell_contents))
        except ValueError:
            continue  # not assigned yet
    defaults = value.__defaults__ or ()
    last = code.co_varnames[: code.co_argcount][-len(defaults) :] if defaults else ()
    found += zip(last, defaults)  # noqa: B905
    return [*found, *(value.__kwdefaults__ or {}).items()]


def built_in_attributes(kind: type, error: BaseException) -> list[Field]:
    """What an exception of a built-in class keeps in C: `errno`, `filename`, a group's members."""
    found: list[Field] = []
    for base in type.__dict__["__mro__"].__get__(kind):
        known = vars(builtins).get(type.__dict__["__name__"].__get__(base))
        if known is not base or base is BaseException or base is object:
            continue
        for name, descriptor in base.__dict__.items():
            if type(descriptor) is types.MemberDescriptorType:
                with suppress(AttributeError):
                    found.append((name, descriptor.__get__(error)))
    return found


def items_of(value: Any, start: int, end: int) -> list[Field]:
    """Some items of a built-in container, without running a subclass's methods."""
    kind = type(value)
    if is_one_of(kind, PLAIN):
        return [(f"[{n}]", item) for n, item in enumerate(islice(value, start, end), start)]
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
