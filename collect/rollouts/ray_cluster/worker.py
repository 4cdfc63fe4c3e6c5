"""The process on a node that does rollouts."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

from collect.benchmarks.base import Instance
from collect.benchmarks.marks import required_images
from collect.config import RuntimeConfig
from collect.console import log_to_stderr
from collect.errors import ConfigError, RolloutStopped
from collect.rollouts.executor import RolloutWork, Rows, Setup, ThisMachine
from collect.rollouts.ray_cluster.shared_state import SharedLimits, SharedText
from collect.store.records import code_version
from collect.threads import raise_if_stopped
from sandbox.base import retry_while_down
from sandbox.engine import connect
from sandbox.errors import NoRoomForImage, SandboxError
from sandbox.images import ImagePuller

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
POLL_SECONDS = 1.0


class NodeImages:
    """The images on a node, fetched when a bug needs them and the node has room. Thread-safe."""

    def __init__(
        self,
        runtime: RuntimeConfig,
        stop: threading.Event,
        open_puller: Callable[..., ImagePuller] = ImagePuller,
    ) -> None:
        self._runtime, self._stop, self._open_puller = runtime, stop, open_puller
        self._puller: ImagePuller | None = None
        self._opening = threading.Lock()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._changed = threading.Condition()
        self._inside = self._waiting = self._ended = 0

    @contextmanager
    def held(self, instance: Instance) -> Iterator[None]:
        """Make sure that a bug's image is here, and keep it until the context ends. Raises
        ImageMissing, SandboxUnavailable, RolloutStopped."""
        with self._changed:
            self._inside += 1
        try:
            with ExitStack() as holds:
                for image in required_images([instance], self._runtime.sandbox):
                    puller = self._ask(self._opened)
                    holds.enter_context(puller.store.holding(image))
                    self._require(puller, image)
                yield
        finally:
            with self._changed:
                self._inside -= 1
                self._ended += 1
                # All waiting threads try again, since there may be room now.
                self._waiting = 0
                self._changed.notify_all()

    def _require(self, puller: ImagePuller, image: str) -> None:
        """Fetch the image once there is room; rollouts in progress free some when they end."""
        while True:
            ended = self._ended
            try:
                # One thread fetches it; the others that need it wait.
                with self._locks[image]:
                    return self._ask(partial(puller.require, image))
            except NoRoomForImage:
                with self._changed:
                    while self._ended == ended:
                        raise_if_stopped(self._stop)
                        if self._inside - self._waiting == 1:
                            # No rollout is left that could end.
                            raise
                        self._waiting += 1
                        self._changed.wait(POLL_SECONDS)
                        if self._ended == ended:
                            self._waiting -= 1

    def _ask(self, question: Callable[[], Result]) -> Result:
        try:
            return retry_while_down(question, self._runtime.sandbox.engine_wait)
        except SandboxError:
            # A request that a stop ended has not failed.
            raise_if_stopped(self._stop)
            raise

    def _opened(self) -> ImagePuller:
        with self._opening:
            if self._puller is None:
                events = {"on_event": logger.info, "stop": self._stop}
                self._puller = self._open_puller(connect(), self._runtime.images, **events)
            return self._puller


class NodeWorker:
    """An async actor: it can receive a stop while its threads work."""

    def __init__(self, setup: Setup, shared_state: Any, name: str, threads: int) -> None:
        """`name` is the worker's name in the shared state."""
        log_to_stderr()
        self._setup, self._shared_state, self._name = setup, shared_state, name
        # These threads outlive every rollout: a sandbox dies with the thread that started it.
        self._pool = ThreadPoolExecutor(threads)
        self._stop = threading.Event()
        self._images = NodeImages(setup.runtime, self._stop)
        self._executor: ThisMachine | None = None

    async def prepare(self, version: str, work: RolloutWork) -> None:
        """Check that this rollout's bug can be run here. `version` is the driver's. Raises
        ConfigError, SandboxError."""
        await self._in_thread(partial(self._prepare, version, work))

    def _prepare(self, version: str, work: RolloutWork) -> None:
        if version != code_version():
            raise ConfigError(
                f"StepInto {code_version()} is installed there, and {version} on the driver"
            )
        limits = SharedLimits(self._shared_state, self._name)
        text = partial(SharedText, self._shared_state)
        executor = ThisMachine(self._setup, limits, self._stop, text)
        try:
            with self._images.held(work.spec.instance):
                for check in executor.checks([work]):
                    check.look()
        except (ConfigError, SandboxError):
            executor.close()
            raise
        self._executor = executor

    async def do(self, work: RolloutWork) -> Rows:
        """Do one rollout. Raises RolloutStopped, and ConfigError if none can be done."""
        return await self._in_thread(partial(self._do, work))

    def _do(self, work: RolloutWork) -> Rows:
        assert self._executor is not None, "prepared before"
        try:
            with self._images.held(work.spec.instance):
                return self._executor.do(work)
        except (RolloutStopped, ConfigError):
            raise
        except Exception as error:
            # A defect of StepInto or of this machine must not stop all nodes. The row tells it.
            return self._setup.failed(work, error)

    async def stop(self) -> None:
        """End all rollouts at their next step."""
        self._stop.set()

    async def close(self) -> None:
        self._pool.shutdown()
        if self._executor is not None:
            self._executor.close()

    async def _in_thread(self, function: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)
