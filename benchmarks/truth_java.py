"""Compare the debugger's breakpoints in Java with single steps of the virtual machine.

    python -m benchmarks.truth_java [--java-home FOLDER]

`java_statements/Statements.java` has statements of all kinds. `Trace.java` runs it through the
JDK's debug interface alone, instruction by instruction, and tells each execution of a statement
with the variables before it. The debugger runs it with a breakpoint on each line. Both must tell
the same: how often each line is hit, in which order it stops, and the values there.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox import SandboxConfig, open_sandbox
from sandbox.base import Command, Sandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    Debugger,
    DebugLimits,
    Launch,
    State,
    open_debugger,
)
from sandbox.java.jdk import find_jdk
from sandbox.shell import write_bytes

PROGRAMS = Path(__file__).parent / "java_statements"
MAIN = "Statements"
TRACE_SECONDS = 120.0
OUTPUT_LIMIT = 1_000_000
RAW = argparse.RawDescriptionHelpFormatter
LIMITS = DebugLimits(start_timeout=60, action_timeout=60, max_values=200)


@dataclass(frozen=True)
class Stop:
    """One execution of a statement."""

    line: int
    values: Mapping[str, str]
    """The variables before it, of primitive types and strings, and the static field `tick`."""


@dataclass(frozen=True)
class Comparison:
    """What the trace and the debugger tell of one program."""

    jdk: str
    lines: tuple[int, ...]
    """At which statements begin that have code."""
    trace: tuple[Stop, ...]
    debugger: tuple[Stop, ...]

    def wrong_hits(self) -> dict[int, tuple[int, int]]:
        """By line the hits of the trace and of the debugger, if they differ."""
        trace = Counter(stop.line for stop in self.trace)
        debugger = Counter(stop.line for stop in self.debugger)
        lines = sorted(trace.keys() | debugger.keys())
        counts = {line: (trace[line], debugger[line]) for line in lines}
        return {line: both for line, both in counts.items() if both[0] != both[1]}

    def wrong_stops(self) -> int:
        """How many stops are at another line than the trace's."""
        pairs = zip(self.trace, self.debugger, strict=False)
        differ = sum(told.line != stop.line for told, stop in pairs)
        return differ + abs(len(self.trace) - len(self.debugger))

    def wrong_values(self) -> list[tuple[Stop, Stop]]:
        """The stops at the same line with other values."""
        pairs = zip(self.trace, self.debugger, strict=False)
        return [
            (told, stop)
            for told, stop in pairs
            if told.line == stop.line and not told.values.items() <= stop.values.items()
        ]


def compare(source: str, config: SandboxConfig | None = None) -> Comparison:
    """Trace a program, and debug it with a breakpoint on each of its statements' lines."""
    with open_sandbox(config or SandboxConfig()) as sandbox:
        sandbox.write_files({f"{MAIN}.java": source.encode()})
        lines, trace = traced(sandbox)
        debugger = open_debugger("java", sandbox, LIMITS)
        try:
            with_code, stops = debugged(debugger, lines)
        finally:
            debugger.close()
        return Comparison(find_jdk(sandbox).version, with_code, trace, stops)


def traced(sandbox: Sandbox) -> tuple[tuple[int, ...], tuple[Stop, ...]]:
    """The lines at which statements begin, and what the trace tells."""
    jdk = find_jdk(sandbox)
    source, classes, tracer = (
        f"{sandbox.workspace}/{MAIN}.java",
        "/tmp/statements",
        "/tmp/Trace.java",
    )
    write_bytes(sandbox, tracer, (PROGRAMS / "Trace.java").read_bytes())
    output = ""
    for command in (
        [jdk.javac, "-g", "-d", classes, source],
        [jdk.java, tracer, source, classes, MAIN],
    ):
        result = sandbox.run(Command(command, timeout=TRACE_SECONDS, output_limit=OUTPUT_LIMIT))
        if result.exit_code != 0:
            raise RuntimeError(f"{command[0]} failed: {result.output}")
        output = result.output
    first, *rest = output.splitlines()
    return tuple(map(int, first.split("\t"))), tuple(map(_stop, rest))


def _stop(text: str) -> Stop:
    line, *values = text.split("\t")
    return Stop(int(line), dict(each.split("=", 1) for each in values))


def debugged(
    debugger: Debugger, lines: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[Stop, ...]]:
    """The lines that have code, on which a breakpoint stays, and the debugger's stops."""
    points = tuple(BreakpointRequest(file=f"{MAIN}.java", line=line) for line in lines)
    event = debugger.start(Launch(MAIN, points, stop_at_entry=False))
    if not event.stops_program:
        raise RuntimeError(f"the program did not start: {event.error or event.output}")
    kept = {point.line for point in event.breakpoints}
    stops = list[Stop]()
    while event.state is State.RUNTIME:
        values = {value.name: value.text for value in debugger.locals().values}
        values |= {value.name: value.text for value in debugger.evaluate("tick").values}
        stops.append(Stop(event.line or 0, values))
        event = debugger.control(Action.CONTINUE)
    return tuple(line for line in lines if line in kept), tuple(stops)


def table(comparison: Comparison) -> str:
    """The results in Markdown, and each line that differs."""
    hits, values = comparison.wrong_hits(), comparison.wrong_values()
    rows = [
        "| JDK | lines with a statement | executions | other hits | other stops | other values |",
        "| --- | --- | --- | --- | --- | --- |",
        f"| {comparison.jdk} | {len(comparison.lines)} | {len(comparison.trace)} | {len(hits)} "
        f"| {comparison.wrong_stops()} | {len(values)} |",
    ]
    rows += [f"line {line}: {told} hits, not {found}" for line, (told, found) in hits.items()]
    rows += [f"line {told.line}: {told.values}, not {stop.values}" for told, stop in values]
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the table. Returns 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RAW)
    parser.add_argument("--java-home", help="the folder of the JDK; default: the one that is found")
    given = parser.parse_args(arguments)
    config = SandboxConfig.model_validate({"java": {"java_home": given.java_home}})
    found = compare((PROGRAMS / f"{MAIN}.java").read_text(), config)
    print(table(found))
    return 1 if found.wrong_hits() or found.wrong_stops() or found.wrong_values() else 0


if __name__ == "__main__":
    raise SystemExit(main())
