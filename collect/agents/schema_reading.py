"""Reads a call's arguments by its tool's JSON schema: a server's parser may give every argument as
text, and a model may write `"4"` or `5.0` for an integer, or null for what it leaves out.

Only what can be read in one way is read: other values stay, for the tool to refuse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from collect.code.syntax import literal
from collect.store.messages import BROKEN

Schema = Mapping[str, Any]
PYTHON_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
READERS: Mapping[str, TypeAdapter[Any]] = {
    "integer": TypeAdapter(int),
    "number": TypeAdapter(Annotated[float, Field(allow_inf_nan=False)]),
    "boolean": TypeAdapter(bool),
}
"""They read `"4.0"` and 4.0 as an integer, `"yes"` and 1 as true."""


def read_by_schema(value: Any, schema: Schema) -> Any:
    """A decoded JSON value in the types that the schema asks for; as it is if it has none of them
    and can't be read as one."""
    alternatives = schema.get("anyOf") or [schema]
    for alternative in alternatives:
        if _is_of(value, alternative):
            return _with_parts_read(value, alternative)
    decoded = _decoded(value) if isinstance(value, str) else value
    for alternative in alternatives:
        if _is_of(decoded, alternative):
            return _with_parts_read(decoded, alternative)
    for alternative in alternatives:
        if alternative.get("type") == "string" and type(value) is int:
            return str(value)
        reader = READERS.get(alternative.get("type", ""))
        if reader is None:
            continue
        try:
            return reader.validate_python(value)
        except ValidationError:
            continue
    return value


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal in value and type: 5.0 is not 5, nor true 1."""
    return json.dumps(one) == json.dumps(other)


def _is_of(value: Any, schema: Schema) -> bool:
    """Whether a value has the schema's type; any has if the schema names none."""
    wanted = PYTHON_TYPES.get(schema.get("type", ""), object)
    if isinstance(value, bool):
        return wanted in (bool, object)
    return isinstance(value, wanted)


def _with_parts_read(value: Any, schema: Schema) -> Any:
    """A list's items and an object's members, read by their own schemas. A null is left out where
    it can't stand and nothing has to."""
    if isinstance(value, list) and "items" in schema:
        return [read_by_schema(item, schema["items"]) for item in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    read = {
        name: read_by_schema(item, known[name]) if name in known else item
        for name, item in value.items()
    }
    return {
        name: item
        for name, item in read.items()
        if not _may_be_left_out(name, item, known, schema.get("required", ()))
    }


def _may_be_left_out(
    name: str, value: Any, known: Mapping[str, Schema], required: Sequence[str]
) -> bool:
    if name not in known or name in required:
        return False
    alternatives = known[name].get("anyOf") or [known[name]]
    is_null = value is None or (isinstance(value, str) and _decoded(value) is None)
    return is_null and not any(_is_of(value, alternative) for alternative in alternatives)


def _decoded(text: str) -> Any:
    """The value that a text is as JSON, or else as a Python literal: `None`, `['x']`. Blank text is
    null; any other text is itself."""
    if not text.strip():
        return None
    for read in (json.loads, literal):
        try:
            return json.loads(json.dumps(read(text.strip()), allow_nan=False))
        except (*BROKEN, SyntaxError, TypeError, MemoryError):
            continue
    return text
