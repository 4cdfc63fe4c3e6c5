"""Compares values by meaning, not by spelling.

Literals are compared as values (floats within a tolerance, sets and dicts without order), calls
such as `Decimal('1.5')` by name and arguments, and other representations as text without addresses.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

RELATIVE = 1e-6
"""Relative tolerance for floats."""
ADDRESS = re.compile(r"\s+at 0x[0-9a-fA-F]+")
BARE = re.compile(r"<(?:[\w.]|<locals>)+>|<[\w ]+, not evaluated>")
"""An object whose representation shows no contents."""
PASSING = ("...", "0x", "pytest-of-")
"""Marks of text that is cut or differs between runs: an address, a path with the number of pytest's
run.
"""
OBJECT = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?P<object><[A-Za-z_](?:[^<>'\"]|'(?:[^'\\]|\\.)*'|->)*>)"
)
"""A string, or an object's representation inside a larger one."""
SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Name:
    """A name used as a value: `inf`, a class."""

    name: str


@dataclass(frozen=True)
class Call:
    """A representation of the form `Name(arguments)`."""

    name: str
    arguments: tuple[object, ...]
    keywords: tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Text:
    """A representation that is not an expression: `<Cart items=3>`."""

    text: str


def parse_value(text: str) -> object:
    """A value from its representation."""
    stripped = text.strip()
    objects: dict[str, Text] = {}
    if "<" in stripped and not stripped.startswith("<"):
        stripped = _without_objects(stripped, objects)
    try:
        return _value(ast.parse(stripped, mode="eval").body, objects)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return _as_text(text)


def _as_text(text: str) -> Text:
    return Text(SPACE.sub(" ", without_addresses(text.strip())))


def _without_objects(text: str, objects: dict[str, Text]) -> str:
    """Replace each `<...>` outside strings by a name, and store it under that name."""

    def name(found: re.Match[str]) -> str:
        if found["object"] is None:
            return found[0]
        key = f"object_{len(objects)}_"
        objects[key] = _as_text(found["object"])
        return key

    return OBJECT.sub(name, text)


def is_comparable(text: str) -> bool:
    """Whether a representation shows the value completely."""
    value = parse_value(text)
    is_unread = isinstance(value, Text) and not text.startswith("<")
    says_nothing = is_unread or isinstance(value, Name) or BARE.fullmatch(text) is not None
    return not says_nothing and not any(each in text for each in PASSING)


def without_addresses(text: str) -> str:
    """Remove object addresses, which differ between runs."""
    return ADDRESS.sub("", text)


def same_text(one: str, other: str) -> bool:
    """Whether two representations show equal values."""
    return same(parse_value(one), parse_value(other))


def same(one: object, other: object) -> bool:
    """Whether two parsed values are equal. True is not 1, a list is not a tuple."""
    if isinstance(one, float | int) and isinstance(other, float | int):
        return _same_number(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    match one, other:
        case dict(), dict():
            equal = _same_items(list(one.items()), list(other.items()))
        case _Set(), _Set():
            equal = _same_items(list(one.items), list(other.items))
        case Call(), Call():
            equal = (
                one.name == other.name
                and same(one.arguments, other.arguments)
                and _same_items(list(one.keywords), list(other.keywords))
            )
        case _:
            equal = one == other
    return equal


@dataclass(frozen=True)
class _Set:
    items: tuple[object, ...]


def _same_number(one: float, other: float) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=RELATIVE)


def _same_items(ones: list[object], others: list[object]) -> bool:
    """Whether they are equal in any order."""
    left = list(others)
    for one in ones:
        found = next((i for i, other in enumerate(left) if same(one, other)), None)
        if found is None:
            return False
        del left[found]
    return not left


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
            value = _dict(node, objects)
        case ast.UnaryOp() | ast.BinOp():
            value = _number(node)
        case ast.Call():
            value = _call(node, objects)
        case ast.Name() | ast.Attribute():
            value = _name(node, objects)
        case _:
            raise ValueError(f"{ast.unparse(node)} is no representation of a value")
    return value


def _dict(node: ast.Dict, objects: Mapping[str, Text]) -> dict[object, object]:
    pairs: dict[object, object] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            raise ValueError("** stands in no representation")
        parsed = _value(key, objects)
        pairs[_hashable(parsed)] = _value(value, objects)
    return pairs


def _hashable(key: object) -> object:
    if isinstance(key, list | dict):
        return Text(repr(key))
    return tuple(map(_hashable, key)) if isinstance(key, tuple) else key


def _number(node: ast.expr) -> object:
    """-1, 1-2j. Raises ValueError."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(node.operand, {})
        if isinstance(inner, Name) and inner.name in ("inf", "nan"):
            return -float(inner.name)
    value: object = ast.literal_eval(node)
    return value


def _call(node: ast.Call, objects: Mapping[str, Text]) -> object:
    name = ast.unparse(node.func).rpartition(".")[2]
    arguments = tuple(_value(argument, objects) for argument in node.args)
    if name in ("set", "frozenset"):
        inner = arguments[0] if arguments else _Set(())
        if not isinstance(inner, _Set):
            inner = _Set(tuple(inner) if isinstance(inner, list | tuple) else (inner,))
        return inner if name == "set" else Call(name, (inner,), ())
    keywords = tuple((word.arg or "**", _value(word.value, objects)) for word in node.keywords)
    return Call(name, arguments, keywords)


def _name(node: ast.expr, objects: Mapping[str, Text]) -> object:
    name = ast.unparse(node)
    if name in objects:
        return objects[name]
    last = name.rpartition(".")[2]
    return float(last) if last in ("inf", "nan") else Name(last)
