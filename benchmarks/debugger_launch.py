"""How long a debug session takes to its first stop, beside bare pdb in the same sandbox.

`python -m benchmarks.debugger_launch` runs one small pytest test to a breakpoint both ways.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger import BreakpointRequest, Launch
from sandbox.debugger.python_session import PythonDebugger
from sandbox.errors import DebuggerError

LAUNCHES = 7
INSPECTIONS = 50
TEST = "test_cart.py"
STOP_LINE = 3
SOURCE = b"""\
def test_total():
    prices = [3, 4]
    total = sum(prices)
    assert total == 7
"""
PDB = ("-m", "pdb", "-c", f"break {TEST}:{STOP_LINE}", "-c", "continue", "-m", "pytest", "-s", TEST)


def main() -> None:
    with open_sandbox(SandboxConfig()) as sandbox:
        sandbox.write_files({TEST: SOURCE})
        debugger = PythonDebugger(sandbox)
        ours, bare = [], []
        for _ in range(LAUNCHES):  # in turn, so that a busy moment of the machine hits both
            ours.append(seconds(lambda: start(debugger)))
            bare.append(seconds(lambda: start_pdb(sandbox)))
        inspections = [seconds(lambda: debugger.evaluate("prices")) for _ in range(INSPECTIONS)]
        debugger.close()
    report(ours, bare, inspections)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def start(debugger: PythonDebugger) -> None:
    """Run to the breakpoint in the debugger. Raises DebuggerError where it stops elsewhere."""
    breakpoints = (BreakpointRequest(file=TEST, line=STOP_LINE),)
    event = debugger.start(Launch(TEST, breakpoints, stop_at_entry=False))
    if (event.file, event.line) != (TEST, STOP_LINE):
        raise DebuggerError(f"the debugger did not stop at {TEST}:{STOP_LINE}: {event}")


def start_pdb(sandbox: Sandbox) -> None:
    """Run to the breakpoint in pdb. Raises DebuggerError where it does not get there."""
    terminal = sandbox.spawn(Command((sandbox.python, *PDB)))
    try:
        place = f"{TEST}({STOP_LINE})".encode()
        while (line := terminal.read_line(60.0)) is not None:
            if place in line:
                return
        raise DebuggerError(f"pdb did not stop at {TEST}:{STOP_LINE} within 60 s")
    finally:
        terminal.close()


def report(ours: list[float], bare: list[float], inspections: list[float]) -> None:
    launch, pdb = statistics.median(ours), statistics.median(bare)
    print(f"CPython {sys.version.split()[0]}, {LAUNCHES} launches each, {INSPECTIONS} inspections")
    print(f"launch to first stop  {launch * 1000:7.0f} ms")
    print(f"pdb to first stop     {pdb * 1000:7.0f} ms")
    print(f"ratio                 {launch / pdb:7.2f}")
    print(f"one inspect action    {statistics.median(inspections) * 1000:7.2f} ms")


if __name__ == "__main__":
    main()
