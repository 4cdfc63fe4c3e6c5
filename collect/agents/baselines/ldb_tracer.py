"""Runs one test and records the program's executed lines and variables, as bounded text that is
made without running the program's code.

It is copied into the sandbox (see `ldb`) and runs there next to the program under test:
standard library and pytest only, CPython 3.8 or later. `job.json` next to it says what to trace;
the steps go to `trace.json` once the test has failed or ended.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import threading
import types
from array import array
from collections import deque
from collections.abc import Iterable
from itertools import islice
from opcode import opname
from os import getcwd
from os.path import join, realpath
from time import perf_counter
from types import FrameType
from typing import Any

# Functions used during the test are saved here: tests replace functions of the standard library.
open_file = open
WITHIN_A_LINE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")
ENDS_OF_ITERATION = (StopIteration, GeneratorExit, StopAsyncIteration)
MAX_VARIABLES = 40
ATOMS = (int, float, complex, bool, str, bytes, type(None))
"""Immutable types whose repr is C code."""
PLAIN_ATOMS: tuple[Any, ...] = (int, float, str, bytes)
TEXTS = (str, bytes, bytearray)
SEQUENCES: tuple[tuple[Any, str, str], ...] = (
    (list, "[", "]"),
    (tuple, "(", ")"),
    (set, "{", "}"),
    (frozenset, "{", "}"),
    (deque, "[", "]"),
    (array, "[", "]"),
)
PLAIN = (list, tuple, dict, set)
"""Containers identified by their brackets."""
SILENT = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
"""Values that say nothing about the execution."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
MAX_ITEMS = 30
"""Maximum parts of one value, nested ones included."""
MAX_DEPTH = 5
MAX_BITS = 2_000
SLOW = 0.05
"""Seconds for a library's `__repr__`, after which its type is shown by attributes."""


class Values:
    def __init__(self, max_chars: int, own_files: tuple[str, ...]) -> None:
        """`own_files`: real paths of the files whose `__repr__` methods must not run."""
        self.max_chars = max_chars
        self.own_files = own_files
        self.refused: set[type] = set()

    def exception(self, kind: type, value: object) -> str:
        """An exception as name and arguments."""
        arguments = value.args if isinstance(value, BaseException) else (value,)
        return "{}({})".format(kind.__name__, ", ".join(self.text(each) for each in arguments))

    def text(self, value: object) -> str:
        """One value on one line. Raises RecursionError."""
        try:
            text = self.render(value, MAX_DEPTH, [MAX_ITEMS])
        except RecursionError:
            raise
        except Exception as error:  # another thread may change it concurrently
            text = f"<{type(value).__name__}, {type(error).__name__}>"
        return shortened(text, self.max_chars)

    def render(self, value: Any, depth: int, budget: list[int]) -> str:
        """A value; `budget` counts down with each of its parts."""
        kind = type(value)
        budget[0] -= 1
        if kind in ATOMS or kind is bytearray:
            return self.atom(value, kind)
        if budget[0] < 0 or depth == 0:
            return "..."
        if issubclass(kind, dict):
            return self.mapping(value, kind, depth - 1, budget)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            pairs = zip(kind._fields, tuple.__iter__(value))  # noqa: B905 - CPython 3.8
            return self.attributes(kind, pairs, depth - 1, budget)
        for base, opening, closing in SEQUENCES:
            if issubclass(kind, base):
                inside = self.sequence(value, base, depth - 1, budget)
                return named(kind, opening + inside + closing)
        return self.instance(value, kind, depth - 1, budget)

    def sequence(self, value: Any, base: Any, depth: int, budget: list[int]) -> str:
        """The text inside the brackets, by the base class's methods, since a subclass may behave
        differently.
        """
        each = islice(base.__iter__(value), budget[0] + 2)
        inside = joined((self.render(part, depth, budget) for part in each), budget)
        return inside + "," if base is tuple and base.__len__(value) == 1 else inside

    def atom(self, value: Any, base: Any) -> str:
        """A number or text; long ones lose their middle before conversion."""
        if base is int:
            bits = value.bit_length()
            return int.__repr__(value) if bits <= MAX_BITS else f"<int of {bits} bits>"
        if base not in TEXTS or len(value) <= self.max_chars:
            return str(base.__repr__(value))
        half = self.max_chars // 2
        return f"{value[:half]!r}...{value[-half:]!r}"

    def mapping(self, value: Any, kind: type, depth: int, budget: list[int]) -> str:
        pairs = islice(dict.items(value), budget[0] + 2)
        items = (
            f"{self.render(key, depth, budget)}: {self.render(each, depth, budget)}"
            for key, each in pairs
        )
        return named(kind, "{" + joined(items, budget) + "}")

    def instance(self, value: Any, kind: type, depth: int, budget: list[int]) -> str:
        """An object: by a library's repr, else by its attributes."""
        if issubclass(kind, SILENT):
            return "<{} {}>".format(kind.__name__, getattr(value, "__name__", "?"))
        if not self.is_own(kind) and kind not in self.refused:
            started = perf_counter()
            try:
                text = " ".join(ADDRESS.sub("", repr(value)).split())
                return text.encode("utf-8", "backslashreplace").decode("utf-8")
            except RecursionError:
                raise
            except Exception:
                self.refused.add(kind)
            finally:
                if perf_counter() - started > SLOW:
                    self.refused.add(kind)
        for base in PLAIN_ATOMS:
            if issubclass(kind, base):
                return named(kind, self.atom(base.__add__(value, base()), base))
        return self.attributes(kind, object_attributes(value, kind), depth, budget)

    def attributes(
        self, kind: type, pairs: Iterable[tuple[str, object]], depth: int, budget: list[int]
    ) -> str:
        items = (f"{name}={self.render(each, depth, budget)}" for name, each in pairs)
        return f"{kind.__name__}({joined(items, budget)})"

    def is_own(self, kind: type) -> bool:
        """Whether its `__repr__` is the program's, so it may fail, print or never end."""
        shows: Any = kind.__repr__
        if shows is object.__repr__ or hasattr(kind, "__dataclass_fields__"):
            return True
        code = getattr(shows, "__code__", None)
        if code is None:
            return False
        return code.co_filename[:1] == "<" or realpath(code.co_filename) in self.own_files


def joined(items: Iterable[str], budget: list[int]) -> str:
    """Items up to the budget."""
    texts: list[str] = []
    for text in items:
        texts.append(text)
        if budget[0] < 0:
            return ", ".join(texts if text == "..." else [*texts, "..."])
    return ", ".join(texts)


def named(kind: type, text: str) -> str:
    """A text with its type in front, unless the text shows it."""
    if text == "{}" and issubclass(kind, (set, frozenset)):
        text = ""
    return text if kind in PLAIN and text else f"{kind.__name__}({text})"


def shortened(text: str, max_chars: int) -> str:
    """A text without its middle if it is too long."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return text[:half] + "..." + text[-half:]


def object_attributes(value: object, kind: type) -> list[tuple[str, object]]:
    """An object's attributes, without running its properties."""
    try:
        found = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        found = {}
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            member = base.__dict__.get(name)
            if isinstance(member, types.MemberDescriptorType):
                try:
                    found[name] = member.__get__(value)
                except AttributeError:  # never assigned
                    continue
    return [(str(name), each) for name, each in found.items()]


class Activation:
    """One call of a program function, or one resumption of a generator."""

    def __init__(self, number: int, frame: FrameType, parent: Activation | None) -> None:
        self.number = number
        self.is_function = bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)
        self.root: int = parent.root if parent is not None and parent.is_function else number
        generators = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
        self.is_generator = bool(frame.f_code.co_flags & generators)
        # Names in a module before its first line don't come from the program.
        self.given: dict[str, object] = {} if self.is_function else dict(frame.f_locals)
        self.step: dict[str, Any] | None = None
        self.exception: str | None = None
        """The latest exception."""
        self.rendered: dict[str, tuple[object, str]] = {}


class Recorder:
    """The steps in the program caused by the last statement of the test."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.program = realpath(job["program"])
        self.test = realpath(job["test"])
        self.starts = {int(line): start for line, start in job["starts"].items()}
        self.values = Values(job["value_chars"], (self.program, self.test))
        self.max_steps = job["max_steps"]
        self.files: dict[str, str] = {}
        self.report: str = job["report"]
        self.running: dict[FrameType, Activation] = {}
        self.calls = 0
        self.statement = 0
        """Number of test lines started."""
        self.caused_by = -1
        self.written = False
        self.clear()

    def clear(self) -> None:
        """Forget the steps, since another statement of the test causes the next ones."""
        self.head: list[dict[str, Any]] = []
        self.tail: deque[dict[str, Any]] = deque(maxlen=self.max_steps)
        self.objects: dict[int, object] = {}
        """The `self` of methods called by the test itself, by identity."""

    def on_call(self, frame: FrameType, event: str, arg: object) -> Any:
        """Trace frames of the program's file; the interpreter calls this for each new frame."""
        path = self.path_of(frame.f_code.co_filename)
        if path == self.test:
            return self.on_test
        if path != self.program or frame.f_code.co_name in WITHIN_A_LINE:
            return None
        try:
            self.enter(frame)
        except RecursionError:
            return None
        return self.on_program

    def path_of(self, name: str) -> str:
        """The real path of a file, if the test's mocks allow finding it."""
        path = self.files.get(name)
        if path is None:
            try:
                path = realpath(name)
            except Exception:
                path = name
            self.files[name] = path
        return path

    def on_test(self, frame: FrameType, event: str, arg: object) -> Any:
        """Count the lines of the test."""
        self.statement += event == "line"
        return self.on_test

    def enter(self, frame: FrameType) -> None:
        """Start an activation; restart the recording if another statement of the test caused it."""
        parent = self.caller(frame)
        if parent is None:
            owner = frame.f_locals.get("self")
            known = id(owner) in self.objects
            if self.statement != self.caused_by and not known:
                self.clear()
            self.caused_by = self.statement
            if owner is not None:
                self.objects[id(owner)] = owner
        self.calls += 1
        self.running[frame] = Activation(self.calls, frame, parent)

    def caller(self, frame: FrameType) -> Activation | None:
        """The program activation that led to a frame, possibly through other code."""
        back = frame.f_back
        while back is not None and back not in self.running:
            back = back.f_back
        return self.running[back] if back is not None else None

    def on_program(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Record a line of the program, and the effect of the one before it."""
        activation = self.running.get(frame)
        if activation is None:
            return self.on_program
        try:
            if event == "line":
                self.line(activation, frame)
            elif event == "exception":
                self.raised(activation, arg)
            elif event == "return":
                self.returned(activation, frame, arg)
        except RecursionError:  # the program will get one itself
            return self.on_program
        if event == "return":
            self.running.pop(frame, None)
        return self.on_program

    def line(self, activation: Activation, frame: FrameType) -> None:
        number = frame.f_lineno
        start = self.starts.get(number, number)
        last = activation.step
        if last is not None and start in self.starts and last["line"] == start:
            return
        state = self.state(activation, frame)
        if last is not None:
            last["after"] = state
        activation.step = {
            "activation": activation.number,
            "root": activation.root,
            "is_function": activation.is_function,
            "function": frame.f_code.co_name,
            "line": start,
            "before": state,
            "after": None,
            "gave": None,
            "raised": None,
        }
        (self.head if len(self.head) < self.max_steps else self.tail).append(activation.step)

    def raised(self, activation: Activation, arg: tuple[type, object, object]) -> None:
        """Record an exception, except the StopIteration of a loop's iterator."""
        kind, value = arg[0], arg[1]
        if activation.step is not None and kind not in ENDS_OF_ITERATION:
            activation.exception = self.values.exception(kind, value)
            activation.step["raised"] = activation.exception

    def returned(self, activation: Activation, frame: FrameType, arg: object) -> None:
        """Record the returned value; an exception that ends the frame is handled here too."""
        step = activation.step
        if step is None:
            return
        step["after"] = self.state(activation, frame)
        name = opname[frame.f_code.co_code[frame.f_lasti]]
        # From 3.13 on, a suspended generator points behind its `yield`.
        yields = name.startswith(("YIELD", "RESUME"))
        if arg is None and not yields and not name.startswith("RETURN"):
            step["raised"] = activation.exception
        elif yields:
            step["gave"] = "yield=" + self.values.text(arg)
        elif activation.is_function and (arg is not None or not activation.is_generator):
            step["gave"] = "return=" + self.values.text(arg)

    def state(self, activation: Activation, frame: FrameType) -> dict[str, str]:
        """The local variables and their values, in order."""
        found: dict[str, str] = {}
        known = activation.rendered
        for name, value in list(frame.f_locals.items()):
            kind = type(value)
            given = name in activation.given and activation.given[name] is value
            hidden = given or name.startswith(("__", "@", "."))
            if hidden or issubclass(kind, SILENT) or len(found) == MAX_VARIABLES:
                continue
            earlier = known.get(name)
            if earlier is None or earlier[0] is not value or kind not in ATOMS:
                earlier = known[name] = (value, self.values.text(value))
            found[name] = earlier[1]
        return found

    def write(self) -> None:
        """Stop tracing and save the steps; only the first call counts."""
        sys.settrace(None)
        threading.settrace(None)
        if self.written:
            return
        self.written = True
        with open_file(self.report, "w", encoding="utf-8") as file:
            json.dump([*self.head, *self.tail], file)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.write()

    pytest_collectreport = pytest_runtest_logreport


def main() -> int:
    """Run the test of `job.json` and trace the program."""
    import pytest

    # From here on imports are the project's.
    folder, sys.path[0] = sys.path[0], getcwd()
    with open(join(folder, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    recorder = Recorder({**job, "report": join(folder, "trace.json")})
    threading.settrace(recorder.on_call)
    sys.settrace(recorder.on_call)
    try:
        return int(pytest.main(job["arguments"], plugins=[recorder]))
    finally:
        recorder.write()


if __name__ == "__main__":
    sys.exit(main())
