"""Tools: what an agent can do, and how a model's call is executed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.agents.prompts import fill
from collect.models.tool_parsing import BROKEN
from collect.store.messages import ToolCall, ToolSchema
from collect.store.records import ToolOutcome
from sandbox.debugger import DebugEvent
from sandbox.errors import CommandRefused, SandboxFileError

PAIRS = r"Escape a character with both its halves, such as \ud83d\ude00, or write it as itself."


class Arguments(BaseModel):
    """Base class of tool arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class ToolReply:
    """A tool's answer."""

    text: str
    outcome: ToolOutcome = ToolOutcome.OK
    event: DebugEvent | None = None
    """The debugger's record, if the tool used the debugger."""
    later_events: tuple[DebugEvent, ...] = ()
    """What the debugger then did by itself: restart an ended test."""
    action: str = ""
    """The name under which it counts as an action; empty: the tool's name."""
    conclusion: str | None = None
    """The agent's final answer, if this call ends the conversation."""


class Tool(Protocol):
    """One tool. Its `description` and the schema of its arguments go to the model."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[Arguments]: ...

    def call(self, arguments: Any, call_id: str) -> ToolReply:
        """Act on arguments of the type `arguments`.

        Raises SandboxFileError for a bad path, CommandRefused for text that no program can be
        given, and any RolloutError or other SandboxError.
        """


class Toolbox:
    def __init__(self, tools: Sequence[Tool], wording: Mapping[str, str] | None = None) -> None:
        """`wording` is what the placeholders in the tools' descriptions stand for."""
        self._tools = {tool.name: tool for tool in tools}
        self._wording = wording or {}

    def schemas(self) -> list[ToolSchema]:
        """The tools as they are sent to a model."""
        return [_described(_schema(tool), self._wording) for tool in self._tools.values()]

    def call(self, call: ToolCall) -> ToolReply:
        """Carry out a model's call; a malformed one is answered with what is wrong with it."""
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools)
            return _invalid(f"There is no tool named {call.name!r}. The tools are: {known}.")
        try:
            arguments = tool.arguments.model_validate(_decode(call.arguments))
        except ValidationError as error:
            return _invalid(f"The arguments of {call.name} are wrong: {_explain(error)}.")
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            return _invalid(f"The arguments of {call.name} hold {half}, half a character. {PAIRS}")
        except BROKEN as error:
            return _invalid(f"The arguments of {call.name} are not valid JSON: {error}.")
        try:
            return tool.call(arguments, call.id)
        except (SandboxFileError, CommandRefused) as error:
            return ToolReply(f"Error: {error}", ToolOutcome.ERROR)


def _decode(arguments: str) -> Any:
    """Raises UnicodeEncodeError for half a character, which no tool can take, or as `BROKEN`."""
    decoded = json.loads(arguments) if arguments.strip() else {}
    json.dumps(decoded, ensure_ascii=False).encode()
    return decoded


def _invalid(text: str) -> ToolReply:
    return ToolReply(f"Error: {text}", ToolOutcome.INVALID)


def _explain(error: ValidationError) -> str:
    problems = []
    for problem in error.errors():
        place = ".".join(str(part) for part in problem["loc"])
        problems.append(f"{place}: {problem['msg']}" if place else problem["msg"])
    return "; ".join(problems)


def _schema(tool: Tool) -> ToolSchema:
    parameters = _without_titles(tool.arguments.model_json_schema())
    parameters.pop("description", None)
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters,
        },
    }


def _described(schema: Any, wording: Mapping[str, str]) -> Any:
    """Fill in the placeholders of all descriptions."""
    if isinstance(schema, list):
        return [_described(item, wording) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: fill(value, wording) if _is_description(key, value) else _described(value, wording)
        for key, value in schema.items()
    }


def _is_description(key: str, value: Any) -> bool:
    return key == "description" and isinstance(value, str)


def _without_titles(schema: Any) -> Any:
    """Drop the titles that pydantic adds: they repeat the names, and cost prompt tokens."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if not _is_title(key, value)}
    return {key: _without_titles(value) for key, value in kept.items()}


def _is_title(key: str, value: Any) -> bool:
    return key == "title" and isinstance(value, str)
