"""A run on a Ray cluster of several nodes on this machine, while what it stands on is killed.

    python -m benchmarks.chaos --rollouts 1000 --nodes 4 --disk-mb 1000 \
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
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from benchmarks.chaos.run import Options, run, table_of


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.chaos", description=(__doc__ or "").split("\n")[0]
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
