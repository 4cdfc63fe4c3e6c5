"""How fast rollouts are, with models that answer at once.

    python -m benchmarks.rollouts                      # all of it
    python -m benchmarks.rollouts parts records        # some of it

The scripted oracle works on the bundled bugs, so what is measured is StepInto itself: sandboxes,
debug sessions, tests and records. The sections:

    places      rollouts an hour, CPU and memory of each, by sandbox and by rollouts at once
    runners     the same work in threads and on a Ray cluster of this machine, side by side
    parts       where the time of a rollout goes
    warm        what debug sessions would save by a warm start
    records     rows written, compacted and read a second
    instances   the cost of a run by how many bugs it is of

The CPU time is that of the whole machine, which must do nothing else.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from benchmarks.synthetic_run import Template, templates_of, write_run
from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.workspace import open_instance_sandbox
from collect.oracle.candidates import gold_candidate
from collect.store.run_store import RunStore
from sandbox import Command, SandboxConfig
from sandbox.debugger import BreakpointRequest, DebugLimits, Launch
from sandbox.debugger.java_session import PROBE_OPTIONS
from sandbox.debugger.opening import open_debugger
from sandbox.engine import connect
from sandbox.errors import SandboxUnavailable

PART_ROUNDS = 5


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
    for _ in range(PART_ROUNDS):
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


ROUNDS = 10
SHARED = "-Xshare:auto"


def warm_start_seconds() -> dict[str, float]:
    """Medians of seconds, of Java's none where there is no JVM."""
    parts = part_seconds()
    imported = parts["import pytest"] - parts["start Python alone"]
    found = {
        "Python: debug session, to the first stop": parts["debug session, to the first stop"],
        "Python: of that, the import of pytest": imported,
    }
    if shutil.which("java") is None:
        return found
    without = ["-Xshare:off" if option == SHARED else option for option in PROBE_OPTIONS]
    return found | {
        "Java: a JVM without shared classes": _jvm_seconds(without),
        "Java: a JVM with them, as sessions start it": _jvm_seconds(PROBE_OPTIONS),
    }


def _jvm_seconds(options: list[str] | tuple[str, ...]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        subprocess.run(["java", *options, "-version"], check=True, capture_output=True)
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds)


SAMPLE_SECONDS = 0.2


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


CONFIG = Path(__file__).parent.parent / "configs" / "quickstart.yaml"
AT_ONCE = (1, 2, 4, 8, 16, 32)
INSTANCES = (10, 100, 1_000)
ROWS = 5_000
BUGS = 36
"""That are bundled, in Python."""


@dataclass(frozen=True)
class Options:
    """What to measure, and on how much."""

    rollouts: int
    at_once: Sequence[int]
    instances: Sequence[int]
    image: str | None
    work: Path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--rollouts", type=int, default=64, help="for each line of a table")
    parser.add_argument("--at-once", type=int, nargs="+", default=AT_ONCE)
    parser.add_argument("--instances", type=int, nargs="+", default=INSTANCES)
    parser.add_argument("--image", help="with Python and pytest, for the Docker sandbox")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}")
    with TemporaryDirectory() as folder:
        options = Options(
            chosen.rollouts, chosen.at_once, chosen.instances, chosen.image, Path(folder)
        )
        for name in chosen.sections or SECTIONS:
            Console().print(SECTIONS[name](options))


def collected(options: Options, rollouts: int, at_once: int, *settings: str) -> Spent:
    """What `stepinto collect` spends on so many rollouts."""
    attempts = -(-rollouts // BUGS)
    limit = rollouts if attempts == 1 else BUGS
    command = [
        *(sys.executable, "-m", "stepinto", "collect", str(CONFIG)),
        *(f"runs_folder={options.work}", f"run=run-{time.monotonic_ns()}"),
        *(f"collect.benchmark.limit={limit}", f"collect.attempts={attempts}"),
        *(f"runner.concurrency={at_once}", *settings),
    ]
    with spending() as spent:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return spent


def places(options: Options) -> Table:
    """By sandbox, and by how many at once."""
    table = _table("places: `stepinto collect`, by sandbox and rollouts at once")
    for name, settings in _sandboxes(options):
        for at_once in options.at_once:
            spent = collected(options, options.rollouts, at_once, *settings)
            _add(table, f"{name}, {at_once} at once", options.rollouts, spent)
    return table


def runners(options: Options) -> Table:
    """Asyncio and Ray in turn, the same work."""
    table = _table("runners: `runner.backend`, start of the cluster included")
    for at_once in options.at_once:
        for backend in ("threads", "ray"):
            settings = [f"runner.backend={backend}", f"runner.ray.per_node={at_once}"]
            spent = collected(options, options.rollouts, at_once, *settings)
            _add(table, f"{backend}, {at_once} at once", options.rollouts, spent)
    return table


def parts(options: Options) -> Table:
    """One after the other, in the local sandbox."""
    return _seconds_table("parts: of a rollout, the median of 5", part_seconds())


def warm(options: Options) -> Table:
    """The most that could be saved of a session's start."""
    return _seconds_table("warm: what a warm start could save, at the most", warm_start_seconds())


def records(options: Options) -> Table:
    """Rows of a run: each a rollout with a conversation of a real session."""
    source = options.work / "templates"
    collected(options, 4, 2, f"runs_folder={source}", "run=templates")
    templates = list(templates_of(source / "templates"))
    folder = options.work / "records"
    table = Table("", "rows a second", title=f"records: {ROWS:,} rollouts", title_justify="left")
    for name, seconds in _record_seconds(folder, templates):
        table.add_row(name, f"{ROWS / seconds:,.0f}")
    return table


def _record_seconds(folder: Path, templates: Sequence[Template]) -> list[tuple[str, float]]:
    write_run(folder / "whole", templates, ROWS, seed=0)
    whole = RunStore(folder / "whole")
    conversations = {each.rollout_id: each for each in whole.read_conversations()}
    rows = list(whole.read_rollouts())
    store = RunStore.open(folder / "parts")

    def add() -> None:
        for row in rows:
            store.add(row, [conversations[row.rollout_id]])

    steps: list[tuple[str, Callable[[], object]]] = [
        ("written, one by one, each durable", add),
        ("compacted", store.compact),
        ("rollouts read", lambda: list(store.read_rollouts())),
        ("conversations read", lambda: sum(1 for _ in store.read_conversations())),
    ]
    return [(name, _seconds(step)) for name, step in steps]


def instances(options: Options) -> Table:
    """Of runs that differ in their bugs alone: attempts stand for more bugs than are bundled."""
    table = _table("instances: the cost of a run by its size, 2 rollouts at once")
    for count in options.instances:
        _add(table, f"{count:,}", count, collected(options, count, 2))
    return table


def _sandboxes(options: Options) -> list[tuple[str, list[str]]]:
    found = [("local", list[str]())]
    try:
        connect().close()
    except SandboxUnavailable as error:
        Console().print(f"without Docker: {error}", highlight=False)
        return found
    if options.image is None:
        Console().print("without Docker: give an image with Python and pytest (--image)")
        return found
    return [*found, ("docker", ["sandbox.backend=docker", f"sandbox.image={options.image}"])]


def _seconds_table(title: str, found: Mapping[str, float]) -> Table:
    table = Table("part", "seconds", title=title, title_justify="left")
    for name, seconds in found.items():
        table.add_row(name, f"{seconds:.3f}")
    return table


def _table(title: str) -> Table:
    columns = ("", "rollouts an hour", "CPU s each", "MB at most, all together", "seconds")
    return Table(*columns, title=title, title_justify="left")


def _add(table: Table, name: str, rollouts: int, spent: Spent) -> None:
    table.add_row(
        name,
        f"{3600 * rollouts / spent.seconds:,.0f}",
        f"{spent.cpu_seconds / rollouts:.2f}",
        f"{spent.memory_bytes / 1e6:,.0f}",
        f"{spent.seconds:,.0f}",
    )


def _seconds(step: Callable[[], object]) -> float:
    began = time.monotonic()
    step()
    return time.monotonic() - began


SECTIONS: dict[str, Callable[[Options], Table]] = {
    "places": places,
    "runners": runners,
    "parts": parts,
    "warm": warm,
    "records": records,
    "instances": instances,
}


if __name__ == "__main__":
    main()
