"""The container engine under load: so many sandboxes start at once, and none while it is down."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from sandbox.errors import EngineDown

Answer = TypeVar("Answer")
FIRST_WAIT, LONGEST_WAIT = 1.0, 15.0
"""Seconds between two looks at an engine that is down, and between two questions that fail."""


class EnginePause:
    """Of one process. Once a question finds the engine down, one thread looks whether it is back,
    and all others wait for that. Thread-safe."""

    def __init__(self, answers: Callable[[], object]) -> None:
        """`answers` raises EngineDown as long as the engine is."""
        self._answers = answers
        self._looking, self._lock = threading.Lock(), threading.Lock()
        self._down = threading.Event()
        self._failure = (-math.inf, "")
        """When a look at it failed last, and why."""
        self._starts: dict[int, threading.BoundedSemaphore] = {}

    def open(self, opening: Callable[[], Answer], at_once: int, patience: float) -> Answer:
        """Open a sandbox as one of `at_once`; else like `ask`."""

        def in_turn() -> Answer:
            with self._slots(at_once):
                return opening()

        return self.ask(in_turn, patience)

    def ask(self, question: Callable[[], Answer], patience: float) -> Answer:
        """Ask the engine, again once it is back. Raises EngineDown where that is not so within
        `patience` seconds of its first failure, and whatever else `question` does."""
        until: float | None = None
        wait = FIRST_WAIT
        while True:
            self._wait(until or time.monotonic() + patience)
            try:
                return question()
            except EngineDown:
                self._down.set()
                until = until or time.monotonic() + patience
                if time.monotonic() + wait >= until:
                    raise
            # One that answers, but not to this, must not be asked without a pause.
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def _wait(self, until: float) -> None:
        wait, began = FIRST_WAIT, time.monotonic()
        with self._looking:
            failed, reason = self._failure
            # Of an engine that hangs, each look takes minutes.
            if self._down.is_set() and failed >= began and time.monotonic() + wait > until:
                raise EngineDown(reason)
            while self._down.is_set():
                try:
                    self._answers()
                except EngineDown as error:
                    self._failure = time.monotonic(), str(error)
                    if time.monotonic() + wait > until:
                        raise
                    time.sleep(wait)
                    wait = min(2 * wait, LONGEST_WAIT)
                else:
                    self._down.clear()

    def _slots(self, at_once: int) -> threading.BoundedSemaphore:
        with self._lock:
            return self._starts.setdefault(at_once, threading.BoundedSemaphore(at_once))
