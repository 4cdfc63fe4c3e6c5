"""What the whole machine spends while something runs: it must be quiet otherwise."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.2


@dataclass
class Spent:
    """Of all processes together, also those of containers and of a cluster's nodes."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    """The most in use at once, above what was in use before."""


@contextmanager
def spending() -> Iterator[Spent]:
    """What is spent within; it is known afterwards."""
    spent, ended = Spent(), threading.Event()
    used_before, lowest = _available(), _available()

    def watch() -> None:
        nonlocal lowest
        while not ended.wait(SAMPLE_SECONDS):
            lowest = min(lowest, _available())

    watcher = threading.Thread(target=watch, daemon=True)
    began, cpu_before = time.monotonic(), _cpu_seconds()
    watcher.start()
    try:
        yield spent
    finally:
        ended.set()
        watcher.join()
        spent.seconds = time.monotonic() - began
        spent.cpu_seconds = _cpu_seconds() - cpu_before
        spent.memory_bytes = max(used_before - lowest, 0)


def _cpu_seconds() -> float:
    """User, nice and system time, interrupts included, of all processors since the start."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = (int(each) for each in fields[:7])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
