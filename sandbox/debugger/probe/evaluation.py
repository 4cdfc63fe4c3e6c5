"""Runs the host's expressions and code in the program, and takes back control from them."""

from __future__ import annotations

import ast
import threading
import time
import types
from typing import Any, Callable, Optional, Tuple

from .breakpoints import Breakpoint
from .frames import assign_locals, frame_locals
from .interpreter import import_standard
from .values import exception_text
from .wire import TICK, Json

IDLE, RUNNING, EVALUATING = "idle", "running", "evaluating"


class Interrupted(BaseException):
    """Raised by the interrupt inside an evaluation that ran too long."""


class Evaluator:
    """What the debuggee does at the moment, and with that what an interrupt means to it."""

    def __init__(self, value_chars: int) -> None:
        self.value_chars = value_chars
        self.phase = IDLE
        self.thread = 0
        """The thread in which requests are served; 0 while the program runs."""
        self.deadline = 0.0
        self.value_started = 0.0

    def pause(self) -> None:
        """The program has stopped in this thread."""
        self.phase = IDLE
        self.thread = threading.get_ident()
        self.deadline = 0.0

    def resume(self) -> None:
        """The program goes on."""
        self.thread = 0
        self.phase = RUNNING

    def serving_here(self) -> bool:
        return self.thread == threading.get_ident()

    def evaluating(self) -> Evaluating:
        return Evaluating(self)

    def interrupt(self) -> None:
        """End what takes too long: a value, or the whole request. In the main thread."""
        now = time.monotonic()
        slow_value = self.value_started and now - self.value_started > TICK / 2
        if not slow_value and now < self.deadline:
            return
        if self.serving_here():
            raise Interrupted
        ctypes = import_standard("ctypes")
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self.thread), ctypes.py_object(Interrupted)
        )

    def guarded(self, work: Callable[[], Any]) -> Tuple[Any, Json]:
        """Run the host's code; what it raises is an answer, not the end of the session."""
        value, failed = None, None
        with self.evaluating() as evaluation:
            try:
                value = work()
            except Interrupted:
                raise
            except BaseException as error:
                kind = type(error).__qualname__
                failed = kind, exception_text(error, self.value_chars)
        if evaluation.interrupted:
            raise Interrupted
        if failed is None:
            return value, {}
        message = "{}: {}".format(*failed) if failed[1] else failed[0]
        return None, {"error": {"kind": "evaluation", "message": message}}

    def evaluate(self, expression: str, frame: types.FrameType) -> Tuple[object, Json]:
        """The value of an expression in a frame, or the error that it raised."""
        namespace = {**frame.f_globals, **frame_locals(frame)}
        return self.guarded(lambda: eval(compile(expression, "<expression>", "eval"), namespace))


class Evaluating:
    """A stretch in which the interrupt may raise `Interrupted`; it ends there."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.interrupted = False
        self.outer = IDLE

    def __enter__(self) -> Evaluating:
        self.outer, self.evaluator.phase = self.evaluator.phase, EVALUATING
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.evaluator.phase = self.outer
        self.interrupted = kind is Interrupted
        return self.interrupted


def condition_holds(point: Breakpoint, frame: types.FrameType) -> Tuple[bool, Optional[str]]:
    """Whether to stop. A condition that fails stops too, and says so."""
    if point.code is None:
        return True, None
    try:
        return bool(eval(point.code, {**frame.f_globals, **frame_locals(frame)})), None
    except Exception as error:
        message = "the condition of breakpoint {} raised {}: {}"
        text = exception_text(error, 200)
        return True, message.format(point.number, type(error).__name__, text)


def run_code(code: str, frame: types.FrameType) -> None:
    """Run statements in a frame; what they assign takes effect in its variables.

    Locals and globals are one namespace for the code, so that comprehensions and lambdas see
    both; assignments go back afterwards, to the frame's variables or, where the code says
    `global`, to its module.
    """
    tree = ast.parse(code, "<code>", "exec")
    compiled = compile(tree, "<code>", "exec")
    if frame.f_locals is frame.f_globals:
        exec(compiled, frame.f_globals)
        return
    before = {**frame.f_globals, **frame_locals(frame)}
    after = dict(before)
    declared = {
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    }
    try:
        exec(compiled, after)
    finally:
        missing = object()
        changed = {
            name: value
            for name, value in after.items()
            if name != "__builtins__" and before.get(name, missing) is not value
        }
        frame.f_globals.update({n: v for n, v in changed.items() if n in declared})
        assign_locals(frame, {n: v for n, v in changed.items() if n not in declared})
