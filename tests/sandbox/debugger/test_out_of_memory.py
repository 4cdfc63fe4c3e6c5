"""Programs that fill their memory, so that there is none left to tell where they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandbox import SandboxConfig
from sandbox.base import open_sandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    Debugger,
    DebugLimits,
    Launch,
    State,
    open_debugger,
)
from sandbox.debugger.records import KillReason
from tests.interpreters import find_interpreter

SMALL = "[0] * 10"
GROW = "kept = []\ndef grow():\n    while True:\n        kept.append({item})\n\n"
TEST = "import unittest\nclass Test(unittest.TestCase):\n    def test_it(self):\n        grow()\n"


@contextmanager
def debugger_on(version: str, memory_mb: int, program: str) -> Iterator[Debugger]:
    """A debugger in a sandbox of so much memory, with `program.py` in it."""
    interpreter = find_interpreter(version)
    if interpreter is None:
        pytest.skip(f"CPython {version} is not on this machine")
    config = SandboxConfig(
        python=interpreter.path, readable_paths=interpreter.readable_paths, memory_mb=memory_mb
    )
    with open_sandbox(config) as sandbox:
        sandbox.write_file("program.py", program.encode())
        debugger = open_debugger("python", sandbox, DebugLimits(action_timeout=60))
        yield debugger
        debugger.close()


def assert_looked_at(debugger: Debugger, event: DebugEvent) -> None:
    """The program stands where it ran out of memory, and its variables can be seen."""
    assert event.kill_reason is KillReason.OUT_OF_MEMORY
    assert (event.function, event.line) == ("grow", 4), event
    assert int(debugger.evaluate("len(kept)").values[0].text) > 5


@pytest.mark.parametrize(
    ("version", "item", "memory_mb"),
    [
        ("3.11", "bytearray(5_000_000)", 96),
        ("3.11", SMALL, 72),
        ("3.11", SMALL, 96),
        ("3.11", SMALL, 128),
        ("3.8", SMALL, 80),
        ("3.13", SMALL, 72),
    ],
)
def test_a_program_out_of_memory(version: str, item: str, memory_mb: int) -> None:
    with debugger_on(version, memory_mb, GROW.format(item=item) + "grow()\n") as debugger:
        debugger.start(Launch("program.py"))
        event = debugger.control(Action.CONTINUE)
        assert event.state is State.POST_MORTEM
        assert_looked_at(debugger, event)
        assert debugger.evaluate("[0] * 10 ** 9").error == "MemoryError"


@pytest.mark.parametrize("test", ["program.py::Test::test_it", "program.Test.test_it"])
@pytest.mark.parametrize(
    "version", [*(pytest.param(v, marks=pytest.mark.slow) for v in ("3.8", "3.11")), "3.13"]
)
def test_a_test_out_of_memory(version: str, test: str) -> None:
    with debugger_on(version, 96, GROW.format(item=SMALL) + TEST) as debugger:
        debugger.start(Launch(test))
        event = debugger.control(Action.CONTINUE)
        assert event.state is State.POST_MORTEM
        assert_looked_at(debugger, event)


def test_a_breakpoint_on_the_exception() -> None:
    with debugger_on("3.13", 72, GROW.format(item=SMALL) + "grow()\n") as debugger:
        point = BreakpointRequest(exception="MemoryError")
        event = debugger.start(Launch("program.py", (point,), stop_at_entry=False))
        assert event.state is State.RUNTIME_ERROR
        assert_looked_at(debugger, event)


def test_what_is_as_large_as_a_traceback() -> None:
    """Then CPython itself may lose the place, and the answer says so."""
    with debugger_on("3.8", 72, GROW.format(item="bytes(360)") + "grow()\n") as debugger:
        event = debugger.start(Launch("program.py", stop_at_entry=False))
        assert (event.state, event.kill_reason) == (State.POST_MORTEM, KillReason.OUT_OF_MEMORY)
        assert event.function == "grow" or "no memory left to note where" in event.notes[0]
