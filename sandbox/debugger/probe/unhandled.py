"""Exceptions that nothing in the program handles and that don't end the test: those that end a
thread, and those that Python keeps or drops (`asyncio`, executors, `__del__`, exit handlers).

Python tells of each by a function that can be replaced, after the exception has passed its frames,
which its traceback still has. (An exception that a future keeps is told by none: it is unhandled
when the future goes, if nobody has asked for it.)
"""

from __future__ import annotations

import atexit
import sys
import threading
from typing import Any, Callable, Protocol

from .causes import on_one_line
from .interpreter import import_standard
from .own import get_ident


class Tell(Protocol):
    """What is called with an unhandled exception, how Python came to know of it, and the name of
    the thread that raised it, if that is another."""

    def __call__(self, error: BaseException, why: str, thread: str | None = None) -> None: ...


THREAD = "it ended this thread"
LOOP = "asyncio reports it, since no code awaited {}"
FUTURE = "an executor kept it, and no code asked for it"
IGNORED = (
    "Python called this by itself (`__del__`, a generator's end ...) and ignores what it raises"
)
AT_EXIT = "an exit handler raised it"


class Unhandled:
    """Tells of each unhandled exception, and how Python came to know of it."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.watching = False

    def watch_threads(self) -> None:
        """For threads from now on: each gets its function when it is made."""
        make: Any = threading._make_invoke_excepthook  # type: ignore[attr-defined]

        def make_telling() -> Any:
            invoke = make()

            def invoke_excepthook(thread: Any) -> None:
                self._tell_current(THREAD)
                invoke(thread)

            return invoke_excepthook

        threading._make_invoke_excepthook = make_telling  # type: ignore[attr-defined]

    def _tell_current(self, why: str) -> None:
        error = sys.exc_info()[1]
        if error is not None and not issubclass(type(error), SystemExit):
            self.tell(error, why)

    def watch_all(self) -> None:
        """Called while there is a breakpoint on unhandled exceptions: `asyncio` loads slowly. Again
        before each phase of a test, for which pytest has a hook of its own."""
        if type(sys.unraisablehook) is not Ignored:
            sys.unraisablehook = Ignored(self.tell, sys.unraisablehook)
        if self.watching:
            return
        try:
            loops = import_standard("asyncio.base_events").base_events
            futures = import_standard("concurrent.futures._base").futures._base
        except (ImportError, MemoryError):
            return  # a Python without `asyncio`, or one with no memory left
        self.watching = True
        watch_loops(loops.BaseEventLoop, self.tell)
        futures.Future._exception = FutureException(self.tell)
        if sys.version_info < (3, 10):  # later ones call `sys.unraisablehook`
            watch_exit(self._tell_current)


class Ignored:
    """`sys.unraisablehook`, which tells first."""

    def __init__(self, tell: Tell, hook: Any) -> None:
        self.tell, self.hook = tell, hook

    def __call__(self, unraisable: Any) -> Any:
        error = unraisable.exc_value
        if error is not None:
            self.tell(error, IGNORED if sys.version_info < (3, 10) else ignored(unraisable))
        return self.hook(unraisable)


def ignored(unraisable: Any) -> str:
    """Which of the ways it is; CPython has words for exit handlers alone."""
    return AT_EXIT if "atexit" in (unraisable.err_msg or "") else IGNORED


def watch_loops(loops: Any, tell: Tell) -> None:
    handle = loops.call_exception_handler

    def call_exception_handler(loop: Any, context: Any) -> Any:
        error: Any = context.get("exception") if type(context) is dict else None
        if issubclass(type(error), BaseException):
            tell(error, LOOP.format(task_name(context.get("future"))))
        return handle(loop, context)

    loops.call_exception_handler = call_exception_handler


def task_name(future: Any) -> str:
    """How to call what raised an exception in an event loop."""
    task: Any = import_standard("asyncio.tasks").tasks.Task
    if type(future) is not task:
        return "what raised it"
    return f"{on_one_line(task.get_name(future))}, which raised it"


def thread_name() -> str:
    """That of this thread. `current_thread` would create a record for one that has none."""
    return thread_names().get(get_ident(), str(get_ident()))


def thread_names() -> dict[int, str]:
    """By thread, as it was given: a class of the program's may have another `name`."""
    threads: Any = list(threading._active.items())  # type: ignore[attr-defined]
    names = ((ident, vars(thread).get("_name")) for ident, thread in threads)
    return {ident: name for ident, name in names if type(name) is str}


class Kept:
    """What a future's call raised, until somebody asks for it."""

    def __init__(self, error: BaseException, tell: Tell) -> None:
        self.error: BaseException | None = error
        self.tell = tell
        self.thread = thread_name()

    def __del__(self) -> None:
        if self.error is not None:
            self.tell(self.error, FUTURE, self.thread)


class FutureException:
    """The attribute in which a future keeps it."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell

    def __get__(self, future: Any, owner: Any = None) -> Any:
        if future is None:
            return self
        kept = vars(future).get("_exception")
        if type(kept) is Kept:
            vars(future)["_exception"], kept.error = kept.error, None
        return vars(future).get("_exception")

    def __set__(self, future: Any, error: BaseException | None) -> None:
        vars(future)["_exception"] = None if error is None else Kept(error, self.tell)


def watch_exit(tell: Callable[[str], None]) -> None:
    register = atexit.register

    def register_telling(function: Any, *arguments: Any, **named: Any) -> Any:
        register(ExitHandler(function, tell), *arguments, **named)
        return function

    setattr(atexit, "register", register_telling)  # noqa: B010


class ExitHandler:
    """A function to call at exit; `atexit.unregister` finds it by comparing."""

    def __init__(self, function: Any, tell: Callable[[str], None]) -> None:
        self.function, self.tell = function, tell

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        try:
            return self.function(*arguments, **named)
        except BaseException:
            self.tell(AT_EXIT)
            raise

    def __eq__(self, other: object) -> bool:
        return bool(self.function == other)

    def __hash__(self) -> int:
        return hash(self.function)
