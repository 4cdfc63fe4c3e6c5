"""Send a run's numbers to wandb and trackio while it goes on, whatever becomes of them there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from collect.config import RunnerConfig
from collect.errors import ConfigError
from collect.telling import tell
from collect.tracking.config import WandbSettings, needed
from collect.tracking.known import Known, known_run
from collect.tracking.numbers import Numbers
from collect.tracking.opening import trackio_run, wandb_run

END_SECONDS = 60.0
"""For a tracker to take the last numbers."""


def require_trackers(config: RunnerConfig) -> None:
    """Raise ConfigError where a tracker of the config is not installed."""
    for name in needed(config.wandb, config.trackio):
        if find_spec(name) is None:
            raise ConfigError(
                f"runner.{name} needs {name}, which is not installed; run `pip install {name}`"
            )


@contextmanager
def followed(
    config: RunnerConfig, folder: Path, facts: Mapping[str, Any], numbers: Callable[[], Numbers]
) -> Iterator[None]:
    """Send the numbers every `track_every` seconds and at the end, a thread for each tracker.

    One that fails or hangs is warned about once, and gets no more.
    """
    ended = threading.Event()
    threads: list[tuple[_Tracker, threading.Thread]] = []
    for tracker in _trackers(config, folder, facts):
        with tracker.warning():
            tracker.prepare()
            follow = partial(tracker.follow, numbers, config.track_every, ended)
            threads.append((tracker, threading.Thread(target=follow, daemon=True)))
            threads[-1][1].start()
    try:
        yield
    finally:
        ended.set()
        until = time.monotonic() + END_SECONDS
        for tracker, thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                tracker.warn(f"it has not taken the last of them in {END_SECONDS:g} s")


@dataclass(frozen=True)
class _Tracker:
    name: str
    opened: Callable[[], AbstractContextManager[Any]]
    known: Known
    prepare: Callable[[], None] = lambda: None
    """What is done first, while the terminal is free."""
    warned: threading.Event = field(default_factory=threading.Event)

    def follow(self, numbers: Callable[[], Numbers], every: float, ended: threading.Event) -> None:
        with self.warning(), self.opened() as run:
            last = False
            while not last:
                last = ended.wait(every)
                run.log(numbers(), step=self.known.step)

    @contextmanager
    def warning(self) -> Iterator[None]:
        """Warn about what is raised, and go on."""
        try:
            yield
        except Exception as error:
            self.warn(error)

    def warn(self, why: object) -> None:
        """Say once that something went wrong."""
        if not self.warned.is_set():
            self.warned.set()
            _warn(self.name, why)


def _trackers(config: RunnerConfig, folder: Path, facts: Mapping[str, Any]) -> list[_Tracker]:
    """Those that the config names; none where it can't be kept which run they go on with."""
    names = needed(config.wandb, config.trackio)
    if not names:
        return []
    try:
        known = known_run(folder)
    except (OSError, ValueError) as error:
        _warn(" and ".join(names), error)
        return []
    to_wandb = partial(wandb_run, config.wandb, folder, facts, known)
    to_trackio = partial(trackio_run, config.trackio, facts, known)
    trackers = (
        _Tracker("wandb", to_wandb, known, partial(_log_in, config.wandb)),
        _Tracker("trackio", to_trackio, known),
    )
    return [tracker for tracker in trackers if tracker.name in names]


def _log_in(settings: WandbSettings | None) -> None:
    """Find the key, or ask for it. Raises wandb.Error where there is none and nobody to ask."""
    if settings is not None and settings.mode == "online":
        import wandb

        wandb.login()


def _warn(name: str, why: object) -> None:
    tell(f"{name} gets no more numbers of this run: {why}")
