"""The process on a node that does rollouts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from collect.build_info import code_version
from collect.cluster.images import NodeImages
from collect.cluster.shared import OfficeJournal, OfficeLimits, OfficeLog
from collect.errors import ConfigError, EndpointDown, InvalidReply, RateLimited, RolloutStopped
from collect.places import Setup, ThisMachine
from collect.preflight.disk import DiskTooFull
from collect.work import Rows, Work
from sandbox.errors import EngineDown, ImageMissing, SandboxDead, SandboxError

Result = TypeVar("Result")
PASSING = (
    *(EndpointDown, RateLimited, InvalidReply),
    *(EngineDown, ImageMissing, SandboxDead, DiskTooFull),
)
"""What keeps a worker from getting ready, and may be over before long."""


@dataclass(frozen=True)
class Readiness:
    """Whether a worker can do rollouts."""

    images: frozenset[str] = frozenset()
    """Those on its node."""
    refused: str | None = None
    """Why it can't."""
    for_good: bool = False
    """Whether another could not either, however much later, unless one could before."""


@dataclass(frozen=True)
class Answer:
    """What came of a rollout on a node."""

    rows: Rows | None = None
    """None where it was stopped, or refused."""
    refused: str | None = None
    """Why no rollout of the run can be done: the message of a ConfigError."""
    images: frozenset[str] | None = None
    """Those on the node afterwards; None where that can't be told."""


class NodeWorker:
    """An actor of asyncio: it hears of a stop while its threads work."""

    def __init__(self, setup: Setup, office: Any, name: str, threads: int) -> None:
        """`name` is the worker's for the office."""
        self._setup, self._office, self._name = setup, office, name
        # Threads that outlive every rollout: a sandbox dies with the thread that started it.
        self._pool = ThreadPoolExecutor(threads)
        self._stop = threading.Event()
        self._images = NodeImages(setup.machinery, self._stop)
        self._place: ThisMachine | None = None

    async def prepare(self, version: str, work: Work) -> Readiness:
        """See whether rollouts can be done here, by this one's bug. `version` is the driver's."""
        if version != code_version():
            told = f"StepInto {code_version()} is installed there, and {version} on the driver"
            return Readiness(refused=told, for_good=True)
        return await self._in_thread(partial(self._prepare, work))

    async def do(self, work: Work) -> Answer:
        """Do a rollout."""
        return await self._in_thread(partial(self._do, work))

    async def stop(self) -> None:
        """Let all rollouts end at their next step."""
        self._stop.set()

    async def close(self) -> None:
        """Free what the models hold."""
        self._pool.shutdown()
        if self._place is not None:
            self._place.close()

    async def _in_thread(self, function: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def _prepare(self, work: Work) -> Readiness:
        limits = OfficeLimits(self._office, self._name)
        journal = partial(OfficeJournal, self._office)
        log = partial(OfficeLog, self._office)
        place = ThisMachine(self._setup, limits, self._stop, journal, log)
        try:
            with self._images.held(work.spec.instance):
                for check in place.checks([work]):
                    check.look()
            images = self._images.present()
        except (ConfigError, SandboxError) as error:
            place.close()
            return Readiness(refused=str(error), for_good=not may_pass(error))
        self._place = place
        return Readiness(images)

    def _do(self, work: Work) -> Answer:
        assert self._place is not None, "prepared before"
        try:
            with self._images.held(work.spec.instance):
                rows = self._place.do(work)
        except SandboxError as error:
            return Answer(self._setup.failed(work, error))
        except RolloutStopped:
            return Answer()
        except ConfigError as error:
            return Answer(refused=str(error))
        except Exception as error:
            # Of StepInto itself, or of this machine: no reason to stop all nodes. The row says all.
            return Answer(self._setup.failed(work, error))
        return Answer(rows, images=self._present())

    def _present(self) -> frozenset[str] | None:
        try:
            return self._images.present()
        except Exception:
            # Whatever it is: the rollout has its rows; the next one says what is the matter.
            return None


def may_pass(error: Exception) -> bool:
    """Whether what keeps a worker from getting ready may be over before long."""
    return isinstance(error, PASSING) or isinstance(error.__cause__, PASSING)
