"""Fetch container images within a disk limit, and evict the least recently used ones.

A small state file records which images StepInto has pulled and when each was last used. Other
images are never removed, nor are images that are held or that a container uses.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
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

NOTED_EVERY = 60.0
"""Seconds within which a second use of an image is not recorded again."""


@dataclass(frozen=True)
class PulledImage:
    id: str
    """The engine's id; an image with another id under the same name is not ours."""
    used: float
    """Time of the last use, in seconds since the epoch."""


class ImageStore:
    """The state file of an engine, and a folder beside it with a lock file for each image that was
    ever held. Each engine has its own, since machines with separate engines may share a home. Safe
    for several threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, PulledImage]:
        """The pulled images by name; empty if nothing was pulled yet."""
        if not self.path.is_file():
            return {}
        images = json.loads(self.path.read_text(encoding="utf-8"))
        return {name: PulledImage(**image) for name, image in images.items()}

    def add(self, name: str, image_id: str) -> None:
        """Record an image as pulled and used now. Raises SandboxUnavailable."""
        with self._changing() as images:
            images[name] = PulledImage(image_id, time.time())

    def remove(self, name: str) -> None:
        """Forget an image. Raises SandboxUnavailable."""
        with self._changing() as images:
            images.pop(name, None)

    def note_use(self, name: str) -> None:
        """Record that an image is used now, if StepInto has pulled it."""
        # An unwritable home must not keep a sandbox from opening.
        with suppress(OSError, SandboxUnavailable):
            known = self.read().get(name)
            if known is not None and time.time() - known.used > NOTED_EVERY:
                with self._changing() as images:
                    if name in images:
                        images[name] = PulledImage(images[name].id, time.time())

    @contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """Keep any process from evicting an image. Raises SandboxUnavailable."""
        with ExitStack() as held:
            # Without a writable home, no image is known as pulled, so none is evicted.
            with suppress(OSError):
                file = held.enter_context(self._open_hold(name))
                with self._noting():
                    fcntl.flock(file, fcntl.LOCK_SH)
            yield

    @contextmanager
    def if_free(self, name: str) -> Iterator[bool]:
        """Whether nobody holds an image, nor can while this is open. Raises SandboxUnavailable."""
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
        # NFS requires read access for shared locks, write access for exclusive ones.
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
        """Raises SandboxUnavailable if the files can't be written or locked."""
        try:
            yield
        except OSError as error:
            raise SandboxUnavailable(
                f"which images were fetched can't be noted in {self.path}: {error}; set "
                "XDG_CACHE_HOME to a folder that can be written to"
            ) from error


def store_here() -> ImageStore:
    """The store of the engine that this process uses. Raises SandboxUnavailable, EngineDown."""
    engine = _engine_id(os.environ.get("DOCKER_HOST"))
    return ImageStore(cache_folder() / f"images-{_short(engine)}.json")


@lru_cache
@engine_errors()
def _engine_id(host: str | None) -> str:
    """The id of the engine at this DOCKER_HOST."""
    with closing(connect()) as client:
        return str(client.info()["ID"])


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_LIMITED = re.compile(r"too ?many ?requests|rate.?limit|rate exceeded", re.IGNORECASE)
"""What registries say when a rate limit is reached."""


def pull_from_registry(client: Any, image: str) -> None:
    """Pull an image from the registry in its name. Raises `client_errors`."""
    from docker.errors import DockerException
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(image)
    for line in client.api.pull(repository, tag or "latest", stream=True, decode=True):
        # The client reports success after the first line even if the pull fails later.
        if "error" in line:
            raise DockerException(line["error"])


def pull_failure(image: str, error: Exception) -> SandboxError:
    """Translate one of `client_errors` raised by a pull."""
    from docker.errors import APIError, DockerException

    said = str((isinstance(error, APIError) and error.explanation) or error)
    told = f"the image {image!r} can't be fetched: {said}"
    if not isinstance(error, DockerException):
        return EngineDown(told)
    return PullLimited(told) if _LIMITED.search(said) else ImageMissing(told)


GIGABYTE = 1_000_000_000
FIRST_LIMIT_WAIT, LONGEST_LIMIT_WAIT = 60.0, 900.0
"""Seconds between tries while the registry's rate limit is reached."""
MEASURING = "disk usage operation is already running"
MEASURE_AGAIN, MEASURED_WITHIN = 0.5, 30.0
"""Seconds between tries, and total seconds to wait while the engine measures for others."""


class ImagesConfig(BaseModel):
    """How images are fetched."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parallelism: int = Field(default=2, ge=1)
    """Images fetched at once."""
    disk_gb: float = Field(default=120.0, gt=0)
    """Gigabytes (10^9 bytes) that all images of the engine may take together, with shared layers
    counted once. Checked before each fetch, so fetches under way can still exceed it. A cluster
    node whose disk has less room does no rollouts."""
    max_retries: int = Field(default=2, ge=0)
    """Retries of a fetch that fails for another reason than the registry's rate limit."""
    backoff: float = Field(default=10.0, ge=0)
    """Seconds before the first retry; doubles with each retry."""
    pull_limit_wait: float = Field(default=21_600.0, ge=0)
    """Seconds to keep retrying a fetch while the registry's rate limit is reached: after a minute,
    then two, up to 15. Rollouts that wait for it count towards runner.ray.per_node."""


@dataclass
class PullReport:
    wanted: frozenset[str] = frozenset()
    """The requested images, which are not evicted for each other."""
    present: list[str] = field(default_factory=list)
    """Images that were already there."""
    pulled: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Errors by image."""
    left: list[str] = field(default_factory=list)
    """Images that did not fit."""
    used_bytes: int = 0
    """Bytes of all the engine's images at the end."""


def image_bytes(client: Any) -> int:
    """Bytes of all the engine's images, with shared layers counted once."""
    from docker.errors import APIError

    until = time.monotonic() + MEASURED_WITHIN
    while True:
        try:
            found = client.df()
            break
        except APIError as error:
            if MEASURING not in str(error) or time.monotonic() > until:
                raise
        time.sleep(MEASURE_AGAIN)
    # API 1.52 omits a sum of 0, and 1.53 renames it.
    return int(found.get("LayersSize") or (found.get("ImageUsage") or {}).get("TotalSize") or 0)


@dataclass
class ImagePuller:
    """Pulls images and makes room for them. Thread-safe."""

    client: Any
    """A client of the engine."""
    config: ImagesConfig
    store: ImageStore = field(default_factory=store_here)
    pull: Callable[[Any, str], None] = pull_from_registry
    measure: Callable[[Any], int] = image_bytes
    """Measures what `disk_gb` limits."""
    on_event: Callable[[str], None] = lambda text: None
    """Called for each image, from the worker threads."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Once set, failed fetches are not retried."""

    def __post_init__(self) -> None:
        self._slots = threading.BoundedSemaphore(self.config.parallelism)
        # Also guards measuring, since some engines refuse two at the same time.
        self._room = threading.RLock()

    @engine_errors()
    def require(self, image: str) -> None:
        """Fetch an image unless the engine has it.

        Raises NoRoomForImage, PullLimited, ImageMissing, EngineDown.
        """
        self._require(image, PullReport())

    @engine_errors()
    def fetch(self, images: Sequence[str]) -> PullReport:
        """Fetch the images that the engine does not have, several at a time.

        Before each fetch, evicts images that StepInto has pulled and that were not requested, least
        recently used first. Raises EngineDown.
        """
        report = PullReport(frozenset(images))

        def fetch_one(image: str) -> None:
            try:
                self._require(image, report)
            except NoRoomForImage:
                report.left.append(image)
            except ImageMissing as error:
                report.failed[image] = str(error)
                self.on_event(f"failed: {error}")

        with ThreadPoolExecutor(self.config.parallelism) as pool:
            try:
                list(pool.map(fetch_one, dict.fromkeys(images)))
            except BaseException:
                # Otherwise the pool would wait for threads that wait for the registry.
                self.stop.set()
                raise
        with self._room:
            self._make_room(report)
            report.used_bytes = self.measure(self.client)
        return report

    def _require(self, image: str, report: PullReport) -> None:
        if image_or_none(self.client, image) is not None:
            self.store.note_use(image)
            report.present.append(image)
            return
        # Held while waiting for the registry, so that others don't ask it meanwhile.
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
        """Pull with retries, of which those for a rate limit are bounded by time and others by
        number. Raises PullLimited, ImageMissing, EngineDown."""
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
                if last:
                    raise failure from error
                self.on_event(f"again in {wait:.3g} s: {failure}")
                if self.stop.wait(wait):
                    raise failure from error

    def _make_room(self, report: PullReport) -> bool:
        """Evict until the images are below the limit; returns whether they are."""
        limit = self.config.disk_gb * GIGABYTE
        with self._room:
            if self.measure(self.client) < limit:
                return True
            containers = self.client.containers.list(all=True, sparse=True)
            in_use = {container.attrs["ImageID"] for container in containers}
            pulled = self.store.read().items()
            for name, image in sorted(pulled, key=lambda item: (item[1].used, item[0])):
                found = image_or_none(self.client, name)
                if found is None or found.id != image.id:
                    # Somebody removed or replaced it.
                    self.store.remove(name)
                elif name not in report.wanted and image.id not in in_use and self._evict(name):
                    report.evicted.append(name)
                    self.on_event(f"evicted {name}")
                    if self.measure(self.client) < limit:
                        return True
            return False

    def _evict(self, name: str) -> bool:
        """Evict an image; False if it is held or a container of it has started."""
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
