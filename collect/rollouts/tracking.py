"""Sends a run's metrics to wandb and trackio while it runs; their failures never affect it."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from collect.config import RunnerConfig, TrackioSettings, WandbSettings, needed
from collect.console import tell
from collect.errors import TRIED_AGAIN, ConfigError
from collect.rollouts.heartbeat import NodeStatus
from collect.rollouts.progress import Progress
from collect.store.atomic_files import write_text
from collect.store.records import Rollout

# The wandb and trackio run that all starts on a folder continue.


NAME = "tracking.json"


class Known(BaseModel):
    """A tracked run, begun now or by an earlier start."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    begun_at: float
    """Unix time, seconds."""

    @property
    def step(self) -> int:
        """Whole seconds since the beginning, so that steps increase over all starts."""
        return max(0, int(time.time() - self.begun_at))


def known_run(folder: Path) -> Known:
    """The folder's tracked run; the first call creates it. Raises OSError, and ValueError on a
    broken file."""
    path = folder / NAME
    if path.is_file():
        return Known.model_validate_json(path.read_bytes())
    begun = Known(id=secrets.token_hex(4), name=folder.as_posix(), begun_at=time.time())
    write_text(path, begun.model_dump_json(indent=2) + "\n")
    return begun


# Metrics over the rows of a run.


Numbers = dict[str, float]
"""By name of the metric."""


@dataclass(frozen=True)
class _Counted:
    resolved: bool
    judged: bool
    failure_type: str | None
    tokens: int
    dollars: float

    @classmethod
    def of(cls, row: Rollout) -> Self:
        judged = row.failure_kind not in TRIED_AGAIN
        return cls(row.resolved, judged, row.failure_type, row.tokens, row.dollars)


class Tally:
    """Metrics over the rows of all starts. A repeated rollout counts once. Thread-safe."""

    def __init__(self, rows: Iterable[Rollout] = ()) -> None:
        self._lock = threading.Lock()
        self._counted: dict[str, _Counted] = {}
        self._failures: set[str] = set()
        for row in rows:
            self.add(row)

    def add(self, row: Rollout) -> None:
        """Count a row, or replace the rollout's earlier row."""
        with self._lock:
            self._counted[row.rollout_id] = _Counted.of(row)
            if row.failure_type is not None:
                self._failures.add(row.failure_type)

    def numbers(self) -> Numbers:
        """All metrics. Failure types that no longer occur are reported as 0, so that their curves
        end."""
        with self._lock:
            counted = list(self._counted.values())
            failures = sorted(self._failures)
        judged = sum(each.judged for each in counted)
        failed = Counter(each.failure_type for each in counted)
        numbers: Numbers = {f"failed/{name}": failed[name] for name in failures}
        numbers["rollouts/resolved"] = sum(each.resolved for each in counted)
        if judged:
            numbers["rollouts/resolved_share"] = numbers["rollouts/resolved"] / judged
        numbers["tokens"] = sum(each.tokens for each in counted)
        numbers["dollars"] = sum(each.dollars for each in counted)
        return numbers


def of_progress(progress: Progress) -> Numbers:
    """Metrics of the run's progress."""
    return {
        "rollouts/done": progress.done,
        "rollouts/total": progress.total,
        "rollouts/running": len(progress.running()),
        "rollouts/per_hour": progress.per_hour,
    }


def of_nodes(nodes: Sequence[NodeStatus]) -> Numbers:
    """Metrics of a cluster's machines; empty without a cluster."""
    if not nodes:
        return {}
    return {
        "nodes/ready": sum(node.state == "ready" for node in nodes),
        "nodes/lost_rollouts": sum(node.lost for node in nodes),
    }


# Open wandb and trackio runs. Both log with `run.log(numbers, step=...)`.


INIT_SECONDS = 30.0
"""Seconds that wandb's server may take if nobody waits for it."""


@contextmanager
def wandb_run(
    settings: WandbSettings | None,
    folder: Path,
    facts: Mapping[str, Any],
    known: Known | None = None,
) -> Iterator[Any]:
    """A wandb run with `facts` as its config; None without settings.

    With `known`, it continues that run from a background thread: quietly, sending only what it is
    given, and separate from the process's own run. Without, it is the process's own run, which a
    trainer finds.
    """
    if settings is None:
        yield None
        return
    import wandb

    with wandb.init(
        project=settings.project,
        name=settings.name or (known.name if known is not None else None),
        mode=settings.mode,
        dir=str(folder),
        config=dict(facts),
        **_of_known(known),
    ) as run:
        yield run


def _of_known(known: Known | None) -> dict[str, Any]:
    if known is None:
        return {}
    import wandb

    # Weave would record what is sent to models.
    os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")
    quiet = wandb.Settings(
        silent=True,
        console="off",
        disable_code=True,
        disable_git=True,
        init_timeout=INIT_SECONDS,
        x_disable_meta=True,
        x_save_requirements=False,
    )
    return {"id": known.id, "resume": "allow", "reinit": "create_new", "settings": quiet}


@contextmanager
def trackio_run(
    settings: TrackioSettings | None, facts: Mapping[str, Any], known: Known | None = None
) -> Iterator[Any]:
    """A trackio run with `facts` as its config; None without settings.

    With `known`, it continues that run, which trackio identifies by its name.
    """
    if settings is None:
        yield None
        return
    import trackio

    name, again = settings.name, {}
    if known is not None:
        name, again = f"{name or known.name} {known.id}", {"resume": "allow"}
    # It prints instructions into this command's output.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        run = trackio.init(
            project=settings.project,
            name=name,
            space_id=settings.space,
            config=dict(facts),
            embed=False,
            **again,
        )
    try:
        yield run
    finally:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            trackio.finish()


END_SECONDS = 60.0
"""Seconds that a tracker may take for the last metrics."""


def require_trackers(config: RunnerConfig) -> None:
    """Raise ConfigError if a tracker of the config is not installed."""
    for name in needed(config.wandb, config.trackio):
        if find_spec(name) is None:
            raise ConfigError(
                f"runner.{name} needs {name}, which is not installed; run `pip install {name}`"
            )


@contextmanager
def followed(
    config: RunnerConfig, folder: Path, facts: Mapping[str, Any], numbers: Callable[[], Numbers]
) -> Iterator[None]:
    """Send metrics every `track_every` seconds and at the end, with one thread per tracker.

    A tracker that fails or hangs causes one warning and is then left out.
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
    """Runs first, while the terminal is free."""
    warned: threading.Event = field(default_factory=threading.Event)

    def follow(self, numbers: Callable[[], Numbers], every: float, ended: threading.Event) -> None:
        with self.warning(), self.opened() as run:
            last = False
            while not last:
                last = ended.wait(every)
                run.log(numbers(), step=self.known.step)

    @contextmanager
    def warning(self) -> Iterator[None]:
        """Turn exceptions into a warning."""
        try:
            yield
        except Exception as error:
            self.warn(error)

    def warn(self, why: object) -> None:
        """Warn once."""
        if not self.warned.is_set():
            self.warned.set()
            _warn(self.name, why)


def _trackers(config: RunnerConfig, folder: Path, facts: Mapping[str, Any]) -> list[_Tracker]:
    """The config's trackers; none if the tracked run's file can't be written."""
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
    """Find the key, or ask for it. Raises wandb.Error if there is none and nobody to ask."""
    if settings is not None and settings.mode == "online":
        import wandb

        wandb.login()


def _warn(name: str, why: object) -> None:
    tell(f"{name} gets no more numbers of this run: {why}")


# The config without secrets, to send to a tracker's server.


NOT_SHOWN = "(not shown)"
PRIVATE = ("environment", "extra_body", "arguments", "command")
"""Settings that can hold a key: environment variables, fields of a request, and a server's command
line."""
USER = re.compile(r"(?<=://)[^/@\s]+@")


def public(value: Any) -> Any:
    """The settings as JSON, without those that can hold a key."""
    if isinstance(value, dict):
        return {
            name: NOT_SHOWN if name in PRIVATE and inner else public(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [public(inner) for inner in value]
    return USER.sub("", value) if isinstance(value, str) else value
