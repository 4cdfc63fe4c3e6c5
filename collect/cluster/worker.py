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
from collect.errors import ConfigError, RolloutStopped
from collect.places import Setup, ThisMachine
from collect.work import Rows, Work
from sandbox.errors import SandboxError

Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer:
    """What came of a rollout on a node."""

    rows: Rows | None = None
    """None where it was stopped, or refused."""
    refused: str | None = None
    """Why no rollout of the run can be done: the message of a ConfigError."""


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

    async def prepare(self, version: str, work: Work) -> str | None:
        """See whether rollouts can be done here; None, or why not. `version` is the driver's."""
        if version != code_version():
            return f"StepInto {code_version()} is installed there, and {version} on the driver"
        return await self._in_thread(partial(self._prepare, work))

    async def do(self, work: Work) -> Answer:
        """Do a rollout."""
        return await self._in_thread(partial(self._do, work))

    async def images(self) -> frozenset[str]:
        """The images of bugs that are here already."""
        return await self._in_thread(self._images.present)

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

    def _prepare(self, work: Work) -> str | None:
        limits = OfficeLimits(self._office, self._name)
        journal = partial(OfficeJournal, self._office)
        log = partial(OfficeLog, self._office)
        self._place = ThisMachine(self._setup, limits, self._stop, journal, log)
        try:
            with self._images.held(work.spec.instance):
                for check in self._place.checks([work]):
                    check.look()
        except (ConfigError, SandboxError) as error:
            return str(error)
        return None

    def _do(self, work: Work) -> Answer:
        assert self._place is not None, "prepared before"
        try:
            with self._images.held(work.spec.instance):
                return Answer(rows=self._place.do(work))
        except SandboxError as error:
            return Answer(rows=self._setup.failed(work, error))
        except RolloutStopped:
            return Answer()
        except ConfigError as error:
            return Answer(refused=str(error))
