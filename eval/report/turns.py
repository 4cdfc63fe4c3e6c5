"""A conversation's messages as the turns that a page shows: each call with its answer, its debugger
events and the conversation that it began."""

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

# Debugger events as a page shows them: the source with its marks, and what was seen.


LISTED = re.compile(r"(?P<current>->)? *(?P<breakpoint>\*)? *(?P<number>\d+)(?: {2}(?P<text>.*))?")
"""A line of `DebugEvent.source`: `->` marks the current one, `*` a breakpoint."""


class Kind(StrEnum):
    """What an event is to its reader, and the class of its block."""

    STOP = "stop"
    ENDED = "ended"
    ERROR = "error"
    LOOK = "look"
    """An inspection, or a change of the breakpoints."""


@dataclass(frozen=True)
class SourceLine:
    """One line around a stop."""

    number: str
    """Empty where the debugger listed something else."""
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
    """What an event is to its reader."""
    if event.stop_reason in (StopReason.EXITED, StopReason.KILLED):
        return Kind.ENDED
    if event.stop_reason is not None:
        return Kind.STOP
    return Kind.ERROR if event.error_kind is not None else Kind.LOOK


def source_lines(lines: Iterable[str]) -> Iterator[SourceLine]:
    """The lines that a stop lists, their marks told apart."""
    for line in lines:
        found = LISTED.fullmatch(line)
        if found is None:
            yield SourceLine("", line)
        else:
            marks = bool(found["current"]), bool(found["breakpoint"])
            yield SourceLine(found["number"], found["text"] or "", *marks)


Events = Mapping[tuple[int, str], Sequence[EventView]]
"""By index of the message and id of the call."""


@dataclass(frozen=True)
class Link:
    """Another conversation of the rollout."""

    page: str
    """Its file's name, in the same folder."""
    role: Role | None
    """None for a rollout that failed before any conversation."""
    index: int
    steps: int


@dataclass(frozen=True)
class CallView:
    """One tool call, and what came of it."""

    call: ToolCall
    arguments: tuple[tuple[str, str], ...] | None
    """None where the model's text is no JSON object."""
    answer: MessageRow | None
    """None where the conversation ended before it."""
    answer_index: int
    events: tuple[EventView, ...]
    children: tuple[Link, ...]


@dataclass(frozen=True)
class Turn:
    """One message; an assistant's with the answers to its calls."""

    index: int
    row: MessageRow
    step: int
    """Of an assistant's message, from 1; else 0."""
    calls: tuple[CallView, ...] = ()
    events: tuple[EventView, ...] = ()
    """Those of no call: of actions that stand in the text, or of a session begun before."""


def turns_of(conversation: Conversation, children: Mapping[str, Sequence[Link]]) -> list[Turn]:
    """Every turn of the conversation. `children`: what its calls began, by the call's id."""
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
    """A call's arguments by name, texts as they are; None where they are no JSON object."""
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
    """Where the answers to a message's calls stand, by the call's id. A model may use an id again
    in a later message, so only those that follow at once are its own."""
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
