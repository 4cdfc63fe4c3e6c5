"""Kill `collect` and `eval` at random moments, start them again, and compare all rows.

    python -m tests.chaos.kills --kills 60

The scripted oracle works on the bundled bugs. First each stage runs undisturbed. Then it runs in
another folder and is killed with SIGKILL again and again: half of the kills strike `collect`, half
`eval`. After each kill, every row that was there before must still be there, byte for byte. At the
end there must be exactly one row for each rollout, with the same outcome and the same conversations
as undisturbed. Prints what differs; the exit status says whether anything does.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from collect.store.records import Conversation, Rollout
from collect.store.run_store import RunStore

CONFIG = Path(__file__).parents[2] / "configs" / "quickstart.yaml"
STAGES = ("collect", "eval")
ATTEMPTS = 3
"""Attempts per bug; as many again whenever a start ends before its kill."""


@dataclass
class Killed:
    """One stage in one folder, and what its kills showed."""

    command: list[str]
    folder: Path
    chance: random.Random
    kills: int = 0
    problems: list[str] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    """Rows that were there after an earlier kill, by rollout."""

    def kill_once(self, longest: float) -> bool:
        """Start it and kill it within so many seconds; whether it still ran."""
        process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(self.chance.uniform(0.3, longest))
        running = process.poll() is None
        process.kill()
        process.wait()
        self.kills += running
        self.compare_with_seen()
        return running

    def compare_with_seen(self) -> None:
        rows = list(RunStore(self.folder).read_rollouts()) if self.folder.is_dir() else []
        ids = Counter(row.rollout_id for row in rows)
        self.problems += [f"{name}: {count} rows" for name, count in ids.items() if count > 1]
        now = {row.rollout_id: repr(asdict(row)) for row in rows}
        for name, row in self.seen.items():
            if now.get(name) != row:
                told = "changed" if name in now else "lost"
                self.problems.append(f"{name}: {told} after kill {self.kills}")
        self.seen = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--longest", type=float, default=8.0, help="seconds before a kill")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with TemporaryDirectory(prefix="kills-") as name:
        problems = [
            problem
            for stage in STAGES
            for problem in _strike(stage, Path(name), options.kills // 2, options.longest, chance)
        ]
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


def _strike(
    stage: str, work: Path, kills: int, longest: float, chance: random.Random
) -> Iterator[str]:
    undisturbed, _ = _finish(stage, work, f"undisturbed-{stage}", ATTEMPTS)
    attempts = ATTEMPTS
    command, folder = _command(stage, work, f"killed-{stage}", attempts)
    run = Killed(command, folder, chance)
    while run.kills < kills:
        if not run.kill_once(longest):
            # All was done before the kill: ask for more, which a run folder allows.
            attempts += ATTEMPTS
            run.command, _ = _command(stage, work, f"killed-{stage}", attempts)
    final, conversations = _finish(stage, work, f"killed-{stage}", attempts)
    run.compare_with_seen()
    print(f"{stage}: {run.kills} kills, {len(final)} rows, {conversations} conversations")
    yield from run.problems
    for key, expected in undisturbed.items():
        if final.get(key) != expected:
            yield f"{stage}: {key}: {final.get(key)} instead of {expected}"
    wanted = len(undisturbed) * attempts // ATTEMPTS
    if len(final) != wanted:
        yield f"{stage}: {len(final)} rows instead of {wanted}"


Outcome = tuple[object, ...]


def _finish(
    stage: str, work: Path, run: str, attempts: int
) -> tuple[dict[tuple[str, str, int], Outcome], int]:
    """Let a stage run to its end; each row's outcome, and the number of conversations."""
    command, folder = _command(stage, work, run, attempts)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    store = RunStore(folder)
    conversations: dict[str, list[Conversation]] = {}
    for conversation in store.read_conversations():
        conversations.setdefault(conversation.rollout_id, []).append(conversation)
    rows = {
        (row.instance_id, row.variant, row.attempt): _outcome(row, conversations[row.rollout_id])
        for row in store.read_rollouts()
    }
    return rows, sum(map(len, conversations.values()))


def _outcome(row: Rollout, conversations: list[Conversation]) -> Outcome:
    """What must not depend on when the run was killed: no times, and no text that holds some."""
    shapes = sorted((str(each.role), len(each.messages)) for each in conversations)
    return (row.resolved, row.failure_kind, row.stop_reason, row.patch, row.main_steps, *shapes)


def _command(stage: str, work: Path, run: str, attempts: int) -> tuple[list[str], Path]:
    """The command, and the folder that it writes its rows to."""
    section = {
        "collect": ["collect.benchmark.limit=8"],
        "eval": ["eval.pairs=[{main: oracle, sub: oracle}]"],
    }[stage]
    settings = [f"runs_folder={work}", f"run={run}", f"{stage}.attempts={attempts}", *section]
    command = [sys.executable, "-m", "stepinto", stage, str(CONFIG), *settings]
    return command, work / run / ("eval" if stage == "eval" else "")


if __name__ == "__main__":
    main()
