"""Finding the checkpoint to go on from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from collect.errors import ConfigError

FINGERPRINT = "fingerprint"
PROCESSES = "processes"
"""How many there were; checkpoints of a training that has not noted it are taken as they are."""


def step_of(checkpoint: Path) -> int:
    """The optimizer step after which a checkpoint was saved."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def is_whole(checkpoint: Path) -> bool:
    """Whether the save was finished: the trainer writes its state file last."""
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text())
    except (OSError, ValueError):
        return False
    return bool(state.get("global_step") == step_of(checkpoint))


def newest_whole(folder: Path) -> Path | None:
    """The checkpoint to resume from, or None."""
    found = [path for path in folder.glob("checkpoint-*") if path.name[11:].isdigit()]
    return max(filter(is_whole, found), key=step_of, default=None)


def prepare(folder: Path, fingerprint: str, processes: int) -> Path | None:
    """Keep the checkpoints of this very training, and remove those of any other and broken ones.

    Returns the one to go on from. Raises ConfigError where another number of processes left it.
    """
    mark = folder / FINGERPRINT
    if not mark.is_file() or mark.read_text() != fingerprint:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint)
    for path in folder.glob("checkpoint-*"):
        if not is_whole(path):
            shutil.rmtree(path)
    newest = newest_whole(folder)
    if newest is not None:
        _refuse_other_processes(newest, processes)
    (folder / PROCESSES).write_text(str(processes))
    return newest


def _refuse_other_processes(checkpoint: Path, processes: int) -> None:
    """A step of more processes trains more rows, so that going on would train some twice."""
    noted = checkpoint.with_name(PROCESSES)
    before = int(noted.read_text()) if noted.is_file() else processes
    if before != processes:
        raise ConfigError(
            f"{checkpoint} was saved by a training in {before} processes, and this start has "
            f"{processes}, whose steps are of other rows: start it with {before} processes, or "
            f"remove {checkpoint.parent} to begin anew"
        )
