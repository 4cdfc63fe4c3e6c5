"""A model's server that answers nobody for a while: its requests wait together for its return."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from collect.errors import RateLimited
from collect.models.endpoint_errors import Refusal
from collect.models.waiting import POLL_SECONDS, sleep_unless_stopped
from collect.quantities import duration
from collect.telling import tell

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds between two requests to a server that answers nobody."""


class Outage:
    """Of one model in one process. Thread-safe.

    While it lasts, one request at a time is sent, after longer and longer waits, and all others
    wait for its answer. It ends with the first answer. After `patience` seconds requests are sent
    again as without it, and fail as without it, until there is one.
    """

    def __init__(self, where: str, patience: float, stop: threading.Event) -> None:
        """`where` is the model and its server, for messages."""
        self._where, self._patience, self._stop = where, patience, stop
        self._lock = threading.Lock()
        self._answered_at: float | None = None
        self._ended_at = -math.inf
        self._began_at: float | None = None
        """None while there is none."""
        self._wait = self._next_at = 0.0
        self._asking: int | None = None
        """The thread whose request is under way meanwhile."""

    @contextmanager
    def passage(self) -> Iterator[None]:
        """Held while a request is sent. Raises RolloutStopped while waiting for it."""
        while not self._may_pass():
            sleep_unless_stopped(POLL_SECONDS, self._stop)
        try:
            yield
        finally:
            with self._lock:
                if self._asking == threading.get_ident():
                    self._asking = None

    def answered(self) -> None:
        """The server has answered a request."""
        with self._lock:
            self._answered_at = time.monotonic()
            began_at, self._began_at = self._began_at, None
            if began_at is not None:
                self._ended_at = self._answered_at
        if began_at is not None:
            tell(f"{self._where} is back in service, after {duration(time.monotonic() - began_at)}")

    def refused(self, refusal: Refusal) -> None:
        """It has refused one for now, or not answered it."""
        with self._lock:
            if self._asking == threading.get_ident():
                self._wait = min(2 * self._wait, LONGEST_WAIT)
                self._next_at = time.monotonic() + max(self._wait, shortened(refusal.retry_after))

    def ended_since(self, moment: float) -> bool:
        """Whether one has ended after a moment of the monotonic clock."""
        with self._lock:
            return self._ended_at > moment

    def covers(self, refusal: Refusal, said: str, sent_at: float, refused_at: float) -> bool:
        """Whether a request that was refused as often as it may be is to be sent again.

        It is where the server has answered nobody since `refused_at`, when this request was refused
        before, but has answered earlier: an address that never worked is no outage. Where it
        answers others, a rate limit may let this request through within `patience` after `sent_at`.
        """
        now = time.monotonic()
        too_long = (refusal.retry_after or 0.0) >= self._patience
        with self._lock:
            if not refusal.passing or self._answered_at is None or too_long:
                return False
            if self._began_at is not None:
                return not self._is_over_long(now)
            if self._answered_at > refused_at:
                return refusal.failure is RateLimited and now < sent_at + self._patience
            self._began_at, self._wait = now, FIRST_WAIT
            self._next_at = now + max(FIRST_WAIT, shortened(refusal.retry_after))
        longest = duration(self._patience)
        tell(
            f"{self._where} is out of service: {said}; its requests wait, for {longest} at most "
            "(retries.outage_wait)"
        )
        return True

    def _may_pass(self) -> bool:
        now = time.monotonic()
        with self._lock:
            if self._began_at is None or self._is_over_long(now):
                return True
            if self._asking is not None or now < self._next_at:
                return False
            self._asking = threading.get_ident()
            return True

    def _is_over_long(self, now: float) -> bool:
        return self._began_at is not None and now >= self._began_at + self._patience


def shortened(wait: float | None) -> float:
    """Seconds that a server asks for, as far as an outage keeps them: it may be back sooner."""
    return min(wait or 0.0, LONGEST_WAIT)
