"""Compares values by meaning, not by spelling.

Literals are compared as values (floats within a tolerance, sets and dicts without order), calls
such as `Decimal('1.5')` by name and arguments, and other representations as text without addresses.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from collect.code.syntax import expression

RELATIVE = 1e-6
"""Relative tolerance for floats."""
ADDRESS = re.compile(r"(?<!\s)\s++at 0x[0-9a-fA-F]+")
BARE = re.compile(r"<(?:[\w.]|<locals>)+>|<[\w ]+, not evaluated>")
"""An object whose representation shows no contents."""
PASSING = ("...", "0x", "pytest-of-")
"""Marks of text that is cut or differs between runs: an address, a path with the run's number."""
OBJECT = re.compile(
    r"'(?:[^'\\]|\\.)*+'?|\"(?:[^\"\\]|\\.)*+\"?"
    r"|(?P<object><[A-Za-z_](?:[^<>'\"]|'(?:[^'\\]|\\.)*+'|->)*+>)"
)
"""A string, even without its end, or an object's representation inside a larger one."""
SPACE = re.compile(r"\s+")
GUESSED = ("None", "True", "False", "-1", "0", "1", "2", "''", "b''", "[]", "()", "{}", "set()")
"""Values that anybody would guess."""


@dataclass(frozen=True)
class Name:
    """A name used as a value: `inf`, a class."""

    name: str


@dataclass(frozen=True)
class Call:
    """A representation of the form `Name(arguments)`."""

    name: str
    arguments: tuple[object, ...]
    keywords: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True)
class Text:
    """A representation that is not an expression: `<Cart items=3>`."""

    text: str


@dataclass(frozen=True)
class _Set:
    items: tuple[object, ...]


@lru_cache(1_000)
def parse_value(text: str) -> object:
    """A value from its representation, not to be changed."""
    objects: dict[str, Text] = {}

    def name_of(found: re.Match[str]) -> str:
        """A name for an object outside strings, which is no expression."""
        if found["object"] is None:
            return found[0]
        name = f"object_{len(objects)}_"
        objects[name] = _as_text(found["object"])
        return name

    stripped = text.strip()
    if "<" in stripped and not stripped.startswith("<"):
        stripped = OBJECT.sub(name_of, stripped)
    node = expression(stripped)
    try:
        return _value(node, objects) if node is not None else _as_text(text)
    except (ValueError, RecursionError):
        return _as_text(text)


def _as_text(text: str) -> Text:
    return Text(SPACE.sub(" ", without_addresses(text.strip())))


def _value(node: ast.expr, objects: Mapping[str, Text]) -> object:
    value: object
    match node:
        case ast.Constant():
            value = node.value
        case ast.List():
            value = [_value(item, objects) for item in node.elts]
        case ast.Tuple():
            value = tuple(_value(item, objects) for item in node.elts)
        case ast.Set():
            value = _Set(tuple(_value(item, objects) for item in node.elts))
        case ast.Dict():
            # A key of ** is None, and stands in no representation.
            keys = [_value(key, objects) for key in node.keys if key is not None]
            items = [_value(item, objects) for item in node.values]
            value = dict(zip(map(_hashable, keys), items, strict=True))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf" | "nan" as number)):
            value = -float(number)
        case ast.UnaryOp() | ast.BinOp():
            value = ast.literal_eval(node)
        case ast.Call():
            value = _call(node, objects)
        case ast.Name() | ast.Attribute():
            name = ast.unparse(node)
            last = name.rpartition(".")[2]
            value = objects.get(name) or (float(last) if last in ("inf", "nan") else Name(last))
        case _:
            raise ValueError(f"{ast.unparse(node)} is no representation of a value")
    return value


def _hashable(key: object) -> object:
    if isinstance(key, list | dict):
        return Text(repr(key))
    return tuple(map(_hashable, key)) if isinstance(key, tuple) else key


def _call(node: ast.Call, objects: Mapping[str, Text]) -> object:
    name = ast.unparse(node.func).rpartition(".")[2]
    arguments = tuple(_value(argument, objects) for argument in node.args)
    if name in ("set", "frozenset"):
        inner = arguments[0] if arguments else _Set(())
        if not isinstance(inner, _Set):
            inner = _Set(tuple(inner) if isinstance(inner, list | tuple) else (inner,))
        return inner if name == "set" else Call(name, (inner,))
    keywords = tuple((word.arg or "**", _value(word.value, objects)) for word in node.keywords)
    return Call(name, arguments, keywords)


def is_comparable(text: str) -> bool:
    """Whether a representation shows the value completely."""
    value = parse_value(text)
    is_unread = isinstance(value, Text) and not text.startswith("<")
    says_nothing = is_unread or isinstance(value, Name) or BARE.fullmatch(text) is not None
    return not says_nothing and not any(each in text for each in PASSING)


def without_addresses(text: str) -> str:
    """Remove object addresses, which differ between runs."""
    return ADDRESS.sub("", text) if "0x" in text else text


def same_text(one: str, other: str) -> bool:
    """Whether two representations show equal values."""
    return same(parse_value(one), parse_value(other))


def same(one: object, other: object) -> bool:
    """Whether two parsed values are equal. True is not 1, a list is not a tuple."""
    match one, other:
        case (bool(), _) | (_, bool()):
            equal = one is other
        case int() | float(), int() | float() if float in (type(one), type(other)):
            equal = _close(one, other)
        case list() | tuple(), list() | tuple():
            alike = type(one) is type(other) and len(one) == len(other)
            equal = alike and all(map(same, one, other))
        case dict(), dict():
            equal = _same_items(one.items(), other.items())
        case _Set(), _Set():
            equal = _same_items(one.items, other.items)
        case Call(), Call():
            alike = one.name == other.name and same(one.arguments, other.arguments)
            equal = alike and _same_items(one.keywords, other.keywords)
        case _:
            equal = type(one) is type(other) and one == other
    return equal


def _close(one: float, other: float) -> bool:
    try:
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=RELATIVE)
    except OverflowError:  # an integer that no float holds
        return False


def _same_items(ones: Iterable[object], others: Iterable[object]) -> bool:
    """Whether they are equal in any order."""
    left = list(others)
    for one in ones:
        found = next((i for i, other in enumerate(left) if same(one, other)), None)
        if found is None:
            return False
        del left[found]
    return not left
