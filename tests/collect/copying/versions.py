"""Rollouts that are done several times, whose rows say in which version they are."""

from __future__ import annotations

import random
import shutil
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from collect.copying.folder import Folder
from collect.copying.transfer import Changed, Transfer
from collect.store.run_store import RunStore
from tests.records import make_conversations, make_rollout


def add(store: RunStore, number: int, version: int) -> str:
    """Write a rollout's rows, in place of those of an earlier version."""
    rollout = make_rollout(f"ledger-{number}", dollars=float(version))
    conversations = make_conversations(rollout)
    store.add(rollout, [replace(each, final_answer=f"{version}.0") for each in conversations])
    return rollout.rollout_id


def versions(folder: Path, scratch: Path) -> dict[str, float]:
    """The version of each rollout in a folder; fails where one is not whole, or not once there.

    Looks at a copy of the folder, before and after it is mended.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(folder, scratch)
    found = _versions(scratch)
    RunStore.open(scratch).close()
    assert _versions(scratch) == found
    return found


def _versions(folder: Path) -> dict[str, float]:
    store = RunStore(folder)
    rollouts = list(store.read_rollouts())
    found = {row.rollout_id: row.dollars for row in rollouts}
    assert len(found) == len(rollouts)
    told = sorted((each.rollout_id, each.final_answer) for each in store.read_conversations())
    assert told == sorted((key, f"{version}") for key, version in found.items() for _ in range(2))
    return found


def main(folder: Path, place: str, seed: int) -> None:
    """Write rollouts, some anew, and compact them, while they are copied; until it is killed."""
    chance = random.Random(seed)
    with closing(RunStore.open(folder)) as store:
        transfer = Transfer(Folder.local(folder), Folder.at(place))
        transfer.trust()
        threading.Thread(target=_copy, args=(transfer,), daemon=True).start()
        print("open", flush=True)
        version = seed * 1_000_000
        while True:
            for _ in range(chance.randrange(1, 20)):
                version += 1
                add(store, chance.randrange(40), version)
            _copied(transfer)
            store.compact()


LOCK = threading.Lock()


def _copy(transfer: Transfer) -> None:
    while True:
        _once(transfer)


def _copied(transfer: Transfer) -> None:
    while not _once(transfer):
        pass


def _once(transfer: Transfer) -> bool:
    with LOCK:
        try:
            transfer.run()
        except Changed:
            return False
        return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
