"""The tools that a conversation's model was given."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class ToolView:
    """One tool as its model was told of it."""

    name: str
    description: str
    parameters: tuple[str, ...]


def tools_of(sent: str) -> list[ToolView]:
    """The tools as they were sent, in OpenAI's form; empty for anything else."""
    try:
        return [_view(tool["function"]) for tool in json.loads(sent)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _view(function: dict[str, object]) -> ToolView:
    parameters = function.get("parameters")
    known = parameters.get("properties") if isinstance(parameters, dict) else None
    names = tuple(map(str, known)) if isinstance(known, dict) else ()
    return ToolView(str(function["name"]), str(function.get("description", "")), names)
