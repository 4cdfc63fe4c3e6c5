"""Detect what a conversation may know that an agent could not know about a new bug.

The labels come from the conversation and its rollout; each means that the agent may know something,
not that it used it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Sequence
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
    GIT_HISTORY = "git_history"
    """An agent of the rollout used the shell to look at commits later than the bug's."""


def leaks_of(
    conversation: Conversation,
    grounding: Grounding,
    gold_lines: Collection[str] | None,
    git_history: bool,
) -> tuple[Leak, ...]:
    """The labels of one conversation.

    `gold_lines` is None if the gold patch is not available;
    `git_history` means that an agent of the rollout has read it.
    """
    found = {
        Leak.ORACLE: conversation.teacher == ORACLE_TEACHER,
        Leak.GOLD_PATCH: _quotes(conversation, gold_lines or ()),
        Leak.EXPECTED_VALUE: any(
            claim.kind is ClaimKind.VALUE and claim.grounded is Support.OBSERVED and claim.from_test
            for claim in grounding.claims
        ),
        Leak.GIT_HISTORY: git_history,
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


def reads_git_history(conversation: Conversation) -> bool:
    seen: list[str] = []
    for message in (row.message for row in conversation.messages):
        commands = [call.text("command") for call in message.tool_calls if call.name == "bash"]
        if message.role != "assistant":
            seen.append(message.content)
        elif any(shows_later_commits(command, seen) for command in commands):
            return True
    return False


# Shell commands that show commits later than the checked-out one.


HISTORY = frozenset(
    {"log", "show", "blame", "diff", "whatchanged", "shortlog", "rev-list", "cherry-pick"}
    | {"checkout", "switch", "restore", "cat-file", "format-patch", "reset", "grep", "annotate"}
)
"""Commands whose output depends on the commit that they name."""
ALWAYS = frozenset({"reflog", "fsck", "fetch", "pull"})
"""Commands that show commits not reachable from the checked-out one."""
ALL_COMMITS = re.compile(r"--(?:all|branches|remotes|tags|reflog|walk-reflogs|glob(?:=.*)?)$|-g$")
BACKWARDS = re.compile(r"(?:HEAD|@)(?:[~^]\d*|\^\{.*\})*(?::.*)?$|:.*$")
"""HEAD and its ancestors; `:path` is the index."""
HASH = re.compile(r"[0-9a-f]{7,40}$")
REFERENCE = re.compile(
    r"(?:origin|upstream|refs|remotes|heads|tags)/\S+$|(?:main|master|trunk|develop|FETCH_HEAD|"
    r"ORIG_HEAD|MERGE_HEAD)(?:[~^]\d*)*$|v?\d+\.\d+(?:\.\d+)*$|stash(?:@\{\d+\})?$|@\{.*\}$|"
    r"HEAD@\{.*\}$"
)
"""Branches, tags, and entries of the reflog."""
OPTIONS_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"})
SEPARATORS = re.compile(r"&&|\|\||[;|\n&()]")


def shows_later_commits(command: str, seen: Sequence[str]) -> bool:
    """Whether a command line names commits that may be later than HEAD.

    A hash also names a commit, unless one of the texts in `seen` contains it: what HEAD's log has
    shown is earlier.
    """
    for part in SEPARATORS.split(command):
        try:
            words = shlex.split(part)
        except ValueError:
            words = part.split()
        if "git" in words and _is_later(words[words.index("git") + 1 :], seen):
            return True
    return False


def _is_later(words: list[str], seen: Sequence[str]) -> bool:
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in OPTIONS_WITH_VALUE else 1 :]
    name, arguments = "".join(words[:1]), words[1:]
    if name in ALWAYS or (name == "stash" and arguments[:1] in (["show"], ["list"])):
        return True
    if name not in HISTORY:
        return False
    if "--" in arguments:
        arguments = arguments[: arguments.index("--")]
    for argument in arguments:
        if argument.startswith("-"):
            if ALL_COMMITS.match(argument):
                return True
            continue
        ends = [argument] if argument.startswith(".") else re.split(r"\.{2,3}", argument)
        for end in ends:
            commit = re.split(r"[~^:]", end.removeprefix("^"), maxsplit=1)[0]
            if not end or BACKWARDS.match(end):
                continue
            if HASH.match(commit):
                if not any(commit[:7] in text for text in seen):
                    return True
            elif REFERENCE.match(end.partition(":")[0]):
                return True
    return False
