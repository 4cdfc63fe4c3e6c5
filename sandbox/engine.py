"""The container engine: connecting to it, finding images, making and removing containers."""

from __future__ import annotations

import math
import random
import tarfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sandbox.base import SandboxConfig
from sandbox.bubblewrap import OWN_UIDS
from sandbox.environment import SYSTEM_PATH
from sandbox.errors import EngineDown, ImageMissing, SandboxUnavailable
from sandbox.leftovers import owner_is_dead, owner_tag

# What the client of the container engine raises, as errors of StepInto.


def client_errors() -> tuple[type[Exception], ...]:
    """All that the client raises where the engine refuses, fails or does not answer."""
    import requests
    import urllib3
    from docker.errors import DockerException

    # The last two come out of a stream, which breaks outside of what `requests` translates.
    return DockerException, requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raises SandboxUnavailable where the engine refuses what it is asked for, and EngineDown where
    it fails or does not answer."""
    from docker.errors import APIError

    try:
        yield
    except client_errors() as error:
        if isinstance(error, APIError) and error.is_client_error():
            raise SandboxUnavailable(f"the container engine refused a request: {error}") from error
        raise EngineDown(
            f"the container engine does not answer, or not as it should: {error}; `docker info` "
            "and its log show why"
        ) from error


LABEL = "stepinto"
OWNER_LABEL = "stepinto.owner"
USER_LABEL = "stepinto.user"
RESERVED_PIDS = 32
"""Processes above the sandbox's limit, so that a full container can still be swept."""
ENGINE_TIMEOUT = 120
"""Seconds for one answer of the engine; a busy one takes long to start a container."""

# No program in a container can signal the first process there, whatever its user: `kill -9 -1` ends
# the idle child of an init of the same user, and with it the container, but not this. What programs
# leave behind become its children, which it reaps by ignoring their end; `env` of coreutils before
# 8.31 and of BusyBox can't do that, and the shell waits for them.
_IDLE = """
ignoring='env --ignore-signal=CHLD'
$ignoring true 2>/dev/null && exec $ignoring sleep infinity
while :; do sleep 1000000 & wait $!; done
"""
BY_SOCKET = "http+docker://"
"""How the address of an engine of this machine begins."""


def connect() -> Any:
    """A client of the container engine. Raises EngineDown where none answers."""
    import docker

    try:
        client = docker.from_env(timeout=ENGINE_TIMEOUT)
        client.ping()
    except client_errors() as error:
        raise EngineDown(
            "no container engine answers: start Docker, or name it in DOCKER_HOST "
            f"(`docker info` shows whether it runs). It said: {error}"
        ) from error
    return client


@engine_errors()
def local_root() -> Path | None:
    """Where the engine keeps images and containers; None where that is no folder of this machine.

    Raises EngineDown.
    """
    client = connect()
    try:
        root = Path(client.info()["DockerRootDir"])
        return root if client.api.base_url.startswith(BY_SOCKET) and root.is_dir() else None
    finally:
        client.close()


@engine_errors()
def image_or_none(client: Any, image: str) -> Any:
    """A local image by tag, digest or id, or None. Raises EngineDown."""
    from docker.errors import ImageNotFound

    try:
        return client.images.get(image)
    except ImageNotFound:
        return None


def find_image(client: Any, image: str) -> Any:
    """A local image by tag, digest or id. Raises ImageMissing, EngineDown; nothing is pulled."""
    found = image_or_none(client, image)
    if found is None:
        raise ImageMissing(
            f"the image {image!r} is not on this machine: get it with `docker pull {image}`, "
            "or load it from a file with `docker load -i FILE`; `stepinto bench pull CONFIG` gets "
            "all those of a config's bugs"
        )
    return found


def digest_of(image: Any) -> str:
    """What an image holds, as its registry names it; its id where it came from none."""
    digests = image.attrs.get("RepoDigests") or [image.id]
    return str(digests[0])


def choose_users(image: Any) -> tuple[int, int]:
    """The uid of an image's sandbox, and that of its read-only commands.

    Its own number, unless the image asks for another: by the label `stepinto.user`, or by a
    USER that is a number other than root's.
    """
    named = str((image.attrs["Config"].get("User") or "").partition(":")[0])
    labelled = _labelled_user(image)
    own = _own_number()
    if labelled is not None:
        return int(labelled), own
    return (int(named) if named.isdigit() and int(named) else own), own + 1


def _labelled_user(image: Any) -> str | None:
    labels = image.attrs["Config"].get("Labels") or {}
    return labels.get(USER_LABEL)


def _own_number() -> int:
    return random.SystemRandom().choice(range(OWN_UIDS.start, OWN_UIDS.stop - 1_000_000))


@engine_errors()
def create_container(
    client: Any, config: SandboxConfig, image: Any, uid: int | None, folder: str
) -> Any:
    """Create, without starting it, a hardened container that idles until it is removed.

    `uid` None: a user that the image knows, and whose processes on the whole machine are not
    counted against the limit. Raises SandboxUnavailable, EngineDown.
    """
    from docker.errors import APIError
    from docker.types import Ulimit

    # Commands in an image's workspace may run as root: then the first process does not, for a
    # process can be debugged by its own user. An image with a label may be root's alone.
    idle = 0 if uid is not None or _labelled_user(image) else _own_number()
    size = config.file_size_mb * 1024 * 1024
    files = config.open_files
    ulimits = [
        Ulimit(name="fsize", soft=size, hard=size),
        Ulimit(name="nofile", soft=files, hard=files),
        Ulimit(name="core", soft=0, hard=0),
    ]
    if uid is not None and uid in OWN_UIDS:
        # The kernel counts a user's processes on the whole machine: only for a user of its own.
        ulimits.append(Ulimit(name="nproc", soft=config.pids, hard=config.pids))
    try:
        return client.containers.create(
            image.id,
            entrypoint=["sh", "-c"],
            command=[_IDLE],
            user=f"{idle}:{idle}",
            working_dir=folder,
            labels={LABEL: "1", OWNER_LABEL: owner_tag()},
            init=False,
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit=f"{config.memory_mb}m",
            memswap_limit=f"{config.memory_mb}m",
            nano_cpus=int(config.cpus * 1e9),
            pids_limit=config.pids + RESERVED_PIDS,
            ulimits=ulimits,
            healthcheck={"test": ["NONE"]},
        )
    except APIError as error:
        raise SandboxUnavailable(f"the container engine refused the sandbox: {error}") from error


@engine_errors()
def owner_of(container: Any, folder: str, image: str) -> int:
    """The uid that a folder of a container belongs to. Raises SandboxUnavailable, EngineDown."""
    from docker.errors import NotFound

    try:
        chunks, _ = container.get_archive(folder)
    except NotFound as error:
        raise SandboxUnavailable(
            f"the image {image!r} has no folder {folder}, where its bug's code should lie; is it "
            "the image of another benchmark?"
        ) from error
    first = next(iter(chunks))
    chunks.close()
    entry = tarfile.TarInfo.frombuf(first[: tarfile.BLOCKSIZE], "utf-8", "replace")
    if not entry.isdir():
        raise SandboxUnavailable(f"{folder} of the image {image!r} is not a folder")
    return entry.uid


def path_of(image: Any, before: Sequence[str]) -> str:
    """The PATH of an image's commands, with these folders before its own."""
    variables = dict(line.partition("=")[::2] for line in image.attrs["Config"].get("Env") or ())
    return ":".join([*before, variables.get("PATH") or SYSTEM_PATH])


def kill_container(client: Any, container: str) -> None:
    """End all that runs in it; one that has ended already is fine."""
    with suppress(*client_errors()):
        client.api.kill(container)


def remove_container(client: Any, container: str) -> bool:
    """Kill and remove a container with its volumes; whether it is gone now.

    One that the engine can't remove is told: what was done in it is done, and the next start of
    StepInto, or `stepinto clean`, removes it.
    """
    from docker.errors import APIError, NotFound

    try:
        client.api.remove_container(container, force=True, v=True)
    except NotFound:
        return True
    except client_errors() as error:
        # Another close is at it already.
        if isinstance(error, APIError) and "already in progress" in str(error):
            return True
        warnings.warn(f"the container {container[:12]} was not removed: {error}", stacklevel=2)
        return False
    return True


@dataclass(frozen=True)
class LeftContainers:
    """What came of StepInto's containers that are not of a process which lives here: their ids."""

    removed: list[str] = field(default_factory=list)
    of_others: list[str] = field(default_factory=list)
    """Left alone: whether their process lives can't be told from here."""


@engine_errors()
def remove_leftover_containers(of_others: bool = False) -> LeftContainers:
    """Remove the containers of StepInto processes of this machine that have died.

    `of_others`: also those of which that can't be told, since their process is of another machine
    or PID namespace. Raises EngineDown.
    """
    client = connect()
    left = LeftContainers()
    try:
        ours = {"label": f"{LABEL}=1"}
        for container in client.containers.list(all=True, filters=ours, ignore_removed=True):
            dead = owner_is_dead(container.labels.get(OWNER_LABEL, ""))
            if dead is None and not of_others:
                left.of_others.append(str(container.id))
            elif dead is not False and remove_container(client, container.id):
                left.removed.append(str(container.id))
    finally:
        client.close()
    return left


# The container engine under load: so many sandboxes start at once, and none while it is down.


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
