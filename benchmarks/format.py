"""What `stepinto format` takes for a run of many conversations.

    python -m benchmarks.format --conversations 1000000 --work /tmp/format-benchmark

The oracle holds a few real sessions on the bundled bugs, or `--templates RUN` gives them; the run
is made of copies of them with other names (`benchmarks.synthetic_run`). Then the format stage runs
on it in a process of its own. Printed are its conversations a second, its peak memory, and what
each filter takes, on a sample.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from benchmarks.synthetic_run import templates_of, write_run
from collect.benchmarks.held_out import HeldOut, HeldOutConfig
from collect.rollouts.stage import run_collect
from collect.store.run_store import RunStore
from configs.loading import load_config
from format.candidates import Candidates
from format.config import FormatConfig
from format.duplicates import Duplicates, Mark
from format.filters import build_filters
from format.outcomes import Outcome
from format.report import FormatReport

SAMPLE = 1_000
TEMPLATE_BUGS = 6
QUICKSTART = Path(__file__).parent.parent / "configs" / "quickstart.yaml"
FORMAT = "import sys, stepinto; sys.exit(stepinto.main(sys.argv[1:]))"


@dataclass(frozen=True)
class Measured:
    """What the stage took."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    report: FormatReport


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--conversations", type=int, default=1_000_000)
    parser.add_argument("--work", type=Path, help="where the run is made; kept, and used again")
    parser.add_argument("--templates", type=Path, help="a run folder with real sessions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="of the config")
    options = parser.parse_args()
    console = Console()
    with TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        run = work / f"run-{options.conversations}-{options.seed}"
        if not (run / "config.yaml").is_file():
            began = time.monotonic()
            make_run(run, options.templates, options.conversations, options.seed)
            console.print(f"made {run} in {time.monotonic() - began:.0f} s")
        console.print(_result(options.conversations, measure(run, options.overrides)))
        console.print(_filter_table(run))


def make_run(run: Path, templates: Path | None, conversations: int, seed: int) -> None:
    """Write a run with a config, in place of one that is not whole."""
    shutil.rmtree(run, ignore_errors=True)
    with TemporaryDirectory() as temporary:
        source = templates or _collected(Path(temporary))
        write_run(run, list(templates_of(source)), conversations, seed)
    (run / "config.yaml").write_text(f"run: {run.name}\nruns_folder: {run.parent}\n")


def _collected(folder: Path) -> Path:
    """A run of the oracle's on the bundled bugs."""
    overrides = ["run=templates", f"runs_folder={folder}"]
    config = load_config(QUICKSTART, [*overrides, f"collect.benchmark.limit={TEMPLATE_BUGS}"])
    run_collect(config, config.collect, config.folder, config.held_out)
    return config.folder


def measure(run: Path, overrides: list[str]) -> Measured:
    """Run the command line's format stage on a run folder."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", FORMAT, "format", str(run), *overrides], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    if status:
        sys.exit(f"format failed on {run}")
    report = FormatReport.model_validate_json((run / "sft" / "report.json").read_text())
    # Kilobytes on Linux.
    peak = usage.ru_maxrss * 1024
    return Measured(seconds, usage.ru_utime + usage.ru_stime, peak, report)


def _result(conversations: int, measured: Measured) -> Table:
    table = Table("", "", title="stepinto format", show_header=False)
    table.add_row("conversations", f"{conversations:,}")
    table.add_row("rows", f"{measured.report.funnel.kept:,}")
    table.add_row("seconds", f"{measured.wall_seconds:,.1f}")
    table.add_row("conversations a second", f"{conversations / measured.wall_seconds:,.0f}")
    table.add_row("CPU seconds", f"{measured.cpu_seconds:,.1f}")
    table.add_row("conversations a CPU second", f"{conversations / measured.cpu_seconds:,.0f}")
    table.add_row("peak memory, MB", f"{measured.peak_bytes / 1e6:,.0f}")
    return table


def _filter_table(run: Path) -> Table:
    """CPU time by filter, of the conversations that come to it."""
    config, store = FormatConfig(), RunStore(run)
    outcomes = {row.rollout_id: Outcome.of(row) for row in store.read_rollouts()}
    spent, seen = defaultdict[str, float](float), defaultdict[str, int](int)
    filters, duplicates = build_filters(HeldOut.of(HeldOutConfig())), Duplicates(config)
    began = time.process_time()
    for candidate in islice(Candidates(config, store, outcomes), SAMPLE):
        spent["reading"] += time.process_time() - began
        seen["reading"] += 1
        for each in filters:
            began = time.process_time()
            keeps = each.keep(candidate, config)
            spent[each.name] += time.process_time() - began
            seen[each.name] += 1
            if not keeps:
                break
        else:
            began = time.process_time()
            duplicates.dropped_by(Mark.of(candidate.said, config))
            spent["duplicates"] += time.process_time() - began
            seen["duplicates"] += 1
        began = time.process_time()
    table = Table("filter", "conversations", "CPU ms each", title=f"of the first {SAMPLE:,}")
    for name, seconds in spent.items():
        table.add_row(name, f"{seen[name]:,}", f"{1_000 * seconds / seen[name]:.3f}")
    return table


if __name__ == "__main__":
    main()
