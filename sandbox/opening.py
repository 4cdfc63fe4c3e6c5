"""Choose and open a sandbox backend."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from sandbox.base import ImageWorkspace, Sandbox, SandboxConfig
from sandbox.errors import EngineDown, SandboxUnavailable

Answer = TypeVar("Answer")
FIRST_WAIT, LONGEST_WAIT = 1.0, 15.0
"""Seconds between requests to an engine that is down."""
_starts: dict[int, threading.BoundedSemaphore] = {}
"""One for each value of `starts_at_once` in this process."""


def open_sandbox(
    config: SandboxConfig, image: str | None = None, workspace: ImageWorkspace | None = None
) -> Sandbox:
    """Open a fresh sandbox with an empty workspace, or with the image's `workspace`.

    `image` is the instance's own image, used if the config names none. Raises SandboxUnavailable,
    ImageMissing.
    """
    if config.backend == "local":
        if workspace is not None:
            raise SandboxUnavailable(
                f"the code under test lies in {workspace.folder} of the image {image}: set "
                "sandbox.backend=docker"
            )
        from sandbox.local import LocalSandbox

        return LocalSandbox(config)
    chosen = config.image or image
    if chosen is None:
        raise SandboxUnavailable(
            "the docker sandbox needs an image: set sandbox.image, or use a benchmark whose "
            "instances name one"
        )
    from sandbox.container import ContainerSandbox

    slots = _starts.setdefault(
        config.starts_at_once, threading.BoundedSemaphore(config.starts_at_once)
    )

    def start() -> Sandbox:
        with slots:
            return ContainerSandbox(config, chosen, workspace)

    return retry_while_down(start, config.engine_wait)


def retry_while_down(request: Callable[[], Answer], patience: float) -> Answer:
    """Send a request to the container engine, and again while the engine is down. Raises EngineDown
    `patience` seconds after the first failure, and whatever else `request` raises."""
    deadline: float | None = None
    wait = FIRST_WAIT
    while True:
        try:
            return request()
        except EngineDown:
            # A slow request must not use up the patience before its first failure.
            deadline = deadline or time.monotonic() + patience
            if time.monotonic() + wait >= deadline:
                raise
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def backend_name(config: SandboxConfig) -> str:
    """The backend's name in records; `local-unsafe` if commands run on the host itself, for lack of
    bubblewrap."""
    on_host = config.backend == "local" and config.unsafe and shutil.which("bwrap") is None
    return "local-unsafe" if on_host else config.backend


def clean_up(config: SandboxConfig) -> None:
    """Remove folders or containers that killed runs left behind on this machine."""
    if config.backend == "local":
        from sandbox.leftovers import remove_leftovers

        remove_leftovers()
        return
    from sandbox.engine import remove_leftover_containers

    remove_leftover_containers()
