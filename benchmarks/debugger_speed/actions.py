"""One action, end to end through the Python API: each kind, in Python and in Java."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.debugger_speed.measuring import Row
from sandbox.debugger import Action, BreakpointRequest, DebugEvent, Debugger
from sandbox.errors import DebuggerError


@dataclass(frozen=True)
class Program:
    """A program with a loop that calls a function."""

    file: str
    test: str
    """What a launch names."""
    loop_line: int
    """Where the loop calls."""
    end_line: int
    code: str
    """An assignment to run in the loop's frame."""
    source: bytes


SCRIPT = Program(
    "program.py",
    "program.py",
    9,
    11,
    "total = 1",
    b"""\
def inner(number):
    result = number + 1
    return result

def work():
    data = {"name": "cart", "items": list(range(50))}
    total = 0
    for number in range(10**9):
        total += inner(number)
        total -= number
    return data

work()
""",
)
MAIN_CLASS = Program(
    "src/demo/Loop.java",
    "demo.Loop",
    16,
    18,
    "total = 1;",
    b"""\
package demo;

import java.util.*;

public class Loop {
    static int inner(int number) {
        int result = number + 1;
        return result;
    }

    public static void main(String[] args) {
        Map<String, Object> data = new HashMap<>();
        data.put("items", Arrays.asList(1, 2, 3));
        long total = 0;
        for (int number = 0; number < 1_000_000_000; number++) {
            total += inner(number);
            total -= number;
        }
        System.out.println(total + data.toString());
    }
}
""",
)


def action_rows(
    debugger: Debugger, program: Program, section: str, target: float, rounds: int
) -> Iterator[Row]:
    """Each kind on a program paused at its breakpoint inside the loop."""
    end = BreakpointRequest(program.file, program.end_line)
    kinds: dict[str, Callable[[], DebugEvent]] = {
        "locals": debugger.locals,
        "evaluate": lambda: debugger.evaluate("total + number"),
        "stack": debugger.stack,
        "fields": lambda: debugger.fields("data"),
        "threads": debugger.threads,
        "run code": lambda: debugger.run_code(program.code),
        "list breakpoints": debugger.list_breakpoints,
        "set breakpoint": lambda: debugger.set_breakpoint(end),
        "continue": lambda: debugger.control(Action.CONTINUE),
        "step into": lambda: debugger.control(Action.STEP_INTO),
        "step out": lambda: debugger.control(Action.STEP_OUT),
        "step over": lambda: debugger.control(Action.STEP_OVER),
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(rounds + 1):
        for name, work in kinds.items():
            began = time.perf_counter()
            event = work()
            taken = time.perf_counter() - began
            _require(name, event)
            if turn:
                times[name].append(taken * 1000)
            if name == "set breakpoint":
                debugger.remove_breakpoint(event.breakpoints[-1].number)
    for name, values in times.items():
        yield Row(section, name, statistics.median(values), "ms", target=target)
    everything = [value for values in times.values() for value in values]
    yield Row(section, "all actions", statistics.median(everything), "ms", target=target)


def _require(name: str, event: DebugEvent) -> None:
    if event.error_kind is not None:
        raise DebuggerError(f"{name} failed: {event.error}")
