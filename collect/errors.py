"""Errors that end a rollout early, by cause. Each becomes a row, never a crash.

`sandbox.errors` has the sandbox errors. ConfigError is bad input that is found before work starts;
its wrong fields are told with their place and the nearest names. `collect.rollouts.faults` decides
what happens after each error.
"""

from __future__ import annotations

import collections.abc
import json
import re
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


class FailureKind(StrEnum):
    """The cause of a rollout without a verdict."""

    MODEL = "model"
    INFRASTRUCTURE = "infrastructure"
    BUDGET = "budget"


TRIED_AGAIN = (FailureKind.INFRASTRUCTURE, FailureKind.BUDGET)
"""Failures that say nothing about a model; the next start repeats such rollouts."""


class RolloutError(Exception):
    """Base of errors that end a rollout early. docs/failures.md lists them."""

    kind = FailureKind.INFRASTRUCTURE


class ModelFailure(RolloutError):
    """The model can't continue: the context is too long, or its server rejects the content."""

    kind = FailureKind.MODEL


class ContextTooLong(ModelFailure):
    """The conversation is longer than the model or its server accepts."""


class ContentRefused(ModelFailure):
    """The server rejects this content, or withheld the reply."""


class InfrastructureFailure(RolloutError):
    """Something around the model failed; the rollout says nothing about the model."""


class EndpointFailure(InfrastructureFailure):
    """A model's server refused a request for good."""


class RequestRefused(EndpointFailure):
    """The server refused one request (400, 413 or 422), and not in words that are known."""

    said: str = ""
    """The server's words."""


class EndpointDown(EndpointFailure):
    """The server did not answer, or with a 5xx, on every try."""


class RateLimited(EndpointFailure):
    """The server answered that there were too many requests, on every try."""


class InvalidReply(EndpointFailure):
    """The answer is no chat completion, or contains unreadable calls."""


class LocalModelFailed(InfrastructureFailure):
    """A model in this process could not read the conversation, or crashed."""


class OutOfDisk(InfrastructureFailure):
    """The disk of the rollout's machine is full."""


class RowRefused(InfrastructureFailure):
    """The rollout's result contains a value that its table can't store."""


class NodeLost(InfrastructureFailure):
    """The machine or process of the rollout disappeared, several times in a row."""


class BudgetExhausted(RolloutError):
    """The dollar budget of the run is spent."""

    kind = FailureKind.BUDGET


class RolloutStopped(Exception):
    """The run is being stopped; the rollout leaves no row, and the next start repeats it."""


class ConfigError(Exception):
    """The input is wrong. The message says what, where, and what to do."""


class FileMoved(ConfigError):
    """Another process moved a file while it was read."""


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
INPUT = re.compile("^(Input|String|Value|Tuple|List|Set|Frozenset|Dictionary) should ")
AFTER = re.compile(r" after validation, not \d+$")
OF_PYDANTIC = re.compile(r"^[^\[\n]*\[.*\]$|^(str|int|float|bool|none)$")
"""A type or `[key]` at the end of a location, which pydantic adds for unions and mappings."""
UNKNOWN = "extra_forbidden"


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


def first_wrong_field(error: ValidationError, kind: type[BaseModel]) -> str:
    """Only the first error."""
    return next(wrong_fields(error, kind))


def wrong_fields(error: ValidationError, kind: type[BaseModel]) -> Iterator[str]:
    """One line per error, unknown fields first; `kind` is the expected model."""
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != UNKNOWN)
    places = {problem["loc"] for problem in problems}
    for problem in problems:
        place = problem["loc"]
        # A wrong value can make its container seem too short: report only the inner error.
        if not any(len(each) > len(place) and each[: len(place)] == place for each in places):
            yield _explained(problem, kind)


def _explained(problem: ErrorDetails, kind: type[BaseModel]) -> str:
    location, value, context = problem["loc"], problem["input"], problem.get("ctx", {})
    error, expected = problem["type"], str(context.get("expected", ""))
    if error.startswith("union_tag"):
        key = context["discriminator"].strip("'")
        location, expected = (*location, key), str(context.get("expected_tags", ""))
        value = value.get(key) if isinstance(value, dict) else None
    place, siblings = _resolved(location, kind)
    if error == UNKNOWN:
        return f"{place}: there is no such key{_what_is_meant(str(location[-1]), siblings)}"
    if error in ("missing", "union_tag_not_found"):
        return f"{place}: it is missing"
    holds_more = isinstance(value, dict | list | tuple | set | BaseModel)
    if holds_more:
        shown = f" (it is {MAPPING if isinstance(value, dict | BaseModel) else LIST})"
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
        cut = text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]} ..."
        shown = f" (it is {cut})"
    if error == "value_error":
        return f"{place}: {context['error']}{'' if holds_more else shown}"
    word = f"one of {expected}" if error == "union_tag_invalid" else WORDS.get(error)
    if word in (LIST, MAPPING) and isinstance(value, str):
        # It may be a command line or contain a key, so it is not shown.
        shown = " (it is a text)"
    what = f"must be {word}" if word else INPUT.sub("must ", problem["msg"])
    near = did_you_mean(str(value), re.findall(r"'([^']+)'", expected))
    return f"{place}: {re.sub(AFTER, '', what)}{shown}{near}"


def _what_is_meant(name: str, siblings: Sequence[type[BaseModel]]) -> str:
    """A key inside one of the known ones, or a similar one."""
    fields = {key: field for model in siblings for key, field in model.model_fields.items()}
    inside = [
        repr(f"{key}.{name}")
        for key, field in sorted(fields.items())
        if typing.get_origin(field.annotation) is not collections.abc.Mapping
        and any(name in each.model_fields for each in _models(field.annotation))
    ]
    if inside:
        return f"; did you mean {' or '.join(inside)}?"
    there_are = f"; there are: {', '.join(sorted(fields))}" if fields else ""
    return did_you_mean(name, fields) or there_are


def _resolved(
    location: Sequence[str | int], kind: type[BaseModel]
) -> tuple[str, list[type[BaseModel]]]:
    """A location as in the file, without the tags that pydantic adds for unions, and the models
    whose keys are allowed beside its last part."""
    if location and OF_PYDANTIC.search(str(location[-1])):
        location = location[:-1]
    models, siblings, parts = [kind], [kind], []
    for part in map(str, location):
        tagged = [model for model in models if len(models) > 1 and _tag(model) == part]
        if tagged:
            models = tagged
            continue
        parts.append(part)
        siblings = models
        inner = [each.model_fields[part].annotation for each in models if part in each.model_fields]
        # The items of lists and mappings are those of the setting that holds them.
        models = [model for each in inner for model in _models(each)] if inner else models
    return ".".join(parts) or "the record", siblings


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models within a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (dict, collections.abc.Mapping):
        inner = inner[1:]
    elif origin is typing.Annotated:
        inner = inner[:1]
    elif origin not in (list, tuple, typing.Union, types.UnionType):
        inner = ()
    return [model for each in inner for model in _models(each)]


def _tag(model: type[BaseModel]) -> str | None:
    """The tag of a model in a discriminated union."""
    field = model.model_fields.get("backend")
    values = typing.get_args(field.annotation) if field else ()
    return str(values[0]) if values else None
