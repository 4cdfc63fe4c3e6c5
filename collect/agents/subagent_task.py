"""The Debug Subagent's task, and its first user message."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from collect.agents.prompts import prompt
from collect.agents.tools import Arguments
from collect.store.messages import STARTED
from collect.store.records import DebugAnswer

TASK = re.compile(
    r"Question: (?P<question>.+?)\nTest: (?P<test>[^\n]+)"
    r"(?:\nPath: (?P<path>[^\n]+))?"
    r"(?:\nLines: (?P<lines>-?\d{1,18}(?:, -?\d{1,18})*))?"
    r"(?:\nVariables: (?P<variables>[^\n]+))?",
    re.DOTALL,
)


class DebugSubagentArguments(Arguments):
    question: Annotated[
        str, Field(min_length=1, description="What you want to know about runtime behaviour.")
    ]
    test: Annotated[
        str,
        Field(min_length=1, description="The failing test that exercises it, e.g. {test_id}."),
    ]
    path: Annotated[str | None, Field(description="The code to look at.")] = None
    lines: Annotated[
        tuple[int, ...] | None, Field(description="Lines of `path` to set breakpoints on.")
    ] = None
    variables: Annotated[
        tuple[str, ...] | None,
        Field(
            description="Variables or expressions whose values matter; no calls that change state."
        ),
    ] = None


FILE = r"(?<![\w./-])(?P<file>[\w./-]{1,200}\.(?:py|java))"
TO = r"(?:\s*(?:-|to)\s*\d{1,9}(?!\d))?"
SPAN = rf"\d{{1,9}}(?!\d){TO}"
SPANS = rf"(?P<lines>{SPAN}(?:(?:,|,?\s+(?:and|or))\s*{SPAN})*)"
COUNTED = r"(?!\d|\s*(?:times|visits|hits|calls|items|elements|%))"
NAMED = (
    re.compile(rf"{FILE}:(?P<lines>{SPAN}(?:(?:,|,?\s+(?:and|or))\s*{SPAN}{COUNTED})*)"),
    re.compile(rf"{FILE}`?,?\s+(?:at\s+)?\(?(?:lines?|l\.)\s+{SPANS}"),
    re.compile(rf"\blines?\s+{SPANS}\s+(?:of|in)\s+(?:the\s+file\s+)?`?{FILE}", re.IGNORECASE),
)
LINES = re.compile(rf"\blines?\s+{SPANS}", re.IGNORECASE)
FRAME = re.compile(
    r"\n(?:\S+\.py:\d+: .*|[ \t]*File \".+\", line \d+.*|[ \t]*at .+\(\w+\.java:\d+\))(?=\n|$)"
)
"""A frame of a quoted traceback: where the program has been, not where to stop."""
MOST_PLACES = 8
"""Most places at which a session is started; a question with more quotes something long."""


def start_places(arguments: DebugSubagentArguments) -> list[str]:
    """Where a session that is started for the task stops, as `file:line`: at the caller's lines,
    or else at the places that its question names. Empty: where the test begins.

    Lines without a file are those of `path`, or of the only file in the question; in a question
    with several, of the place named before them.
    """
    question = FRAME.sub("", arguments.question)
    files = {arguments.path} if arguments.path else set(re.findall(FILE, question))
    only = min(files) if len(files) == 1 else None
    if only and arguments.lines:
        return [f"{only}:{line}" for line in arguments.lines]
    matches = [each for pattern in NAMED for each in pattern.finditer(question)]
    found = [(each.start(), each["file"], each["lines"]) for each in matches]
    for each in LINES.finditer(question):
        if any(other.start() <= each.start() < other.end() for other in matches):
            continue
        before = max((place for place in found if place[0] < each.start()), default=None)
        file = only or (before and before[1])
        if file:
            found.append((each.start(), file, each["lines"]))
    named = dict.fromkeys(
        f"{file.removeprefix('./')}:{int(line)}"
        for _, file, lines in sorted(found)
        for line in re.findall(rf"(\d+){TO}", lines)
    )
    return list(named) if len(named) <= MOST_PLACES else []


def subagent_task(arguments: DebugSubagentArguments, started: str | None = None) -> str:
    """The subagent's first user message: the question, and the main agent's other fields, one per
    line. `started` is the answer to a start of the session that the subagent did not call for.
    """
    lines = [prompt("subagent_task", question=arguments.question, test=_line(arguments.test))]
    if arguments.path:
        lines.append(f"Path: {_line(arguments.path)}")
    if arguments.lines:
        lines.append(f"Lines: {', '.join(map(str, arguments.lines))}")
    if arguments.variables:
        lines.append(f"Variables: {', '.join(map(_line, arguments.variables))}")
    return "\n".join(lines) + ("" if started is None else STARTED + started)


def _line(text: str) -> str:
    return " ".join(text.splitlines())


def read_subagent_task(message: str) -> DebugSubagentArguments | None:
    """The task in such a message, or None if it has another form."""
    found = TASK.fullmatch(message.partition(STARTED)[0].strip())
    if found is None:
        return None
    lines, variables = found["lines"], found["variables"]
    return DebugSubagentArguments(
        question=found["question"],
        test=found["test"],
        path=found["path"],
        lines=tuple(map(int, lines.split(", "))) if lines else None,
        variables=tuple(variables.split(", ")) if variables else None,
    )


def read_start(message: str) -> str:
    """The session's start in such a message; empty if it has none."""
    return message.partition(STARTED)[2]


OPEN = re.compile("<debug_answer>", re.IGNORECASE)
CLOSE = re.compile("</debug_answer>", re.IGNORECASE)
FIELDS = {"question", "answer", "evidence", "location"}
EMPTY = re.compile(r"[\s*_.…-]*")
"""A field that says nothing."""
LABEL = re.compile(
    r"^[ \t]*(?:[-*][ \t]+)?\*{0,2}(question|answer|evidence|location)\*{0,2}[ \t]*:\*{0,2}[ \t]*",
    re.MULTILINE | re.IGNORECASE,
)


def parse_answer(text: str) -> DebugAnswer | None:
    """The last valid `<debug_answer>` block that a Debug Subagent ends with (Debug2Fix, figure 3):
    with an answer and evidence that say something, and a location. The question, which whoever
    reads the answer has asked, may be missing, as in compact answers, and is "" then.

    None if there is none. A field's text extends to the next new field, so that the evidence may
    contain lines such as `answer: 42`.
    """
    found = _last_block(text)
    return found and found[1]


def caller_sees(text: str) -> str:
    """What of a Debug Subagent's last message its caller gets: the last valid block, or all of it
    if there is none."""
    found = _last_block(text)
    return found[0] if found else text


def _last_block(text: str) -> tuple[str, DebugAnswer] | None:
    """As it is written, and its fields."""
    # Split, since a single pattern takes forever if a model repeats the opening tag.
    *closed, _ = CLOSE.split(text)
    for piece in reversed(closed):
        tag = OPEN.search(piece)
        if tag is None:
            continue
        block, starts = piece[tag.end() :], dict[str, re.Match[str]]()
        for label in LABEL.finditer(block):
            starts.setdefault(label[1].lower(), label)
        ends = [*(label.start() for label in starts.values()), len(block)][1:]
        fields = {
            name: block[label.end() : end].strip()
            for (name, label), end in zip(starts.items(), ends, strict=True)
        }
        if fields.keys() | {"question"} != FIELDS:
            continue
        if not any(EMPTY.fullmatch(fields[name]) for name in ("answer", "evidence")):
            whole = f"{piece[tag.start() :].rstrip()}\n</debug_answer>"
            return whole, DebugAnswer(**{"question": "", **fields})
    return None
