"""How fast rollouts are, with models that answer at once.

    python -m benchmarks.rollouts                      # all of it
    python -m benchmarks.rollouts parts                # one section

The scripted oracle works on the bundled bugs, so what is measured is StepInto itself: sandboxes,
debug sessions, tests and records. The sections:

    places      rollouts an hour, CPU and memory of each, by rollouts at once: in the local sandbox,
                in containers, and on a Ray cluster of this machine, its start included
    parts       where the time of a rollout goes

The CPU time is that of the whole machine, which must do nothing else.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from benchmarks import add_sections
from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.workspace import open_instance_sandbox
from collect.oracle.candidates import gold_candidate
from sandbox import Command, SandboxConfig
from sandbox.debugger import BreakpointRequest, DebugLimits, Launch, open_debugger

CONFIG = Path(__file__).parent.parent / "configs" / "quickstart.yaml"
SECTIONS = ("places", "parts")
BUGS = 36
"""That are bundled, in Python."""
PART_ROUNDS = 5


def main() -> int:
    """Returns 1 if something could not be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_sections(parser, SECTIONS)
    parser.add_argument("--rollouts", type=int, default=64, help="for each line of a table")
    parser.add_argument("--at-once", type=int, nargs="+", default=(1, 2, 4, 8, 16, 32))
    parser.add_argument("--image", help="with Python and pytest, for the Docker sandbox")
    options = parser.parse_args()
    sections = options.sections or SECTIONS
    failed = False
    if "places" in sections:
        places = {"local": list[str](), "Ray": ["runner.backend=ray"]}
        if options.image:
            places["docker"] = ["sandbox.backend=docker", f"sandbox.image={options.image}"]
        failed = not collect(places, options)
    if "parts" in sections:
        table = Table("part", "seconds", title="parts: of a rollout, in the local sandbox")
        for name, seconds in part_seconds().items():
            table.add_row(name, f"{seconds:.3f}")
        Console().print(table)
    return int(failed)


def collect(places: dict[str, list[str]], options: argparse.Namespace) -> bool:
    """Print what `stepinto collect` spends in each place, by rollouts at once. A place where it
    fails is not tried again; returns whether there was none."""
    columns = ("", "rollouts an hour", "CPU s each", "MB at most, all together", "seconds")
    table = Table(*columns, title="places: `stepinto collect`, by rollouts at once")
    rollouts = options.rollouts
    attempts = -(-rollouts // BUGS)
    left = dict(places)
    for at_once in options.at_once:
        for name, settings in list(left.items()):
            with TemporaryDirectory() as folder, spending() as spent:
                command = [
                    *(sys.executable, "-m", "stepinto", "collect", str(CONFIG)),
                    *(f"runs_folder={folder}", f"collect.attempts={attempts}"),
                    f"collect.benchmark.limit={rollouts if attempts == 1 else BUGS}",
                    *(f"runner.concurrency={at_once}", f"runner.ray.per_node={at_once}"),
                    *settings,
                ]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
                table.add_row(f"{name}, {at_once} at once", "failed", "", "", "")
                del left[name]
                continue
            table.add_row(
                f"{name}, {at_once} at once",
                f"{3600 * rollouts / spent.seconds:,.0f}",
                f"{spent.cpu_seconds / rollouts:.2f}",
                f"{spent.memory_bytes / 1e6:,.0f}",
                f"{spent.seconds:,.0f}",
            )
    Console().print(table)
    return left == places


@dataclass
class Spent:
    """Time of all processes together, including those of containers and cluster nodes."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    """The most in use at once, above what was in use before."""


@contextmanager
def spending() -> Iterator[Spent]:
    """What is spent within; it is known afterwards."""
    spent, ended = Spent(), threading.Event()
    used_before = lowest = _available()

    def watch() -> None:
        nonlocal lowest
        while not ended.wait(0.2):
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


def part_seconds() -> dict[str, float]:
    """Seconds of each part of a rollout: the median over the rounds, in the local sandbox."""
    seconds = defaultdict[str, list[float]](list)

    @contextmanager
    def part(name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        seconds[name].append(time.monotonic() - began)

    benchmark = BundledBenchmark()
    instance = next(iter(benchmark.instances()))
    gold = gold_candidate(instance)
    point = BreakpointRequest(file=gold.ranges[0].path, function=gold.function)
    launch = Launch(instance.fail_to_pass[0], (point,), stop_at_entry=False)
    for _ in range(PART_ROUNDS):
        with part("open a sandbox"):
            sandbox = open_instance_sandbox(SandboxConfig(), instance)
        with sandbox:
            with part("lay out the bug"):
                benchmark.prepare(instance, sandbox)
            with part("run a command"):
                sandbox.run(Command(["true"]))
            with part("start Python alone"):
                sandbox.run(Command([sandbox.python, "-c", "pass"]))
            with part("import pytest"):
                sandbox.run(Command([sandbox.python, "-c", "import pytest"]))
            with closing(open_debugger(instance.language, sandbox, DebugLimits())) as debugger:
                with part("debug session, to the first stop"):
                    event = debugger.start(launch)
                assert event.stops_program, event
                with part("one look at the locals"):
                    debugger.locals()
            with part("run the bug's tests"):
                benchmark.run_tests(instance, sandbox, instance.public_tests)
            with part("read the workspace"):
                sandbox.read_tree()
    return {name: statistics.median(found) for name, found in seconds.items()}


if __name__ == "__main__":
    sys.exit(main())
