"""Explains validation errors of a config or record, field by field, in terms of YAML and JSON."""

from __future__ import annotations

import collections.abc
import json
import re
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

# Suggests similar names.


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'collect'?`; empty if no name is similar."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def the_nearest(name: str, known: Iterable[str]) -> str:
    """`; the nearest are cart-1, cart-2` for long names, which may differ more; empty if none is
    similar.
    """
    near = get_close_matches(name, list(known), n=3, cutoff=0.4)
    return f"; the nearest are {', '.join(near)}" if near else ""


VALUE_CHARACTERS = 80
"""Characters of a wrong value that a message shows."""
LIST, MAPPING = "a list", "a mapping"
WORDS = {
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), LIST),
    **dict.fromkeys(("dict_type", "mapping_type"), MAPPING),
    **dict.fromkeys(("model_type", "model_attributes_type", "dataclass_type"), MAPPING),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "a text",
    "path_type": "a path",
}
"""Replaces pydantic's terms, which are Python's."""
PYTHON = (
    (re.compile("^(Input|String|Value|Tuple|List|Set|Frozenset|Dictionary) should "), "must "),
    (re.compile(r" after validation, not \d+$"), ""),
)
OF_PYDANTIC = re.compile(r"\[.*\]$|^(str|int|float|bool|none)$")
"""A type or `[key]` at the end of a location, which pydantic adds for unions and mappings."""
UNKNOWN, MISSING, OWN = "extra_forbidden", "missing", "value_error"


def wrong_fields(error: ValidationError, kind: type[BaseModel]) -> Iterator[str]:
    """One line per error, unknown fields first; `kind` is the expected model."""
    found = error.errors()
    wrong = {problem["loc"] for problem in found}
    for problem in sorted(found, key=lambda problem: problem["type"] != UNKNOWN):
        # A wrong value can make its container seem too short: report only the inner error.
        if not any(_is_inside(other, problem["loc"]) for other in wrong):
            yield _explained(problem, kind)


def first_wrong_field(error: ValidationError, kind: type[BaseModel]) -> str:
    """Only the first error."""
    return next(wrong_fields(error, kind))


def _is_inside(location: Sequence[str | int], outer: Sequence[str | int]) -> bool:
    return len(location) > len(outer) and location[: len(outer)] == outer


def _explained(problem: ErrorDetails, kind: type[BaseModel]) -> str:
    location, value, context = problem["loc"], problem["input"], problem.get("ctx", {})
    if problem["type"].startswith("union_tag"):
        location = (*location, chosen_by := context["discriminator"].strip("'"))
        value = value.get(chosen_by) if isinstance(value, dict) else None
    place = _place(location, kind)
    if problem["type"] == UNKNOWN:
        return f"{place}: there is no such key{_like_key(location, kind)}"
    if problem["type"] in (MISSING, "union_tag_not_found"):
        return f"{place}: it is missing"
    if problem["type"] == OWN:
        return f"{place}: {context['error']}{'' if _kind(value) else _shown(value)}"
    expected = str(context.get("expected_tags") or context.get("expected") or "")
    near = did_you_mean(str(value), re.findall(r"'([^']+)'", expected))
    what = _what(problem, expected)
    # A text instead of a list or mapping may be a command line or contain a key, so it is not
    # shown.
    shown = " (it is a text)" if isinstance(value, str) and _holds_more(what) else _shown(value)
    return f"{place}: {what}{shown}{near}"


def _place(location: Sequence[str | int], kind: type[BaseModel]) -> str:
    """The location as in the file, without the tags that pydantic adds for unions."""
    if location and OF_PYDANTIC.search(str(location[-1])):
        location = location[:-1]
    parts = []
    for i, part in enumerate(location):
        models = _models_at(location[:i], kind)
        if len(models) == 1 or str(part) not in map(_tag, models):
            parts.append(str(part))
    return ".".join(parts) or "the record"


def _what(problem: ErrorDetails, expected: str) -> str:
    """What the value must be."""
    if problem["type"] == "union_tag_invalid":
        return f"must be one of {expected}"
    if word := WORDS.get(problem["type"]):
        return f"must be {word}"
    message = problem["msg"]
    for theirs, ours in PYTHON:
        message = theirs.sub(ours, message)
    return message


def _holds_more(what: str) -> bool:
    return what.endswith((LIST, MAPPING))


def _kind(value: Any) -> str | None:
    """The kind of a container, whose contents are not shown."""
    if isinstance(value, dict | BaseModel):
        return MAPPING
    return LIST if isinstance(value, list | tuple | set) else None


def _shown(value: Any) -> str:
    text = _kind(value) or json.dumps(value, ensure_ascii=False, default=str)
    return f" (it is {text if len(text) <= VALUE_CHARACTERS else f'{text[:VALUE_CHARACTERS]} ...'})"


def _like_key(location: Sequence[str | int], kind: type[BaseModel]) -> str:
    known, name = _known_keys(location[:-1], kind), str(location[-1])
    outer = [each for each in known if name in _known_keys((*location[:-1], each), kind)]
    if outer:
        return f"; did you mean {' or '.join(repr(f'{each}.{name}') for each in outer)}?"
    there_are = f"; there are: {', '.join(known)}" if known else ""
    return did_you_mean(name, known) or there_are


def _known_keys(location: Sequence[str | int], kind: type[BaseModel]) -> list[str]:
    """The keys allowed at a location."""
    return sorted({name for model in _models_at(location, kind) for name in model.model_fields})


def _models_at(location: Sequence[str | int], kind: type[BaseModel]) -> list[type[BaseModel]]:
    """The models allowed at a location, found along pydantic's error location."""
    candidates: list[Any] = [kind]
    for part in location:
        candidates = [inner for outer in candidates for inner in _inside(outer, str(part))]
    return [found for found in candidates if _is_model(found)]


def _inside(annotation: Any, part: str) -> Iterator[Any]:
    if _is_model(annotation):
        if part in annotation.model_fields:
            yield from _unfolded(annotation.model_fields[part].annotation)
        elif _tag(annotation) == part:
            yield annotation
        return
    if typing.get_origin(annotation) in (dict, collections.abc.Mapping):
        yield from _unfolded(typing.get_args(annotation)[1])
    elif typing.get_origin(annotation) in (list, tuple):
        yield from _unfolded(typing.get_args(annotation)[0])


def _unfolded(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from _unfolded(typing.get_args(annotation)[0])
    elif origin in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _unfolded(member)
    else:
        yield annotation


def _tag(model: type[BaseModel]) -> str | None:
    """The tag of a model in a discriminated union."""
    field = model.model_fields.get("backend")
    return typing.get_args(field.annotation)[0] if field else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
