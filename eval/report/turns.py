"""A conversation's messages as turns: each call with its answer, its debugger events and the
conversation that it started."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from collect.store.messages import ToolCall
from collect.store.records import Conversation, MessageRow, Role
from sandbox.debugger import DebugEvent, StopReason, render

# Debugger events as a page shows them: marked source lines, and the observed values.


LISTED = re.compile(r"(?P<current>->)? *(?P<breakpoint>\*)? *(?P<number>\d+)(?: {2}(?P<text>.*))?")
"""A line of `DebugEvent.source`: `->` marks the current line, `*` a breakpoint."""


class Kind(StrEnum):
    """The kind of an event, and its CSS class."""

    STOP = "stop"
    ENDED = "ended"
    ERROR = "error"
    LOOK = "look"
    """An inspection, or a change of breakpoints."""


@dataclass(frozen=True)
class SourceLine:
    """A line around a stop."""

    number: str
    """Empty if the debugger listed something other than source."""
    text: str
    current: bool = False
    breakpoint: bool = False


@dataclass(frozen=True)
class EventView:
    """One event."""

    event: DebugEvent
    kind: Kind
    headline: str
    source: tuple[SourceLine, ...]


def view_of(event: DebugEvent) -> EventView:
    """An event, ready to be shown."""
    headline = render(event).partition("\n")[0]
    return EventView(event, kind_of(event), headline, tuple(source_lines(event.source)))


def kind_of(event: DebugEvent) -> Kind:
    """The kind of an event."""
    if event.stop_reason in (StopReason.EXITED, StopReason.KILLED):
        return Kind.ENDED
    if event.stop_reason is not None:
        return Kind.STOP
    return Kind.ERROR if event.error_kind is not None else Kind.LOOK


def source_lines(lines: Iterable[str]) -> Iterator[SourceLine]:
    """The lines that a stop lists, with their marks parsed."""
    for line in lines:
        found = LISTED.fullmatch(line)
        if found is None:
            yield SourceLine("", line)
        else:
            marks = bool(found["current"]), bool(found["breakpoint"])
            yield SourceLine(found["number"], found["text"] or "", *marks)


Events = Mapping[tuple[int, str], Sequence[EventView]]
"""By message index and call id."""


@dataclass(frozen=True)
class Link:
    """Another conversation of the rollout."""

    page: str
    """File name, in the same folder."""
    role: Role | None
    """None for a rollout that failed before any conversation."""
    index: int
    steps: int


@dataclass(frozen=True)
class CallView:
    """A tool call and its result."""

    call: ToolCall
    arguments: tuple[tuple[str, str], ...] | None
    """None if the model's text is not a JSON object."""
    answer: MessageRow | None
    """None if the conversation ended first."""
    answer_index: int
    events: tuple[EventView, ...]
    children: tuple[Link, ...]


@dataclass(frozen=True)
class Turn:
    """A message; for the assistant, with the answers to its calls."""

    index: int
    row: MessageRow
    step: int
    """For an assistant message, from 1; else 0."""
    calls: tuple[CallView, ...] = ()
    events: tuple[EventView, ...] = ()
    """Events without a call: from actions in the text, or from an earlier session."""


def turns_of(conversation: Conversation, children: Mapping[str, Sequence[Link]]) -> list[Turn]:
    """All turns of the conversation. `children` are the conversations that its calls started, by
    call id."""
    rows = conversation.messages
    events = _events(conversation)
    turns: list[Turn] = []
    index = step = 0
    while index < len(rows):
        row = rows[index]
        step += row.message.role == "assistant"
        answers = _answers(rows, index) if row.message.role == "assistant" else {}
        calls = tuple(
            _call(call, answers, events.get((index, call.id), ()), children, rows)
            for call in row.message.tool_calls
        )
        known = {call.id for call in row.message.tool_calls}
        others = (
            view
            for (at, call), views in events.items()
            if at == index and call not in known
            for view in views
        )
        number = step if row.message.role == "assistant" else 0
        turns.append(Turn(index, row, number, calls, tuple(others)))
        index += 1 + len(answers)
    return turns


def readable_arguments(raw: str) -> tuple[tuple[str, str], ...] | None:
    """A call's arguments by name, strings as they are; None if they are not a JSON object."""
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    return tuple((name, _argument(value)) for name, value in parsed.items())


def _argument(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _events(conversation: Conversation) -> Events:
    found: dict[tuple[int, str], list[EventView]] = defaultdict(list)
    for row in conversation.events:
        found[row.message_index, row.tool_call_id].append(view_of(row.event))
    return found


def _answers(rows: Sequence[MessageRow], asked: int) -> dict[str, int]:
    """Index of the answer to each of a message's calls, by call id. A model may reuse an id in a
    later message, so only the directly following answers count."""
    known = {call.id for call in rows[asked].message.tool_calls}
    found: dict[str, int] = {}
    for index, row in _tools_after(rows, asked):
        call_id = row.message.tool_call_id or ""
        if call_id not in known or call_id in found:
            break
        found[call_id] = index
    return found


def _tools_after(rows: Sequence[MessageRow], asked: int) -> Iterator[tuple[int, MessageRow]]:
    for index in range(asked + 1, len(rows)):
        if rows[index].message.role != "tool":
            return
        yield index, rows[index]


def _call(
    call: ToolCall,
    answers: Mapping[str, int],
    events: Sequence[EventView],
    children: Mapping[str, Sequence[Link]],
    rows: Sequence[MessageRow],
) -> CallView:
    at = answers.get(call.id, -1)
    return CallView(
        call=call,
        arguments=readable_arguments(call.arguments),
        answer=rows[at] if at >= 0 else None,
        answer_index=at,
        events=tuple(events),
        children=tuple(children.get(call.id, ())),
    )
