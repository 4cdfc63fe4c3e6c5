"""Run the host's expressions and code in the program, and interrupt them if they take too long."""

from __future__ import annotations

import io
import sys
import threading
import types
from contextlib import suppress
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .breakpoints import Breakpoint
from .frames import frame_locals, qualified_name, traceback_frames
from .interpreter import import_standard
from .memory import SPARE
from .own import get_ident, monotonic, monotonic_ns
from .values import Bounds, exception_text, type_name
from .wire import TICK, Interrupted, Json
from .workspace import Workspace

MACHINERY = frozenset(
    (
        "__enter__", "__exit__", "ended", "on_interrupt", "interrupt", "interrupt_conditions",
        "_interrupt_elsewhere", "reached", "_send", "begin", "end", "_add", "__bool__",
    )
)  # fmt: skip
"""The debugger's functions that begin, end and interrupt an evaluation, and must run to their
end."""


def interruptible(frame: Optional[types.FrameType]) -> bool:
    """Whether `Interrupted` may be raised in a frame: in the program's code below an evaluation, or
    where a value is rendered, but not in the debugger's code around those."""
    top = frame
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<stepinto "):
            rendering = code.co_filename == "<stepinto values>"
            return rendering or (frame is not top and code.co_name not in MACHINERY)
        frame = frame.f_back
    return False


def raise_in(thread: int, kind: Optional[type]) -> None:
    """Raise an exception in another thread, at its next instruction; None cancels it."""
    ctypes = import_standard("ctypes")
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(kind) if kind is not None else None
    )


class Expulsion:
    """Forces a program out of an evaluation in which it caught `Interrupted`.

    It registers itself as a pending call, which the interpreter runs whenever it checks for
    signals, and raises there again: so also between an `except` and the next `try`. The interpreter
    calls `PyObject_IsTrue`, and so the method below. (A trace function could not do it, since there
    is no tracing below the trace function of a stop.)
    """

    def __init__(self) -> None:
        self.active = False
        self.beginning = False

    def begin(self) -> None:
        """Called in the main thread's handler; usually raises `Interrupted` there already."""
        self.active = self.beginning = True
        self._add()

    def end(self) -> None:
        """The evaluation is over: raise nothing from now on."""
        self.active = False

    def _add(self) -> None:
        ctypes = import_standard("ctypes")
        interpreter = ctypes.pythonapi
        interpreter.Py_AddPendingCall(interpreter.PyObject_IsTrue, ctypes.py_object(self))

    def __bool__(self) -> bool:
        if self.active:
            self._add()
            if self.beginning or (interruptible(sys._getframe(1)) and self._in_turn()):
                self.beginning = False
                raise Interrupted
        return False

    def _in_turn(self) -> bool:
        """Not each time: CPython 3.12 runs no pending call right after one that raised, so it would
        always hit the same places of a loop. 3.13.0 forgets pending calls that did not raise."""
        return sys.version_info >= (3, 13) or monotonic_ns() % 8 == 0


MESSAGE = Bounds(chars=200, depth=1, items=1, lines=3)


class Running(NamedTuple):
    """A condition that is being evaluated."""

    frame: types.FrameType
    """The program's frame at the breakpoint."""
    started: float


RUNNING_CONDITIONS: Dict[int, Running] = {}
"""Keyed by thread."""


def condition_holds(
    point: Breakpoint, frame: types.FrameType, raised: Optional[BaseException] = None
) -> Tuple[bool, Optional[str]]:
    """Whether to stop, and a note. A condition that fails or runs too long stops too.

    The condition of an exception breakpoint sees the exception as `__exception__`.
    """
    if point.code is None:
        return True, None
    thread = get_ident()
    RUNNING_CONDITIONS[thread] = Running(frame, monotonic())
    try:
        names = {**frame.f_globals, **frame_locals(frame)}
        if raised is not None:
            names["__exception__"] = raised
        return bool(eval(point.code, names)), None
    except Interrupted:
        message = "the condition of breakpoint {} did not end and was interrupted"
        return True, message.format(point.number)
    except BaseException as error:
        message = "the condition of breakpoint {} raised {}: {}"
        text = exception_text(error, MESSAGE)
        return True, message.format(point.number, type_name(type(error)), text)
    finally:
        del RUNNING_CONDITIONS[thread]


def interrupt_conditions(frame: Optional[types.FrameType]) -> Optional[types.FrameType]:
    """End conditions that run too long; called in the main thread's handler, at `frame`.

    Returns the program's frame to show for the main thread.
    """
    now, own = monotonic(), get_ident()
    for thread, other in list(RUNNING_CONDITIONS.items()):
        if now - other.started > TICK / 4 and thread != own:
            raise_in(thread, Interrupted)
    running = RUNNING_CONDITIONS.get(own)
    if running is None:
        return frame
    if now - running.started > TICK / 4 and interruptible(frame):
        raise Interrupted
    return running.frame


IDLE, RUNNING, EVALUATING = "idle", "running", "evaluating"

ORIGIN_FRAMES = 3
MAIN_THREAD = get_ident()


class Evaluator:
    """Tracks what the debuggee is doing, which determines the effect of an interrupt."""

    def __init__(self, bounds: Bounds, workspace: Workspace) -> None:
        self.bounds = bounds
        self.workspace = workspace
        self.phase = IDLE
        self.thread = 0
        """The thread that serves requests; 0 while the program runs."""
        self.deadline = 0.0
        self.value_started = 0.0
        self.raised = 0
        """How often this evaluation was interrupted."""
        self.expulsion = Expulsion()
        self.sent = False
        """Whether an `Interrupted` is pending in the serving thread."""
        self.handover = threading.Lock()
        """Held by the serving thread while it ends an evaluation, and by the main one while it
        interrupts it: a late `Interrupted` would end the program's thread."""

    def pause(self) -> None:
        """The program has stopped in this thread."""
        SPARE.release()
        self.phase = IDLE
        self.thread = get_ident()
        self.deadline = 0.0
        if self.thread != MAIN_THREAD:
            import_standard("ctypes")  # slow while an endless evaluation competes with it

    def resume(self) -> None:
        """The program goes on."""
        SPARE.take()
        self.thread = 0
        self.phase = RUNNING

    def serving_here(self) -> bool:
        return self.thread == get_ident()

    def evaluating(self) -> Evaluating:
        return Evaluating(self)

    def interrupt(self, frame: Optional[types.FrameType]) -> None:
        """Interrupt what takes too long: a value, or the whole request. Called by the main thread's
        handler, which runs between two instructions of `frame`."""
        now = monotonic()
        slow_value = self.value_started and now - self.value_started > TICK / 2
        if not slow_value and now < self.deadline:
            return
        if not self.serving_here():
            self._interrupt_elsewhere()
        elif interruptible(frame):
            self.raised += 1
            if self.raised > 1:
                self.expulsion.begin()
            raise Interrupted

    def _interrupt_elsewhere(self) -> None:
        with self.handover:
            frame = sys._current_frames().get(self.thread)
            if self.phase == EVALUATING and interruptible(frame):
                self.sent = True
                raise_in(self.thread, Interrupted)

    def ended(self, phase: str) -> None:
        """An evaluation has ended; from now on nothing interrupts it."""
        if get_ident() == MAIN_THREAD:
            self.phase = phase
            self.raised = 0
            self.expulsion.end()
            return
        with self.handover:
            self.phase = phase
            if self.sent:
                raise_in(get_ident(), None)
                self.sent = False

    def guarded(self, work: Callable[[], Any]) -> Tuple[Any, Json]:
        """Run the host's code; its exceptions become an answer instead of ending the session."""
        value, failed, raised_at = None, None, ""
        with self.evaluating() as evaluation:
            try:
                value = work()
            except Interrupted:
                raise
            except BaseException as error:
                failed = type_name(type(error)), exception_text(error, self.bounds)
                raised_at = self.origin(error)
        if evaluation.interrupted:
            raise Interrupted
        if failed is None:
            return value, {}
        message = "{}: {}".format(*failed) if failed[1] else failed[0]
        return None, {"error": {"kind": "evaluation", "message": message + raised_at}}

    def origin(self, error: BaseException) -> str:
        """Where in the program an expression's exception was raised; empty if in itself."""
        places = [
            "{}:{} in {}".format(
                self.workspace.relative(at.frame.f_code.co_filename),
                at.line,
                qualified_name(at.frame),
            )
            for at in traceback_frames(error)
            if self.workspace.mine(at.frame.f_code.co_filename)
        ]
        return f", raised at {', called from '.join(places[:ORIGIN_FRAMES])}" if places else ""

    def evaluate(self, expression: str, frame: types.FrameType) -> Tuple[object, Json]:
        """The value of an expression in a frame, or the error that it raised."""
        namespace = {**frame.f_globals, **frame_locals(frame)}
        return self.guarded(lambda: eval(compile(expression, "<expression>", "eval"), namespace))

    def flush(self, streams: List[Any]) -> None:
        """Flush the program's streams, whatever the program made of them."""
        for stream in streams:
            if type(stream) is io.TextIOWrapper:
                with suppress(Exception):
                    stream.flush()
                continue
            self.value_started = monotonic()
            with self.evaluating():
                try:
                    stream.flush()
                except Interrupted:
                    raise
                except BaseException:
                    continue  # the program closed or replaced it
            self.value_started = 0.0


class Evaluating:
    """A block in which `Interrupted` may be raised, and which catches it."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.interrupted = False
        self.outer = IDLE

    def __enter__(self) -> Evaluating:
        self.outer, self.evaluator.phase = self.evaluator.phase, EVALUATING
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.evaluator.ended(self.outer)
        self.interrupted = kind is Interrupted
        return self.interrupted
