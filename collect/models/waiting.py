"""Blocking calls that end when the run is stopped."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from collect.errors import RolloutStopped
from collect.models.budget import Slots

Result = TypeVar("Result")
POLL_SECONDS = 0.2
SLOT_SECONDS = 1.0
"""Interval between checks for a stop while waiting for a slot; on a cluster each check calls a
process.
"""


def result_unless_stopped(future: Future[Result], stop: threading.Event) -> Result:
    """The future's result. Raises RolloutStopped as soon as the run is stopped."""
    return result_unless(future, partial(raise_if_stopped, stop))


def result_unless(future: Future[Result], check: Callable[[], None]) -> Result:
    """The future's result; raises what `check` raises before that."""
    while True:
        check()
        # Not `result(timeout)`, because its TimeoutError may also come from the future itself.
        wait([future], POLL_SECONDS)
        if future.done():
            return future.result()


def call_unless_stopped(
    function: Callable[[], Result], stop: threading.Event, seconds: float = math.inf
) -> Result:
    """Call in a separate thread, which is abandoned if the run is stopped, or after `seconds` with
    a TimeoutError.

    A daemon thread, so that neither it nor its server can delay the program's end.
    """
    future: Future[Result] = Future()
    deadline = time.monotonic() + seconds

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # passed to the caller
            future.set_exception(error)

    def check() -> None:
        raise_if_stopped(stop)
        if time.monotonic() > deadline:
            raise TimeoutError(f"no result within {seconds:g} s")

    threading.Thread(target=call, name="model-request", daemon=True).start()
    return result_unless(future, check)


def sleep_unless_stopped(seconds: float, stop: threading.Event) -> None:
    """Sleep. Raises RolloutStopped as soon as the run is stopped."""
    if stop.wait(seconds):
        raise_if_stopped(stop)


@contextmanager
def slot_unless_stopped(slots: Slots, stop: threading.Event) -> Iterator[None]:
    """Hold a slot. Raises RolloutStopped during the wait."""
    while not slots.acquire(timeout=SLOT_SECONDS):
        raise_if_stopped(stop)
    try:
        yield
    finally:
        slots.release()


def raise_if_stopped(stop: threading.Event) -> None:
    """Raises RolloutStopped if the run is being stopped."""
    if stop.is_set():
        raise RolloutStopped("the run is being stopped")
