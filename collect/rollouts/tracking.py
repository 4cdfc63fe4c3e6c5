"""Sends a run's metrics to wandb while it runs; wandb's failures never affect the run."""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from collect.config import RunnerConfig, WandbSettings
from collect.errors import ConfigError
from collect.rollouts.progress import Progress
from collect.rollouts.status import NodeStatus
from collect.store.files import write_text

logger = logging.getLogger(__name__)

NAME = "tracking.json"
END_SECONDS = 60.0
"""Seconds that wandb may take for the last metrics."""
PRIVATE = ("environment", "extra_body", "arguments", "command")
"""Settings that can hold a key: environment variables, fields of a request, and a server's command
line."""
HARMLESS = {"entity", "project", "organization", "mode", "disabled"}
"""What `wandb init` and `wandb offline` write to the current folder."""
USER = re.compile(r"(?<=://)[^/@\s]+@")


class TrackedRun(BaseModel):
    """The wandb run that all starts on a folder continue."""

    id: str
    name: str
    begun_at: float
    """Unix time, seconds."""


def tracked_run(folder: Path) -> TrackedRun:
    """The folder's tracked run; the first call creates it. Raises OSError, and ValueError on a
    broken file."""
    path = folder / NAME
    if path.is_file():
        return TrackedRun.model_validate_json(path.read_bytes())
    begun = TrackedRun(id=secrets.token_hex(4), name=folder.as_posix(), begun_at=time.time())
    write_text(path, begun.model_dump_json(indent=2) + "\n")
    return begun


def metrics(progress: Progress, nodes: Sequence[NodeStatus]) -> dict[str, float]:
    """Everything that a run sends; `nodes` is empty without a cluster."""
    numbers = progress.metrics()
    if nodes:
        numbers["nodes/ready"] = sum(node.state == "ready" for node in nodes)
        numbers["nodes/lost_rollouts"] = sum(node.lost for node in nodes)
    return numbers


def require_wandb(settings: WandbSettings | None) -> None:
    """Raise ConfigError if wandb is wanted, and not installed."""
    if settings is not None and find_spec("wandb") is None:
        raise ConfigError(
            "runner.wandb needs wandb, which is not installed; run `pip install wandb`"
        )


def refuse_settings_of_others() -> None:
    """Raise ConfigError if wandb would read settings of the current folder that can name the server
    which gets the user's key, or a proxy to it. The folder may be one that was downloaded."""
    for path in (Path("wandb") / "settings", Path(".wandb") / "settings"):
        settings = ConfigParser(interpolation=None)
        try:
            if not settings.read(path):
                continue
            found = {key for name in settings for key in settings[name]}
        except (OSError, ValueError, ConfigParserError):
            found = {"what can't be read"}
        if others := sorted(found - HARMLESS):
            raise ConfigError(
                f"wandb would read {path.absolute()}, with {ascii(', '.join(others))[1:-1]}, which "
                "can send your key elsewhere: move it to ~/.config/wandb/settings if it is yours"
            )


@contextmanager
def wandb_run(
    settings: WandbSettings | None,
    folder: Path,
    facts: Mapping[str, Any],
    tracked: TrackedRun | None = None,
) -> Iterator[Any]:
    """A wandb run with `facts` as its config; None without settings. With `tracked`, it continues
    that run from a background thread: quietly, sending only what it is given, and apart from the
    process's own run. Without, it is the process's own run, which a trainer finds."""
    if settings is None:
        yield None
        return
    refuse_settings_of_others()
    import wandb

    name, options = settings.name, dict[str, Any]()
    if tracked is not None:
        # Weave would record what is sent to models.
        os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")
        quiet = wandb.Settings(
            silent=True,
            console="off",
            disable_code=True,
            disable_git=True,
            init_timeout=30.0,
            x_disable_meta=True,
            x_save_requirements=False,
        )
        name = name or tracked.name
        options = {"id": tracked.id, "resume": "allow", "reinit": "create_new", "settings": quiet}
    options |= {"project": settings.project, "name": name, "mode": settings.mode}
    with wandb.init(dir=str(folder), config=dict(facts), **options) as run:
        yield run


@contextmanager
def followed(
    config: RunnerConfig,
    folder: Path,
    facts: Mapping[str, Any],
    numbers: Callable[[], dict[str, float]],
) -> Iterator[None]:
    """Send metrics to wandb every `track_every` seconds and at the end, from a thread. If it fails
    or hangs, there is one warning and the run goes on without it."""
    settings = config.wandb
    if settings is None:
        yield
        return
    ended, warnings = threading.Event(), count()

    def warn(why: object) -> None:
        if next(warnings) == 0:
            logger.warning(f"wandb gets no more numbers of this run: {why}")

    def follow(tracked: TrackedRun) -> None:
        try:
            with wandb_run(settings, folder, facts, tracked) as run:
                last = False
                while not last:
                    last = ended.wait(config.track_every)
                    # Seconds since the beginning, so that steps increase over all starts.
                    run.log(numbers(), step=max(0, int(time.time() - tracked.begun_at)))
        except Exception as error:
            warn(error)

    thread = None
    try:
        tracked = tracked_run(folder)
        if settings.mode == "online":
            refuse_settings_of_others()
            import wandb

            # Finds the key, or asks for it while the terminal is free.
            wandb.login()
        thread = threading.Thread(target=follow, args=(tracked,), daemon=True)
        thread.start()
    except Exception as error:
        warn(error)
    try:
        yield
    finally:
        ended.set()
        if thread is not None:
            thread.join(END_SECONDS)
            if thread.is_alive():
                warn(f"it has not taken the last of them in {END_SECONDS:g} s")


def public(value: Any) -> Any:
    """A config as JSON to send to wandb's server, without the settings that can hold a key."""
    if isinstance(value, dict):
        hidden = {name: "(not shown)" for name in PRIVATE if value.get(name)}
        return {name: public(inner) for name, inner in value.items()} | hidden
    if isinstance(value, list):
        return [public(inner) for inner in value]
    return USER.sub("", value) if isinstance(value, str) else value
