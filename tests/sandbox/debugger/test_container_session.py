"""One whole debug session in a container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox import Command, SandboxConfig
from sandbox.container import ContainerSandbox
from sandbox.debugger import Action, BreakpointRequest, DebugLimits, Launch, State, StopReason
from sandbox.debugger.python_session import PythonDebugger

pytestmark = pytest.mark.docker

PROGRAM = b"""\
def double(n):
    return 2 * n

def test_doubling():
    total = 0
    for n in range(3):
        total += double(n)
    while total:
        pass
"""
LOOP, SPIN = 7, (8, 9)


@pytest.fixture
def box(image: str) -> Iterator[ContainerSandbox]:
    with ContainerSandbox(SandboxConfig(backend="docker"), image) as opened:
        opened.write_files({"test_program.py": PROGRAM})
        yield opened


def test_breakpoints_steps_an_interrupt_and_the_end(box: ContainerSandbox) -> None:
    debugger = PythonDebugger(box, DebugLimits(start_timeout=60, action_timeout=20))
    point = BreakpointRequest(file="test_program.py", line=LOOP)
    event = debugger.start(Launch("test_program.py::test_doubling", (point,)))
    assert event.stop_reason is StopReason.ENTRY
    event = debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, LOOP)
    event = debugger.control(Action.STEP_INTO)
    assert (event.function, event.line) == ("double", 2)
    event = debugger.control(Action.STEP_OUT)
    assert event.return_value is not None
    assert (event.line, event.return_value.text) == (LOOP, "0")
    assert debugger.control(Action.STEP_OVER).line == LOOP - 1

    debugger.remove_breakpoint(1)
    event = debugger.control(Action.CONTINUE, timeout=0.5)
    assert (event.state, event.stop_reason) == (State.RUNTIME, StopReason.INTERRUPTED)
    assert event.line in SPIN
    assert debugger.evaluate("total").values[0].text == "6"

    debugger.close()
    assert debugger.state is State.START
    assert "python" not in box.run(Command(("ps", "-e", "-o", "comm"))).output
