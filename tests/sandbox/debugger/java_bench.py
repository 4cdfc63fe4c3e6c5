"""Java programs written inline, run in a sandbox on this machine's JDK."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from sandbox import SandboxConfig, open_sandbox
from sandbox.base import Sandbox
from sandbox.debugger import (
    BreakpointRequest,
    DebugEvent,
    Debugger,
    DebugLimits,
    Launch,
    open_debugger,
)

LIMITS = DebugLimits(start_timeout=30, action_timeout=15, interrupt_grace=4)
PROGRAM = "Program.java"


@dataclass
class JavaBench:
    """A sandbox with one program in it, and the debugger on that program."""

    sandbox: Sandbox
    debugger: Debugger
    files: dict[str, str] = field(default_factory=dict)

    def write(self, files: Mapping[str, str]) -> None:
        """Lay out files, set in as they are in the test."""
        dedented = {name: textwrap.dedent(text) for name, text in files.items()}
        self.files.update(dedented)
        self.sandbox.write_files({name: text.encode() for name, text in dedented.items()})

    def line(self, mark: str, file: str = PROGRAM) -> int:
        """The number of the line that carries `// @mark`."""
        lines = self.files[file].splitlines()
        return next(n for n, text in enumerate(lines, 1) if text.endswith(f"// @{mark}"))

    def at(self, mark: str, file: str = PROGRAM, **more: Any) -> BreakpointRequest:
        """A breakpoint on the line that carries `// @mark`."""
        return BreakpointRequest(file=file, line=self.line(mark, file), **more)

    def start(
        self, *breakpoints: BreakpointRequest, test: str = "Program", **launch: Any
    ) -> DebugEvent:
        """Start the program; it must come to a stop or an end."""
        launch.setdefault("stop_at_entry", not breakpoints)
        event = self.debugger.start(Launch(test, breakpoints, **launch))
        assert event.error_kind is None or event.stop_reason is not None, event.error
        return event

    def program(self, text: str, *marks: str, **launch: Any) -> DebugEvent:
        """Write `Program.java`, and start it with breakpoints at marks."""
        self.write({PROGRAM: text})
        return self.start(*(self.at(mark) for mark in marks), **launch)

    def main(self, body: str, *marks: str, **launch: Any) -> DebugEvent:
        """A program whose `main` has that body, started with breakpoints at marks."""
        return self.program(main_program(body), *marks, **launch)

    def text_of(self, expression: str, frame: int = 0) -> str:
        """The rendered value of an expression."""
        event = self.debugger.evaluate(expression, frame)
        assert event.error_kind is None, event.error
        return event.values[0].text


def main_program(body: str) -> str:
    """A class `Program` around the body of its `main`."""
    inside = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    return (
        "import java.util.*;\n\npublic class Program {\n"
        "    public static void main(String[] args) throws Exception {\n"
        f"{inside}\n    }}\n}}\n"
    )


@contextmanager
def java_benches() -> Iterator[Callable[..., JavaBench]]:
    """Open benches that end with the block."""
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK on this machine")
    opened: list[JavaBench] = []

    def open_one(limits: DebugLimits = LIMITS, config: SandboxConfig | None = None) -> JavaBench:
        sandbox = open_sandbox(config or SandboxConfig())
        bench = JavaBench(sandbox, open_debugger("java", sandbox, limits))
        opened.append(bench)
        return bench

    try:
        yield open_one
    finally:
        for bench in opened:
            bench.debugger.close()
            bench.sandbox.close()


@pytest.fixture
def open_java_bench() -> Iterator[Callable[..., JavaBench]]:
    with java_benches() as open_one:
        yield open_one


@pytest.fixture
def java_bench(open_java_bench: Callable[..., JavaBench]) -> JavaBench:
    return open_java_bench()
