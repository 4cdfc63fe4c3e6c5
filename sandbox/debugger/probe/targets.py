"""What a launch names, up to where it stops first; scripts and modules are run here."""

from __future__ import annotations

import builtins
import os
import sys
import types
from typing import Any, Callable

from .interpreter import LIMIT, depth, traceback_frames
from .memory import SPARE
from .outcomes import Verdict
from .session import Session
from .tracer import INTO
from .wire import Json, NoSuchTest, Refusal
from .workspace import find_file, near_tests


class Target:
    """The target to run in a session."""

    def __init__(self, session: Session, arguments: Json) -> None:
        self.session = session
        self.kind: str = arguments["target"]["kind"]
        self.names: list[str] = arguments["target"]["names"]
        self.options: list[str] = arguments["target"].get("options", [])
        self.stop_at_entry: bool = arguments["stop_at_entry"]

    def arm_function(self, function: Any) -> None:
        """Stop at the first line of a test function, or of the program's code that it calls."""
        if not self.stop_at_entry or self.session.entered:
            return
        code = function_code(function)
        if code is not None and self.session.workspace.mine(code.co_filename):
            self.arm_code(code)
        else:
            self.session.tracer.step(INTO, None)

    def arm_code(self, code: types.CodeType) -> None:
        self.session.table.arm_entry(code)
        self.session.tracer.refresh()
        self.session.tracer.run_freely(None)

    def say_verdict(self, verdict: Verdict, code: int) -> None:
        """Note the runner's verdict on tests that ran to their end."""
        self.session.notes += verdict.notes(code)

    def near_tests(self) -> str:
        """For an error: the tests with the nearest names."""
        return near_tests(self.session.workspace, self.names[0] if self.names else "")


def run_script(target: Target) -> object:
    try:
        path = find_file(target.session.workspace, target.names[0])
    except Refusal as refusal:
        raise NoSuchTest(str(refusal)) from None
    sys.argv = list(target.names)
    root = target.session.workspace.root
    if not path.startswith(root + os.sep):
        sys.path.insert(0, root)
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = module
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError) as error:
        raise Refusal(f"{type(error).__name__}: {error}") from None
    if target.stop_at_entry:
        target.arm_code(code)
    LIMIT.begin(depth() + 3)
    return guard(target.session, lambda: exec(code, module.__dict__))


def run_module(target: Target) -> object:
    import runpy
    from importlib.util import find_spec

    if find_spec(target.names[0].partition(".")[0]) is None:
        raise NoSuchTest("there is no module {}".format(target.names[0]))
    sys.argv = list(target.names)
    if target.stop_at_entry:
        target.session.tracer.entry_module = "__main__"
        target.session.tracer.step(INTO, None)
    return guard(
        target.session,
        lambda: runpy.run_module(target.names[0], run_name="__main__", alter_sys=True),
    )


def guard(session: Session, work: Callable[[], object]) -> object:
    """Run a program; an exception that would end it is inspected post mortem."""
    try:
        work()
    except SystemExit as leave:
        return leave.code
    except BaseException as error:
        SPARE.reserve = None  # before any call, which may need memory
        if not session.started and not reached_program(session, error):
            raise Refusal(f"{type(error).__name__}: {error}") from None
        session.post_mortem(error)
    return 0


def reached_program(session: Session, error: BaseException) -> bool:
    """Whether an exception was raised by the program, and not before reaching it."""
    if isinstance(error, MemoryError):
        return True  # its traceback may be lost, see `memory`
    internal = session.workspace.internal
    return any(not internal(at.frame.f_code.co_filename) for at in traceback_frames(error))


def last_lines(text: str, count: int = 25) -> str:
    return "\n".join(text.strip().splitlines()[-count:])


def function_code(function: Any) -> types.CodeType | None:
    """The code object below decorators, bound methods, partials and hypothesis."""
    for _ in range(20):
        inner = getattr(getattr(function, "hypothesis", None), "inner_test", None)
        inner = inner or getattr(function, "__wrapped__", None)
        inner = inner or getattr(function, "__func__", None)
        if inner is None and not hasattr(function, "__code__"):
            inner = getattr(function, "func", None)
        if inner is None:
            break
        function = inner
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None
