"""Detect what a conversation may know that an agent could not know about a new bug.

The labels come from the conversation and its rollout; each means that the agent may know something,
not that it used it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from enum import StrEnum

from collect.code.patches import Hunk, PatchError, parse
from collect.questions.comparing import SPACE
from collect.questions.grounding import ClaimKind, Grounding, Support
from collect.store.records import ORACLE_TEACHER, Conversation, Role

EDITORS = (Role.MAIN, Role.PATCH_CODER)
"""Roles that write the patch, and so may reproduce the gold patch without having seen it."""
TELLING_CHARACTERS = 12
"""Minimum length of a patch line without blanks: anybody writes shorter ones, such as `return
None`."""


class Leak(StrEnum):
    """A way in which a conversation may know too much."""

    ORACLE = "oracle"
    """The scripted oracle, which knows the gold patch, held the conversation. What it told another
    model as its main agent, that model may use."""
    GOLD_PATCH = "gold_patch"
    """An agent that does not edit quotes an added line of the gold patch that nothing had shown it.
    Checked only if the gold patch is available (`gold_benchmarks`)."""
    EXPECTED_VALUE = "expected_value"
    """A value in the answer was seen only in a test (its frame, its source or its assertion's
    message), not in the program's run."""


def leaks_of(
    conversation: Conversation, grounding: Grounding, gold_lines: Collection[str] | None
) -> tuple[Leak, ...]:
    """The labels of one conversation; `gold_lines` is None if the gold patch is not available."""
    found = {
        Leak.ORACLE: conversation.teacher == ORACLE_TEACHER,
        Leak.GOLD_PATCH: _quotes(conversation, gold_lines or ()),
        Leak.EXPECTED_VALUE: any(
            claim.kind is ClaimKind.VALUE and claim.grounded is Support.OBSERVED and claim.from_test
            for claim in grounding.claims
        ),
    }
    return tuple(leak for leak, is_so in found.items() if is_so)


def hunks_of(patch: str) -> list[Hunk]:
    """All hunks of a patch; none if it is not a unified diff."""
    try:
        return [hunk for file in parse(patch) for hunk in file.hunks]
    except PatchError:
        return []


def gold_lines(patch: str) -> frozenset[str]:
    """The distinctive lines that a patch adds, in the form that `_quotes` compares; empty if the
    patch is broken."""
    lines = [(kind, _plain(text)) for hunk in hunks_of(patch) for kind, text in hunk.lines]
    added = {text for kind, text in lines if kind == "+"}
    known = {text for kind, text in lines if kind != "+"}
    return frozenset(
        line
        for line in added - known
        if len(line.replace(" ", "")) >= TELLING_CHARACTERS and any(map(str.isalpha, line))
    )


def _quotes(conversation: Conversation, lines: Collection[str]) -> bool:
    """Whether the agent quotes one of the lines before anything has shown it."""
    if conversation.role in EDITORS or not lines:
        return False
    open_lines = set(lines)
    for message in (row.message for row in conversation.messages):
        parts = [message.content, message.reasoning or ""]
        for call in message.tool_calls:
            try:
                given = json.loads(call.arguments)
            except (ValueError, RecursionError):
                given = call.arguments
            values = given.values() if isinstance(given, dict) else (given,)
            parts += [each for each in values if isinstance(each, str)]
        text = _plain("\n".join(parts))
        quoted = {line for line in open_lines if line in text}
        if quoted and message.role == "assistant":
            return True
        open_lines -= quoted
    return False


def _plain(text: str) -> str:
    return SPACE.sub(" ", text).strip()
