"""One whole debug session in a container."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sandbox import Command, SandboxConfig
from sandbox.container import ContainerSandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugLimits,
    Launch,
    State,
    StopReason,
    open_debugger,
)
from sandbox.debugger.records import KillReason
from sandbox.errors import SandboxDead
from tests.sandbox.debugger.test_forged_answers import THIEF

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


@pytest.mark.slow
def test_breakpoints_steps_an_interrupt_and_the_end(box: ContainerSandbox) -> None:
    debugger = open_debugger("python", box, DebugLimits(start_timeout=60, action_timeout=20))
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


@pytest.mark.parametrize(
    "running",
    [pytest.param(False, marks=pytest.mark.slow), True],
    ids=["paused", "running"],
)
def test_a_killed_container_ends_the_session(box: ContainerSandbox, running: bool) -> None:
    debugger = open_debugger("python", box, DebugLimits(start_timeout=60, action_timeout=20))
    event = debugger.start(Launch("test_program.py::test_doubling"))
    assert event.stop_reason is StopReason.ENTRY
    killer = threading.Timer(1.0 if running else 0.0, box._container.kill)
    killer.start()
    if not running:
        killer.join()
    try:
        event = debugger.control(Action.CONTINUE)
    except SandboxDead:
        assert debugger.state is State.DONE
    else:
        assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED)
        assert event.kill_reason is KillReason.EXITED
    killer.join()
    debugger.close()
    assert debugger.state is State.START


def test_a_supervisor_that_the_program_kills(box: ContainerSandbox) -> None:
    code = b"import os, time\nos.kill(os.getppid(), 9)\nwhile True: time.sleep(1)\n"
    box.write_files({"program.py": code})
    debugger = open_debugger("python", box, DebugLimits(start_timeout=60, action_timeout=20))
    debugger.start(Launch("program.py"))
    event = debugger.control(Action.CONTINUE)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED)
    assert event.kill_reason is KillReason.EXITED
    debugger.close()
    assert "python" not in box.run(Command(("ps", "-e", "-o", "comm"))).output


def test_a_thread_that_reads_requests_can_not_answer_them(box: ContainerSandbox) -> None:
    box.write_files({"program.py": THIEF.encode()})
    limits = DebugLimits(start_timeout=60, action_timeout=2, interrupt_grace=1)
    debugger = open_debugger("python", box, limits)
    last = BreakpointRequest(file="program.py", line=THIEF.count("\n"))
    event = debugger.start(Launch("program.py", (last,), stop_at_entry=False))
    assert event.stop_reason is StopReason.BREAKPOINT
    while (event := debugger.evaluate("y")).state is State.RUNTIME:
        assert [value.text for value in event.values] == ["1"]
    assert not event.values
    debugger.close()


def test_a_program_that_the_memory_limit_kills(image: str) -> None:
    code = b"kept = []\nwhile True:\n    kept.append(bytearray(1_000_000))\n"
    config = SandboxConfig(backend="docker", memory_mb=128)
    with ContainerSandbox(config, image) as box:
        box.write_files({"program.py": code})
        debugger = open_debugger("python", box, DebugLimits(start_timeout=60, action_timeout=40))
        debugger.start(Launch("program.py"))
        event = debugger.control(Action.CONTINUE)
        assert event.state in {State.DONE, State.POST_MORTEM}, event
        assert event.kill_reason in {KillReason.OUT_OF_MEMORY, KillReason.EXITED}, event
        debugger.close()


def test_a_full_disk(box: ContainerSandbox) -> None:
    code = b"with open('/dev/shm/full', 'wb') as file:\n    file.write(bytes(10 ** 9))\n"
    box.write_files({"program.py": code})
    debugger = open_debugger("python", box, DebugLimits(start_timeout=60, action_timeout=20))
    debugger.start(Launch("program.py"))
    event = debugger.control(Action.CONTINUE)
    assert (event.state, event.exception and event.exception.type) == (
        State.POST_MORTEM,
        "OSError",
    )
    assert debugger.evaluate("1 + 1").values[0].text == "2"
    debugger.close()
