"""What a launch names: a pytest test, a unittest name, a script or a module."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Kind = Literal["pytest", "unittest", "script", "module", "name"]


class TargetError(ValueError):
    """The text names nothing that can be launched; the message says what would."""


@dataclass(frozen=True)
class Target:
    """One thing to run."""

    kind: Kind
    names: tuple[str, ...]
    """Node ids, dotted names, or a script or module and its arguments; for `name` a bare name of
    a test, which is looked for among the test files."""


ACCEPTED = (
    "give a pytest node id (tests/test_cart.py::test_total), a unittest name "
    "(tests.test_cart.CartTest.test_total), or a script with its arguments"
)
MAX_CHARACTERS = 4_000
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def parse_target(text: str) -> Target:
    """Read a launch's `test`, with or without the command that would run it.

    Raises TargetError where it names nothing.
    """
    if len(text) > MAX_CHARACTERS:
        raise TargetError(f"a test of {len(text)} characters names no test: {ACCEPTED}")
    words = _without_command(_split(text))
    if not words:
        raise TargetError(f"{text!r} names no test: {ACCEPTED}")
    if words[0] in ("-m", "pytest", "py.test"):
        return _runner(words)
    if "::" in words[0]:
        return Target("pytest", _ids(words))
    if words[0].endswith(".py"):
        return _file(words)
    if DOTTED.fullmatch(words[0]) and len(words) == 1:
        kind: Kind = "unittest" if "." in words[0] else "name"
        return Target(kind, (words[0],))
    if words[0].endswith("/"):
        return Target("pytest", _ids(words))
    raise TargetError(f"{text!r} names no test: {ACCEPTED}")


def is_test_file(path: str) -> bool:
    """Whether pytest would collect a file by its default names."""
    name = PurePosixPath(path).name
    return name.startswith("test_") or name.endswith("_test.py")


def _split(text: str) -> list[str]:
    """Words as a shell splits them; the quotes and spaces of a parametrised id stay."""
    node = re.search(r"\S+::[^\s\[]*\[.*\]", text)
    if node is not None:
        return [*_split(text[: node.start()]), node.group(), *_split(text[node.end() :])]
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _without_command(words: list[str]) -> list[str]:
    """Drop an interpreter and its own options in front: `python -u -m pytest ...`."""
    if words and re.fullmatch(r"(\S*/)?python[\d.]*", words[0]):
        words = words[1:]
        while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
            words = words[1:]
        if words[:1] == ["-c"]:
            raise TargetError(f"code given with -c can't be debugged: {ACCEPTED}")
    return words


def _runner(words: list[str]) -> Target:
    """`-m module ...`, or the command of a test runner."""
    if words[0] == "-m":
        words = words[1:]
        if not words:
            raise TargetError(f"-m names no module: {ACCEPTED}")
    runner, rest = words[0], words[1:]
    if runner in ("pytest", "py.test"):
        return Target("pytest", _ids(rest))
    if runner == "unittest":
        names = [word for word in rest if not word.startswith("-")]
        return Target("unittest", tuple(_dotted(name) for name in names)) if names else _nothing()
    return Target("module", tuple(words))


def _ids(words: list[str]) -> tuple[str, ...]:
    """The node ids and the selections of a pytest command; its other options don't matter here."""
    ids: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-k", "-m"):
            ids += [word, next(rest, "")]
        elif not word.startswith("-"):
            ids.append(word)
    return tuple(ids) if ids else _nothing().names


def _nothing() -> Target:
    raise TargetError(f"the command names no test: {ACCEPTED}")


def _file(words: list[str]) -> Target:
    if len(words) == 1 and is_test_file(words[0]):
        return Target("pytest", (words[0],))
    return Target("script", tuple(words))


def _dotted(name: str) -> str:
    """`tests/test_cart.py` as unittest names it."""
    return name.removesuffix(".py").strip("./").replace("/", ".") if name.endswith(".py") else name
