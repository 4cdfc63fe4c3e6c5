"""The running processes of a local sandbox, and what bounds them as a whole."""

from __future__ import annotations

import threading
from pathlib import Path

from sandbox.base import SandboxConfig
from sandbox.disk_guard import DiskUse, guard_of
from sandbox.disk_use import bytes_taken
from sandbox.memory_guard import MemoryUse, memory_guard
from sandbox.process_memory import memory_below
from sandbox.processes import HostProcess


class RunningProcesses:
    """Those of one sandbox, killed once they, or their files, take more than they may.

    Thread-safe.
    """

    def __init__(self, config: SandboxConfig, folder: Path) -> None:
        """`folder` holds all that they may write."""
        self._running: set[HostProcess] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._folder = folder
        self._disk = DiskUse(config.disk_mb, self._disk_taken, self.kill)
        self._memory = MemoryUse(config.memory_mb, self._memory_taken, self.kill)
        self._disk_guard, self._memory_guard = guard_of(str(folder.parent)), memory_guard()
        self._disk_guard.watch(self._disk)

    def add(self, process: HostProcess) -> None:
        """One that was started; it is killed where none may run any more."""
        with self._lock:
            self._running.add(process)
            ended = self._closed or self._disk.exceeded or self._memory.exceeded
            if not ended:
                self._memory_guard.watch(self._memory)
        if ended:
            process.kill()

    def discard(self, process: HostProcess) -> None:
        """One that has ended."""
        with self._lock:
            self._running.discard(process)
            if not self._running:
                self._memory_guard.forget(self._memory)

    def kill(self) -> None:
        with self._lock:
            running = list(self._running)
        for process in running:
            process.kill()

    def require(self) -> None:
        """Raises OutOfMemory or DiskExceeded once they were killed for it."""
        self._memory.require()
        self._disk.require()

    def close(self) -> None:
        """Kill them, and whatever is added later."""
        with self._lock:
            self._closed = True
        self._disk_guard.forget(self._disk)
        self._memory_guard.forget(self._memory)
        self.kill()

    def _disk_taken(self) -> int:
        return bytes_taken(self._folder, self._roots())

    def _memory_taken(self) -> int:
        return memory_below(self._roots(), self._memory.limit)

    def _roots(self) -> list[int]:
        with self._lock:
            # The number of one that has ended may be another process's by now.
            return [process.pid for process in self._running if process.return_code is None]
