"""What a chaos run stands on: all of it its own, so that a strike hurts nobody else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from ray._private.ray_constants import PROCESS_TYPE_RAYLET
from ray.cluster_utils import Cluster

from sandbox.engine import connect, find_image
from sandbox.errors import EngineDown

STORE_BYTES = 100_000_000


class RayNodes:
    """A head that does no work, and some nodes that do."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._cluster: Any = None
        self.workers: list[Any] = []

    @contextmanager
    def running(self) -> Iterator[Self]:
        """The cluster, meanwhile."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        head = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(self._count):
                self.add()
            yield self
        finally:
            self._cluster.shutdown()

    @property
    def address(self) -> str:
        """Address of the head."""
        return str(self._cluster.address)

    def processes(self) -> list[int]:
        """The numbers of the workers that do rollouts."""
        return [number for node in self.workers for number in _children(node, "^ray::NodeWorker")]

    def kill_workers(self) -> int:
        """Kill the workers at once, but not their nodes; how many there were."""
        found = self.processes()
        _kill(found)
        return len(found)

    def add(self) -> None:
        """One more node."""
        self.workers.append(self._cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES))

    def restore(self) -> None:
        """As many nodes again as at first."""
        while len(self.workers) < self._count:
            self.add()

    def kill(self, place: int = 0) -> None:
        """A node is gone at once, with all its processes."""
        node = self.workers.pop(place)
        # Ray's own processes would go on for a moment.
        _kill(_children(node, ""))
        self._cluster.remove_node(node, allow_graceful=False)


def _children(node: Any, pattern: str) -> list[int]:
    """The processes that a node has started, by what they are called."""
    raylets = [str(each.process.pid) for each in node.all_processes[PROCESS_TYPE_RAYLET]]
    search = ["pgrep", "-P", ",".join(raylets), "-f", pattern]
    found = subprocess.run(search, capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def _kill(processes: Iterable[int]) -> None:
    for number in processes:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


START_SECONDS = 60.0
ENGINE_STARTS = 5
"""Tries: an engine that finds what a killed one left may end again, and is started anew, as a
service manager does."""
LOG_BYTES = 3_000
LOOK_SECONDS = 0.1
ADDRESS = "127.0.0.1"


class Endpoint:
    """A server that the oracle answers at, in a process of its own."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind((ADDRESS, 0))
            self._port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address, as `base_url`."""
        return f"http://{ADDRESS}:{self._port}/v1"

    @contextmanager
    def running(self) -> Iterator[Self]:
        """It answers meanwhile, but where it is killed."""
        self.start()
        try:
            yield self
        finally:
            self.kill()

    def start(self) -> None:
        """Return once it answers."""
        command = [sys.executable, "-m", "tests.chaos.oracle_server", str(self._port)]
        self._process = subprocess.Popen(command)
        if not _wait(self._answers, self._process):
            sys.exit("the oracle's server does not start")

    def kill(self) -> None:
        """At once, with all requests that are under way."""
        assert self._process is not None, "started before"
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection((ADDRESS, self._port), 1):
            return True
        return False


class Disk:
    """A small disk in memory that the run folder is on. Only root can make one."""

    def __init__(self, megabytes: int) -> None:
        self._megabytes = megabytes
        self.folder = Path()

    @contextmanager
    def mounted(self) -> Iterator[Self]:
        """It is there meanwhile; what was on it is gone afterwards."""
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-disk-"))
        size = f"size={self._megabytes}m"
        mount = ["mount", "-t", "tmpfs", "-o", size, "stepinto-chaos", str(self.folder)]
        if subprocess.run(mount, check=False).returncode:
            sys.exit("a disk for the run folder can't be mounted: be root, or leave --disk-mb out")
        try:
            yield self
        finally:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)
            self.folder.rmdir()

    @contextmanager
    def full(self) -> Iterator[None]:
        """Nothing can be written meanwhile."""
        filler = self.folder / "filler"
        try:
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(1 << 16)):
                    pass
            yield
        finally:
            filler.unlink(missing_ok=True)


class Engine:
    """A Docker engine beside the machine's own, with one image of that. Only root can start it."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._state = Path(tempfile.mkdtemp(prefix="chaos-docker-"))
        self._socket = self._state / "docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[Self]:
        """It answers at DOCKER_HOST meanwhile, but where it is killed."""
        theirs = connect()
        data = b"".join(find_image(theirs, self._image).save(named=True))
        theirs.close()
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = f"unix://{self._socket}"
        self.start()
        try:
            own = connect()
            own.images.load(data)
            own.close()
            yield self
        finally:
            self._stop()
            os.environ.pop("DOCKER_HOST")
            if before is not None:
                os.environ["DOCKER_HOST"] = before

    def start(self) -> None:
        """Return once it answers."""
        for _ in range(ENGINE_STARTS):
            self._process = self._begun()
            if _wait(self._answers, self._process):
                return
            self.kill()
        said = (self._state / "log").read_bytes()[-LOG_BYTES:].decode(errors="replace")
        sys.exit(f"dockerd does not start: {said}")

    def _begun(self) -> subprocess.Popen[bytes]:
        command = [
            *("dockerd", "--data-root", str(self._state / "data")),
            *("--exec-root", str(self._state / "exec"), "-p", str(self._state / "pid")),
            *("-H", f"unix://{self._socket}", "--iptables=false", "--ip6tables=false"),
            *("--ip-forward=false", "--bridge=none"),
        ]
        with (self._state / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """At once; its containers go on until it is back."""
        assert self._process is not None, "started before"
        self._process.kill()
        self._process.wait()

    def _stop(self) -> None:
        assert self._process is not None, "started before"
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        # Those who watched containers of an engine that was killed go on.
        subprocess.run(["pkill", "-KILL", "-f", str(self._state)], check=False)
        # What an engine mounts that is killed stays mounted; its folder is, at every start.
        for point in reversed(_mounted_below(self._state)):
            subprocess.run(["umount", "--lazy", point], check=False)
        subprocess.run(["rm", "-rf", str(self._state)], check=False)

    def _answers(self) -> bool:
        try:
            connect().close()
        except EngineDown:
            return False
        return True


def _mounted_below(folder: Path) -> list[str]:
    """Mount points, in the order in which they were mounted."""
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]


def _wait(answers: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
    """Whether it answers, before it ends and in time."""
    until = time.monotonic() + START_SECONDS
    while not answers():
        if process.poll() is not None or time.monotonic() > until:
            return False
        time.sleep(LOOK_SECONDS)
    return True
