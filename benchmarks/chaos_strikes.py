"""What a chaos run strikes."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.ray_nodes import RayNodes

Struck = str | None
"""What was struck; None where there was nothing to strike."""
Driver = subprocess.Popen[bytes]
SEARCH_SECONDS = 20.0
FULL_SECONDS = 5.0
"""How long a disk stays full."""


@dataclass(frozen=True)
class Strike:
    """One kind."""

    name: str
    strike: Callable[[Driver], Struck]


def strikes(
    nodes: RayNodes, folder: Path, commands: Sequence[str], chance: random.Random
) -> list[Strike]:
    """All kinds, in the order of their turns."""
    return [
        Strike("worker", lambda _: _kill_one(nodes.processes(), chance)),
        Strike("sandbox", lambda _: _kill_a_sandbox(chance)),
        Strike("node", lambda _: _replace_node(nodes, chance)),
        Strike("driver", _kill_driver),
        Strike("disk", lambda _: _fill(folder)),
        *(Strike(command, partial(_run, command)) for command in commands),
    ]


def _kill_one(found: Sequence[int], chance: random.Random) -> Struck:
    if not found:
        return None
    number = chance.choice(found)
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return f"process {number}"


def _kill_a_sandbox(chance: random.Random) -> Struck:
    """There is none while no command runs, so it may take a moment to find one."""
    until = time.monotonic() + SEARCH_SECONDS
    while time.monotonic() < until:
        struck = _kill_one(sandboxes(), chance)
        if struck is not None:
            return struck
    return None


def sandboxes() -> list[int]:
    """The processes of sandboxes whose folders are in this program's temporary folder."""
    search = ["pgrep", "-f", rf"^\S*bwrap .*{re.escape(tempfile.gettempdir())}"]
    found = subprocess.run(search, capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def _replace_node(nodes: RayNodes, chance: random.Random) -> Struck:
    nodes.kill(chance.randrange(len(nodes.workers)))
    nodes.add()
    return "another has joined"


def _kill_driver(driver: Driver) -> Struck:
    driver.kill()
    return f"process {driver.pid}"


def _fill(folder: Path) -> Struck:
    """Only where the run folder is a disk of its own, so that nothing else is hurt."""
    if not folder.exists() or folder.stat().st_dev == Path("/").stat().st_dev:
        return None
    filler = folder.parent / "filler"
    try:
        with filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
    except OSError:
        time.sleep(FULL_SECONDS)
    finally:
        filler.unlink(missing_ok=True)
    return f"{folder.parent} was full for {FULL_SECONDS:g} s"


def _run(command: str, _: Driver) -> Struck:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    return f"exit status {done.returncode}"
