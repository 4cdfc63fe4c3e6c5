"""Python: launches beside bare pdb, and the program's own slow-down."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.debugger_speed.measuring import Row, medians, seconds, stopped_at
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger import BreakpointRequest, DebugLimits, Launch
from sandbox.debugger.python_session import PythonDebugger
from sandbox.errors import DebuggerError
from tests.interpreters import Interpreter

LIMITS = DebugLimits(start_timeout=300)
TEST, STOP_LINE = "test_cart.py", 3
TEST_SOURCE = b"""\
def test_total():
    prices = [3, 4]
    total = sum(prices)
    assert total == 7
"""
HOT = "hot.py"
COLD_LINE = 3
HOT_SOURCE = b"""\
import sys, time
def cold():
    return 1
def loop():
    total = 0
    for n in range(400_000):
        total += n * n % 7
    return total
def recurse(n):
    return n and 1 + recurse(n - 1)
def recursion():
    for _ in range(300):
        recurse(900)
work = {"loop": loop, "recursion": recursion}[sys.argv[1]]
began = time.process_time()
work()
print("took", time.process_time() - began, flush=True)
cold()
"""
LAUNCH_TARGET = 1.15
LOOP_TARGET, RECURSION_TARGET, MONITORING_TARGET = 3.0, 10.0, 1.1


@contextmanager
def python_sandbox(interpreter: Interpreter) -> Iterator[Sandbox]:
    config = SandboxConfig(python=interpreter.path, readable_paths=interpreter.readable_paths)
    with open_sandbox(config) as sandbox:
        sandbox.write_files({TEST: TEST_SOURCE, HOT: HOT_SOURCE})
        yield sandbox


def launches(interpreter: Interpreter, quick: bool) -> Iterator[Row]:
    """To the first breakpoint in a pytest test."""
    with python_sandbox(interpreter) as sandbox:
        debugger = PythonDebugger(sandbox, LIMITS)
        launch = Launch(TEST, (BreakpointRequest(file=TEST, line=STOP_LINE),), stop_at_entry=False)

        def ours() -> None:
            stopped_at(debugger.start(launch), TEST, STOP_LINE)

        works = {
            "ours": lambda: seconds(ours) * 1000,
            "pdb": lambda: seconds(functools.partial(_pdb_to_breakpoint, sandbox)) * 1000,
        }
        found = medians(works, 3 if quick else 11, warm_up=1)
        debugger.close()
    what = f"CPython {interpreter.version}, to a breakpoint in a pytest test"
    yield Row("launch", what, found["ours"], "ms", found["pdb"], LAUNCH_TARGET, "bare: pdb")


def slow_downs(interpreter: Interpreter, quick: bool) -> Iterator[Row]:
    """The program's own processor time, with a breakpoint in another function of the hot file."""
    monitored = tuple(map(int, interpreter.version.split("."))) >= (3, 12)
    targets = {"loop": LOOP_TARGET, "recursion": RECURSION_TARGET}
    with python_sandbox(interpreter) as sandbox:
        debugger = PythonDebugger(sandbox, LIMITS)
        for kind, target in targets.items():
            works = {
                "plain": functools.partial(_plain_time, sandbox, kind),
                "ours": functools.partial(_debugged_time, debugger, kind),
            }
            found = medians(works, 3 if quick else 7, warm_up=1)
            pdb = _pdb_time(sandbox, kind) / found["plain"]
            yield Row(
                "slow-down",
                f"CPython {interpreter.version}, {kind}",
                found["ours"],
                "ms",
                found["plain"],
                MONITORING_TARGET if monitored else target,
                f"bare pdb: {pdb:.0f} x",
            )
        debugger.close()


def _pdb_to_breakpoint(sandbox: Sandbox) -> None:
    place = f"break {TEST}:{STOP_LINE}"
    _pdb(sandbox, (place, "continue"), ("-m", "pytest", TEST), f"{TEST}({STOP_LINE})".encode())


def _pdb_time(sandbox: Sandbox, kind: str) -> float:
    place = f"break {HOT}:{COLD_LINE}"
    return _took(_pdb(sandbox, (place, "continue"), (HOT, kind), b"took ").decode())


def _pdb(
    sandbox: Sandbox, commands: tuple[str, ...], program: tuple[str, ...], wanted: bytes
) -> bytes:
    """Run pdb until a line holds what is wanted, and give that line. Raises DebuggerError."""
    options = [word for command in commands for word in ("-c", command)]
    # Options of pytest on the command line are pdb's to CPython 3.13.0.
    environment = {"PYTEST_ADDOPTS": "-s"}
    argv = (sandbox.python, "-m", "pdb", *options, *program)
    terminal = sandbox.spawn(Command(argv, env=environment))
    deadline = time.monotonic() + 300.0
    try:
        while (line := terminal.read_line(deadline - time.monotonic())) is not None:
            if wanted in line:
                return line
        raise DebuggerError(f"pdb printed no {wanted!r} within 300 s")
    finally:
        terminal.close()


def _plain_time(sandbox: Sandbox, kind: str) -> float:
    return _took(sandbox.run(Command((sandbox.python, HOT, kind))).output)


def _debugged_time(debugger: PythonDebugger, kind: str) -> float:
    launch = Launch(
        f"{HOT} {kind}", (BreakpointRequest(file=HOT, line=COLD_LINE),), stop_at_entry=False
    )
    return _took(stopped_at(debugger.start(launch), HOT, COLD_LINE).output)


def _took(output: str) -> float:
    """Milliseconds of processor time that the program says its work took."""
    return float(output.partition("took ")[2].split()[0]) * 1000
