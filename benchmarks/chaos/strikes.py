"""What a chaos run strikes."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.chaos.ground import Disk, Endpoint, Engine
from benchmarks.ray_nodes import RayNodes
from sandbox.engine import LABEL, connect

Struck = str | None
"""What was struck; None where there was nothing to strike."""
Process = subprocess.Popen[bytes]
"""The driver."""
SEARCH_SECONDS = 20.0
LONGEST_SECONDS = 6.0
"""How long a server, an engine or a disk stays away."""


@dataclass(frozen=True)
class Strike:
    """One kind."""

    name: str
    strike: Callable[[Process], Struck]


@dataclass(frozen=True)
class Ground:
    """What there is to be struck."""

    nodes: RayNodes
    endpoint: Endpoint
    disk: Disk | None
    engine: Engine | None

    def strikes(self, chance: random.Random) -> Iterator[Strike]:
        """All kinds, in the order of their turns."""
        yield Strike("worker", lambda _: _kill_one(self.nodes.processes(), chance))
        yield Strike("sandbox", lambda _: _kill_a_sandbox(self.engine, chance))
        yield Strike("endpoint", lambda _: _cut(self.endpoint, chance))
        yield Strike("node", lambda _: _replace_node(self.nodes, chance))
        if (engine := self.engine) is not None:
            yield Strike("container engine", lambda _: _cut(engine, chance))
        yield Strike("driver", _kill_driver)
        if (disk := self.disk) is not None:
            yield Strike("disk", lambda _: _fill(disk, chance))


def _kill_one(found: Sequence[int], chance: random.Random) -> Struck:
    if not found:
        return None
    number = chance.choice(found)
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return f"process {number}"


def _kill_a_sandbox(engine: Engine | None, chance: random.Random) -> Struck:
    """There is none while no command runs, so it may take a moment to find one."""
    kill = partial(_kill_a_container, chance)
    if engine is None:
        kill = partial(lambda: _kill_one(sandboxes(), chance))
    until = time.monotonic() + SEARCH_SECONDS
    while time.monotonic() < until:
        struck = kill()
        if struck is not None:
            return struck
    return None


def sandboxes() -> list[int]:
    """The processes of sandboxes whose folders are in this program's temporary folder."""
    search = ["pgrep", "-f", rf"^\S*bwrap .*{re.escape(tempfile.gettempdir())}"]
    found = subprocess.run(search, capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def containers(client: Any) -> list[Any]:
    """Those of sandboxes, whether they run or not."""
    found = client.containers.list(all=True, filters={"label": f"{LABEL}=1"}, ignore_removed=True)
    return list(found)


def _kill_a_container(chance: random.Random) -> Struck:
    from docker.errors import APIError

    with closing(connect()) as client:
        running = [each for each in containers(client) if each.status == "running"]
        if not running:
            return None
        chosen = chance.choice(running)
        try:
            chosen.kill()
        except APIError:
            return None
        return f"container {chosen.short_id}"


def _cut(server: Endpoint | Engine, chance: random.Random) -> Struck:
    seconds = chance.uniform(0, LONGEST_SECONDS)
    server.kill()
    time.sleep(seconds)
    server.start()
    return f"it was away for {seconds:.1f} s"


def _replace_node(nodes: RayNodes, chance: random.Random) -> Struck:
    nodes.kill(chance.randrange(len(nodes.workers)))
    nodes.add()
    return "another has joined"


def _kill_driver(driver: Process) -> Struck:
    driver.kill()
    return f"process {driver.pid}"


def _fill(disk: Disk, chance: random.Random) -> Struck:
    seconds = chance.uniform(1, LONGEST_SECONDS)
    with disk.full():
        time.sleep(seconds)
    return f"it was full for {seconds:.1f} s"
