"""A conversation as turns, and the templates that show it.

Every page has the same style, script, and a policy that allows nothing else.
Every text in a template is escaped, with special characters made visible first; only `Markup` is
inserted as it is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from collect import quantities
from collect.console import visible
from collect.store.messages import ToolCall
from collect.store.records import Conversation, MessageRow, Role
from eval.metrics import MISSING
from sandbox.debugger import DebugEvent, StopReason
from sandbox.debugger import render as render_event

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
    headline = render_event(event).partition("\n")[0]
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


# Long texts: what to fold, and what to cut.


FENCE = "```"
FOLD_CHARACTERS, FOLD_LINES = 3_000, 40
"""A text with more of either is folded."""
MOST_CHARACTERS = 200_000
"""Limit for one text in a page; the Parquet files have it whole."""
PREVIEW_CHARACTERS, PREVIEW_LINES = 600, 8


@dataclass(frozen=True)
class Folded:
    """A text as a page shows it."""

    text: str
    """The part that the page contains."""
    preview: str
    """Its beginning, visible while it is folded; empty if the text is short enough to be shown."""
    lines: int
    characters: int
    """Characters of the whole text."""

    @property
    def left_out(self) -> int:
        """Characters that the page does not contain."""
        return self.characters - len(self.text)


@dataclass(frozen=True)
class Segment:
    """A part of a text: prose or code."""

    text: str
    is_code: bool


def segments(text: str) -> Iterator[Segment]:
    """The text split at fenced code blocks; nothing is lost."""
    held: list[str] = []
    in_code = False
    for line in text.split("\n"):
        opens = not in_code and line.startswith(FENCE)
        if opens:
            yield from _segment(held, is_code=False)
            held, in_code = [], True
        held.append(line)
        if in_code and not opens and line.rstrip() == FENCE:
            yield from _segment(held, is_code=True)
            held, in_code = [], False
    yield from _segment(held, is_code=in_code)


def _segment(lines: list[str], *, is_code: bool) -> Iterator[Segment]:
    text = "\n".join(lines)
    if text.strip():
        yield Segment(text.strip("\n"), is_code)


def folded(text: str, lines: int = FOLD_LINES, characters: int = FOLD_CHARACTERS) -> Folded:
    """The text, with a preview if it has more lines or characters than these."""
    count = text.count("\n") + 1
    is_long = count > lines or len(text) > characters
    preview = "\n".join(text[:PREVIEW_CHARACTERS].split("\n")[:PREVIEW_LINES]) if is_long else ""
    return Folded(text[:MOST_CHARACTERS], preview, count, len(text))


PACKAGE = "eval.report"
GENERATOR = "StepInto report"
"""Marks every page, and identifies a report's folder."""


def render(template: str, **values: object) -> str:
    """Render a page."""
    return _environment().get_template(template).render(**values)


def asset(name: str) -> str:
    """The content of a style sheet or script."""
    return (files(PACKAGE) / "templates" / name).read_text(encoding="utf-8")


@cache
def policy() -> str:
    """The pages' content security policy: only their own style and script, nothing external."""
    style, script = _digest(asset("style.css")), _digest(asset("index.js"))
    return f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        finalize=_made_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "style": Markup(asset("style.css")),
        "script": Markup(asset("index.js")),
        "policy": policy(),
        "generator": GENERATOR,
    }
    environment.filters |= {
        "tokens": quantities.tokens,
        "dollars": quantities.dollars,
        "duration": _duration,
        "folded": folded,
        "segments": segments,
    }
    return environment


def _made_visible(value: object) -> object:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value)


def _duration(seconds: float) -> str:
    """In milliseconds below a second, as for debugger steps."""
    if seconds <= 0:
        return MISSING
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else quantities.duration(seconds)


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
