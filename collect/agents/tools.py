"""Tools: what an agent can do, how a call is executed, and the forms in which a model makes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pydantic import ValidationError

from collect.agents.prompts import fill
from collect.agents.schema_reading import is_same, read_by_schema
from collect.store.files import StrictRecord
from collect.store.messages import BROKEN, Message, ToolCall, ToolSchema
from collect.store.records import MessageRow, ToolOutcome
from sandbox.debugger import DebugEvent
from sandbox.errors import CommandRefused, SandboxFileError

PAIRS = r"Escape a character with both its halves, such as \ud83d\ude00, or write it as itself."


class Arguments(StrictRecord):
    """Base class of tool arguments."""


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
    carried_out: str | None = None
    """The arguments as JSON as they were carried out, if the call's break the tool's schema and
    were read by it."""
    notes: tuple[str, ...] = ()
    """What a live client is told besides. In no record: a replay could not repeat it."""

    @property
    def with_notes(self) -> str:
        return "\n\n".join((self.text, *self.notes))


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


class CallsTogether:
    """What the calls of one message mean for each other: each was written before the answers to the
    others were seen. Here they mean nothing."""

    def refusal(self, call: ToolCall, earlier: Sequence[Answered]) -> ToolReply | None:
        """The answer to a call that is not carried out because of `earlier` ones, or None."""
        return None

    def completed(self, call: ToolCall, reply: ToolReply, earlier: Sequence[Answered]) -> ToolReply:
        """The answer to a call, with what it needs to say because of `earlier` ones."""
        return reply


class Toolbox:
    def __init__(
        self,
        tools: Sequence[Tool],
        wording: Mapping[str, str] | None = None,
        compact: bool = False,
        together: CallsTogether | None = None,
    ) -> None:
        """`wording` is what the placeholders in the tools' descriptions stand for; `compact` leaves
        out of the schemas what a model needs not to make a valid call."""
        self._together = together or CallsTogether()
        self._tools = {tool.name: tool for tool in tools}
        self._schemas: dict[str, ToolSchema] = {}
        for tool in tools:
            function = {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.arguments.model_json_schema(),
            }
            whole = {"type": "function", "function": function}
            self._schemas[tool.name] = _shown(whole, wording or {}, compact)

    def schemas(self) -> list[ToolSchema]:
        """The tools as they are sent to a model."""
        return list(self._schemas.values())

    def call_after(self, earlier: Sequence[Answered], call: ToolCall) -> ToolReply:
        """Carry out a call that has `earlier` ones in its message."""
        refusal = self._together.refusal(call, earlier)
        if refusal is not None:
            return refusal
        return self._together.completed(call, self.call(call), earlier)

    def call(self, call: ToolCall) -> ToolReply:
        """Carry out a model's call; a malformed one is answered with what is wrong with it."""
        tool = self._tools.get(call.name)
        if tool is None or call.said_name is not None:
            known = ", ".join(self._tools)
            name = (call.name if call.said_name is None else call.said_name)[: MAX_PROBLEM // 10]
            return _invalid(f"There is no tool named {name!r}. The tools are: {known}.")
        try:
            decoded = json.loads(call.arguments) if call.arguments.strip() else {}
            # No tool can take half a character.
            json.dumps(decoded, ensure_ascii=False).encode()
            given = read_by_schema(decoded, self._schemas[tool.name]["function"]["parameters"])
            carried_out = json.dumps(given, ensure_ascii=False)
            arguments = tool.arguments.model_validate_json(carried_out, strict=True)
        except ValidationError as error:
            problems = []
            for problem in error.errors():
                place = ".".join(str(part) for part in problem["loc"])
                problems.append(f"{place}: {problem['msg']}" if place else problem["msg"])
            return _invalid(f"The arguments of {call.name} are wrong: {'; '.join(problems)}.")
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            return _invalid(f"The arguments of {call.name} hold {half}, half a character. {PAIRS}")
        except BROKEN as error:
            return _invalid(f"The arguments of {call.name} are not valid JSON: {error}.")
        try:
            reply = tool.call(arguments, call.id)
        except (SandboxFileError, CommandRefused) as error:
            reply = ToolReply(f"Error: {error}", ToolOutcome.ERROR)
        return reply if is_same(given, decoded) else replace(reply, carried_out=carried_out)


MAX_PROBLEM = 2_000
"""Characters that an error of a call has: it quotes names, which may be of any length."""


def _invalid(text: str) -> ToolReply:
    told = text if len(text) <= MAX_PROBLEM else f"{text[:MAX_PROBLEM]} ..."
    return ToolReply(f"Error: {told}", ToolOutcome.INVALID)


def _shown(schema: Any, wording: Mapping[str, str], compact: bool) -> Any:
    """Fill in the placeholders of all descriptions. Drop the titles that pydantic adds: they repeat
    the names, and cost prompt tokens. `compact` also drops descriptions, defaults and null:
    an argument without a value is left out."""
    if isinstance(schema, list):
        return [_shown(item, wording, compact) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if compact and "anyOf" in schema:
        (schema,) = (each for each in schema["anyOf"] if each["type"] != "null")
    kept = {}
    for key, value in schema.items():
        told = isinstance(value, str) and key in ("title", "description")
        if told and key == "description" and not compact:
            kept[key] = fill(value, wording)
        elif not told and not (compact and key == "default"):
            kept[key] = _shown(value, wording, compact)
    return kept


class MalformedAction(Exception):
    """A reply with an unreadable action; the message tells the model what is wrong."""


@dataclass(frozen=True)
class Answered:
    """An executed call and its result."""

    call: ToolCall
    reply: ToolReply
    seconds: float


class ActionForm:
    """How a model makes calls and receives their results: here by the API's own tool calls, each
    answered in a separate message."""

    by_tools = True
    """Whether tool schemas are sent to the model."""
    stop: tuple[str, ...] = ()
    """Texts at which the model stops, because only the environment may write them."""
    stops_at_error = False
    """Whether the calls after a failed one are skipped."""

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        """The calls of a reply; if there are none, it is a final answer. Raises MalformedAction."""
        return reply.tool_calls

    def reminder(self, steps_left: int) -> str:
        """What is added to the last tool's answer to a reply; empty for nothing."""
        return ""


class TextForm(ActionForm):
    """Calls in the model's text, all those of a reply answered in one message of the user's."""

    by_tools = False
    stops_at_error = True

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        raise NotImplementedError

    def observation(self, answered: Sequence[Answered], left_out: int, steps_left: int) -> str:
        """The text of the message for all calls. `left_out` more were skipped after an error."""
        raise NotImplementedError

    def all_answered(
        self, answered: Sequence[Answered], left_out: int, steps_left: int
    ) -> MessageRow:
        """The message for all calls of a reply. Its outcome is the last that is not OK."""
        text = self.observation(answered, left_out, steps_left)
        seconds = sum(each.seconds for each in answered)
        outcomes = [each.reply.outcome for each in answered]
        failed = [outcome for outcome in outcomes if outcome is not ToolOutcome.OK]
        outcome = failed[-1] if failed else ToolOutcome.OK
        return MessageRow(Message("user", text), seconds=seconds, tool_outcome=outcome)
