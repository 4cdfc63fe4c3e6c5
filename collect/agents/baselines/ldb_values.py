"""Formats variables as bounded text without running the program's code.

It is copied into the sandbox next to `ldb_tracer`: standard library only, CPython 3.8 or later.
"""

from __future__ import annotations

import re
import types
from array import array
from collections import deque
from collections.abc import Iterable
from itertools import islice
from os.path import realpath
from time import perf_counter
from typing import Any

ATOMS = (int, float, complex, bool, str, bytes, type(None))
"""Immutable types whose repr is C code."""
PLAIN_ATOMS: tuple[Any, ...] = (int, float, str, bytes)
TEXTS = (str, bytes, bytearray)
SEQUENCES: tuple[tuple[Any, str, str], ...] = (
    (list, "[", "]"),
    (tuple, "(", ")"),
    (set, "{", "}"),
    (frozenset, "{", "}"),
    (deque, "[", "]"),
    (array, "[", "]"),
)
PLAIN = (list, tuple, dict, set)
"""Containers identified by their brackets."""
SILENT = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
"""Values that say nothing about the execution."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
MAX_ITEMS = 30
"""Maximum parts of one value, nested ones included."""
MAX_DEPTH = 5
MAX_BITS = 2_000
SLOW = 0.05
"""Seconds for a library's `__repr__`, after which its type is shown by attributes."""


class Values:
    def __init__(self, max_chars: int, own_files: tuple[str, ...]) -> None:
        """`own_files`: real paths of the files whose `__repr__` methods must not run."""
        self.max_chars = max_chars
        self.own_files = own_files
        self.refused: set[type] = set()

    def exception(self, kind: type, value: object) -> str:
        """An exception as name and arguments."""
        arguments = value.args if isinstance(value, BaseException) else (value,)
        return "{}({})".format(kind.__name__, ", ".join(self.text(each) for each in arguments))

    def text(self, value: object) -> str:
        """One value on one line. Raises RecursionError."""
        try:
            text = self.render(value, MAX_DEPTH, [MAX_ITEMS])
        except RecursionError:
            raise
        except Exception as error:  # another thread may change it concurrently
            text = f"<{type(value).__name__}, {type(error).__name__}>"
        return shortened(text, self.max_chars)

    def render(self, value: Any, depth: int, budget: list[int]) -> str:
        """A value; `budget` counts down with each of its parts."""
        kind = type(value)
        budget[0] -= 1
        if kind in ATOMS or kind is bytearray:
            return self.atom(value, kind)
        if budget[0] < 0 or depth == 0:
            return "..."
        if issubclass(kind, dict):
            return self.mapping(value, kind, depth - 1, budget)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            pairs = zip(kind._fields, tuple.__iter__(value))  # noqa: B905 - CPython 3.8
            return self.attributes(kind, pairs, depth - 1, budget)
        for base, opening, closing in SEQUENCES:
            if issubclass(kind, base):
                inside = self.sequence(value, base, depth - 1, budget)
                return named(kind, opening + inside + closing)
        return self.instance(value, kind, depth - 1, budget)

    def sequence(self, value: Any, base: Any, depth: int, budget: list[int]) -> str:
        """The text inside the brackets, by the base class's methods, since a subclass may behave
        differently.
        """
        each = islice(base.__iter__(value), budget[0] + 2)
        inside = joined((self.render(part, depth, budget) for part in each), budget)
        return inside + "," if base is tuple and base.__len__(value) == 1 else inside

    def atom(self, value: Any, base: Any) -> str:
        """A number or text; long ones lose their middle before conversion."""
        if base is int:
            bits = value.bit_length()
            return int.__repr__(value) if bits <= MAX_BITS else f"<int of {bits} bits>"
        if base not in TEXTS or len(value) <= self.max_chars:
            return str(base.__repr__(value))
        half = self.max_chars // 2
        return f"{value[:half]!r}...{value[-half:]!r}"

    def mapping(self, value: Any, kind: type, depth: int, budget: list[int]) -> str:
        pairs = islice(dict.items(value), budget[0] + 2)
        items = (
            f"{self.render(key, depth, budget)}: {self.render(each, depth, budget)}"
            for key, each in pairs
        )
        return named(kind, "{" + joined(items, budget) + "}")

    def instance(self, value: Any, kind: type, depth: int, budget: list[int]) -> str:
        """An object: by a library's repr, else by its attributes."""
        if issubclass(kind, SILENT):
            return "<{} {}>".format(kind.__name__, getattr(value, "__name__", "?"))
        if not self.is_own(kind) and kind not in self.refused:
            started = perf_counter()
            try:
                text = " ".join(ADDRESS.sub("", repr(value)).split())
                return text.encode("utf-8", "backslashreplace").decode("utf-8")
            except RecursionError:
                raise
            except Exception:
                self.refused.add(kind)
            finally:
                if perf_counter() - started > SLOW:
                    self.refused.add(kind)
        for base in PLAIN_ATOMS:
            if issubclass(kind, base):
                return named(kind, self.atom(base.__add__(value, base()), base))
        return self.attributes(kind, object_attributes(value, kind), depth, budget)

    def attributes(
        self, kind: type, pairs: Iterable[tuple[str, object]], depth: int, budget: list[int]
    ) -> str:
        items = (f"{name}={self.render(each, depth, budget)}" for name, each in pairs)
        return f"{kind.__name__}({joined(items, budget)})"

    def is_own(self, kind: type) -> bool:
        """Whether its `__repr__` is the program's, so it may fail, print or never end."""
        shows: Any = kind.__repr__
        if shows is object.__repr__ or hasattr(kind, "__dataclass_fields__"):
            return True
        code = getattr(shows, "__code__", None)
        if code is None:
            return False
        return code.co_filename[:1] == "<" or realpath(code.co_filename) in self.own_files


def joined(items: Iterable[str], budget: list[int]) -> str:
    """Items up to the budget."""
    texts: list[str] = []
    for text in items:
        texts.append(text)
        if budget[0] < 0:
            return ", ".join(texts if text == "..." else [*texts, "..."])
    return ", ".join(texts)


def named(kind: type, text: str) -> str:
    """A text with its type in front, unless the text shows it."""
    if text == "{}" and issubclass(kind, (set, frozenset)):
        text = ""
    return text if kind in PLAIN and text else f"{kind.__name__}({text})"


def shortened(text: str, max_chars: int) -> str:
    """A text without its middle if it is too long."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return text[:half] + "..." + text[-half:]


def object_attributes(value: object, kind: type) -> list[tuple[str, object]]:
    """An object's attributes, without running its properties."""
    try:
        found = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        found = {}
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            member = base.__dict__.get(name)
            if isinstance(member, types.MemberDescriptorType):
                try:
                    found[name] = member.__get__(value)
                except AttributeError:  # never assigned
                    continue
    return [(str(name), each) for name, each in found.items()]
