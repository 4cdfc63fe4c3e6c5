"""Get a run back from its copy."""

from __future__ import annotations

import os
from pathlib import Path

from collect.copying.folder import Folder
from collect.copying.lineage import knows, learn, mark_of
from collect.copying.transfer import Changed, Transfer, stores_of
from collect.errors import ConfigError

UNFINISHED = ".fetching"
"""A file in a folder that is not fetched as a whole yet."""
TRIES = 5


def restore(copy: Folder, run: Path) -> bool:
    """Fetch a run whose folder has no rows here; whether it was.

    Raises ConfigError where the copy has what another driver did meanwhile, and OSError.
    """
    if not has_rollouts(copy):
        return False
    if (run / UNFINISHED).exists() or not has_rollouts(Folder.local(run)):
        fetch(copy, run)
        return True
    if not knows(run, mark_of(copy)):
        raise ConfigError(
            f"{copy.name} has rollouts that were not copied from {run}: another driver has gone on "
            f"with the run meanwhile. To go on from the copy, move {run} away and start again: it "
            "is fetched; to go on from the folder, choose another runner.copy_to, or remove that "
            "copy"
        )
    return False


def refuse_part_of_run(run: Path) -> None:
    """Raises ConfigError where a run that was being fetched is not all there."""
    if (run / UNFINISHED).exists():
        raise ConfigError(
            f"{run} is fetched in part only: give the runner.copy_to that it came from, and it is "
            "fetched to its end; or remove the folder"
        )


def fetch(copy: Folder, run: Path) -> None:
    """Bring a folder to what the copy has, which may be written to meanwhile.

    Raises ConfigError where it is changed too often, and OSError.
    """
    run.mkdir(parents=True, exist_ok=True)
    (run / UNFINISHED).touch()
    transfer, mark = Transfer(copy, Folder.local(run)), mark_of(copy)
    for _ in range(TRIES):
        try:
            transfer.run()
            break
        except Changed:
            continue
    else:
        raise ConfigError(f"{copy.name} changes while it is fetched; try again")
    # As old as in the copy, so that the next start knows that they are the same.
    for name, stamp in transfer.taken.items():
        os.utime(run / name, ns=(stamp.changed_ns, stamp.changed_ns))
    learn(run, mark)
    (run / UNFINISHED).unlink()


def has_rollouts(folder: Folder) -> bool:
    """Whether there are any."""
    return bool(stores_of(folder.listed(recursive=True)))
