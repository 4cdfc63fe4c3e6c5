"""Fetch container images, within a limit on disk, and make room by what was used longest ago.

A small state file tells which images StepInto has pulled, and when each was used last. No other
image is ever removed, and none that is held or that a container uses.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TextIO

from pydantic import BaseModel, ConfigDict, Field

from sandbox.engine import client_errors, connect, engine_errors, find_image, image_or_none
from sandbox.environment import cache_folder
from sandbox.errors import (
    EngineDown,
    ImageMissing,
    NoRoomForImage,
    PullLimited,
    SandboxError,
    SandboxUnavailable,
)

# Which images StepInto has pulled, when each was used last, and which are held: small files.
#
# Each engine has its own, since machines with engines of their own may share a home.


STATE = "images.json"
"""The file of releases that had one for all engines."""
NOTED_EVERY = 60.0
"""Seconds within which a second use of an image is not noted again."""


@dataclass(frozen=True)
class PulledImage:
    """An image that StepInto has fetched."""

    id: str
    """The engine's id: another one under the same name is not ours."""
    used: float
    """Seconds since the epoch."""


class ImageStore:
    """The state file of an engine, and beside it a folder with a file for each image that was ever
    held. Safe for several threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, PulledImage]:
        """By name; empty where nothing was pulled yet."""
        path = self.path if self.path.is_file() else self.path.with_name(STATE)
        if not path.is_file():
            return {}
        images = json.loads(path.read_text(encoding="utf-8"))
        return {name: PulledImage(**image) for name, image in images.items()}

    def add(self, name: str, image_id: str) -> None:
        """Note an image as pulled, and used, now. Raises SandboxUnavailable."""
        with self._changing() as images:
            images[name] = PulledImage(image_id, time.time())

    def remove(self, name: str) -> None:
        """Forget an image. Raises SandboxUnavailable."""
        with self._changing() as images:
            images.pop(name, None)

    def note_use(self, name: str) -> None:
        """Note that an image is used now, where it is one that StepInto has pulled."""
        # A home that can't be written to must not keep a sandbox from opening.
        with suppress(OSError, SandboxUnavailable):
            known = self.read().get(name)
            if known is not None and time.time() - known.used > NOTED_EVERY:
                with self._changing() as images:
                    if name in images:
                        images[name] = PulledImage(images[name].id, time.time())

    @contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """Keep an image from being evicted meanwhile, by any process. Raises SandboxUnavailable."""
        with ExitStack() as held:
            file = None
            # Without a home to write to, no image is known as pulled, and none is evicted.
            with suppress(OSError):
                file = held.enter_context(self._open_hold(name))
            if file is not None:
                with self._noting():
                    fcntl.flock(file, fcntl.LOCK_SH)
            yield

    @contextmanager
    def if_free(self, name: str) -> Iterator[bool]:
        """Whether nobody holds an image; if so, nobody can meanwhile. Raises SandboxUnavailable."""
        with ExitStack() as held:
            with self._noting():
                file = held.enter_context(self._open_hold(name))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    free = True
                except BlockingIOError:
                    free = False
            yield free

    def _open_hold(self, name: str) -> TextIO:
        folder = self.path.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        # NFS takes shared locks only on what is open for reading, exclusive ones for writing.
        return (folder / _short(name)).open("a+")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, PulledImage]]:
        with self._noting():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                images = self.read()
                yield images
                new = self.path.with_suffix(".new")
                facts = {name: vars(image) for name, image in images.items()}
                new.write_text(json.dumps(facts, indent=1), encoding="utf-8")
                new.rename(self.path)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Raises SandboxUnavailable where the files can't be written or locked."""
        try:
            yield
        except OSError as error:
            raise SandboxUnavailable(
                f"which images were fetched can't be noted in {self.path}: {error}; set "
                "XDG_CACHE_HOME to a folder that can be written to"
            ) from error


def store_here() -> ImageStore:
    """That of the engine which this process uses. Raises SandboxUnavailable, EngineDown."""
    engine = _engine_id(os.environ.get("DOCKER_HOST"))
    return ImageStore(cache_folder() / f"images-{_short(engine)}.json")


@lru_cache
@engine_errors()
def _engine_id(host: str | None) -> str:
    """Its own, of the engine at this DOCKER_HOST."""
    client = connect()
    try:
        return str(client.info()["ID"])
    finally:
        client.close()


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# Fetch one image from its registry, and say of a fetch that failed whether to try again when.


_LIMITED = re.compile(r"too ?many ?requests|rate.?limit|rate exceeded", re.IGNORECASE)
"""What registries say where they give out no more for now."""


def pull_from_registry(client: Any, image: str) -> None:
    """Fetch an image from the registry that its name tells. Raises `client_errors`."""
    from docker.errors import DockerException
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(image)
    for line in client.api.pull(repository, tag or "latest", stream=True, decode=True):
        # The client takes what fails once the first line is there for a success.
        if "error" in line:
            raise DockerException(line["error"])


def pull_failure(image: str, error: Exception) -> SandboxError:
    """What it means that a pull raised one of `client_errors`."""
    from docker.errors import APIError, DockerException

    said = str((isinstance(error, APIError) and error.explanation) or error)
    told = f"the image {image!r} can't be fetched: {said}"
    if not isinstance(error, DockerException):
        return EngineDown(told)
    return PullLimited(told) if _LIMITED.search(said) else ImageMissing(told)


GIGABYTE = 1_000_000_000
FIRST_LIMIT_WAIT, LONGEST_LIMIT_WAIT = 60.0, 900.0
"""Seconds between two tries where the registry gives out no more for now."""
MEASURING = "disk usage operation is already running"
MEASURE_AGAIN, MEASURED_WITHIN = 0.5, 30.0
"""Seconds between two tries, and in which the engine must have measured for others."""


class ImagesConfig(BaseModel):
    """How images are fetched."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parallelism: int = Field(default=2, ge=1)
    """Images fetched at once."""
    disk_gb: float = Field(default=120.0, gt=0)
    """Gigabytes (10^9 bytes) that all images of the engine may take together, layers that several
    share counted once. Looked at before each fetch, so those under way can still exceed it. A node
    of a cluster whose disk has no room for that does no rollouts."""
    max_retries: int = Field(default=2, ge=0)
    """Of a fetch that fails for another reason than the registry's limit."""
    backoff: float = Field(default=10.0, ge=0)
    """Seconds before the first retry; twice as long before each that follows."""
    pull_limit_wait: float = Field(default=21_600.0, ge=0)
    """Seconds that a fetch goes on trying where the registry gives out no more for now: after a
    minute, then two, up to 15. Rollouts that wait for it count for runner.ray.per_node."""


@dataclass
class PullReport:
    """What fetching came to."""

    wanted: frozenset[str] = frozenset()
    """Those asked for, which make no room for each other."""
    present: list[str] = field(default_factory=list)
    """Those that were there already."""
    pulled: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by image."""
    left: list[str] = field(default_factory=list)
    """Those that there was no room for."""
    used_bytes: int = 0
    """Of all the engine's images at the end."""


Pull = Callable[[Any, str], None]
"""Fetches one image by name, with a client of the engine. Raises `client_errors`."""
Event = Callable[[str], None]


def image_bytes(client: Any) -> int:
    """Bytes of all the engine's images, shared layers once."""
    found = _disk_usage(client)
    # API 1.52 leaves out a sum of 0, and 1.53 has it under another name.
    return int(found.get("LayersSize") or (found.get("ImageUsage") or {}).get("TotalSize") or 0)


def _disk_usage(client: Any) -> Any:
    """Some engines refuse while they measure for another program."""
    from docker.errors import APIError

    until = time.monotonic() + MEASURED_WITHIN
    while True:
        try:
            return client.df()
        except APIError as error:
            if MEASURING not in str(error) or time.monotonic() > until:
                raise
        time.sleep(MEASURE_AGAIN)


@dataclass
class ImagePuller:
    """Fetches images, and makes room for them. Thread-safe."""

    client: Any
    """Of the engine."""
    config: ImagesConfig
    store: ImageStore = field(default_factory=store_here)
    pull: Pull = pull_from_registry
    measure: Callable[[Any], int] = image_bytes
    """What the limit is about, of the engine."""
    on_event: Event = lambda text: None
    """Hears of each image from the worker threads."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Once it is set, a fetch that has failed is not tried again."""

    def __post_init__(self) -> None:
        self._slots = threading.BoundedSemaphore(self.config.parallelism)
        # Also for its measuring: some engines refuse to do it twice at the same time.
        self._room = threading.RLock()

    @engine_errors()
    def require(self, image: str) -> None:
        """See that the engine has an image, and fetch it where it does not.

        Raises NoRoomForImage, PullLimited, ImageMissing, EngineDown.
        """
        self._require(image, PullReport())

    @engine_errors()
    def fetch(self, images: Sequence[str]) -> PullReport:
        """Fetch those of the images that the engine does not have, several at a time.

        Before each, images that StepInto has pulled and that are not among those asked for make
        room, the one used longest ago first. Raises EngineDown.
        """
        report = PullReport(frozenset(images))
        with ThreadPoolExecutor(self.config.parallelism) as pool:
            try:
                list(pool.map(partial(self._try, report=report), dict.fromkeys(images)))
            except BaseException:
                # Else the pool would wait for those that wait for the registry.
                self.stop.set()
                raise
        with self._room:
            self._make_room(report)
            report.used_bytes = self.measure(self.client)
        return report

    def _try(self, image: str, report: PullReport) -> None:
        """The same for one image; a failure is noted."""
        try:
            self._require(image, report)
        except NoRoomForImage:
            report.left.append(image)
        except ImageMissing as error:
            report.failed[image] = str(error)
            self.on_event(f"failed: {error}")

    def _require(self, image: str, report: PullReport) -> None:
        if image_or_none(self.client, image) is not None:
            self.store.note_use(image)
            report.present.append(image)
            return
        # Kept while waiting for the registry: others should not ask it meanwhile.
        with self._slots:
            if not self._make_room(report):
                raise NoRoomForImage(
                    f"there is no room for the image {image!r} within images.disk_gb="
                    f"{self.config.disk_gb:g}: raise it, or lower runner.ray.per_node"
                )
            self.on_event(f"fetching {image}")
            self._pull(image)
        self.store.add(image, find_image(self.client, image).id)
        report.pulled.append(image)
        self.on_event(f"fetched {image}")

    def _pull(self, image: str) -> None:
        """Pull it, after a failure again. Raises PullLimited, ImageMissing, EngineDown."""
        from docker.errors import NotFound

        failures = limits = 0
        until = time.monotonic() + self.config.pull_limit_wait
        while True:
            try:
                return self.pull(self.client, image)
            except client_errors() as error:
                failure = pull_failure(image, error)
                if isinstance(failure, PullLimited):
                    wait = min(FIRST_LIMIT_WAIT * 2**limits, LONGEST_LIMIT_WAIT)
                    wait = min(wait, until - time.monotonic())
                    last, limits = wait <= 0, limits + 1
                else:
                    wait = self.config.backoff * 2**failures
                    failures += 1
                    last = failures > self.config.max_retries or isinstance(error, NotFound)
                if last or self._stopped_within(wait, failure):
                    raise failure from error

    def _stopped_within(self, seconds: float, failure: Exception) -> bool:
        self.on_event(f"again in {seconds:.3g} s: {failure}")
        return self.stop.wait(seconds)

    def _make_room(self, report: PullReport) -> bool:
        """Evict until the images take less than the limit; whether they do."""
        with self._room:
            if self._has_room():
                return True
            for name in self._evictable(report.wanted):
                if self._evict(name):
                    report.evicted.append(name)
                    self.on_event(f"evicted {name}")
                    if self._has_room():
                        return True
            return False

    def _has_room(self) -> bool:
        return self.measure(self.client) < self.config.disk_gb * GIGABYTE

    def _evictable(self, wanted: frozenset[str]) -> list[str]:
        """StepInto's own images that no container needs, the one used longest ago first."""
        in_use = {
            container.attrs["ImageID"]
            for container in self.client.containers.list(all=True, sparse=True)
        }
        pulled = self._ours(self.store.read())
        free = [
            name for name, image in pulled.items() if name not in wanted and image.id not in in_use
        ]
        return sorted(free, key=lambda name: pulled[name].used)

    def _ours(self, pulled: Mapping[str, PulledImage]) -> dict[str, PulledImage]:
        """Those still there as they were pulled; the others are forgotten."""
        found = {name: image_or_none(self.client, name) for name in pulled}
        ours = {
            name: image
            for name, image in pulled.items()
            if found[name] is not None and found[name].id == image.id
        }
        for name in pulled.keys() - ours.keys():
            self.store.remove(name)
        return ours

    def _evict(self, name: str) -> bool:
        """Whether it is gone: not where it is held, or a container of it was started meanwhile."""
        from docker.errors import APIError

        with self.store.if_free(name) as free:
            if not free:
                return False
            try:
                self.client.images.remove(name)
            except APIError as error:
                self.on_event(f"kept {name}: {error.explanation}")
                return False
        self.store.remove(name)
        return True
