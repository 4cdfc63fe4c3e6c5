"""Runs a script or module as `python` does, and reports whether it ran to its end.

Its source is passed to the sandbox's interpreter (3.8 or later), never imported there. Standard
input holds a line with a file and a token, which is written to the file if the last statement was
reached without an error, or if the script itself, its tests or a library raised SystemExit with
success: not if the program exits early. What it changed in the functions by which scripts fail
follows.
"""

from __future__ import annotations

import sys

PATH = [*sys.path]
# No module of the working folder may replace what is imported here.
sys.path[:] = [path for path in PATH if path]

import builtins  # noqa: E402
import contextlib  # noqa: E402
import os  # noqa: E402
import runpy  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from importlib.machinery import SourceFileLoader  # noqa: E402
from types import FunctionType, TracebackType  # noqa: E402
from typing import Any  # noqa: E402

# Saved before the program runs, which may replace them.
END = SystemExit
realpath = os.path.realpath

WAYS_TO_FAIL = (
    (sys, "exit"),
    (builtins, "exit"),
    (builtins, "quit"),
    (builtins, "SystemExit"),
    (builtins, "AssertionError"),
)


def main(trusted: list[str], words: list[str]) -> None:
    """Run `-m MODULE ARGUMENTS` or `FILE ARGUMENTS`. Besides the script itself, `trusted` files and
    folders of the working folder may end it."""
    # As without this launcher: STEPINTO_PYTHONPATH is the original PYTHONPATH.
    told = os.environ.pop("STEPINTO_PYTHONPATH", "")
    added = []
    if told:
        os.environ["PYTHONPATH"] = told
        if not sys.flags.ignore_environment:
            added = [os.path.abspath(path) for path in told.split(os.pathsep)]
    first = PATH[:1] if PATH[:1] == [""] else []
    sys.path[:] = dict.fromkeys([*first, *added, *PATH[len(first) :]])
    program = Program(trusted)
    before = [getattr(owner, name, None) for owner, name in WAYS_TO_FAIL]
    # While the script runs, the token is only on the interpreter's stack, in no variable.
    _tell_end(_read_token(), _run(words, program), before, program)


def _read_token() -> tuple[str, str]:
    """The file and the token, which can't be read again."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1)
    # Data read from a pipe or a socket is gone.
    with contextlib.suppress(OSError):
        os.ftruncate(0, 0)
    path, _, token = line.decode().strip().rpartition(" ")
    return path, token


class Program:
    """The code of the working folder that is not a test."""

    def __init__(self, trusted: list[str]) -> None:
        self.workspace = realpath(os.getcwd())
        self.trusted = [realpath(path) for path in trusted]

    def has(self, path: str) -> bool:
        inside = path.startswith(self.workspace + os.sep)
        known = any(path == each or path.startswith(each + os.sep) for each in self.trusted)
        return inside and not known


def _run(words: list[str], program: Program) -> SystemExit | None:
    """Run to the end, and return the SystemExit that ended it, if any. Does not return after a
    failure."""
    try:
        if words[0] == "-m":
            sys.argv[:] = ["-m", *words[2:]]
            if sys.path[:1] == [""]:
                sys.path[0] = os.getcwd()
            # The interpreter calls this for -m.
            run: Any = vars(runpy)["_run_module_as_main"]
            run(words[1])
        else:
            _run_file(words)
    except END as end:
        if end.code not in (None, 0):
            raise
        trace = _own(end.__traceback__)
        first = trace and realpath(trace.tb_frame.f_code.co_filename)
        while trace is not None:
            path = realpath(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
            if path != first and program.has(path):
                raise END(
                    f"{path} ended the test command by SystemExit: this counts as a failure"
                ) from None
        return end
    except BaseException as error:
        own = _own(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(own), own)
        raise END(1) from None
    return None


def _run_file(words: list[str]) -> None:
    path = words[0]
    sys.argv[:] = words
    if sys.path[:1] == [""]:
        sys.path[0] = os.path.dirname(realpath(path))
    file = os.path.abspath(path) if sys.version_info >= (3, 9) else path
    namespace = sys.modules["__main__"].__dict__
    loader = SourceFileLoader("__main__", file)
    namespace.update(__file__=file, __cached__=None, __loader__=loader)
    try:
        with open(path, "rb") as opened:
            source = opened.read()
    except OSError as error:
        sys.stderr.write(f"{sys.executable}: can't open file {file!r}: {error}\n")
        raise END(2) from None
    try:
        exec(compile(source, file, "exec", dont_inherit=True), namespace)
    finally:
        # Python does this for scripts, but not for modules.
        for stream in (sys.stderr, sys.stdout):
            with contextlib.suppress(Exception):
                stream.flush()


def _own(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this file and runpy."""
    own = (__name__, "runpy")
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in own:
        trace = trace.tb_next
    return trace


def _tell_end(
    told: tuple[str, str], end: SystemExit | None, before: list[object], program: Program
) -> None:
    path, token = told
    ways = enumerate(WAYS_TO_FAIL)
    changed = [name for at, (owner, name) in ways if getattr(owner, name, None) is not before[at]]
    changed += _replaced_in_unittest(program)
    problem = f"the program replaced {', '.join(changed)}" if changed else _unfailed()
    with open(path, "w") as file:
        file.write(f"{token}\n{problem}")
    if end is not None:
        raise end


def _replaced_in_unittest(program: Program) -> Iterator[str]:
    """Functions of test cases that the program replaced, if unittest is loaded."""
    if "unittest" not in sys.modules:
        return
    import unittest

    for name, value in [*vars(unittest.TestCase).items()]:
        code = getattr(value, "__code__", None)
        asserts = name.startswith(("assert", "fail")) and name != "failureException"
        if code is None:
            replaced = asserts and not isinstance(value, FunctionType)
        else:
            replaced = program.has(realpath(code.co_filename))
        if replaced:
            yield f"TestCase.{name}"


def _unfailed() -> str:
    """Evidence that a test with a random name does not fail as it must, if unittest is loaded."""
    if "unittest" not in sys.modules:
        return ""
    import unittest

    def must_fail(self: unittest.TestCase) -> None:
        self.assertEqual(1, 2)  # noqa: PT009

    name = os.urandom(8).hex()
    result = unittest.TestResult()
    test = type(name, (unittest.TestCase,), {f"test_{name}": must_fail})
    test(f"test_{name}").run(result)
    if len(result.failures) == 1 and not result.wasSuccessful():
        return ""
    return "a test of unittest that must fail did not: the program changed how failures are told"
