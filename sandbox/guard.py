"""Kill sandboxes that exceed their limit of a resource as a whole.

For resources that the kernel limits only by process. One thread per resource watches what the
machine has left of it, which costs nothing. It measures the sandboxes only once that has fallen a
good deal, or after a while.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable

from sandbox.errors import DiskExceeded, OutOfMemory, SandboxDead

LARGEST_STEP = 256 * 1024 * 1024
"""Fall of the free bytes after which sandboxes are measured; less if one may take less than four
times as much."""
REST = 4
"""Each look is followed by a pause at least this many times as long, whatever it measures."""
TOLD: dict[type[SandboxDead], str] = {
    OutOfMemory: "its processes took more than {} MB of memory together (`sandbox.memory_mb`)",
    DiskExceeded: "its files took more than {} MB (`sandbox.disk_mb`)",
}


class ResourceUse:
    """One sandbox's use of a resource."""

    def __init__(
        self,
        error: type[SandboxDead],
        limit_mb: int,
        measure: Callable[[], int],
        kill: Callable[[], object],
    ) -> None:
        """`error` is raised for a sandbox that was killed for it. `measure` returns bytes, `kill`
        ends all processes of the sandbox; both are called from another thread."""
        self._error, self._limit_mb = error, limit_mb
        self._measure, self._kill = measure, kill
        self.exceeded = False
        """Whether it exceeded its limit, for which it is killed."""
        self._killed = False

    @property
    def limit(self) -> int:
        return self._limit_mb * 1024 * 1024

    def check(self) -> None:
        """Measure the sandbox, and kill it if it takes too much."""
        if self._killed:
            return
        if self.exceeded or self._measure() > self.limit:
            self.exceeded = True
            self._kill()
            self._killed = True

    def require(self) -> None:
        """Raises `error` if the sandbox was killed for it."""
        if self.exceeded:
            raise self._error(f"the sandbox was killed: {TOLD[self._error]}".format(self._limit_mb))


class ResourceGuard:
    """Watches one resource for one process. Thread-safe."""

    def __init__(
        self,
        name: str,
        left: Callable[[], int],
        look_seconds: float,
        longest: float = math.inf,
    ) -> None:
        """`left` returns the machine's free bytes, and is called every `look_seconds`. Sandboxes
        are measured at least every `longest` seconds."""
        self._name, self._left = name, left
        self._look_seconds, self._longest = look_seconds, longest
        self._watched: set[ResourceUse] = set()
        self._changed = threading.Condition()
        self._most_left = 0
        self._measured = 0.0
        self._thread: threading.Thread | None = None

    def watch(self, sandbox: ResourceUse) -> None:
        with self._changed:
            if self._thread is None:
                self._most_left, self._measured = self._left(), time.monotonic()
                thread = threading.Thread(target=self._watch, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            self._watched.add(sandbox)
            self._changed.notify()

    def forget(self, sandbox: ResourceUse) -> None:
        with self._changed:
            self._watched.discard(sandbox)

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._watched)
                watched = list(self._watched)
            began = time.monotonic()
            try:
                if self._is_due(watched):
                    for sandbox in watched:
                        try:
                            sandbox.check()
                        except Exception as error:
                            self._warn(error)
            except Exception as error:
                self._warn(error)
            time.sleep(max(self._look_seconds, REST * (time.monotonic() - began)))

    def _is_due(self, watched: list[ResourceUse]) -> bool:
        """Whether what is left has fallen, or enough time passed, to measure the sandboxes."""
        left, now = self._left(), time.monotonic()
        self._most_left = max(self._most_left, left)
        step = min((LARGEST_STEP, *(sandbox.limit // 4 for sandbox in watched)))
        if self._most_left - left < step and now - self._measured < self._longest:
            return False
        self._most_left, self._measured = left, now
        return True

    def _warn(self, error: Exception) -> None:
        """Go on at the next look: without this thread no sandbox would be limited."""
        self._measured = -math.inf
        warnings.warn(
            f"the {self._name} can't see to it that a sandbox keeps to its limit: "
            f"{type(error).__name__}: {error}; it tries again",
            stacklevel=2,
        )
