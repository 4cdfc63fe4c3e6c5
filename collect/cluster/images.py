"""The images on a node: fetched when a bug needs them, within the node's room for them."""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import cached_property
from typing import Any

from collect.benchmarks.base import Instance
from collect.benchmarks.images import required_images
from collect.config import Machinery
from sandbox.engine import connect
from sandbox.errors import ImageMissing, PullLimited
from sandbox.images import ImagePuller

PULL_LIMIT_SIGNS = ("toomanyrequests", "too many requests", "rate limit", "429")
"""What registries say where they give out no more for now."""


class NodeImages:
    """Thread-safe."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._fetching = threading.BoundedSemaphore(machinery.images.parallelism)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def require(self, instance: Instance) -> None:
        """See that a bug's image is here. Raises ImageMissing, SandboxUnavailable."""
        for image in required_images([instance], self._machinery.sandbox):
            # One fetches it, and the others that need it wait for that one.
            with self._locks[image]:
                self._fetch(image)

    def present(self) -> frozenset[str]:
        """The names of all images; none where the sandbox is no container."""
        if self._machinery.sandbox.backend != "docker":
            return frozenset()
        images = self._client.images.list()
        return frozenset(tag for image in images for tag in image.tags)

    def _fetch(self, image: str) -> None:
        with self._fetching:
            report = ImagePuller(self._client, self._machinery.images).fetch([image])
        if image in report.failed:
            said = report.failed[image]
            limited = any(sign in said.lower() for sign in PULL_LIMIT_SIGNS)
            failure = PullLimited if limited else ImageMissing
            raise failure(f"the image {image!r} can't be fetched: {said}")
        if image in report.left:
            raise ImageMissing(
                f"there is no room for the image {image!r} within images.disk_gb="
                f"{self._machinery.images.disk_gb:g}: raise it, or lower runner.ray.per_node"
            )

    @cached_property
    def _client(self) -> Any:
        return connect()
