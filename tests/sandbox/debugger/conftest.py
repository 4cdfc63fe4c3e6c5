"""Debuggees written inline, run in a sandbox on each CPython that the machine has."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from sandbox import SandboxConfig, open_sandbox
from sandbox.base import Sandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    Debugger,
    DebugLimits,
    Launch,
    open_debugger,
)
from tests.interpreters import Interpreter, each_version, find_interpreter, some_versions
from tests.sandbox.debugger.java_bench import java_bench, open_java_bench

__all__ = ["java_bench", "open_java_bench"]

LIMITS = DebugLimits(start_timeout=30, action_timeout=15, interrupt_grace=2)


@dataclass
class Workbench:
    """A sandbox with one program in it, and the debugger on that program."""

    interpreter: Interpreter
    sandbox: Sandbox
    debugger: Debugger
    files: dict[str, str] = field(default_factory=dict)

    def write(self, files: Mapping[str, str]) -> None:
        """Lay out files, set in as they are in the test."""
        dedented = {name: textwrap.dedent(text) for name, text in files.items()}
        self.files.update(dedented)
        self.sandbox.write_files({name: text.encode() for name, text in dedented.items()})

    def line(self, mark: str, file: str = "program.py") -> int:
        """The number of the line that carries `# @mark`."""
        lines = self.files[file].splitlines()
        return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# @{mark}"))

    def at(self, mark: str, file: str = "program.py", **more: Any) -> BreakpointRequest:
        """A breakpoint on the line that carries `# @mark`."""
        return BreakpointRequest(file=file, line=self.line(mark, file), **more)

    def at_line(self, line: int, file: str = "program.py") -> BreakpointRequest:
        return BreakpointRequest(file=file, line=line)

    def start(
        self, *breakpoints: BreakpointRequest, test: str = "program.py", **launch: Any
    ) -> DebugEvent:
        """Start the program; it must come to a stop or an end."""
        launch.setdefault("stop_at_entry", not breakpoints)
        event = self.debugger.start(Launch(test, breakpoints, **launch))
        assert event.error_kind is None or event.stop_reason is not None, event.error
        return event

    def script(self, text: str, *marks: str, **launch: Any) -> DebugEvent:
        """Write `program.py`, and start it with breakpoints at marks."""
        self.write({"program.py": text})
        return self.start(*(self.at(mark) for mark in marks), **launch)

    def text_of(self, expression: str, frame: int = 0) -> str:
        """The rendered value of an expression."""
        event = self.debugger.evaluate(expression, frame)
        assert event.error_kind is None, event.error
        return event.values[0].text


@pytest.fixture
def open_bench() -> Iterator[Callable[..., Workbench]]:
    """Open benches that end with the test."""
    opened: list[Workbench] = []

    def open_one(
        interpreter: Interpreter,
        limits: DebugLimits = LIMITS,
        readable: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Workbench:
        config = SandboxConfig(
            python=interpreter.path,
            readable_paths=(*interpreter.readable_paths, *readable),
            environment=dict(environment or {}),
        )
        sandbox = open_sandbox(config)
        bench = Workbench(interpreter, sandbox, open_debugger("python", sandbox, limits))
        opened.append(bench)
        return bench

    yield open_one
    for bench in opened:
        bench.debugger.close()
        bench.sandbox.close()


@pytest.fixture(params=each_version())
def bench(request: pytest.FixtureRequest, open_bench: Callable[..., Workbench]) -> Workbench:
    """A bench on each CPython in turn."""
    interpreter = find_interpreter(request.param)
    if interpreter is None:
        pytest.skip(f"CPython {request.param} is not on this machine")
    return open_bench(interpreter)


@pytest.fixture(params=some_versions())
def some_bench(request: pytest.FixtureRequest, open_bench: Callable[..., Workbench]) -> Workbench:
    """A bench on the oldest CPython, a middle one, and the first with `sys.monitoring`."""
    interpreter = find_interpreter(request.param)
    if interpreter is None:
        pytest.skip(f"CPython {request.param} is not on this machine")
    return open_bench(interpreter)


def interrupted_by_another(debugger: Debugger) -> DebugEvent:
    """Continue, and interrupt that from another thread."""
    ended = threading.Event()

    def interrupt() -> None:
        while not ended.wait(0.1):
            debugger.interrupt()

    other = threading.Thread(target=interrupt)
    other.start()
    try:
        return debugger.control(Action.CONTINUE, 900)
    finally:
        ended.set()
        other.join()
