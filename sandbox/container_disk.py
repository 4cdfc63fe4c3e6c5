"""What the files of a container take on the disk of its engine."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from sandbox.disk_guard import DiskGuard, guard_of
from sandbox.engine import local_root
from sandbox.engine_errors import client_errors

UNKNOWN = -1
"""What the engine says of files that it can't go through: folders can be nested so deep that their
path is too long for it."""


class ContainerDisk:
    """Measures one container, from before its first command on."""

    def __init__(self, client: Any, container: str, root: Path | None) -> None:
        """`root` is where the engine keeps containers on this machine; None: elsewhere."""
        self._client, self._container = client, container
        self._local = root is not None
        self._measurable = self._told() != UNKNOWN

    def bytes(self) -> int:
        """0 where that can't be told."""
        told = self._told()
        # It could before: only the container's own programs make that so.
        if told == UNKNOWN and self._measurable and self._told() == UNKNOWN:
            return sys.maxsize
        return max(told, 0) + (self._unlinked() if self._local else 0)

    def _told(self) -> int:
        try:
            found = self._client.api.containers(
                all=True, size=True, filters={"id": self._container}
            )
        except client_errors():
            return 0
        return sum(int(each.get("SizeRw", 0)) for each in found)

    def _unlinked(self) -> int:
        """Files without a name, which take their room until they are closed. Only root may look
        at those of other users."""
        sizes: dict[int, int] = {}
        for process in self._processes():
            with suppress(OSError):
                device = os.stat(process / "root").st_dev
                for path in _held(process):
                    with suppress(OSError):
                        found = os.stat(path)
                        own = found.st_dev == device and stat.S_ISREG(found.st_mode)
                        if own and found.st_nlink == 0:
                            sizes[found.st_ino] = found.st_blocks * 512
        return sum(sizes.values())

    def _processes(self) -> Iterator[Path]:
        """Those of this machine that are in the container."""
        try:
            listed = self._client.api.top(self._container, ps_args="-eo pid")["Processes"]
        except client_errors():
            return
        for (pid,) in listed or ():
            process = Path("/proc", pid)
            with suppress(OSError):
                if self._container in (process / "cgroup").read_text():
                    yield process


def _held(process: Path) -> Iterator[Path]:
    for name in ("fd", "map_files"):
        with suppress(OSError):
            yield from (process / name).iterdir()


@lru_cache
def engine_disk(host: str | None) -> tuple[DiskGuard, Path | None]:
    """The disk that containers are on, of the engine at this DOCKER_HOST, and where there. That of
    an engine on another machine can't be looked at: its containers are measured now and then
    alone."""
    root = local_root()
    return (DiskGuard(lambda: 0) if root is None else guard_of(str(root))), root
