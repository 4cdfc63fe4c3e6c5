"""A run on a Ray cluster of several nodes on this machine, while what it stands on is killed.

    python -m tests.chaos --rollouts 1000 --nodes 4 --disk-mb 1000 \
        --image IMAGE_WITH_PYTHON_AND_PYTEST --work /tmp/chaos

The scripted oracle, behind a server of its own, works on the bundled bugs. After every few
rollouts something is struck, in turn: a worker, a sandbox, the models' server, a node, the driver;
with `--image`, which has the rollouts done in containers, the container engine too, and with
`--disk-mb` the disk of the run folder. The driver is started again whenever it has ended early. At
the end there must be one row for each rollout, every failure of a known type, and nothing left
behind that `stepinto clean` does not remove; the exit status says whether that is so.

What is struck is the chaos run's own: its engine, its disk and its cluster end with it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from rich.console import Console
from rich.table import Table

from collect.benchmarks.opening import open_benchmark, select_instances
from collect.errors import ConfigError
from collect.rollouts.faults import FAULTS
from collect.rollouts.stage import collect_specs
from collect.store.run_store import RunStore
from configs.loading import RunConfig, load_config
from sandbox import clean_up
from sandbox.engine import LABEL, connect
from sandbox.leftovers import PREFIX
from tests.chaos.ground import Disk, Endpoint, Engine, RayNodes

Struck = str | None
"""What was struck; None where there was nothing to strike."""
Process = subprocess.Popen[bytes]
"""The driver."""
SEARCH_SECONDS = 20.0
LONGEST_SECONDS = 6.0
"""How long a server, an engine or a disk stays away."""


@dataclass(frozen=True)
class Strike:
    """One kind."""

    name: str
    strike: Callable[[Process], Struck]


@dataclass(frozen=True)
class Ground:
    """What there is to be struck."""

    nodes: RayNodes
    endpoint: Endpoint
    disk: Disk | None
    engine: Engine | None

    def strikes(self, chance: random.Random) -> Iterator[Strike]:
        """All kinds, in the order of their turns."""
        yield Strike("worker", lambda _: _kill_one(self.nodes.processes(), chance))
        yield Strike("sandbox", lambda _: _kill_a_sandbox(self.engine, chance))
        yield Strike("endpoint", lambda _: _cut(self.endpoint, chance))
        yield Strike("node", lambda _: _replace_node(self.nodes, chance))
        if (engine := self.engine) is not None:
            yield Strike("container engine", lambda _: _cut(engine, chance))
        yield Strike("driver", _kill_driver)
        if (disk := self.disk) is not None:
            yield Strike("disk", lambda _: _fill(disk, chance))


def _kill_one(found: Sequence[int], chance: random.Random) -> Struck:
    if not found:
        return None
    number = chance.choice(found)
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return f"process {number}"


def _kill_a_sandbox(engine: Engine | None, chance: random.Random) -> Struck:
    """There is none while no command runs, so it may take a moment to find one."""
    kill = partial(_kill_a_container, chance)
    if engine is None:
        kill = partial(lambda: _kill_one(sandboxes(), chance))
    until = time.monotonic() + SEARCH_SECONDS
    while time.monotonic() < until:
        struck = kill()
        if struck is not None:
            return struck
    return None


def sandboxes() -> list[int]:
    """The processes of sandboxes whose folders are in this program's temporary folder."""
    search = ["pgrep", "-f", rf"^\S*bwrap .*{re.escape(tempfile.gettempdir())}"]
    found = subprocess.run(search, capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def containers(client: Any) -> list[Any]:
    """The containers of sandboxes, running or not."""
    found = client.containers.list(all=True, filters={"label": f"{LABEL}=1"}, ignore_removed=True)
    return list(found)


def _kill_a_container(chance: random.Random) -> Struck:
    from docker.errors import APIError

    with closing(connect()) as client:
        running = [each for each in containers(client) if each.status == "running"]
        if not running:
            return None
        chosen = chance.choice(running)
        try:
            chosen.kill()
        except APIError:
            return None
        return f"container {chosen.short_id}"


def _cut(server: Endpoint | Engine, chance: random.Random) -> Struck:
    seconds = chance.uniform(0, LONGEST_SECONDS)
    server.kill()
    time.sleep(seconds)
    server.start()
    return f"it was away for {seconds:.1f} s"


def _replace_node(nodes: RayNodes, chance: random.Random) -> Struck:
    nodes.kill(chance.randrange(len(nodes.workers)))
    nodes.add()
    return "another has joined"


def _kill_driver(driver: Process) -> Struck:
    driver.kill()
    return f"process {driver.pid}"


def _fill(disk: Disk, chance: random.Random) -> Struck:
    seconds = chance.uniform(1, LONGEST_SECONDS)
    with disk.full():
        time.sleep(seconds)
    return f"it was full for {seconds:.1f} s"


CONFIG = Path(__file__).parents[2] / "configs" / "quickstart.yaml"
VARIANTS = "[debug2fix_tool_limit, debug2fix, debug_tools_only, baseline]"
SERVER = (
    "api_key_env: null, check_tools: false, sampling: {seed: 0}, concurrency: 32,"
    " retries: {max_retries: 3, backoff_base: 0.5, backoff_max: 2, outage_wait: 0}"
)
"""It is given up on sooner than it may be away, so that rollouts do fail for it."""
MAX_STARTS = 400
MOST_IN_VAIN = 5
"""Starts in a row without a new row; a driver may be struck before its first."""
LOOK_SECONDS = 0.2
LINE_LENGTH = 120
READS = 3
"""Tries: at its end a run moves its rows to another file."""
LEAVING_SECONDS = 60
"""In which workers end after their driver."""


@dataclass(frozen=True)
class Options:
    """Options of the command."""

    rollouts: int
    nodes: int
    per_node: int
    every: int
    seed: int
    image: str | None
    disk_mb: int | None
    work: Path
    overrides: Sequence[str]


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
    endings: Counter[str] = field(default_factory=Counter)
    """How the driver has ended, by what it said last."""
    struck: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)
    """What the run has left behind."""
    seconds: float = 0.0

    @property
    def wrong(self) -> list[str]:
        """What must not be."""
        found = [f"left behind: {each}" for each in self.left]
        if not self.rows == self.different == self.wanted:
            found.append(f"{self.rows} rows of {self.different} rollouts, of {self.wanted}")
        untyped = self.failures.keys() - FAULTS.keys()
        found += [f"failures without a type: {name}" for name in untyped]
        return found


def run(options: Options, console: Console) -> Report:
    """Do it."""
    with ExitStack() as stack:
        # All that sandboxes make is here, and nothing else is.
        own = stack.enter_context(TemporaryDirectory(prefix="chaos-"))
        os.environ["TMPDIR"] = tempfile.tempdir = own
        ground = _stand(options, stack)
        runs = options.work if ground.disk is None else ground.disk.folder
        settings = _settings(options, ground, runs)
        config = load_config(CONFIG, settings)
        report = Report(wanted=len(_wanted(config)))
        console.print(f"{report.wanted} rollouts on {options.nodes} nodes", highlight=False)
        began = time.monotonic()
        turns = cycle([*ground.strikes(random.Random(options.seed))])
        driver = Driver(settings, options.every, turns)
        try:
            while report.starts < MAX_STARTS and not driver.run(report, console):
                pass
            report.seconds = time.monotonic() - began
            _look(config, ground, report)
        finally:
            if ground.disk is not None and config.folder.is_dir():
                kept = options.work / config.folder.name
                shutil.copytree(config.folder, kept, dirs_exist_ok=True)
    return report


def _stand(options: Options, stack: ExitStack) -> Ground:
    """The engine comes first: the nodes find it in their environment."""
    engine = stack.enter_context(Engine(options.image).running()) if options.image else None
    disk = stack.enter_context(Disk(options.disk_mb).mounted()) if options.disk_mb else None
    endpoint = stack.enter_context(Endpoint().running())
    nodes = stack.enter_context(RayNodes(options.nodes).running())
    return Ground(nodes, endpoint, disk, engine)


def _settings(options: Options, ground: Ground, runs: Path) -> list[str]:
    """The oracle is behind a server, as any model is."""
    settings = [
        "run=chaos",
        f"runs_folder={runs}",
        "runner.backend=ray",
        f"runner.ray.address={ground.nodes.address}",
        f"runner.ray.per_node={options.per_node}",
        f"runner.concurrency={options.nodes * options.per_node + 2}",
        "runner.give_up_after=1000",
        "runner.min_free_disk_gb=0",
        f"models={{oracle: {{backend: openai, model: scripted-oracle, {SERVER}}}}}",
        f"models.oracle.base_url={ground.endpoint.url}",
        "collect.benchmark.split=all",
        f"collect.variants={VARIANTS}",
    ]
    if ground.engine is not None:
        settings += ["sandbox.backend=docker", f"sandbox.image={options.image}"]
    settings += options.overrides
    return [*settings, f"collect.attempts={_attempts(settings, options.rollouts)}"]


def _attempts(settings: Sequence[str], rollouts: int) -> int:
    """So many that there are enough rollouts."""
    once = len(_wanted(load_config(CONFIG, list(settings))))
    return -(-rollouts // once)


def _wanted(config: RunConfig) -> set[str]:
    chosen = config.collect.benchmark
    instances = select_instances(chosen, open_benchmark(chosen, config.sandbox))
    return {spec.id for spec in collect_specs(config.collect, instances)}


class Driver:
    """`stepinto collect`, started again and again, and what is struck while it runs."""

    def __init__(self, settings: Sequence[str], every: int, turns: Iterator[Strike]) -> None:
        """Strike after `every` rows."""
        self._command = [sys.executable, "-m", "stepinto", "collect", str(CONFIG), *settings]
        self._store = RunStore(load_config(CONFIG, list(settings)).folder)
        self._every, self._turns = every, turns
        self._in_vain = 0

    def run(self, report: Report, console: Console) -> bool:
        """Start it, and strike until it ends; whether it has ended well."""
        report.starts += 1
        before = _rows(self._store)
        with TemporaryFile() as said:
            process = subprocess.Popen(self._command, stdout=said, stderr=said)
            try:
                self._strike(process, report, console)
            finally:
                process.kill()
            process.wait()
            ending = _ending(process.returncode, said)
            report.endings[ending] += 1
            console.print(f"the driver ended: {ending}", highlight=False)
            self._in_vain = self._in_vain + 1 if _rows(self._store) == before else 0
            if self._in_vain == MOST_IN_VAIN:
                said.seek(0)
                sys.exit(f"the driver does nothing any more: {said.read().decode()}")
        return process.returncode == 0

    def _strike(self, process: Process, report: Report, console: Console) -> None:
        last = _rows(self._store)
        while process.poll() is None:
            time.sleep(LOOK_SECONDS)
            if _rows(self._store) < last + self._every:
                continue
            strike = next(self._turns)
            struck = strike.strike(process)
            if struck is not None:
                last = _rows(self._store)
                report.struck[strike.name] += 1
                console.print(f"{last} rows; struck: {strike.name}: {struck}", highlight=False)


def _ending(status: int, said: IO[bytes]) -> str:
    """How a driver has ended, without the numbers that differ from start to start."""
    if status == -signal.SIGKILL:
        return "killed"
    if status == 0:
        return "done"
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
    return re.sub(r"\d+", "N", lines[-1].removeprefix("stepinto: ").strip())[:LINE_LENGTH]


def _rows(store: RunStore) -> int:
    for _ in range(READS):
        with suppress(ConfigError):
            return len(store.rollouts.ids())
    return len(store.rollouts.ids())


def _look(config: RunConfig, ground: Ground, report: Report) -> None:
    """At what the run has made, and what it has left behind."""
    rows = list(RunStore(config.folder).read_rollouts())
    report.rows, report.different = len(rows), len({row.rollout_id for row in rows})
    report.resolved = sum(row.resolved for row in rows)
    report.failures = Counter(row.failure_type for row in rows if row.failure_type is not None)
    until = time.monotonic() + LEAVING_SECONDS
    while (left := list(_left(config, ground))) and time.monotonic() < until:
        time.sleep(0.5)
    report.left = left


def _left(config: RunConfig, ground: Ground) -> Iterator[str]:
    yield from (f"worker {number}" for number in ground.nodes.processes())
    kept = [*config.folder.glob("journal/*"), *config.folder.glob("**/.tmp-*")]
    yield from map(str, kept)
    yield from (f"sandbox {number}" for number in sandboxes())
    clean_up(config.sandbox)
    yield from map(str, Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    if ground.engine is not None:
        with closing(connect()) as client:
            yield from (f"container {each.short_id}" for each in containers(client))


def table_of(report: Report) -> Table:
    table = Table("", "", title="chaos", show_header=False)
    table.add_row("rollouts", f"{report.wanted:,}")
    table.add_row("rows", f"{report.rows:,}")
    table.add_row("resolved", f"{report.resolved:,}")
    for name, count in report.failures.most_common():
        table.add_row(f"failed: {name}", f"{count:,}")
    table.add_row("starts of the driver", f"{report.starts}")
    for ending, count in report.endings.most_common():
        table.add_row(f"ended: {ending}", f"{count}")
    for name, count in report.struck.items():
        table.add_row(f"struck: {name}", f"{count}")
    table.add_row("left behind", f"{len(report.left)}")
    table.add_row("minutes", f"{report.seconds / 60:.1f}")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rollouts", type=int, default=1_000, help="at least so many")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--per-node", type=int, default=2, help="rollouts at once on a node")
    parser.add_argument("--every", type=int, default=10, help="rollouts between two strikes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--image", help="of the containers; without it the sandbox is local")
    parser.add_argument("--disk-mb", type=int, help="size of a disk for the run folder")
    parser.add_argument("--work", type=Path, help="where the run folder is kept")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="of the config")
    given = vars(parser.parse_intermixed_args())
    # Else the engine, the disk and the cluster would stay.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit("stopped"))
    console = Console()
    with TemporaryDirectory() as temporary:
        work = Path(given.pop("work") or temporary)
        work.mkdir(parents=True, exist_ok=True)
        report = run(Options(work=work, **given), console)
    console.print(table_of(report))
    for wrong in report.wrong:
        console.print(f"wrong: {wrong}", highlight=False)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
