"""How many sessions a machine starts in a minute, and what each holds in memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks.debugger_speed.measuring import Row
from sandbox import Sandbox
from sandbox.debugger import DebugEvent, Debugger
from sandbox.errors import DebuggerError

Opened = tuple[Sandbox, Debugger]


def capacity_rows(
    section: str,
    count: int,
    open_sandbox_with_program: Callable[[], Sandbox],
    start: Callable[[Sandbox], tuple[Debugger, DebugEvent]],
) -> Iterator[Row]:
    """Start `count` sessions, each in a sandbox of its own, as many at once as there are cores."""
    with ExitStack() as stack:
        workers = stack.enter_context(ThreadPoolExecutor(os.cpu_count() or 1))
        sandboxes = [stack.enter_context(open_sandbox_with_program()) for _ in range(count)]
        before = memory_mb()
        began = time.perf_counter()
        started = list(workers.map(start, sandboxes))
        taken = time.perf_counter() - began
        for debugger, _ in started:
            stack.callback(debugger.close)
        for _, event in started:
            if event.error_kind is not None or event.stop_reason is None:
                raise DebuggerError(f"a session did not start: {event.error}")
        memory = (memory_mb() - before) / count
        what = f"{count} open"
        yield Row(section, f"{what}, started a minute", 60 * count / taken, "")
        yield Row(section, f"{what}, memory of each (PSS)", memory, "MB")


def memory_mb() -> float:
    """Proportional set size of all the processes below this one, its own left out."""
    return sum(_pss_kb(process) for process in _below(os.getpid())) / 1024


def _below(root: int) -> list[str]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    found: list[str] = []
    left = [root]
    while left:
        below = children.get(left.pop(), [])
        found += map(str, below)
        left += below
    return found


def _pss_kb(process: str) -> int:
    try:
        lines = Path("/proc", process, "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended meanwhile
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
