"""Debug sessions in a row, one on each task of HumanEvalFix, the endless ones included.

    python -m tests.debugger_sessions --python humanevalfix-python.jsonl \\
        --java humanevalfix-java.jsonl --sessions 200

Every session has to start on the task's failing test, stop at a breakpoint inside the solution,
answer that frame's locals, and leave no process behind. What did not is listed, and the exit code
is 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.opening import open_benchmark
from collect.benchmarks.workspace import open_instance_sandbox
from collect.oracle.candidates import gold_candidate
from sandbox import SandboxConfig
from sandbox.debugger import (
    BreakpointRequest,
    DebugEvent,
    DebugLimits,
    Launch,
    StopReason,
    open_debugger,
)


def descendants(of: int | None = None) -> set[int]:
    """All living processes below one, by default this one; zombies are not among them."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            parent = _parent(folder)
            children.setdefault(parent, []).append(int(folder.name))
    found: set[int] = set()
    pending = children.get(os.getpid() if of is None else of, [])
    while pending:
        pid = pending.pop()
        found.add(pid)
        pending += children.get(pid, [])
    return found


def _parent(folder: Path) -> int:
    """The parent's number; -1 for a process that is gone or dead."""
    try:
        stat = (folder / "stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return -1
    state, parent = stat.rpartition(")")[2].split()[:2]
    return -1 if state in "ZX" else int(parent)


def ended(left: Callable[[], set[int]], seconds: float = 10.0) -> bool:
    """Whether there are none left before long: the kernel takes a moment to end a process."""
    deadline = time.monotonic() + seconds
    while left():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


Task = tuple[Benchmark, Instance]


@dataclass(frozen=True)
class Session:
    """What came of one session."""

    instance_id: str
    language: str
    problems: tuple[str, ...]
    seconds_to_stop: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", help="a HumanEvalFix Python file")
    parser.add_argument("--java", help="a HumanEvalFix Java file")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--backend", choices=["local", "docker"], default="local")
    parser.add_argument("--image", help="for docker")
    options = parser.parse_args()
    config = SandboxConfig(backend=options.backend, image=options.image)
    files = {"python": options.python, "java": options.java}
    tasks = [list(_tasks(language, path)) for language, path in files.items() if path]
    if not tasks:
        parser.error("give at least one of --python and --java")
    sessions = []
    for task in islice(_in_turn(tasks), options.sessions):
        sessions.append(run_session(*task, config))
        for problem in sessions[-1].problems:
            print(f"{sessions[-1].instance_id}: {problem}", flush=True)
    Console().print(_table(sessions))
    sys.exit(any(session.problems for session in sessions))


def run_session(benchmark: Benchmark, instance: Instance, config: SandboxConfig) -> Session:
    """Start, stop inside the solution, look, end."""
    before = descendants()
    with open_instance_sandbox(config, instance) as sandbox:
        benchmark.prepare(instance, sandbox)
        debugger = open_debugger(instance.language, sandbox, DebugLimits())
        gold = gold_candidate(instance)
        path = gold.ranges[0].path
        point = BreakpointRequest(file=path, function=gold.function)
        launch = Launch(instance.fail_to_pass[0], (point,), stop_at_entry=False)
        began = time.monotonic()
        event = debugger.start(launch)
        seconds = time.monotonic() - began
        problems = list(_problems(event, path))
        if not problems and not debugger.locals().values:
            problems.append("no locals at the stop")
        debugger.close()
    if not ended(lambda: descendants() - before):
        problems.append("processes are left behind")
    return Session(instance.id, instance.language, tuple(problems), seconds)


def _problems(event: DebugEvent, path: str) -> Iterator[str]:
    if event.error_kind is not None:
        yield f"{event.error_kind}: {event.error}"
    elif event.stop_reason is not StopReason.BREAKPOINT:
        yield f"ended without the breakpoint: {event.stop_reason} {' '.join(event.notes)}"
    elif event.file != path:
        yield f"stopped in {event.file}:{event.line}, not in {path}"


def _tasks(language: str, path: str) -> Iterator[Task]:
    config = BenchmarkConfig.model_validate(
        {"name": "humanevalfix", "path": path, "language": language}
    )
    benchmark = open_benchmark(config)
    return ((benchmark, instance) for instance in benchmark.instances())


def _in_turn(lists: Sequence[Sequence[Task]]) -> Iterable[Task]:
    """The first of each, the second of each ...; once they are all used, from the start again."""
    position = 0
    while True:
        yield from (tasks[position % len(tasks)] for tasks in lists)
        position += 1


def _table(sessions: Sequence[Session]) -> Table:
    table = Table(title="Debug sessions on HumanEvalFix")
    for column in ("language", "sessions", "without a problem", "median seconds to the stop"):
        table.add_column(column, justify="left" if column == "language" else "right")
    for language in dict.fromkeys(session.language for session in sessions):
        own = [session for session in sessions if session.language == language]
        well = sum(not session.problems for session in own)
        median = statistics.median(session.seconds_to_stop for session in own)
        table.add_row(language, str(len(own)), str(well), f"{median:.2f}")
    return table


if __name__ == "__main__":
    main()
