"""Get a run back from its copy."""

from __future__ import annotations

import os
from pathlib import Path

from collect.copying.folder import Folder
from collect.copying.transfer import (
    CONVERSATIONS,
    ROLLOUTS,
    Changed,
    Table,
    Transfer,
    ids_of,
    parts_of,
    stores_of,
)
from collect.errors import ConfigError

MARK = ".fetching"
"""A file in a folder that is not fetched as a whole yet."""
TRIES = 5


def restore(copy: Folder, run: Path) -> bool:
    """Fetch a run whose folder has no rows here; whether it was.

    Raises ConfigError where the copy has rollouts that the folder lacks, and OSError.
    """
    there = _finished(copy)
    here = _known(Folder.local(run))
    if there and (not here or (run / MARK).exists()):
        fetch(copy, run)
        return True
    lacking = there - here
    if lacking:
        raise ConfigError(
            f"{copy.name} has {len(lacking)} rollouts that {run} lacks: another driver did them "
            f"meanwhile. To go on from the copy, move {run} away and start again: it is fetched; "
            "to go on from the folder, choose another runner.copy_to, or remove that copy"
        )
    return False


def fetch(copy: Folder, run: Path) -> None:
    """Bring a folder to what the copy has, which may be written to meanwhile.

    Raises ConfigError where it is changed too often, and OSError.
    """
    run.mkdir(parents=True, exist_ok=True)
    (run / MARK).touch()
    transfer = Transfer(copy, Folder.local(run))
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
    (run / MARK).unlink()


def has_rollouts(copy: Folder) -> bool:
    """Whether there are any."""
    return bool(stores_of(copy.listed(recursive=True)))


def _finished(folder: Folder) -> set[tuple[str, str]]:
    """All rollouts that have a row, with the store that they are in."""
    return {
        (store, rollout_id)
        for store in stores_of(folder.listed(recursive=True))
        for rollout_id in Table.of(folder, f"{store}{ROLLOUTS}").rollout_ids(folder)
    }


def _known(folder: Folder) -> set[tuple[str, str]]:
    """The same, and those that were about to be written anew when a kill came."""
    begun = {
        (store, rollout_id)
        for store in stores_of(folder.listed(recursive=True))
        for rollout_id in ids_of(parts_of(folder, f"{store}{CONVERSATIONS}"))
    }
    finished = _finished(folder)
    return finished | begun if finished else set()
