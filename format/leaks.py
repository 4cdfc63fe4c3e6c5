"""Detect what a conversation may know that an agent could not know about a new bug.

The labels come from the conversation and its rollout; each means that the agent may know something,
not that it used it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum

from collect.code.patches import PatchError
from collect.code.unified import parse
from collect.questions.comparing import SPACE
from collect.questions.grounding import ClaimKind, Grounding, Support
from collect.store.records import ORACLE_TEACHER, Conversation, Role

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
    return any(_is_later(words, seen) for words in _git_commands(command))


def _git_commands(command: str) -> Iterator[list[str]]:
    """The words after `git` in each git call of a command line."""
    for part in SEPARATORS.split(command):
        try:
            words = shlex.split(part)
        except ValueError:
            words = part.split()
        if "git" in words:
            yield words[words.index("git") + 1 :]


def _is_later(words: Sequence[str], seen: Sequence[str]) -> bool:
    rest = _without_options(words)
    if not rest:
        return False
    name, arguments = rest[0], rest[1:]
    if name in ALWAYS:
        return True
    if name == "stash":
        return arguments[:1] in (["show"], ["list"])
    if name not in HISTORY:
        return False
    if "--" in arguments:
        arguments = arguments[: arguments.index("--")]
    return any(_names_later(argument, seen) for argument in arguments)


def _without_options(words: Sequence[str]) -> list[str]:
    """The words from git's subcommand on."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        position += 2 if words[position] in OPTIONS_WITH_VALUE else 1
    return list(words[position:])


def _names_later(argument: str, seen: Sequence[str]) -> bool:
    if argument.startswith("-"):
        return ALL_COMMITS.match(argument) is not None
    ends = re.split(r"\.{2,3}", argument) if not argument.startswith(".") else [argument]
    return any(_is_later_commit(end, seen) for end in ends if end)


def _is_later_commit(name: str, seen: Sequence[str]) -> bool:
    if BACKWARDS.match(name):
        return False
    commit = re.split(r"[~^:]", name.removeprefix("^"), maxsplit=1)[0]
    if HASH.match(commit):
        return not any(commit[:7] in text for text in seen)
    return REFERENCE.match(name.partition(":")[0]) is not None


SHELL = "bash"
EDITORS = (Role.MAIN, Role.PATCH_CODER)
"""Roles that write the patch, and so may reproduce the gold patch without having seen it."""
TELLING_CHARACTERS = 12
"""Minimum length of a patch line without blanks: anybody writes shorter ones, such as `return
None`."""


class Leak(StrEnum):
    """A way in which a conversation may know too much."""

    ORACLE = "oracle"
    """The scripted oracle, which knows the gold patch, took part in the rollout."""
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
    teacher: str,
    grounding: Grounding,
    gold_lines: Collection[str] | None,
    git_history: bool,
) -> tuple[Leak, ...]:
    """The labels of one conversation.

    `teacher` is the rollout's; `gold_lines` is None if the gold patch is not available;
    `git_history` means that an agent of the rollout has read it.
    """
    found = {
        Leak.ORACLE: ORACLE_TEACHER in (teacher, conversation.teacher),
        Leak.GOLD_PATCH: bool(gold_lines) and _quotes(conversation, gold_lines or ()),
        Leak.EXPECTED_VALUE: _expected_value(grounding),
        Leak.GIT_HISTORY: git_history,
    }
    return tuple(leak for leak, is_so in found.items() if is_so)


def gold_lines(patch: str) -> frozenset[str]:
    """The distinctive lines that a patch adds, in the form that `_quotes` compares; empty if the
    patch is broken."""
    try:
        hunks = [hunk for file in parse(patch) for hunk in file.hunks]
    except PatchError:
        return frozenset()
    added = {_plain(text) for hunk in hunks for kind, text in hunk.lines if kind == "+"}
    known = {_plain(text) for hunk in hunks for kind, text in hunk.lines if kind != "+"}
    return frozenset(line for line in added - known if _is_telling(line))


def reads_git_history(conversation: Conversation) -> bool:
    """Whether a shell command of the conversation shows commits later than the bug's."""
    seen: list[str] = []
    for message in (row.message for row in conversation.messages):
        commands = [call.text("command") for call in message.tool_calls if call.name == SHELL]
        if message.role != "assistant":
            seen.append(message.content)
        elif any(shows_later_commits(command, seen) for command in commands):
            return True
    return False


def _expected_value(grounding: Grounding) -> bool:
    return any(
        claim.kind is ClaimKind.VALUE and claim.grounded is Support.OBSERVED and claim.from_test
        for claim in grounding.claims
    )


def _quotes(conversation: Conversation, lines: Collection[str]) -> bool:
    """Whether the agent quotes one of the lines before anything has shown it."""
    if conversation.role in EDITORS:
        return False
    open_lines = set(lines)
    for row in conversation.messages:
        message = row.message
        calls = [_decoded(call.arguments) for call in message.tool_calls]
        text = _plain("\n".join([message.content, message.reasoning or "", *calls]))
        quoted = {line for line in open_lines if line in text}
        if quoted and message.role == "assistant":
            return True
        open_lines -= quoted
    return False


def _decoded(arguments: str) -> str:
    """The texts in a call's arguments, without JSON escapes."""
    try:
        decoded = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    values = decoded.values() if isinstance(decoded, dict) else (decoded,)
    return "\n".join(each for each in values if isinstance(each, str))


def _plain(text: str) -> str:
    return SPACE.sub(" ", text).strip()


def _is_telling(line: str) -> bool:
    return len(line.replace(" ", "")) >= TELLING_CHARACTERS and any(map(str.isalpha, line))
