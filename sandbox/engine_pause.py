"""The container engine under load: so many sandboxes start at once, and none while it is down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from sandbox.errors import EngineDown

Opened = TypeVar("Opened")
FIRST_WAIT, LONGEST_WAIT = 1.0, 15.0
"""Seconds between two looks at an engine that is down."""


class EnginePause:
    """Of one process. Once an opening finds the engine down, one thread looks whether it is back,
    and all others wait for that. Thread-safe."""

    def __init__(self, answers: Callable[[], object]) -> None:
        """`answers` raises EngineDown as long as the engine is."""
        self._answers = answers
        self._looking, self._lock = threading.Lock(), threading.Lock()
        self._down = threading.Event()
        self._starts: dict[int, threading.BoundedSemaphore] = {}

    def open(self, opening: Callable[[], Opened], at_once: int, patience: float) -> Opened:
        """Open a sandbox, again once the engine is back. Raises EngineDown where that is not so
        within `patience` seconds, and whatever else `opening` does."""
        until = time.monotonic() + patience
        while True:
            self._wait(until)
            try:
                with self._slots(at_once):
                    return opening()
            except EngineDown:
                self._down.set()
                if time.monotonic() >= until:
                    raise

    def _wait(self, until: float) -> None:
        wait = FIRST_WAIT
        with self._looking:
            while self._down.is_set():
                try:
                    self._answers()
                except EngineDown:
                    if time.monotonic() + wait > until:
                        raise
                    time.sleep(wait)
                    wait = min(2 * wait, LONGEST_WAIT)
                else:
                    self._down.clear()

    def _slots(self, at_once: int) -> threading.BoundedSemaphore:
        with self._lock:
            return self._starts.setdefault(at_once, threading.BoundedSemaphore(at_once))
