"""A run on a Ray cluster of several nodes on this machine, while what it stands on is killed.

    python -m benchmarks.chaos --rollouts 1000 --nodes 4 --work /tmp/chaos

The scripted oracle works on the bundled bugs. After every few rollouts something is struck, in
turn: a worker, a sandbox, a node, the driver, the disk of the run folder where that is one of its
own, or whatever `--strike COMMAND` does. The driver is started again whenever it has ended early.
At the end there must be one row for each rollout, every failure of a known type, and nothing left
behind that `stepinto clean` does not remove; the exit status says whether that is so.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from benchmarks.chaos_strikes import Strike, sandboxes, strikes
from benchmarks.ray_nodes import RayNodes
from collect.benchmarks.opening import open_benchmark
from collect.faults import FAULTS
from collect.stage import collect_specs
from collect.store import RunStore
from collect.table import TableChanged
from configs.loading import load_config
from configs.run_config import RunConfig
from sandbox import clean_up
from sandbox.leftovers import PREFIX

CONFIG = Path(__file__).parent.parent / "configs" / "quickstart.yaml"
VARIANTS = "[debug2fix_tool_limit, debug2fix, debug_tools_only, baseline]"
MAX_STARTS = 200
LOOK_SECONDS = 0.2
READS = 3
"""Tries: at its end a run moves its rows to another file."""
LEAVING_SECONDS = 60
"""In which workers end after their driver."""


@dataclass
class Report:
    """What came of the run."""

    wanted: int
    rows: int = 0
    different: int = 0
    """Rollouts that have a row."""
    resolved: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)
    """What the run has left behind."""
    seconds: float = 0.0

    @property
    def wrong(self) -> list[str]:
        """What must not be."""
        known = {fault.name for fault in FAULTS}
        found = [f"left behind: {each}" for each in self.left]
        if not self.rows == self.different == self.wanted:
            found.append(f"{self.rows} rows of {self.different} rollouts, of {self.wanted}")
        found += [f"failures without a type: {name}" for name in self.failures.keys() - known]
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rollouts", type=int, default=1_000, help="at least so many")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--per-node", type=int, default=2, help="rollouts at once on a node")
    parser.add_argument("--every", type=int, default=10, help="rollouts between two strikes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="where the run folder is made, and kept")
    parser.add_argument(
        "--strike", action="append", default=[], metavar="COMMAND", help="one more, for a shell"
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="of the config")
    options = parser.parse_args()
    console = Console()
    with TemporaryDirectory() as temporary, TemporaryDirectory(prefix="chaos-") as own:
        # All that sandboxes make is here, and nothing else is.
        os.environ["TMPDIR"] = tempfile.tempdir = own
        report = run(options, options.work or Path(temporary), console)
    console.print(_table(report))
    for wrong in report.wrong:
        console.print(f"wrong: {wrong}", highlight=False)
    return 1 if report.wrong else 0


def run(options: argparse.Namespace, work: Path, console: Console) -> Report:
    """Do it."""
    work.mkdir(parents=True, exist_ok=True)
    with RayNodes(options.nodes).running() as nodes:
        settings = [
            "run=chaos",
            f"runs_folder={work}",
            "runner.backend=ray",
            f"runner.ray.address={nodes.address}",
            f"runner.ray.per_node={options.per_node}",
            f"runner.concurrency={options.nodes * options.per_node + 2}",
            "runner.give_up_after=1000",
            "runner.min_free_disk_gb=0",
            f"collect.variants={VARIANTS}",
            *options.overrides,
        ]
        settings.append(f"collect.attempts={_attempts(settings, options.rollouts)}")
        config = load_config(CONFIG, settings)
        report = Report(wanted=len(_wanted(config)))
        console.print(f"{report.wanted} rollouts on {options.nodes} nodes", highlight=False)
        began = time.monotonic()
        turns = cycle(strikes(nodes, config.folder, options.strike, random.Random(options.seed)))
        while report.starts < MAX_STARTS:
            if _start(settings, turns, options, report, console):
                break
        report.seconds = time.monotonic() - began
        _look(config, nodes, report)
    return report


def _attempts(settings: Sequence[str], rollouts: int) -> int:
    """So many that there are enough rollouts."""
    once = len(_wanted(load_config(CONFIG, list(settings))))
    return -(-rollouts // once)


def _wanted(config: RunConfig) -> set[str]:
    instances = tuple(open_benchmark(config.collect.benchmark, config.sandbox).instances())
    limited = instances[: config.collect.benchmark.limit]
    return {spec.id for spec in collect_specs(config.collect, limited)}


def _start(
    settings: Sequence[str],
    turns: Iterator[Strike],
    options: argparse.Namespace,
    report: Report,
    console: Console,
) -> bool:
    """Start the driver and strike until it ends; whether it has ended well."""
    report.starts += 1
    command = [sys.executable, "-m", "stepinto", "collect", str(CONFIG), *settings]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    store = RunStore(load_config(CONFIG, list(settings)).folder)
    last = _rows(store)
    while (status := driver.poll()) is None:
        time.sleep(LOOK_SECONDS)
        if _rows(store) < last + options.every:
            continue
        strike = next(turns)
        struck = strike.strike(driver)
        if struck is not None:
            last = _rows(store)
            report.struck[strike.name] += 1
            console.print(f"{last} rows; struck: {strike.name}: {struck}", highlight=False)
    return status == 0


def _rows(store: RunStore) -> int:
    for _ in range(READS):
        with suppress(TableChanged):
            return len(store.rollouts.ids())
    return len(store.rollouts.ids())


def _look(config: RunConfig, nodes: RayNodes, report: Report) -> None:
    """At what the run has made, and what it has left behind."""
    rows = list(RunStore(config.folder).read_rollouts())
    report.rows, report.different = len(rows), len({row.rollout_id for row in rows})
    report.resolved = sum(row.resolved for row in rows)
    report.failures = Counter(row.failure_type for row in rows if row.failure_type is not None)
    until = time.monotonic() + LEAVING_SECONDS
    while (left := list(_left(config, nodes))) and time.monotonic() < until:
        time.sleep(0.5)
    report.left = left


def _left(config: RunConfig, nodes: RayNodes) -> Iterator[str]:
    yield from (f"worker {number}" for number in nodes.processes())
    kept = [*config.folder.glob("journal/*"), *config.folder.glob("**/.tmp-*")]
    yield from map(str, kept)
    yield from (f"sandbox {number}" for number in sandboxes())
    clean_up(config.sandbox)
    yield from map(str, Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))


def _table(report: Report) -> Table:
    table = Table("", "", title="chaos", show_header=False)
    table.add_row("rollouts", f"{report.wanted:,}")
    table.add_row("rows", f"{report.rows:,}")
    table.add_row("resolved", f"{report.resolved:,}")
    for name, count in report.failures.most_common():
        table.add_row(f"failed: {name}", f"{count:,}")
    table.add_row("starts of the driver", f"{report.starts}")
    for name, count in report.struck.items():
        table.add_row(f"struck: {name}", f"{count}")
    table.add_row("left behind", f"{len(report.left)}")
    table.add_row("minutes", f"{report.seconds / 60:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
