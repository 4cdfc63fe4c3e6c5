"""The servers of this process: models that name the same one share it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from collect.models.config import ServerConfig
from collect.models.serving.server import VllmServer


@dataclass
class _Entry:
    server: VllmServer
    users: int = 0


class ServerPool:
    """Starts each server for its first user and stops it after its last. Thread-safe."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._keepers = 0
        self._lock = threading.Lock()

    def acquire(self, config: ServerConfig, log: Path) -> VllmServer:
        """The running server of a config, started where there is none. Raises ConfigError."""
        key = config.model_dump_json()
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or (entry.server.given_up and not entry.users):
                # What nobody uses may hold the memory that this one needs.
                self._stop_unused()
                entry = _Entry(VllmServer(config, log))
                entry.server.start()
                self._entries[key] = entry
            entry.users += 1
            return entry.server

    def release(self, server: VllmServer) -> None:
        """One user less."""
        with self._lock:
            for entry in self._entries.values():
                if entry.server is server:
                    entry.users -= 1
            if not self._keepers:
                self._stop_unused()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Until this ends, a server waits for its next user, unless another one is started."""
        with self._lock:
            self._keepers += 1
        try:
            yield
        finally:
            with self._lock:
                self._keepers -= 1
                if not self._keepers:
                    self._stop_unused()

    def _stop_unused(self) -> None:
        for key, entry in list(self._entries.items()):
            if not entry.users:
                del self._entries[key]
                entry.server.close()


POOL = ServerPool()


@contextmanager
def keep_servers() -> Iterator[None]:
    """`ServerPool.kept` of this process's pool; also a decorator."""
    with POOL.kept():
        yield
