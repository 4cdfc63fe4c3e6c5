"""Why pytest ran no test, in a few lines: the cause first, then the program's frames."""

from __future__ import annotations

import os
import re
import types
from typing import Any

from .interpreter import traceback_frames
from .workspace import Workspace, nearest

MOST_CHARACTERS = 600
MOST_FRAMES = 4
MOST_PROBLEMS = 3
AVAILABLE = re.compile(r"available fixtures: (.*)")


def listed(problems: list[str]) -> str:
    """Several problems, each once."""
    different = list(dict.fromkeys(problems))
    more = len(different) - MOST_PROBLEMS
    rest = [f"(and {more} more)"] if more > 0 else []
    return "\n".join([*different[:MOST_PROBLEMS], *rest])


def why(error: BaseException, workspace: Workspace) -> str:
    """What an exception says that ended pytest, its collection, or the set-up of a test."""
    error = cause_of(error)
    if type(error).__name__ == "FixtureLookupError":
        return missing_fixture(error, workspace)
    return "\n".join([message_of(error, workspace), *frames_of(error, workspace)])


def cause_of(error: Any) -> BaseException:
    """The program's exception inside one of pytest's."""
    cause: BaseException | None = error.__cause__
    if type(error).__name__ == "ConftestImportFailure":
        # pytest 8 has the first, earlier ones the second.
        cause = error.cause if hasattr(error, "cause") else error.excinfo[1]
    elif type(error).__name__ == "PluggyTeardownRaisedWarning":
        # With `filterwarnings = error`, of pytest's own hooks before version 8.
        cause = cause_of(error.__context__) if error.__context__ is not None else None
    elif type(error).__name__ != "CollectError":
        cause = None
    return cause if cause is not None else error


def message_of(error: BaseException, workspace: Workspace) -> str:
    if isinstance(error, SyntaxError):
        path = workspace.relative(error.filename) if error.filename else "a text"
        line = (error.text or "").strip()
        return f"{type(error).__name__}: {error.msg} ({path}:{error.lineno}: {line})"
    said = str(error).strip()
    if type(error).__name__ == "UsageError":
        # Before it stands how pytest is called.
        said = said.partition(": error: ")[2] or said
        return f"pytest refuses its options: {said}"[:MOST_CHARACTERS]
    shown = f"{type(error).__name__}: {said}".rstrip(": ")
    return shown[:MOST_CHARACTERS] + ("..." if len(shown) > MOST_CHARACTERS else "")


def frames_of(error: BaseException, workspace: Workspace) -> list[str]:
    """The program's innermost frames; if there are none, the innermost of all."""
    frames = traceback_frames(error)
    own = [at for at in frames if workspace.mine(at.frame.f_code.co_filename)]
    chosen = own[:MOST_FRAMES] or frames[:1]
    if isinstance(error, SyntaxError) or type(error).__name__ == "UsageError":
        chosen = own[:MOST_FRAMES]
    return [place(at.frame.f_code.co_filename, at.line, workspace) for at in chosen]


def place(filename: str, line: int, workspace: Workspace) -> str:
    text = workspace.line(filename, line)
    return f"  at {workspace.relative(filename)}:{line}" + (f": {text}" if text else "")


def missing_fixture(error: Any, workspace: Workspace) -> str:
    """What pytest says of a fixture that it can't find, without its list of all others."""
    said = error.formatrepr().errorstring
    known = AVAILABLE.search(said)
    near = nearest(error.argname, known.group(1).split(", ")) if known is not None else ""
    asking = error.fixturestack[-1].func if error.fixturestack else error.request.function
    lines = [said.strip().splitlines()[0] + near]
    code = getattr(asking, "__code__", None)
    if isinstance(code, types.CodeType):
        name, line = os.path.realpath(code.co_filename), code.co_firstlineno
        lines.append(place(name, line, workspace))
    lines.append("No conftest.py has it, and no plugin that is loaded here.")
    return "\n".join(lines)
