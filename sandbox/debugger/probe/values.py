"""Values as bounded text, and what they are made of."""

from __future__ import annotations

import types
from collections import deque
from itertools import islice
from typing import Any, Dict, List, Optional, Tuple

from .wire import CONTROL, Interrupted


class Full(Exception):
    """The text has reached its limit."""


OPENING: Dict[type, str] = {
    list: "[",
    tuple: "(",
    set: "{",
    frozenset: "frozenset({",
    deque: "deque([",
}
CLOSING: Dict[type, str] = {list: "]", tuple: ")", set: "}", frozenset: "})", deque: "])"}
MAX_DEPTH = 6
HUGE_BITS = 12000


class ValueText:
    """Renders one value like `repr`, but bounded: it stops as soon as the text is full."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.parts: List[str] = []
        self.seen: List[int] = []

    def render(self, value: object) -> Tuple[str, bool]:
        """The text, and whether it was cut."""
        try:
            self._value(value, 0)
            truncated = False
        except Full:
            truncated = True
        text = "".join(self.parts).translate(CONTROL)
        return (text + "..." if truncated else text), truncated

    def _put(self, text: str) -> None:
        self.parts.append(text[: self.left])
        self.left -= len(text)
        if self.left < 0:
            raise Full

    def _value(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind is str or kind is bytes or kind is bytearray:
            self._text(value)
        elif kind is int and value.bit_length() > HUGE_BITS:
            self._put(f"<int of {value.bit_length()} bits>")
        elif kind is dict or kind in OPENING:
            self._container(value, kind, depth)
        elif getattr(kind, "__repr__", None) is object.__repr__:
            self._plain_object(value, kind, depth)
        else:
            self._put(repr(value))

    def _text(self, value: Any) -> None:
        if len(value) > self.left:
            self._put(repr(value[: self.left])[: self.left])
            raise Full
        self._put(repr(value))

    def _container(self, value: Any, kind: type, depth: int) -> None:
        if kind is not dict and not value and kind in (set, frozenset):
            return self._put(kind.__name__ + "()")
        if id(value) in self.seen or depth >= MAX_DEPTH:
            return self._put("{...}" if kind is dict else "[...]")
        self.seen.append(id(value))
        self._put(OPENING.get(kind, "{"))
        items = value.items() if kind is dict else value
        for index, item in enumerate(items):
            if index:
                self._put(", ")
            if kind is dict:
                self._value(item[0], depth + 1)
                self._put(": ")
            self._value(item[1] if kind is dict else item, depth + 1)
        self._put("," if kind is tuple and len(value) == 1 else "")
        self._put(CLOSING.get(kind, "}"))
        self.seen.pop()

    def _plain_object(self, value: object, kind: type, depth: int) -> None:
        """An object without a `__repr__` of its own: its attributes say more than its address."""
        self._put("<" + kind.__qualname__)
        attributes = instance_attributes(value)
        if id(value) in self.seen or depth >= MAX_DEPTH:
            self._put(" ..." if attributes else "")
        else:
            self.seen.append(id(value))
            for name, item in attributes:
                self._put(f" {name}=")
                self._value(item, depth + 1)
            self.seen.pop()
        self._put(">")


def instance_attributes(value: object) -> List[Tuple[str, object]]:
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


def type_name(kind: type) -> str:
    """The qualified name of a class, whatever its metaclass does; without its module."""
    return str(type.__getattribute__(kind, "__qualname__"))


def exception_text(error: BaseException, limit: int) -> str:
    """The message of an exception, whatever its `__str__` does."""
    try:
        text = str(error)
    except Interrupted:
        raise
    except BaseException as problem:
        text = f"<str raised {type_name(type(problem))}>"
    text = text.translate(CONTROL)
    return text if len(text) <= limit else text[:limit] + "..."


def size_of(value: Any) -> Optional[int]:
    """How many items a built-in container holds."""
    kind = type(value)
    for base in (dict, list, tuple, set, frozenset, deque):
        if issubclass(kind, base):
            return int(base.__len__(value))
    return None


def fields_of(value: Any, limit: int) -> List[Tuple[str, object]]:
    """Items by key or index, else attributes; properties are named, not run.

    By `type(value)` throughout: `isinstance` would run a `__class__` of the program's.
    """
    kind = type(value)
    found: List[Tuple[str, object]] = []
    if issubclass(kind, dict):
        for key, item in islice(dict.items(value), limit):
            found.append((f"[{ValueText(80).render(key)[0]}]", item))
    elif issubclass(kind, (list, tuple, deque)):
        names = getattr(kind, "_fields", None)
        for index, item in enumerate(islice(value, limit)):
            found.append((names[index] if names else f"[{index}]", item))
    elif issubclass(kind, (set, frozenset)):
        found += [(f"{{{index}}}", item) for index, item in enumerate(islice(value, limit))]
    else:
        found += [item for item in instance_attributes(value) if not item[0].startswith("__")]
    return found + properties_of(kind)


class NotEvaluated:
    """Stands for a property, which a look must not run."""

    def __repr__(self) -> str:
        return "<property, not evaluated>"


def properties_of(kind: type) -> List[Tuple[str, object]]:
    names = []
    for base in kind.__mro__:
        names += [name for name, item in base.__dict__.items() if type(item) is property]
    return [(name, NotEvaluated()) for name in dict.fromkeys(names) if not name.startswith("__")]
