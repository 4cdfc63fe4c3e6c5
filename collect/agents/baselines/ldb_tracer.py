"""Runs one test and records the program's executed lines and variables.

It is copied into the sandbox (see `ldb_blocks`) and runs there next to the program under test:
standard library and pytest only, CPython 3.8 or later. `job.json` next to it says what to trace;
the steps go to `trace.json` once the test has failed or ended.
"""

from __future__ import annotations

import inspect
import json
import sys
import threading
from collections import deque
from opcode import opname
from os.path import join, realpath
from types import FrameType
from typing import Any

from .ldb_values import ATOMS, SILENT, Values

# Functions used during the test are saved here: tests replace functions of the standard library.
open_file = open
WITHIN_A_LINE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")
ENDS_OF_ITERATION = (StopIteration, GeneratorExit, StopAsyncIteration)
MAX_VARIABLES = 40


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
        self.count = 0
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
        self.count += 1
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
        trace = {
            "head": self.head,
            "tail": list(self.tail),
            "dropped": self.count - len(self.head) - len(self.tail),
        }
        with open_file(self.report, "w", encoding="utf-8") as file:
            json.dump(trace, file)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.write()

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.write()


def main(folder: str) -> int:
    """Run the test of the folder's `job.json` and trace the program."""
    import pytest

    with open(join(folder, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    recorder = Recorder({**job, "report": join(folder, "trace.json")})
    threading.settrace(recorder.on_call)
    sys.settrace(recorder.on_call)
    try:
        return int(pytest.main(job["arguments"], plugins=[recorder]))
    finally:
        recorder.write()
