"""Where the time of a rollout goes, part by part."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager

from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.workspace import open_instance_sandbox
from collect.oracle.candidates import gold_candidate
from sandbox import Command, SandboxConfig
from sandbox.debugger import BreakpointRequest, DebugLimits, Launch
from sandbox.debugger.opening import open_debugger

ROUNDS = 5


class Parts:
    """Seconds by part, of several rounds."""

    def __init__(self) -> None:
        self._seconds = defaultdict[str, list[float]](list)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure what is done within."""
        began = time.monotonic()
        yield
        self._seconds[name].append(time.monotonic() - began)

    @property
    def medians(self) -> dict[str, float]:
        """Median seconds of each part."""
        return {name: statistics.median(found) for name, found in self._seconds.items()}


def part_seconds() -> dict[str, float]:
    """Seconds of each part: the median over the rounds, in the local sandbox."""
    parts = Parts()
    for _ in range(ROUNDS):
        _round(parts)
    return parts.medians


def _round(parts: Parts) -> None:
    benchmark = BundledBenchmark()
    instance = next(iter(benchmark.instances()))
    gold = gold_candidate(instance)
    point = BreakpointRequest(file=gold.ranges[0].path, function=gold.function)
    config = SandboxConfig()
    with parts.part("open a sandbox"):
        sandbox = open_instance_sandbox(config, instance)
    with sandbox:
        with parts.part("lay out the bug"):
            benchmark.prepare(instance, sandbox)
        with parts.part("run a command"):
            sandbox.run(Command(["true"]))
        with parts.part("start Python alone"):
            sandbox.run(Command([sandbox.python, "-c", "pass"]))
        with parts.part("import pytest"):
            sandbox.run(Command([sandbox.python, "-c", "import pytest"]))
        with closing(open_debugger(instance.language, sandbox, DebugLimits())) as debugger:
            with parts.part("debug session, to the first stop"):
                event = debugger.start(
                    Launch(instance.fail_to_pass[0], (point,), stop_at_entry=False)
                )
            assert event.stops_program, event
            with parts.part("one look at the locals"):
                debugger.locals()
        with parts.part("run the bug's tests"):
            benchmark.run_tests(instance, sandbox, instance.public_tests)
        with parts.part("read the workspace"):
            sandbox.read_tree()
