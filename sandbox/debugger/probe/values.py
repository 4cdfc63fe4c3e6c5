"""Render values as bounded text."""

from __future__ import annotations

import collections
import types
from collections import deque
from itertools import islice
from typing import Any, Callable, Iterator, NamedTuple, Tuple

from .wire import CONTROL, Interrupted, Json

Field = Tuple[str, object]


def instance_attributes(value: object) -> list[Field]:
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


def dataclass_fields(value: object) -> list[Field] | None:
    """The fields in a `repr` made by `dataclass`; None if there is none."""
    kind = type(value)
    written = getattr(getattr(kind, "__repr__", None), "__wrapped__", None)
    made = getattr(getattr(written, "__code__", None), "co_filename", "") == "<string>"
    fields = getattr(kind, "__dataclass_fields__", None)
    if not made or type(fields) is not dict:
        return None
    shown = [field.name for field in fields.values() if field.repr and hasattr(value, field.name)]
    return [(name, getattr(value, name)) for name in shown]


def named_fields(value: Any) -> list[Field] | None:
    """The fields of a named tuple that has its original `repr`."""
    kind = type(value)
    code = getattr(getattr(kind, "__repr__", None), "__code__", None)
    names = getattr(kind, "_fields", None)
    if type(names) is not tuple or not issubclass(kind, tuple):
        return None
    if code is None or not code.co_filename.endswith("collections/__init__.py"):
        return None
    return list(zip(names, tuple.__iter__(value)))  # noqa: B905  # CPython 3.8 has no strict


def size_of(value: Any) -> int | None:
    """Number of items of a built-in container."""
    kind = type(value)
    for base in (dict, list, tuple, set, frozenset, deque):
        if issubclass(kind, base):
            return int(base.__len__(value))
    return len(value) if is_one_of(kind, PLAIN) else None


PLAIN: tuple[Any, ...] = (
    range,
    bytes,
    bytearray,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
"""Other built-in types with items, which have no subclass or none that is likely."""


def is_one_of(kind: type, kinds: tuple[Any, ...]) -> bool:
    """As `kind in kinds`, which would run a metaclass's `__eq__`."""
    return any(kind is known for known in kinds)


PART = 65536
"""Characters of a long text that are quoted at once."""


class Bounds(NamedTuple):
    """How much of a value is shown."""

    chars: int
    depth: int
    """Nesting of containers."""
    items: int
    """Items per container."""
    lines: int

    @staticmethod
    def of(limits: Json) -> Bounds:
        names = ("value_chars", "value_depth", "value_items", "value_lines")
        return Bounds(*(limits[name] for name in names))


class Full(Exception):
    """The window is full, and there is more text."""


class Window:
    """The part of a text from its `start`-th character on, within bounds.

    Text before it is made and dropped; text after it is not made at all.
    """

    def __init__(self, bounds: Bounds, start: int = 0) -> None:
        self.skip = start
        self.left = bounds.chars
        self.lines = bounds.lines
        self.parts: list[str] = []
        self.shown = 0
        self.rest = ""
        """A note of what is left, once the window is full."""

    def put(self, text: str, more: int = 0, uncounted: bool = False) -> None:
        """Add a piece, which `more` characters will follow, or more than that if some of them are
        `uncounted`. Raises Full."""
        if not text.isprintable():
            text = text.translate(CONTROL)
        if self.skip:
            skipped = min(self.skip, len(text))
            self.skip -= skipped
            text = text[skipped:]
        end = len(text)
        if text.count("\n") >= self.lines:  # where the last line that may still be shown ends
            end = -1
            for _ in range(self.lines):
                end = text.find("\n", end + 1)
        shown = text[: min(end, self.left)]
        self.parts.append(shown)
        self.shown += len(shown)
        self.left -= len(shown)
        self.lines -= shown.count("\n")
        rest = text[len(shown) :]
        if not rest:
            return
        if len(shown) == end:
            self.rest = counted(rest.rstrip("\n").count("\n"), "line")
            self.shown += 1  # the line end is not shown again
        else:
            self.rest = counted(len(rest) + more, "character", "at least " if uncounted else "")
        raise Full

    def text(self) -> str:
        """The window's text, with a note of how much follows it."""
        shown = "".join(self.parts)
        separator = "\n" if self.rest.endswith(("line", "lines")) else ""
        return f"{shown}{separator}{self.rest}"


def counted(number: int, what: str, bound: str = "") -> str:
    """`... 1,200 more items`."""
    return f"... {bound}{number:,} more {what}" + ("s" if number != 1 else "")


def bounded_text(text: str, bounds: Bounds) -> str:
    """A complete text, cut to its bounds."""
    window = Window(bounds)
    try:
        window.put(text)
    except Full:
        return window.text()
    return window.text()


def quoted(value: Any, opening: str, closing: str) -> Iterator[tuple[str, int, bool]]:
    """The parts of the `repr` of a long text or bytes, each with the number of characters after it,
    and whether escapes, which are not counted, may make it more."""
    single: Any = "'" if type(value) is str else b"'"
    double: Any = '"' if type(value) is str else b'"'
    quote = '"' if single in value and double not in value else "'"
    # Put before a part, these make `repr` use the quotes of the whole.
    force = single if quote == '"' else double + single
    lead = len(repr(force)) - 1
    closing = quote + closing
    yield opening + quote, len(value) + len(closing), True
    for start in range(0, len(value), PART):
        left = max(len(value) - start - PART, 0)
        text = repr(force + value[start : start + PART])[lead:-1]
        yield text, left + len(closing), left > 0
    yield closing, 0, False


HUGE_BITS = 12000
BATCH = 1000
MANY_CHARS = 1_000_000


class Shape(NamedTuple):
    """How a built-in container is written, and is iterated without running a subclass's code."""

    opening: str
    closing: str
    items: Callable[[Any], Any]
    again: str = "[...]"
    """Shown if it contains itself, or lies too deep."""


SHAPES: dict[int, Shape] = {
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


def shape_of(value: Any) -> Shape | None:
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
    next_start: int | None
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
        self.seen: list[int] = []
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
        is_text = kind is str or kind is bytes or kind is bytearray
        if is_text and len(value) < 5000:
            self.put(repr(value))
        elif is_text:
            opening = "" if kind is str else "b" if kind is bytes else "bytearray(b"
            closing = ")" if kind is bytearray else ""
            long = bytes(value) if kind is bytearray else value
            for part, more, uncounted in quoted(long, opening, closing):
                self.put(part, more, uncounted)
        elif kind is int and value.bit_length() > HUGE_BITS:
            self.put(f"<int of {value.bit_length()} bits>")
        elif shape is not None:
            self._container(value, shape, depth)
        elif getattr(kind, "__repr__", None) is object.__repr__:
            self._object(value, instance_attributes(value), depth, ("<{}", " ", ">"))
        else:
            fields = named_fields(value) or dataclass_fields(value)
            if fields is None:
                self.put(repr(value) if depth == 0 else inner_repr(value))
            else:
                self._object(value, fields, depth, ("{}(", "", ")"))

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
        self, value: object, fields: list[Field], depth: int, form: tuple[str, str, str]
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


def inner_repr(value: object) -> str:
    """The `repr` of a part of a value, whose other parts can be shown if it raises."""
    try:
        return repr(value)
    except Interrupted:
        raise
    except BaseException as error:
        return f"<repr raised {type_name(type(error))}>"


def plain_length(items: list[Any]) -> int | None:
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


KEY = Bounds(chars=80, depth=3, items=20, lines=1)
"""For a key that serves as an item's name."""
