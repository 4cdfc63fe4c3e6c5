"""Checks before work starts, so that problems don't appear halfway."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from collect.benchmarks.base import Instance
from collect.config import RunnerConfig, RuntimeConfig
from collect.errors import ConfigError
from collect.quantities import counted
from collect.store.run_store import RunStore
from sandbox.engine import connect, engine_errors, local_root
from sandbox.errors import SandboxError
from sandbox.images import GIGABYTE, image_bytes


@dataclass(frozen=True)
class Check:
    """A check of something that rollouts need."""

    name: str
    look: Callable[[], str]
    """Returns what was found, as text. Raises ConfigError, SandboxError if it is not usable."""


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    name: str
    ok: bool
    said: str
    """What was found, or what is wrong and how to fix it."""


def look_at_all(checks: Iterable[Check]) -> list[Finding]:
    """All findings, even if some are bad."""
    findings = []
    for check in checks:
        try:
            findings.append(Finding(check.name, True, check.look()))
        except (ConfigError, SandboxError) as error:
            findings.append(Finding(check.name, False, str(error)))
    return findings


ROLLOUT_BYTES = 100_000
"""Bytes per short rollout while its rows are in separate files."""
REWRITTEN = 2
"""At its end a run rewrites its rows before it removes the first copy."""
COPIES = 2
"""Copies of a bug's tree per rollout: for the agents' work and for the test of their patch."""


class DiskTooFull(ConfigError):
    """The disk is full for now; rollouts can run once space is freed."""


def room_for_rows(store: RunStore, missing: int, runner: RunnerConfig) -> str:
    """Check that the run folder's disk has room for the rows to come. Raises ConfigError."""
    folder = store.folder
    files = [*folder.glob("rollouts/*.parquet"), *folder.glob("conversations/*.parquet")]
    written, rows = sum(os.path.getsize(file) for file in files), len(store.rollouts.ids())
    each = max(ROLLOUT_BYTES, written / rows if rows else 0)
    needed = REWRITTEN * missing * each + written
    advice = "set runs_folder to a larger disk, or free some of it"
    return _room(folder, needed, runner, f"the rows of {counted(missing, 'rollout')}", advice)


def room_for_sandboxes(first: Instance, runtime: RuntimeConfig) -> str:
    """Check that this machine's disk has room for the sandboxes, each as large as the first bug's.

    Raises ConfigError.
    """
    runner = runtime.runner
    if runtime.sandbox.backend == "docker":
        root = local_root()
        if root is None:
            return "the container engine's disk is not of this machine"
        # Nodes fetch images when bugs need them.
        fetches = runner.backend == "ray" and runtime.sandbox.image is None
        if fetches and (told := short_of_images(runtime)):
            raise DiskTooFull(told)
        advice = "`docker system df` shows what takes it; or set the engine's data-root"
        return _room(root, 0, runner, "containers", advice)
    at_once = runner.ray.per_node if runner.backend == "ray" else runner.concurrency
    needed = at_once * COPIES * sum(map(len, first.files.values()))
    advice = "set TMPDIR to a larger disk, or free some of it (`stepinto clean`)"
    what = f"sandboxes, {at_once} at once"
    return _room(Path(tempfile.gettempdir()), needed, runner, what, advice)


def short_of_images(runtime: RuntimeConfig) -> str | None:
    """What is wrong if the engine's disk fills up before images reach their limit; None if it is
    fine or on another machine. Raises EngineDown.
    """
    root = local_root()
    if root is None:
        return None
    with engine_errors(), closing(connect()) as client:
        taken = image_bytes(client)
    limit, floor = runtime.images.disk_gb, runtime.runner.min_free_disk_gb
    free = shutil.disk_usage(root).free
    if (limit + floor) * GIGABYTE <= free + taken:
        return None
    return (
        f"images.disk_gb={limit:g} is more than images can take: {_shown(taken)} are theirs and "
        f"{_shown(free)} free in {root}, of which runner.min_free_disk_gb={floor:g} stay so; set "
        "it lower, or the engine's data-root to a larger disk"
    )


def _room(folder: Path, needed: float, runner: RunnerConfig, what: str, advice: str) -> str:
    free = shutil.disk_usage(folder).free
    floor = runner.min_free_disk_gb * GIGABYTE
    found = f"{_shown(free)} free in {folder}, about {_shown(needed)} needed for {what}"
    if floor and free < floor + needed:
        raise DiskTooFull(
            f"the disk is too full: {found}, and runner.min_free_disk_gb="
            f"{runner.min_free_disk_gb:g} on top; {advice}, or lower that (0 starts all the same)"
        )
    return found


def _shown(amount: float) -> str:
    return f"{amount / GIGABYTE:.1f} GB" if amount >= GIGABYTE / 10 else f"{amount / 1e6:.1f} MB"
