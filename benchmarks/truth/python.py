"""The Python debugger beside `sys.settrace` and `sys.monitoring`, on each CPython here."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.truth.comparison import Comparison, Row, Stop, row
from benchmarks.truth.executions import Executions, Source
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import (
    Action,
    Breakpoint,
    BreakpointRequest,
    DebugEvent,
    DebugLimits,
    Launch,
    State,
    open_debugger,
)
from tests.interpreters import VERSIONS, Interpreter, find_interpreter

FOLDER = Path(__file__).parent
PROGRAMS = tuple(sorted((FOLDER / "programs").glob("*.py")))
"""A name that ends in `_310` needs CPython 3.10."""
FILE = "program.py"
VALUES = (
    "'; '.join('%s=%r' % item for item in sorted(item for item in locals().items() "
    "if type(item[1]) in (bool, int, float, str, bytes, type(None))) if item[0][:2] != '__')"
)
LIMITS = DebugLimits(start_timeout=300, action_timeout=300, value_chars=100_000)
NOT_INLINED = "3.11"
"""The last version that runs comprehensions in frames of their own."""


def measure(versions: Sequence[str] = (), names: Sequence[str] = ()) -> Iterator[Row]:
    """Compare the programs on each interpreter and means of tracing; by default all."""
    for version in versions or VERSIONS:
        interpreter = find_interpreter(version)
        if interpreter is None:
            continue
        programs = [path for path in PROGRAMS if not names or path.stem in names]
        programs = [path for path in programs if _needs(path) <= _number(version)]
        sessions = {path: debug(interpreter, path.read_text()) for path in programs}
        for means in ("settrace", "monitoring"):
            if means == "monitoring" and _number(version) < 312:
                continue
            found = [compare(interpreter, path, means, sessions[path]) for path in programs]
            yield row(f"CPython {version}, {means}", found)


def _number(version: str) -> int:
    major, minor = version.split(".")
    return int(major) * 100 + int(minor)


def _needs(path: Path) -> int:
    named = re.search(r"_(3\d\d)$", path.stem)
    return int(named[1]) if named else 308


@dataclass(frozen=True)
class Session:
    """All that the debugger said of a program with a breakpoint on each line."""

    stops: tuple[DebugEvent, ...]
    points: tuple[Breakpoint, ...]
    """After the last stop. Each watches the number of the line that was asked for."""


def debug(interpreter: Interpreter, text: str) -> Session:
    """Stop at each hit of each line."""
    config = SandboxConfig(python=interpreter.path, readable_paths=interpreter.readable_paths)
    stops = list[DebugEvent]()
    lines = range(1, len(text.splitlines()) + 1)
    asked = tuple(BreakpointRequest(file=FILE, line=line, watch=(str(line),)) for line in lines)
    with open_sandbox(config) as sandbox:
        sandbox.write_files({FILE: text.encode()})
        with closing(open_debugger("python", sandbox, LIMITS)) as debugger:
            event = debugger.start(Launch(FILE, asked, stop_at_entry=False, watch=(VALUES,)))
            while event.state is State.RUNTIME:
                stops.append(event)
                event = debugger.control(Action.CONTINUE)
            assert event.exit_code == 0, event
            return Session(tuple(stops), debugger.list_breakpoints().breakpoints)


@cache
def trace(python: str, path: Path, means: str) -> Any:
    """Every line event of a program, as the interpreter reports it."""
    command = [python, str(FOLDER / "plain_trace.py"), str(path), means]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def compare(interpreter: Interpreter, path: Path, means: str, session: Session) -> Comparison:
    """A debugged program beside a plain trace of it."""
    text = path.read_text()
    plain = executions(interpreter, path, "settrace")
    traced = executions(interpreter, path, means)
    source, hits = traced.source, list(traced.hits())
    ran = Counter(hit["line"] for hit in hits)
    # `sys.monitoring` reports a loop on one line once.
    silent = {line for line, times in _counts(plain).items() if times != ran[line]}
    if traced.inlines:
        inner = _counts(executions(find_interpreter(NOT_INLINED), path, "settrace"))
        ran.update({line: inner[line] - ran[line] for line in source.inside})
        silent -= source.inside
    told = dict[int, int]()
    compared = set[int]()
    for point in session.points:
        asked = int(point.watch[0])
        if asked in source.headers:  # it stops in each call of the function
            told[asked], ran[asked] = point.hits, plain.calls[source.headers[asked]]
        elif point.line not in silent:
            told[point.line] = point.hits
            compared |= {point.line} - source.inside
    expected = [(hit["line"], hit["values"]) for hit in hits if hit["line"] in compared]
    stops = [_stop(event) for event in session.stops if _counts_as(event, source, compared)]
    statements = sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))
    return Comparison(path.stem, statements, told, ran, stops, expected)


def executions(interpreter: Interpreter | None, path: Path, means: str) -> Executions:
    assert interpreter is not None, f"CPython {NOT_INLINED} is needed for what others inline"
    inlines = _number(interpreter.version) > _number(NOT_INLINED)
    return Executions(path.read_text(), trace(interpreter.path, path, means), inlines)


def _counts(traced: Executions) -> Counter[int]:
    return Counter(hit["line"] for hit in traced.hits())


def _counts_as(event: DebugEvent, source: Source, compared: set[int]) -> bool:
    """Whether a breakpoint on a line, and not only one on a function, was hit."""
    lines = {int(point.watch[0]) for point in event.hit if point.line == event.line}
    return event.line in compared and bool(lines - source.headers.keys())


def _stop(event: DebugEvent) -> Stop:
    values = event.values[0].text
    return event.line or 0, str(ast.literal_eval(values)) if values[:1] in ("'", '"') else values
