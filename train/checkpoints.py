"""Finding the checkpoint to go on from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

FINGERPRINT = "fingerprint"


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


def prepare(folder: Path, fingerprint: str) -> Path | None:
    """Keep the checkpoints of this very training, and remove those of any other and broken ones.

    Returns the one to go on from.
    """
    mark = folder / FINGERPRINT
    if not mark.is_file() or mark.read_text() != fingerprint:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint)
    for path in folder.glob("checkpoint-*"):
        if not is_whole(path):
            shutil.rmtree(path)
    return newest_whole(folder)
