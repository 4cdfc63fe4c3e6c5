"""Checks whether a fix changed the place that an answer or plan reported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from sys import intern

from collect.code.patches import ChangedRange, PatchError, changed_lines
from collect.questions.claims import locations, same_file
from collect.questions.grounding.checking import answer_texts
from collect.questions.grounding.observations import READ_FILE
from collect.store.messages import ToolCall
from collect.store.records import Conversation, Role

CLOSING = (")", "]", "}")
DEFINITION = re.compile(r"(?:async\s+)?def\s+\w+")


def changed_by(patch: str) -> tuple[ChangedRange, ...]:
    """The lines that a rollout's patch changes; empty for a broken patch."""
    try:
        changed = changed_lines(patch)
    except PatchError:
        return ()
    # Paths are interned because a whole run's ranges are held at once.
    return tuple(replace(each, path=intern(each.path)) for each in changed)


def fix_touched_location(
    conversation: Conversation, changed: Sequence[ChangedRange]
) -> bool | None:
    """Whether a patch changed the reported place: its line, its function, or at module level its
    statement.

    For Python, from what the conversation has read of the file. None if the answer reports no
    place, nothing was changed, or too little of the right file was read.
    """
    reported = _reported(conversation)
    if reported is None or not changed:
        return None
    file, line = reported
    ranges = [each for each in changed if same_file(each.path, file)]
    if not ranges or any(each.start <= line <= each.end for each in ranges):
        return bool(ranges)
    source = _known_source(conversation, file) if file.endswith(".py") else {}
    own = _block(source, line)
    others = {_block(source, number) for each in ranges for number in (each.start, each.end)}
    if own is not None and own in others:
        return True
    return None if own is None or None in others else False


def _reported(conversation: Conversation) -> tuple[str, int] | None:
    """The place that an answer reports, or the first one in a plan."""
    answer, texts = conversation.answer, list(answer_texts(conversation))
    if answer is not None and conversation.role is not Role.INSPECTOR:
        texts = [answer.location, answer.answer]
    return next((place for text in texts for place in locations(text)), None)


def _known_source(conversation: Conversation, file: str) -> Mapping[int, str]:
    """The lines of a file that the conversation has read."""
    lines: dict[int, str] = {}
    calls = conversation.calls
    for row in conversation.messages:
        call = calls.get(row.message.tool_call_id or "")
        if call is not None and call.name == READ_FILE and _is_of(call, file):
            lines |= _listed(row.message.content, 1)
    for each in conversation.events:
        if each.event.file and same_file(each.event.file, file):
            lines |= _listed("\n".join(each.event.source), 2)
    return lines


def _is_of(call: ToolCall, file: str) -> bool:
    path = call.text("path")
    return bool(path) and same_file(path.removeprefix("./"), file)


def _listed(text: str, blanks: int) -> Mapping[int, str]:
    """The lines of a listing with this many blanks after each number."""
    found = re.finditer(rf"^(?:->)?[ *]*(\d+)(?: {{{blanks}}}(.*))?$", text, re.MULTILINE)
    return {int(each[1]): each[2] or "" for each in found}


def _block(source: Mapping[int, str], line: int) -> int | None:
    """The first line of the innermost definition around a line, or at module level of the least
    indented statement; None if unknown.
    """
    while source.get(line, "").lstrip().startswith("@"):
        line += 1
    least: int | None = None
    while line in source:
        text = source[line].lstrip()
        indent = len(source[line]) - len(text)
        # A closing bracket is indented like the line that opens it.
        if text and not text.startswith(CLOSING) and (least is None or indent < least):
            if DEFINITION.match(text) or indent == 0:
                return line
            least = indent
        line -= 1
    return None
