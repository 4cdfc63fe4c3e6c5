"""Shell commands that show commits later than the one that is checked out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

HISTORY = frozenset(
    {"log", "show", "blame", "diff", "whatchanged", "shortlog", "rev-list", "cherry-pick"}
    | {"checkout", "switch", "restore", "cat-file", "format-patch", "reset", "grep", "annotate"}
)
"""Of these what they show depends on the commit that they name."""
ALWAYS = frozenset({"reflog", "fsck", "fetch", "pull"})
"""These show what no checked-out commit leads to."""
ALL_COMMITS = re.compile(r"--(?:all|branches|remotes|tags|reflog|walk-reflogs|glob(?:=.*)?)$|-g$")
BACKWARDS = re.compile(r"(?:HEAD|@)(?:[~^]\d*|\^\{.*\})*(?::.*)?$|:.*$")
"""HEAD and what comes before it; `:path` is the index."""
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

    A commit is told by its hash, too, unless one of the texts `seen` holds that: what the log of
    HEAD has shown comes before it.
    """
    return any(_is_later(words, seen) for words in _git_commands(command))


def _git_commands(command: str) -> Iterator[list[str]]:
    """The words after `git` of each of its calls in a command line."""
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
    """The words from git's own command on."""
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
