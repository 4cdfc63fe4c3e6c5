"""The images on a node: fetched when a bug needs them, within the node's room for them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

from collect.benchmarks.base import Instance
from collect.benchmarks.images import required_images
from collect.config import Machinery
from collect.models.waiting import raise_if_stopped
from collect.telling import tell
from sandbox.engine import connect
from sandbox.engine_errors import engine_errors
from sandbox.errors import NoRoomForImage, SandboxError
from sandbox.images import ImagePuller
from sandbox.opening import ENGINE

Answer = TypeVar("Answer")
POLL_SECONDS = 1.0


class NodeImages:
    """Thread-safe."""

    def __init__(
        self,
        machinery: Machinery,
        stop: threading.Event,
        open_puller: Callable[..., ImagePuller] = ImagePuller,
    ) -> None:
        self._machinery, self._stop, self._open_puller = machinery, stop, open_puller
        self._puller: ImagePuller | None = None
        self._opening = threading.Lock()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._changed = threading.Condition()
        self._inside = self._waiting = self._ended = 0

    @contextmanager
    def held(self, instance: Instance) -> Iterator[None]:
        """See that a bug's image is here, and keep it here until the end.

        Raises ImageMissing, SandboxUnavailable, RolloutStopped.
        """
        self._enter()
        try:
            with ExitStack() as holds:
                for image in required_images([instance], self._machinery.sandbox):
                    puller = self._ask(self._opened)
                    holds.enter_context(puller.store.holding(image))
                    self._require(puller, image)
                yield
        finally:
            self._leave()

    @engine_errors()
    def present(self) -> frozenset[str]:
        """All names of all images, as bugs may give them: tags, also without `:latest`, and
        digests. None where the sandbox is no container. Raises EngineDown."""
        if self._machinery.sandbox.backend != "docker":
            return frozenset()
        images = self._opened().client.api.images()
        named = [(image["RepoTags"] or []) + (image["RepoDigests"] or []) for image in images]
        names = {name for each in named for name in each}
        return frozenset(names | {name.removesuffix(":latest") for name in names})

    def _require(self, puller: ImagePuller, image: str) -> None:
        """Have it, as soon as there is room: what rollouts under way hold makes room once they
        have ended."""
        while True:
            ended = self._ended
            try:
                # One fetches it, and the others that need it wait for that one.
                with self._locks[image]:
                    return self._ask(partial(puller.require, image))
            except NoRoomForImage:
                if not self._another_ends(ended):
                    raise

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        try:
            return ENGINE.ask(question, self._machinery.sandbox.engine_wait)
        except SandboxError:
            # What was given up for that is no failure.
            raise_if_stopped(self._stop)
            raise

    def _another_ends(self, ended: int) -> bool:
        """Wait until more than `ended` rollouts have; False where none is left that could."""
        with self._changed:
            while self._ended == ended:
                raise_if_stopped(self._stop)
                if self._inside - self._waiting == 1:
                    return False
                self._waiting += 1
                self._changed.wait(POLL_SECONDS)
                if self._ended == ended:
                    self._waiting -= 1
        return True

    def _enter(self) -> None:
        with self._changed:
            self._inside += 1

    def _leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._ended += 1
            # All that wait try again, and may have what they need.
            self._waiting = 0
            self._changed.notify_all()

    def _opened(self) -> ImagePuller:
        with self._opening:
            if self._puller is None:
                config = self._machinery.images
                self._puller = self._open_puller(connect(), config, on_event=tell, stop=self._stop)
            return self._puller
