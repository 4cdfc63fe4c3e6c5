"""Fetch container images, within a limit on disk, and make room by what was used longest ago.

A small state file tells which images StepInto has pulled, and when each was used last. No other
image is ever removed, and none that a container uses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sandbox.image_store import ImageStore, PulledImage

GIGABYTE = 1_000_000_000


class ImagesConfig(BaseModel):
    """How images are fetched."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parallelism: int = Field(default=2, ge=1)
    """Images fetched at once."""
    disk_gb: float = Field(default=120.0, gt=0)
    """Gigabytes (10^9 bytes) that all images of the engine may take together, layers that several
    share counted once. Looked at before each fetch, so those under way can still exceed it."""
    max_retries: int = Field(default=2, ge=0)
    """Of a fetch that fails, as where the registry limits them."""
    backoff: float = Field(default=10.0, ge=0)
    """Seconds before the first retry; twice as long before each that follows."""


@dataclass
class PullReport:
    """What fetching came to."""

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
"""Fetches one image by name, with a client of the engine. Raises DockerException."""
Event = Callable[[str], None]


def pull_from_registry(client: Any, image: str) -> None:
    """Fetch an image from the registry that its name tells. Raises DockerException."""
    client.images.pull(image)


def image_bytes(client: Any) -> int:
    """Bytes of all the engine's images, shared layers once."""
    return int(client.df()["LayersSize"] or 0)


@dataclass
class ImagePuller:
    """Fetches images, and makes room for them."""

    client: Any
    """Of the engine."""
    config: ImagesConfig
    store: ImageStore = field(default_factory=ImageStore)
    pull: Pull = pull_from_registry
    measure: Callable[[Any], int] = image_bytes
    """What the limit is about, of the engine."""
    on_event: Event = lambda text: None
    """Hears of each image from the worker threads."""
    _wanted: set[str] = field(default_factory=set)
    _report: PullReport = field(default_factory=PullReport)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fetch(self, images: Sequence[str]) -> PullReport:
        """Fetch those of the images that the engine does not have, several at a time.

        Before each, images that StepInto has pulled and that are not among those asked for make
        room, the one used longest ago first.
        """
        self._wanted, self._report = set(images), PullReport()
        with ThreadPoolExecutor(self.config.parallelism) as pool:
            list(pool.map(self._fetch_one, dict.fromkeys(images)))
        self._make_room()
        self._report.used_bytes = self.measure(self.client)
        return self._report

    def _fetch_one(self, image: str) -> None:
        """Pull one image, if it is missing and there is room. A failure is noted."""
        from docker.errors import DockerException

        if self._id(image) is not None:
            self.store.note_use(image)
            self._report.present.append(image)
            return
        if not self._make_room():
            self._report.left.append(image)
            return
        self.on_event(f"fetching {image}")
        try:
            self._pull(image)
        except DockerException as error:
            self._report.failed[image] = str(error)
            self.on_event(f"failed: {image}: {error}")
            return
        self.store.add(image, self._id(image) or "")
        self._report.pulled.append(image)
        self.on_event(f"fetched {image}")

    def _pull(self, image: str) -> None:
        """Pull it, after a failure again. Raises DockerException."""
        from docker.errors import DockerException, NotFound

        for retry in range(self.config.max_retries):
            try:
                return self.pull(self.client, image)
            except NotFound:
                raise
            except DockerException as error:
                wait = self.config.backoff * 2**retry
                self.on_event(f"again in {wait:g} s: {image}: {error}")
                time.sleep(wait)
        return self.pull(self.client, image)

    def _make_room(self) -> bool:
        """Evict until the images take less than the limit; whether they do."""
        with self._lock:
            if self._has_room():
                return True
            for name in self._evictable():
                if self._evict(name):
                    self._report.evicted.append(name)
                    self.on_event(f"evicted {name}")
                    if self._has_room():
                        return True
            return False

    def _has_room(self) -> bool:
        return self.measure(self.client) < self.config.disk_gb * GIGABYTE

    def _evictable(self) -> list[str]:
        """StepInto's own images that nobody needs now, the one used longest ago first."""
        in_use = {
            container.attrs["ImageID"]
            for container in self.client.containers.list(all=True, sparse=True)
        }
        pulled = self._ours(self.store.read())
        free = [
            name
            for name, image in pulled.items()
            if name not in self._wanted and image.id not in in_use
        ]
        return sorted(free, key=lambda name: pulled[name].used)

    def _ours(self, pulled: Mapping[str, PulledImage]) -> dict[str, PulledImage]:
        """Those still there as they were pulled; the others are forgotten."""
        ours = {name: image for name, image in pulled.items() if self._id(name) == image.id}
        for name in pulled.keys() - ours.keys():
            self.store.remove(name)
        return ours

    def _evict(self, name: str) -> bool:
        from docker.errors import APIError

        try:
            self.client.images.remove(name)
        except APIError as error:
            # A container of it was started in the meantime.
            self.on_event(f"kept {name}: {error.explanation}")
            return False
        self.store.remove(name)
        return True

    def _id(self, image: str) -> str | None:
        from docker.errors import ImageNotFound

        try:
            return str(self.client.images.get(image).id)
        except ImageNotFound:
            return None
