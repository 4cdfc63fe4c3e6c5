"""Tells what a run will cost, and asks whether it is to go on above a limit."""

from __future__ import annotations

import threading
from pathlib import Path

from collect.config import RunnerConfig
from collect.cost.estimate import Estimate
from collect.cost.forecast import Forecast
from collect.cost.terminal import confirmed, somebody_is_there
from collect.durable import write_text
from collect.models.budget import spent_elsewhere
from collect.models.waiting import POLL_SECONDS
from collect.quantities import dollars, duration
from collect.records import Rollout
from collect.watching.progress import Progress

ACCEPTED = "accepted_dollars.txt"
"""The highest estimate that the user agreed to."""
GROWTH = 1.5
"""An estimate that was agreed to is asked for again where it has grown by this factor."""


class CostWatch:
    """Thread-safe. While it asks, rollouts that end wait for the answer, and so no other begins;
    those under way go on."""

    def __init__(
        self,
        runner: RunnerConfig,
        forecast: Forecast,
        progress: Progress,
        stop: threading.Event,
        folder: Path,
    ) -> None:
        """`folder` is that of the rollouts; `stop` is set where the run is not to go on."""
        self._runner, self._forecast, self._progress = runner, forecast, progress
        self._stop, self._folder = stop, folder
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Say what is known from earlier starts, before anything is done."""
        with self._lock:
            self._look()

    def hold(self, rollout_id: str) -> None:
        """Wait while the user may be asked by an estimate that is made without this rollout."""
        while self._is_held(rollout_id) and not self._stop.wait(POLL_SECONDS):
            pass

    def ended(self, row: Rollout) -> None:
        """A rollout ended with a row."""
        with self._lock:
            self._forecast.ended(row)
            self._look()

    def _is_held(self, rollout_id: str) -> bool:
        if self._runner.ask_above_dollars is None or self._runner.confirmed:
            return False
        with self._lock:
            return self._forecast.can_wait(rollout_id)

    def _look(self) -> None:
        estimate = None if self._stop.is_set() else self._forecast.estimate()
        if estimate is None:
            return
        seconds = self._progress.seconds_left()
        rest = "" if seconds is None else f", {duration(seconds)} left at the present rate"
        told = f"the whole run: about {estimate.text}{rest}; by {self._forecast.basis}"
        budget = self._runner.budget_dollars
        if budget is not None and estimate.dollars > budget - spent_elsewhere(self._folder):
            told += f"; runner.budget_dollars={budget:g} ends it before"
        self._progress.tell(told)
        limit = self._runner.ask_above_dollars
        if limit is not None and estimate.dollars > max(limit, GROWTH * self._accepted()):
            self._ask(estimate, limit)

    def _ask(self, estimate: Estimate, limit: float) -> None:
        above = (
            f"about {dollars(estimate.dollars)} for the whole run is above "
            f"runner.ask_above_dollars={limit:g}"
        )
        if self._runner.confirmed or self._agreed(above):
            write_text(self._folder / ACCEPTED, f"{estimate.dollars}\n")
            return
        if self._stop.is_set():
            return
        self._stop.set()
        self._progress.tell(f"stepinto: {above}: set a higher one to go on, or give --yes")

    def _agreed(self, above: str) -> bool:
        if not somebody_is_there():
            return False
        with self._progress.put_away():
            return confirmed(f"stepinto: {above}; go on?", self._stop)

    def _accepted(self) -> float:
        path = self._folder / ACCEPTED
        return float(path.read_text()) if path.is_file() else 0.0
