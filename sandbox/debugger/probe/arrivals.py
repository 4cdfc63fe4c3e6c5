"""Signals, and exceptions that other threads raise, which arrive while the debugger has a thread.
They belong to the program, and reach it when it runs on: in the debugger's code they would end the
session, in an expression they would be lost."""

from __future__ import annotations

import signal
import sys
import types
from typing import Any, Dict

from .evaluation import MAIN_THREAD, RUNNING_CONDITIONS
from .interpreter import CALLBACKS, PendingCall, import_standard
from .own import KEPT, get_ident, native, set_handler

get_handler = native.getsignal
RUNNERS = ("entry", "targets", "unittest_runs", "pytest_runs", "memory")
RUNS_PROGRAM = tuple(f"<stepinto {name}>" for name in RUNNERS)
"""The debugger's modules that run the program."""
SIGNAL_CAME = "{} came while the program is paused: its handler runs when the program goes on"
RAISED = "another thread raised {} here while the program is paused: it comes when that goes on"


class Handler:
    """A signal handler of the program's, which waits until the debugger lets the program run."""

    def __init__(self, arrivals: Arrivals, handler: Any, pause: int) -> None:
        self.arrivals, self.handler, self.pause = arrivals, handler, pause

    def __call__(self, number: int, frame: types.FrameType | None) -> Any:
        if not self.arrivals.keeps(self, number, frame):
            return self.handler(number, frame)
        return None


class Arrivals:
    """As a context: the debugger has the current thread, which is stopped or about to be."""

    def __init__(self) -> None:
        self.held: Dict[int, int] = {}
        """The threads that the debugger has, and in how many contexts."""
        self.pause = 0
        """Counts those of the main thread, in which handlers run."""
        self.signals: Dict[int, Handler] = {}
        self.raised: Dict[int, type] = {}
        """By thread, the exception that is to be raised in it."""
        self.news: Dict[str, None] = {}
        self.delivery: Delivery | None = None

    def install(self) -> None:
        """Take part in how the program sets signal handlers; it has set none yet."""
        native.signal, native.getsignal = self._set_handler, self._get_handler
        interrupts = get_handler(signal.SIGINT)
        if interrupts is signal.default_int_handler:
            self._set_handler(signal.SIGINT, interrupts)

    def install_delivery(self) -> None:
        """Take part in how the program raises exceptions in its threads."""
        try:
            ctypes = import_standard("ctypes")
        except ImportError:  # CPython was built without libffi
            return
        self.delivery = Delivery(self, ctypes)
        ctypes.pythonapi.PyThreadState_SetAsyncExc = RaiseInThread(self, ctypes)

    def __enter__(self) -> None:
        own = get_ident()
        self.held[own] = self.held.get(own, 0) + 1
        self.pause += own == MAIN_THREAD

    def __exit__(self, *_: object) -> None:
        own = get_ident()
        self.held[own] -= 1
        if self.held[own]:
            return
        del self.held[own]
        if own == MAIN_THREAD and self.delivery is not None:
            if self.signals or own in self.raised:
                self.delivery.begin()
        elif own in self.raised:
            raise self.raised.pop(own)

    def take(self) -> list[str]:
        """Notes on what has arrived since the last call."""
        notes, self.news = [*self.news], {}
        return notes

    def forget(self) -> None:
        """Called in a forked process, which the debugger leaves to itself."""
        self.held, self.signals, self.raised, self.delivery = {}, {}, {}, None

    def keeps(self, handler: Handler, number: int, frame: types.FrameType | None) -> bool:
        """Whether a signal has to wait. One whose handler was set in this pause, by an expression,
        belongs to that."""
        if self.delivery is None or (MAIN_THREAD in self.held and handler.pause == self.pause):
            return False
        if MAIN_THREAD in self.held:
            self.news[SIGNAL_CAME.format(name_of(number))] = None
        elif in_debugger(MAIN_THREAD, frame):
            self.delivery.begin()
        else:
            return False
        self.signals[number] = handler
        return True

    def keeps_raised(self, thread: int, kind: type) -> bool:
        """Whether an exception for a thread has to wait."""
        if thread in self.held:
            self.news[RAISED.format(type.__getattribute__(kind, "__name__"))] = None
        elif thread == MAIN_THREAD and self.delivery is not None:
            self.delivery.begin()
        else:
            return False
        self.raised[thread] = kind
        return True

    def deliver(self, frame: types.FrameType) -> None:
        """Called in the main thread, between two instructions of a frame of the program's."""
        if self.signals:
            number, handler = self.signals.popitem()
            if get_handler(number) is handler:
                handler.handler(number, frame)
        elif MAIN_THREAD in self.raised:
            raise self.raised.pop(MAIN_THREAD)

    def _set_handler(self, number: Any, handler: Any) -> Any:
        """`signal.signal`, except that it ignores the debugger's signals."""
        if number in KEPT:
            return signal.SIG_DFL
        # That one of an event loop does nothing: the loop reads of the signal from a descriptor.
        by_loop = getattr(handler, "__module__", None) == "asyncio.unix_events"
        if callable(handler) and not by_loop:
            handler = Handler(self, handler, self.pause if MAIN_THREAD in self.held else 0)
        return programs(set_handler(number, handler))

    def _get_handler(self, number: Any) -> Any:
        """`signal.getsignal`."""
        return programs(get_handler(number))


class Delivery(PendingCall):
    """Delivers to the main thread once that runs the program's code, where an exception is as one
    of a signal's handler."""

    def __init__(self, arrivals: Arrivals, ctypes: Any) -> None:
        self._arrivals = arrivals
        super().__init__(ctypes)

    def begin(self) -> None:
        # Two, since CPython 3.13 forgets one that is added while none other waits.
        self.add()
        self.add()

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        arrivals = self._arrivals
        if MAIN_THREAD in arrivals.held:
            return False  # its end begins again
        if in_debugger(MAIN_THREAD, frame):
            self.add()
            return False
        if len(arrivals.signals) > 1:
            self.begin()
        arrivals.deliver(frame)
        return False


class RaiseInThread:
    """`PyThreadState_SetAsyncExc` as an attribute of `ctypes.pythonapi`; a program may set its
    `argtypes`."""

    def __init__(self, arrivals: Arrivals, ctypes: Any) -> None:
        self._arrivals, self._ctypes = arrivals, ctypes
        self._original = ctypes.pythonapi["PyThreadState_SetAsyncExc"]

    def __call__(self, thread: Any, kind: Any) -> int:
        ctypes = self._ctypes
        number = thread if isinstance(thread, int) else thread.value
        if isinstance(kind, ctypes.py_object):
            kind = kind.value if kind else None
        if kind is None and self._arrivals.raised.pop(number, None) is not None:
            return 1
        is_class = isinstance(kind, type) and issubclass(kind, BaseException)
        if is_class and self._arrivals.keeps_raised(number, kind):
            return 1
        wanted = None if kind is None else ctypes.py_object(kind)
        return int(self._original(ctypes.c_ulong(number), wanted))


def programs(handler: Any) -> Any:
    """A signal's handler as the program knows it."""
    return handler.handler if type(handler) is Handler else handler


def in_debugger(thread: int, frame: types.FrameType | None) -> bool:
    """Whether a thread with this innermost frame is in a function that CPython calls at an event.

    Only there a delivery may be put off: CPython 3.11 goes on with it at the start of a traced
    function until there is none left.
    """
    if thread in RUNNING_CONDITIONS:
        return True
    while frame is not None and frame.f_code.co_filename not in RUNS_PROGRAM:
        if frame.f_code.co_filename in CALLBACKS:
            return True
        frame = frame.f_back
    return False


def name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


ARRIVALS = Arrivals()
"""The debuggee's."""
