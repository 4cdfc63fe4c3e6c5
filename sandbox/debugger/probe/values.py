"""Render values as bounded text."""

from __future__ import annotations

import collections
from itertools import islice
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .contents import Field, dataclass_fields, instance_attributes, named_fields, size_of
from .window import Bounds, Full, Window, bounded_text, counted, quoted
from .wire import Interrupted

HUGE_BITS = 12000
BATCH = 1000
MANY_CHARS = 1_000_000


class Shape(NamedTuple):
    """How a built-in container is written, and how to iterate it without running a subclass's
    code."""

    opening: str
    closing: str
    items: Callable[[Any], Any]
    again: str = "[...]"
    """Shown if it contains itself, or lies too deep."""


SHAPES: Dict[int, Shape] = {
    id(list.__repr__): Shape("[", "]", list.__iter__),
    id(tuple.__repr__): Shape("(", ")", tuple.__iter__, "(...)"),
    id(dict.__repr__): Shape("{", "}", dict.items, "{...}"),
    id(set.__repr__): Shape("%s({", "})", set.__iter__, "{...}"),
    id(frozenset.__repr__): Shape("%s({", "})", frozenset.__iter__, "{...}"),
    id(collections.deque.__repr__): Shape("%s([", "])", collections.deque.__iter__),
    id(collections.OrderedDict.__repr__): Shape("%s({", "})", dict.items, "{...}"),
    id(collections.defaultdict.__repr__): Shape("%s({", "})", dict.items, "{...}"),
    id(collections.Counter.__repr__): Shape("%s({", "})", dict.items, "{...}"),
}
"""By the identity of a class's `__repr__`, its own or a built-in one."""


def shape_of(value: Any) -> Optional[Shape]:
    """The shape of a value that is written like a built-in container, or None."""
    kind = type(value)
    shape = SHAPES.get(id(getattr(kind, "__repr__", None)))
    if shape is None or "%s" not in shape.opening:
        return shape
    name = type_name(kind)
    if issubclass(kind, collections.defaultdict):
        return shape._replace(opening=f"{name}({value.default_factory!r:.80}, {{")
    if issubclass(kind, (set, frozenset)) and not size_of(value):
        return shape._replace(opening=name + "(", closing=")")
    if kind is set:
        return shape._replace(opening="{", closing="}")
    if issubclass(kind, collections.deque) and value.maxlen is not None:
        return shape._replace(opening=name + "([", closing=f"], maxlen={value.maxlen})")
    return shape._replace(opening=shape.opening % name)


class Rendered(NamedTuple):
    """A page of a value's text."""

    text: str
    truncated: bool
    next_start: Optional[int]
    """Start of the next page; None if the text is complete."""


def render(value: object, bounds: Bounds, start: int = 0) -> Rendered:
    """The text of a value from its `start`-th character on, within bounds.

    Raises what the value's own `__repr__` raises.
    """
    rendering = Rendering(bounds, start)
    window = rendering.window
    try:
        rendering.value(value, 0)
    except Full:
        window.rest = rendering.items_left() or window.rest
        return Rendered(window.text(), True, start + window.shown)
    return Rendered(window.text(), rendering.cut, None)


class Rendering:
    """Writes one value into a window, as `repr` would, but only as far as the window goes."""

    def __init__(self, bounds: Bounds, start: int) -> None:
        self.bounds = bounds
        self.window = Window(bounds, start)
        self.put = self.window.put
        self.seen: List[int] = []
        self.cut = False
        """Whether anything inside was left out."""
        self.size = self.done = 0
        """Items of the outermost container, and how many of them have been passed."""
        self.before = 0
        """Number of those before the window."""
        self.partly = False
        """Whether the window holds a part of the next item."""
        self.what = ""

    def items_left(self) -> str:
        """A note of what is left of the outermost container; empty if nothing is."""
        left = self.size - self.done - self.partly
        if not self.what:
            return ""
        more = ", " + counted(left, self.what) if left > 0 else ""
        return ("..." if self.partly else "") + more

    def value(self, value: Any, depth: int) -> None:
        kind, shape = type(value), shape_of(value)
        if kind is str or kind is bytes or kind is bytearray:
            self._text(value, kind)
        elif kind is int and value.bit_length() > HUGE_BITS:
            self.put(f"<int of {value.bit_length()} bits>")
        elif shape is not None:
            self._container(value, shape, depth)
        elif getattr(kind, "__repr__", None) is object.__repr__:
            self._object(value, instance_attributes(value), depth, ("<{}", " ", ">"))
        else:
            fields = named_fields(value) or dataclass_fields(value)
            if fields is None:
                self.put(repr(value))
            else:
                self._object(value, fields, depth, ("{}(", "", ")"))

    def _text(self, value: Any, kind: type) -> None:
        if len(value) < 5000:
            return self.put(repr(value))
        opening = "" if kind is str else "b" if kind is bytes else "bytearray(b"
        for part, more in quoted(bytes(value) if kind is bytearray else value, opening):
            self.put(part, more)
        self.put(")" if kind is bytearray else "")

    def _container(self, value: Any, shape: Shape, depth: int) -> None:
        size, mapping = size_of(value) or 0, shape.items is dict.items
        if not self._enter(value, depth, shape.again, size):
            return
        self.put(shape.opening)
        first = self._behind(value, size) if depth == 0 else 0
        for index, item in enumerate(islice(shape.items(value), first, None), first):
            if self._full(index, size, depth, "item"):
                break
            self.put(", " if index > first else "")
            self.partly = self.partly or depth == 0
            if mapping:
                self.value(item[0], depth + 1)
                self.put(": ")
            self.value(item[1] if mapping else item, depth + 1)
        self._leave(depth)
        self.put("," if shape.items is tuple.__iter__ and size == 1 else "")
        self.put(shape.closing)

    def _behind(self, value: Any, size: int) -> int:
        """Number of items of a long list that lie before the window, counted in batches."""
        index, kind = 0, tuple if issubclass(type(value), tuple) else list
        while self.window.skip > BATCH and index + BATCH < size and issubclass(type(value), kind):
            batch = list(kind.__getitem__(value, slice(index, index + BATCH)))
            length = plain_length(batch)
            if length is None or length > self.window.skip:
                break
            self.window.skip -= length
            index += BATCH
        return index

    def _object(
        self, value: object, fields: List[Field], depth: int, form: Tuple[str, str, str]
    ) -> None:
        """An object by its fields, which say more than its address."""
        opening, lead, end = form
        self.put(opening.format(type_name(type(value))))
        if not self._enter(value, depth, lead + "..." if fields else "", len(fields)):
            return self.put(end)
        for index, (name, item) in enumerate(fields):
            if self._full(index, len(fields), depth, "field"):
                break
            self.put(lead if lead or not index else ", ")
            self.partly = self.partly or depth == 0
            self.put(f"{name}=")
            self.value(item, depth + 1)
        self._leave(depth)
        self.put(end)

    def _enter(self, value: object, depth: int, instead: str, size: int) -> bool:
        """Whether to go into a container: not if it contains itself or lies too deep."""
        again = id(value) in self.seen
        if again or depth > self.bounds.depth - 1:
            self.cut = self.cut or not again
            self.put(instead)
            return False
        self.seen.append(id(value))
        if depth == 0:
            self.size = size
        return True

    def _full(self, index: int, size: int, depth: int, what: str) -> bool:
        """Whether to stop at this item; the outermost container stops when the window is full."""
        if depth == 0:
            self.done, self.what, self.partly = index, what, False
            if self.window.skip:
                self.before = index
            if index - self.before >= self.bounds.items:
                raise Full
            return False
        if index < self.bounds.items:
            return False
        self.cut = True
        self.put(f", {counted(size - index, what)}")
        return True

    def _leave(self, depth: int) -> None:
        self.seen.pop()
        if depth == 0:
            self.what = ""


def plain_length(items: List[Any]) -> Optional[int]:
    """The length of some items' text with separators; None if some item is not plain."""
    kinds = set(map(type, items))
    if kinds == {int} and any(item.bit_length() > HUGE_BITS for item in (max(items), min(items))):
        return None
    if kinds == {str} and sum(map(len, items)) > MANY_CHARS:
        return None
    return len(repr(items)) if kinds in ({int}, {str}, {float}) else None


def type_name(kind: type) -> str:
    """The qualified name of a class without its module, whatever its metaclass does."""
    return str(type.__getattribute__(kind, "__qualname__"))


def exception_text(error: BaseException, bounds: Bounds) -> str:
    """The message of an exception, whatever its `__str__` does."""
    try:
        text = str(error)
    except Interrupted:
        raise
    except BaseException as problem:
        text = f"<str raised {type_name(type(problem))}>"
    return bounded_text(text, bounds)
