"""What a sandbox takes as a whole: one that takes more than it may is killed.

For resources that the kernel limits by process only. One thread for each resource looks at what
the machine has left of it, which costs nothing, and measures the sandboxes only once that has
fallen a good deal, or after a while.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from sandbox.errors import SandboxDead

LARGEST_STEP = 256 * 1024 * 1024
"""Bytes that what is left falls by before sandboxes are measured; less where one may take less
than four times as much."""
REST = 4
"""A look is followed by a pause at least so many times as long, whatever it has to measure."""


class ResourceUse:
    """What one sandbox takes of a resource."""

    error: ClassVar[type[SandboxDead]]
    """What a sandbox that was killed for it raises."""
    told: ClassVar[str]
    """How the error says so; `{}` stands for the limit in MB."""

    def __init__(
        self, limit_mb: int, measure: Callable[[], int], kill: Callable[[], object]
    ) -> None:
        """`measure` gives bytes, `kill` ends all that runs in the sandbox; both are called from
        another thread."""
        self._limit_mb = limit_mb
        self._measure, self._kill = measure, kill
        self.exceeded = False
        """Whether it took too much, for which it is killed."""
        self._killed = False

    @property
    def limit(self) -> int:
        """Bytes."""
        return self._limit_mb * 1024 * 1024

    def check(self) -> None:
        """Measure it, and kill the sandbox where it is too much."""
        if self._killed:
            return
        if self.exceeded or self._measure() > self.limit:
            self.exceeded = True
            self._kill()
            self._killed = True

    @contextmanager
    def named(self) -> Iterator[None]:
        """Raises `error` in place of another SandboxDead where that was the reason."""
        try:
            self.require()
            yield
        except SandboxDead:
            self.require()
            raise

    def require(self) -> None:
        """Raises `error` once the sandbox was killed for it."""
        if self.exceeded:
            raise self.error(f"the sandbox was killed: {self.told.format(self._limit_mb)}")


class ResourceGuard:
    """Of one process and one resource. Thread-safe."""

    def __init__(
        self,
        name: str,
        left: Callable[[], int],
        look_seconds: float,
        longest: float = math.inf,
    ) -> None:
        """`left` is how many bytes the machine has. It is asked every `look_seconds`; `longest`
        seconds after a measurement comes the next one in any case."""
        self._name, self._left = name, left
        self._look_seconds, self._longest = look_seconds, longest
        self._watched: set[ResourceUse] = set()
        self._changed = threading.Condition()
        self._most_left = 0
        self._measured = 0.0
        self._thread: threading.Thread | None = None

    def watch(self, sandbox: ResourceUse) -> None:
        """From now on, until `forget`."""
        with self._changed:
            if self._thread is None:
                self._most_left, self._measured = self._left(), time.monotonic()
                thread = threading.Thread(target=self._watch, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            self._watched.add(sandbox)
            self._changed.notify()

    def forget(self, sandbox: ResourceUse) -> None:
        """It takes nothing any more, or was never watched."""
        with self._changed:
            self._watched.discard(sandbox)

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._watched)
                watched = list(self._watched)
            began = time.monotonic()
            with self._going_on():
                self._look(watched)
            time.sleep(max(self._look_seconds, REST * (time.monotonic() - began)))

    def _look(self, watched: list[ResourceUse]) -> None:
        left, now = self._left(), time.monotonic()
        self._most_left = max(self._most_left, left)
        step = min((LARGEST_STEP, *(sandbox.limit // 4 for sandbox in watched)))
        if self._most_left - left < step and now - self._measured < self._longest:
            return
        self._most_left, self._measured = left, now
        for sandbox in watched:
            with self._going_on():
                sandbox.check()

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Warn where that fails, and try it again at the next look: without this thread no sandbox
        would be limited any more."""
        try:
            yield
        except Exception as error:
            self._measured = -math.inf
            warnings.warn(
                f"the {self._name} can't see to it that a sandbox keeps to its limit: "
                f"{type(error).__name__}: {error}; it tries again",
                stacklevel=2,
            )
