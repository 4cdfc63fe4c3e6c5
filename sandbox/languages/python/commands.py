"""What stands before a test's own words in a command: variables, and programs that only start the
rest, such as `uv run`, `coverage run` or an interpreter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

RUNNERS = ("pytest", "py.test")
ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
INTERPRETER = re.compile(r"(?:\S*/)?python[\d.]*")
PROGRAM = re.compile(r"\S*/bin/(?P<name>[\w.-]+)")
VALUED_OF_PYTHON = frozenset({"-W", "-X"})
STARTERS: Mapping[tuple[str, ...], frozenset[str]] = {
    ("uv", "run"): frozenset(
        {"--with", "--with-editable", "--with-requirements", "--extra", "--no-extra", "--group"}
        | {"--no-group", "--only-group", "--python", "-p", "--package", "--project", "--index"}
        | {"--default-index", "--resolution", "--exclude-newer"}
    ),
    ("coverage", "run"): frozenset(
        {"--source", "--source-dirs", "--rcfile", "--include", "--omit", "--context"}
        | {"--data-file", "--concurrency", "--debug"}
    ),
    ("pdm", "run"): frozenset(),
    ("hatch", "run"): frozenset(),
    ("hatch", "test"): frozenset(),
    ("poetry", "run"): frozenset(),
    ("pipenv", "run"): frozenset(),
    ("uvx",): frozenset({"--with", "--with-editable", "--from", "--python", "-p", "--index"}),
}
"""Programs that start the rest of a command, and their options that take the next word as a value,
but for those that change the tests' folder or variables: a command with one is refused.
"""
PASSING = frozenset({"tox", "nox"})
"""Programs that give what stands behind `--` to the test runner that their settings name."""
KNOWN_PROGRAMS = frozenset({*RUNNERS, "env", *PASSING, *(starter[0] for starter in STARTERS)})
KEPT_OPTIONS = ("-m", "-c")
"""They say what runs."""


@dataclass(frozen=True)
class CommandWords:
    """A command without what starts it."""

    words: tuple[str, ...]
    """A test, `pytest` or another program with its arguments, or `-m` with a module and its own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that it sets."""
    folder: str = ""
    """Where it runs, if it first changes there."""


def read_command(words: Sequence[str]) -> CommandWords:
    """Read `cd core && A=1 uv run python -u -m pytest ...`."""
    variables: dict[str, str] = {}
    folder, rest = _without_cd(words)
    while rest:
        assignment = ASSIGNMENT.fullmatch(rest[0])
        if assignment is not None:
            variables[assignment["name"]] = assignment["value"]
            rest = rest[1:]
            continue
        shorter = _without_starter(rest)
        if shorter == rest:
            break
        rest = shorter
    return CommandWords(tuple(rest), variables, folder)


def _without_cd(words: Sequence[str]) -> tuple[str, list[str]]:
    """The folder that a command first changes to, and the rest."""
    match words:
        case ["cd", folder, "&&" | ";", *rest]:
            return folder.rstrip("/"), rest
        case ["cd", folder, *rest] if folder.endswith(";"):
            return folder.rstrip("/;"), rest
    return "", list(words)


def starts_command(words: Sequence[str]) -> bool:
    """Whether these words begin as a command does, rather than the name of a folder."""
    return (
        _starter(words) is not None or words[:1] == ["cd"] or any(map(ASSIGNMENT.fullmatch, words))
    )


def _starter(words: Sequence[str]) -> tuple[str, ...] | None:
    return next((each for each in STARTERS if tuple(words[: len(each)]) == each), None)


def _without_starter(words: list[str]) -> list[str]:
    """A command without the program that it begins with, if that only starts the rest."""
    starter = _starter(words)
    if INTERPRETER.fullmatch(words[0]):
        rest = _without_options(words[1:], VALUED_OF_PYTHON)
        options = words[1 : len(words) - len(rest)]
        return [*rest, *_warnings(options)] if _is_pytest(rest) else rest
    if starter is None:
        return _unwrapped(words)
    if starter == ("hatch", "test"):
        return ["pytest", *words[2:]]
    rest = _without_options(words[len(starter) :], STARTERS[starter])
    if starter == ("hatch", "run") and rest and "::" not in rest[0]:
        rest[0] = rest[0].rpartition(":")[2]  # after the environment
    return rest


def _unwrapped(words: list[str]) -> list[str]:
    """A command without a wrapper that has no options to skip."""
    program = PROGRAM.fullmatch(words[0])
    if words[0] == "env" or words[:3] == ["-m", "coverage", "run"]:
        return words[1:]
    if words[0] in PASSING and "--" in words:
        return words[words.index("--") + 1 :]
    if program is not None and program["name"] in KNOWN_PROGRAMS:
        return [program["name"], *words[1:]]
    return words


def _is_pytest(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] == "-m" and words[1] in RUNNERS


def _warnings(words: Sequence[str]) -> list[str]:
    """The interpreter's filters of warnings, as pytest takes them."""
    filters: list[str] = []
    for option, value in pairwise([*words, ""]):
        if option == "-W":
            filters += ["-W", value]
        elif option.startswith("-W"):
            filters += ["-W", option.removeprefix("-W")]
    return filters


def _without_options(words: list[str], valued: frozenset[str]) -> list[str]:
    while words and words[0].startswith("-") and words[0] not in KEPT_OPTIONS:
        if words[0] == "--":
            return words[1:]
        words = words[2 if words[0] in valued else 1 :]
    return words
