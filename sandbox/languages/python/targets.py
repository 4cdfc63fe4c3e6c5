"""What a text names to debug or to run: a pytest test, a unittest name, a script or a module.

The debug tools, the commands for a repository, recordings and `benchmark.test_command` read their
tests here.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from sandbox.languages.python.commands import (
    RUNNERS,
    CommandWords,
    read_command,
    starts_command,
)
from sandbox.languages.python.pytest_options import is_among, read_words
from sandbox.shell import split_words

Kind = Literal["pytest", "unittest", "script", "module", "name"]


class TargetError(ValueError):
    """The text names nothing that can be launched; the message says what could be."""


@dataclass(frozen=True)
class Target:
    """One thing to run."""

    kind: Kind
    names: tuple[str, ...]
    """Node ids, files and folders, dotted names, or a script or module and its arguments; for
    `name` a test's bare or dotted name, which is looked for in the test files. None for pytest:
    all tests that the project's settings name."""
    options: tuple[str, ...] = ()
    """pytest's, such as `-k`; none that break a session."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that its command sets."""
    left_out: tuple[str, ...] = field(default=(), compare=False)
    """Those of its options that do not apply, since they break a session."""


ACCEPTED = (
    "give a pytest node id (tests/test_cart.py::test_total), a unittest name "
    "(tests.test_cart.CartTest.test_total), or a script with its arguments"
)
MAX_CHARACTERS = 4_000
MAX_DEPTH = 20
"""Of folders in a dotted name."""
QUOTED = re.compile(
    r"(?<!\S)(?:'(?=[^']*::)(?P<single>[^']*+)'|\"(?=[^\"]*::)(?P<double>[^\"]*+)\")(?!\S)"
)
PARAMETRISED = re.compile(r"(?<!\S)\S+?::[^\s\[]*+\[.*\]")
SPACED = re.compile(r"(?P<path>[^'\"]+? [^'\"]*?\.py)(?:::[^\s\[]*+(?:\[.*\])?)?")
WORD_OF_COMMAND = re.compile(r"-.*|.*\.py|.*::.*|(?:.*/)?(?:python[\d.]*|pytest|py\.test|unittest)")
"""Words that may precede a test in a command, but occur in no folder's name."""
TOO_LATE = re.compile(r"PYTHON(?!PATH$)\w*|LD_\w+")
"""Variables that work only from the start of the interpreter on."""
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def parse_target(text: str) -> Target:
    """Parse a launch's `test`, with or without the command that would run it.

    Raises TargetError if it names nothing.
    """
    if len(text) > MAX_CHARACTERS:
        raise TargetError(f"a test of {len(text)} characters names no test: {ACCEPTED}")
    command = split_command(text)
    _require_settable(command.variables)
    target = replace(_target(text, list(command.words)), variables=command.variables)
    return target if command.folder in ("", ".") else _from_top(target, command.folder)


def _from_top(target: Target, folder: str) -> Target:
    """The target of a command that runs in a folder, by names that begin at the top. Raises
    TargetError."""
    if target.kind == "pytest":
        names = [posixpath.normpath(posixpath.join(folder, name)) for name in target.names]
        return replace(target, names=tuple(names) or (f"{folder}/",))
    raise TargetError(
        f"{target.names[0]} would run in {folder}, and tests run at the repository's top: give the "
        "test's node id, with its path from there"
    )


def split_command(text: str) -> CommandWords:
    """A command's own words, and its variables. Raises TargetError."""
    command = read_command(_split(text))
    if command.words[:1] == ("-c",):
        raise TargetError(f"code given with -c can't be debugged: {ACCEPTED}")
    return command


def _require_settable(variables: Mapping[str, str]) -> None:
    """Raises TargetError for a variable that would not be as its command has it."""
    for name, value in variables.items():
        if TOO_LATE.fullmatch(name):
            raise TargetError(
                f"{name} works only from the start of the interpreter on: leave it out of the "
                "command, and set it by `variables` if the test needs it"
            )
        if "$" in value or "`" in value:
            raise TargetError(f"{name}={value} needs a shell, and there is none: write its value")


def _target(text: str, words: list[str]) -> Target:
    if not words:
        raise TargetError(f"{text!r} names no test: {ACCEPTED}")
    if words[0] in ("-m", *RUNNERS):
        return _runner(words)
    if "::" in words[0] or _selects_tests(words):
        return _pytest(words)
    if posixpath.basename(words[0]) == "manage.py" and words[1:2] == ["test"]:
        return _django_test(words[2:]) or Target("script", tuple(words))
    if words[0].endswith(".py"):
        return Target("script", tuple(words))
    if DOTTED.fullmatch(words[0]) and len(words) == 1:
        return Target("name", (words[0],))
    if words[0].endswith("/"):
        return _pytest(words)
    raise TargetError(f"{text!r} names no test: {ACCEPTED}")


def _selects_tests(words: Sequence[str]) -> bool:
    """Whether they are a test file, alone or with what chooses among its tests."""
    return is_test_file(words[0]) and (len(words) == 1 or words[1] in ("-k", "-m", "-x"))


def is_test_file(path: str) -> bool:
    """Whether pytest would collect a file by its default names."""
    name = PurePosixPath(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _split(text: str) -> list[str]:
    """Split into words as a shell does, except that pytest's ids need no quotes: quotes inside a
    parametrised id stay, and so do spaces in folders if the text is a single id."""
    text = text.strip()
    spaced = SPACED.fullmatch(text)
    if spaced is not None:
        *folders, _ = spaced["path"].split()
        is_command = starts_command(folders) or any(map(WORD_OF_COMMAND.fullmatch, folders))
        if not is_command:
            return [text]
    node = QUOTED.search(text) or PARAMETRISED.search(text)
    if node is not None:
        name = node[node.lastindex or 0]
        return [*_split(text[: node.start()]), name, *_split(text[node.end() :])]
    return split_words(text)


def _runner(words: list[str]) -> Target:
    """Parse `-m module ...`, or the command of a test runner."""
    if words == ["-m"]:
        raise TargetError(f"-m names no module: {ACCEPTED}")
    runner, *rest = words[1:] if words[0] == "-m" else words
    if runner in RUNNERS:
        return _pytest(rest)
    if runner == "django" and rest[:1] == ["test"]:
        return _django_test(rest[1:]) or Target("module", (runner, *rest))
    if runner == "unittest":
        return Target("unittest", _unittest_arguments(rest))
    return Target("module", (runner, *rest))


def _django_test(words: Sequence[str]) -> Target | None:
    """The one test that `manage.py test` names: pytest-django runs it with a debugger's help. None
    for several, or other arguments."""
    labels = [word for word in words if not word.startswith("-")]
    if len(labels) == 1 and DOTTED.fullmatch(labels[0]) and "." in labels[0]:
        return Target("name", (labels[0],))
    return None


def _unittest_arguments(words: list[str]) -> tuple[str, ...]:
    """The arguments that choose tests, or `discover` with its own, without those about output."""
    if words[:1] == ["discover"]:
        return tuple(words)
    chosen: list[str] = []
    names: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-k", "--durations"):
            value = next(rest, "")
            chosen += [word, value] if word == "-k" else []
        elif not word.startswith("-"):
            path = word.removesuffix(".py").strip("./").replace("/", ".")
            names.append(path if word.endswith(".py") else word)
    return (*names, *chosen) if names else ("discover", *chosen)


def _pytest(words: Sequence[str]) -> Target:
    """The tests of a pytest command, and those of its options that decide how they run."""
    names: list[str] = []
    options: list[str] = []
    left_out: list[str] = []
    for word in read_words(words, _looks_like_place):
        if isinstance(word, str):
            names.append(word)
        elif word.breaks_session:
            left_out.append(" ".join(word.words))
        elif not word.only_shows:
            options += word.words
    for option in dict.fromkeys(filter(None, map(doctest_option, names))):
        options += [] if option in options else [option]
    return Target("pytest", tuple(names), tuple(options), left_out=tuple(left_out))


def doctest_option(name: str) -> str:
    """The option with which pytest finds a doctest, `shop/cart.py::shop.cart.total` or
    `docs/shop.rst::shop.rst`; empty for other tests, whose names have no dot."""
    path, _, test = name.partition("[")[0].partition("::")
    if "." not in test:
        return ""
    return (
        "--doctest-modules"
        if path.endswith(".py")
        else f"--doctest-glob=*{PurePosixPath(path).name}"
    )


def _looks_like_place(word: str) -> bool:
    return "/" in word or "::" in word or word.endswith(".py")


# The same texts, for a repository whose files are known.


def in_repository(text: str, files: Collection[str], root: str = "") -> str:
    """A test in the form that its repository's benchmark has: one node id if it is one, also for
    `tests.test_cart.CartTest.test_total`, else the command. `root` is the folder that paths may
    begin with. A text that names nothing is returned as it is.
    """
    inside = text
    if root:
        inside = text.replace(f"{root}/", "").replace(f"cd {root} ", "cd . ")
    if inside and "::" not in inside and not inside.endswith(".py") and is_among(files, inside):
        return _place(inside, files)
    try:
        target = parse_target(inside)
    except TargetError:
        return text
    if target.kind == "name" and "." in target.names[0] and not target.variables:
        return _node_id(target.names[0], files) or inside
    return _pytest_form(target, files) if target.kind == "pytest" else inside


def _place(path: str, files: Collection[str]) -> str:
    """A test, or a folder or file of tests, such as one of doctests, as pytest's."""
    if "::" in path or path.endswith("/") or is_test_file(path):
        return path
    is_file = path in files or path.endswith(".py")
    return shlex.join(("pytest", path)) if is_file else f"{path}/"


def _pytest_form(target: Target, files: Collection[str]) -> str:
    names = [name.removeprefix("./") for name in target.names]
    if len(names) == 1 and not target.options and not target.variables:
        return _place(names[0], files)
    variables = [f"{name}={shlex.quote(value)}" for name, value in target.variables.items()]
    return " ".join((*variables, shlex.join(("pytest", *names, *target.options))))


def _node_id(dotted: str, files: Collection[str]) -> str | None:
    """The node id of a dotted name; None if no file, or more than one, has it."""
    parts = dotted.split(".")
    for length in range(min(len(parts), MAX_DEPTH), 0, -1):
        path = posixpath.join(*parts[:length]) + ".py"
        found = [file for file in files if file == path or file.endswith(f"/{path}")]
        if path in found or len(found) == 1:
            return "::".join((path if path in found else found[0], *parts[length:]))
    return None
