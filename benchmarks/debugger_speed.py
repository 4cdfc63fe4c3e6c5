"""How fast debug sessions are, beside the bare thing measured in the same run.

`python -m benchmarks.debugger_speed [SECTION ...]` prints one table: launches beside bare
pdb, single actions, and the program's own slow-down. Medians of runs that take turns, so that a
busy moment of the machine hits all alike; ratios are what to trust.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks import add_sections
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    Debugger,
    DebugLimits,
    Launch,
    StopReason,
    open_debugger,
)
from sandbox.errors import DebuggerError
from tests.interpreters import VERSIONS, Interpreter, find_interpreter

SECTIONS = ("launch", "actions", "slow-down")
LIMITS = DebugLimits(start_timeout=300)
LAUNCH_TARGET = 1.0
"""Times as long as pdb."""
ACTION_TARGET, JAVA_TARGET = 1.0, 3.0
"""Milliseconds of one action."""
LOOP_TARGET, MONITORING_TARGET = 3.0, 1.1
"""Times as slow as without a debugger."""


@dataclass(frozen=True)
class Program:
    """A program with a line to stop at."""

    file: str
    test: str
    """What a launch names."""
    line: int
    """Where a session stops; in a loop, the call."""
    source: bytes
    end_line: int = 0
    """The line after the loop."""
    code: str = ""
    """An assignment to run in the loop's frame."""

    def open_sandbox(self, config: SandboxConfig) -> Sandbox:
        sandbox = open_sandbox(config)
        sandbox.write_files({self.file: self.source})
        return sandbox

    def start(self, debugger: Debugger) -> DebugEvent:
        """Start a session and go to the line. Raises DebuggerError."""
        point = BreakpointRequest(file=self.file, line=self.line)
        event = debugger.start(Launch(self.test, (point,), stop_at_entry=False))
        at_line = (event.file, event.line) == (self.file, self.line)
        if not at_line or event.stop_reason is StopReason.INTERRUPTED:
            raise DebuggerError(f"the debugger did not stop at {self.file}:{self.line}: {event}")
        return event


PYTEST = Program(
    "test_cart.py",
    "test_cart.py",
    3,
    b"""\
def test_total():
    prices = [3, 4]
    total = sum(prices)
    assert total == 7
""",
)
HOT = Program(
    "hot.py",
    "hot.py",
    3,
    b"""\
import time
def cold():
    return 1
def loop():
    total = 0
    for n in range(400_000):
        total += n * n % 7
    return total
began = time.process_time()
loop()
print("took", time.process_time() - began, flush=True)
cold()
""",
)
SCRIPT = Program(
    "program.py",
    "program.py",
    9,
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
    end_line=11,
    code="total = 1",
)
MAIN_CLASS = Program(
    "src/demo/Loop.java",
    "demo.Loop",
    16,
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
    end_line=18,
    code="total = 1;",
)


@dataclass(frozen=True)
class Row:
    """One measured thing."""

    section: str
    what: str
    measured: float
    """Milliseconds."""
    target: float
    """At most this: of the ratio where there is a bare thing, else of what was measured."""
    bare: float | None = None
    """The bare thing, in milliseconds."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.measured / self.bare if self.bare else None

    @property
    def met(self) -> bool:
        return (self.measured if self.ratio is None else self.ratio) <= self.target


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def medians(works: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of what each work returns, taking turns, after one round for warming up."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(1 + rounds):
        for name, work in works.items():
            value = work()
            if turn:
                found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def launches(interpreter: Interpreter, quick: bool) -> Row:
    """Python: to the first breakpoint in a pytest test."""
    pdb_commands = (f"break {PYTEST.file}:{PYTEST.line}", "continue")
    wanted = f"{PYTEST.file}({PYTEST.line})".encode()
    program = ("-m", "pytest", PYTEST.file)
    with (
        _python_sandbox(interpreter, PYTEST) as sandbox,
        closing(open_debugger("python", sandbox, LIMITS)) as debugger,
    ):
        works = {
            "ours": lambda: milliseconds(lambda: PYTEST.start(debugger)),
            "pdb": lambda: milliseconds(lambda: _pdb(sandbox, pdb_commands, program, wanted)),
        }
        found = medians(works, 3 if quick else 15)
    what = f"CPython {interpreter.version}, to a breakpoint in a pytest test"
    return Row("launch", what, found["ours"], LAUNCH_TARGET, found["pdb"], "bare: pdb")


def slow_down(interpreter: Interpreter, quick: bool) -> Row:
    """Python: a loop's processor time, with a breakpoint in another function of its file."""
    monitored = tuple(map(int, interpreter.version.split("."))) >= (3, 12)
    pdb_commands = (f"break {HOT.file}:{HOT.line}", "continue")
    with (
        _python_sandbox(interpreter, HOT) as sandbox,
        closing(open_debugger("python", sandbox, LIMITS)) as debugger,
    ):
        command = Command((sandbox.python, HOT.file))
        works = {
            "plain": lambda: _took(sandbox.run(command).output),
            "ours": lambda: _took(HOT.start(debugger).output),
        }
        found = medians(works, 3 if quick else 7)
        pdb = _took(_pdb(sandbox, pdb_commands, (HOT.file,), b"took ").decode())
    note = f"bare pdb: {pdb / found['plain']:.0f} x"
    most = MONITORING_TARGET if monitored else LOOP_TARGET
    what = f"CPython {interpreter.version}, a loop"
    return Row("slow-down", what, found["ours"], most, found["plain"], note)


def _python_sandbox(interpreter: Interpreter, program: Program) -> Sandbox:
    config = SandboxConfig(python=interpreter.path, readable_paths=interpreter.readable_paths)
    return program.open_sandbox(config)


def _pdb(
    sandbox: Sandbox, commands: tuple[str, ...], program: tuple[str, ...], wanted: bytes
) -> bytes:
    """Run pdb until a line holds what is wanted, and give that line. Raises DebuggerError."""
    options = [word for command in commands for word in ("-c", command)]
    # Options of pytest on the command line are pdb's to CPython 3.13.0.
    environment = {"PYTEST_ADDOPTS": "-s"}
    command = Command((sandbox.python, "-m", "pdb", *options, *program), env=environment)
    with closing(sandbox.spawn(command)) as terminal:
        deadline = time.monotonic() + 300.0
        while (line := terminal.read_line(deadline - time.monotonic())) is not None:
            if wanted in line:
                return line
    raise DebuggerError(f"pdb printed no {wanted!r} within 300 s")


def _took(output: str) -> float:
    """Milliseconds of processor time that the program says its work took."""
    return float(output.partition("took ")[2].split()[0]) * 1000


def action_rows(language: str, program: Program, target: float, quick: bool) -> Iterator[Row]:
    """One action, end to end through the Python API: each kind, paused inside the loop."""
    section = f"actions, {language}"
    end = BreakpointRequest(program.file, program.end_line)
    with (
        program.open_sandbox(SandboxConfig()) as sandbox,
        closing(open_debugger(language, sandbox, LIMITS)) as debugger,
    ):
        program.start(debugger)
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

        def timed(name: str, work: Callable[[], DebugEvent]) -> float:
            began = time.perf_counter()
            event = work()
            taken = time.perf_counter() - began
            if event.error_kind is not None:
                raise DebuggerError(f"{name} failed: {event.error}")
            if name == "set breakpoint":
                debugger.remove_breakpoint(event.breakpoints[-1].number)
            return taken * 1000

        works = {name: partial(timed, name, work) for name, work in kinds.items()}
        for name, value in medians(works, 30 if quick else 200).items():
            yield Row(section, name, value, target)


def print_table(rows: Iterable[Row]) -> None:
    """A table in Markdown."""
    heads = ("section", "what", "ms", "bare", "ratio", "target", "met", "note")
    table = Table(*heads, box=MARKDOWN)
    for row in rows:
        table.add_row(
            row.section,
            row.what,
            f"{row.measured:.2f}",
            "" if row.bare is None else f"{row.bare:.2f}",
            "" if row.ratio is None else f"{row.ratio:.2f}",
            f"{row.target:g} {'ms' if row.bare is None else 'x'}",
            "yes" if row.met else "NO",
            row.note,
        )
    Console(width=200).print(table)


def measure(options: argparse.Namespace) -> Iterator[Row]:
    quick: bool = options.quick
    sections = options.sections or SECTIONS
    found = [find_interpreter(version) for version in VERSIONS]
    interpreters = [interpreter for interpreter in found if interpreter]
    if "launch" in sections:
        for interpreter in interpreters:
            if interpreter.has_pytest:
                yield launches(interpreter, quick)
    if "actions" in sections:
        yield from action_rows("python", SCRIPT, ACTION_TARGET, quick)
        if options.java:
            yield from action_rows("java", MAIN_CLASS, JAVA_TARGET, quick)
    if "slow-down" in sections:
        for interpreter in interpreters:
            yield slow_down(interpreter, quick)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.debugger_speed", description=__doc__
    )
    add_sections(parser, SECTIONS)
    parser.add_argument("--java", action="store_true", help="actions of Java, too")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores", file=sys.stderr)
    rows = []
    for row in measure(options):
        print(f"{row.section}: {row.what}: {row.measured:.2f} ms", file=sys.stderr)
        rows.append(row)
    print_table(rows)
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
