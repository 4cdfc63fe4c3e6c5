"""State that the workers of a run share. It lives beside the driver, and ends with it."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray

from collect.errors import ConfigError
from collect.models.budget import Budget, Slots
from collect.store.files import TextFile


class SharedState:
    """An async actor: calls that wait for a slot don't block others; otherwise it handles one call
    at a time. What it learns of a request stays if the worker is lost. After a broken connection a
    call may arrive twice: slots and dollars count once; a journal or log may have a line twice."""

    def __init__(self, folder: Path, limit_dollars: float | None, spent: float) -> None:
        self._folder = folder
        self._budget = Budget(limit_dollars, spent, folder)
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._taken: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """The worker that holds a model's slot, by the slot's token."""
        self._freed = asyncio.Condition()
        self._gone: set[str] = set()

    def check(self) -> None:
        """Raises BudgetExhausted once no further request with a cost may be sent."""
        self._budget.check()

    def spent(self, worker: str, dollars: float) -> None:
        """Set what all requests of a worker have cost so far."""
        more = dollars - self._spent[worker]
        if more > 0:
            self._spent[worker] = dollars
            self._budget.add(more)

    def note(self) -> None:
        """Store what was spent so far, for the next start."""
        self._budget.note()

    async def take(self, model: str, limit: int, worker: str, token: str, seconds: float) -> bool:
        """Let a worker send one more request to a model once fewer than `limit` are in flight;
        returns False if that takes more than `seconds`. `token` identifies the request."""
        taken = self._taken[model]
        try:
            async with asyncio.timeout(seconds), self._freed:
                await self._freed.wait_for(lambda: token in taken or len(taken) < limit)
                if worker in self._gone:
                    # It asked before it was lost.
                    return False
                taken[token] = worker
                return True
        except TimeoutError:
            return False

    async def give_back(self, model: str, token: str) -> None:
        """A request has ended."""
        self._taken[model].pop(token, None)
        async with self._freed:
            self._freed.notify_all()

    async def forget(self, worker: str) -> None:
        """A worker is gone, and its requests with it."""
        self._gone.add(worker)
        for taken in self._taken.values():
            for token in [token for token, has_it in taken.items() if has_it == worker]:
                del taken[token]
        async with self._freed:
            self._freed.notify_all()

    def read_text(self, name: str) -> str | None:
        """A log or a journal, by its path in the run folder."""
        return TextFile(self._folder / name).read()

    def add_text(self, name: str, text: str) -> None:
        TextFile(self._folder / name).add(text)

    def replace_text(self, name: str, text: str | None) -> None:
        TextFile(self._folder / name).replace(text)


def _answered(call: Any) -> Any:
    """The shared state's answer to a call. Raises ConfigError if it has died or can't write to the
    run folder: no rollout can do without it."""
    try:
        return ray.get(call)
    except ray.exceptions.ActorDiedError as error:
        raise ConfigError(
            "the process beside the driver that keeps a run's dollars, its requests at once and "
            "its replies (ray::SharedState) has died; look at the memory of the driver's machine "
            f"and at Ray's logs there, and start again: the same command goes on. Ray says: {error}"
        ) from error
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, OSError):
            raise error.cause from None
        raise ConfigError(
            f"the run folder can't be written to on the driver: {error.cause}; fix that, and "
            "start again: the same command goes on"
        ) from error


class SharedLimits:
    """The limits of a whole run. See `collect.models.budget.Limits`."""

    def __init__(self, shared_state: Any, worker: str) -> None:
        """`shared_state` is the actor's handle."""
        self._shared_state, self._worker = shared_state, worker
        self._spent, self._lock = 0.0, threading.Lock()

    def check(self) -> None:
        _answered(self._shared_state.check.remote())

    def add(self, dollars: float) -> None:
        with self._lock:
            self._spent += dollars
            spent = self._spent
        _answered(self._shared_state.spent.remote(self._worker, spent))

    def note(self) -> None:
        _answered(self._shared_state.note.remote())

    def slots(self, model: str, limit: int) -> Slots:
        return SharedSlots(self._shared_state, self._worker, model, limit)


@dataclass(frozen=True)
class SharedSlots:
    """The limit on concurrent requests to one model, over all workers."""

    shared_state: Any
    worker: str
    model: str
    limit: int
    held: list[str] = field(default_factory=list)
    """Tokens of the slots taken; any of them can be given back."""

    def acquire(self, *, timeout: float) -> bool:
        token = uuid4().hex
        call = self.shared_state.take.remote(self.model, self.limit, self.worker, token, timeout)
        if _answered(call):
            self.held.append(token)
            return True
        return False

    def release(self) -> None:
        _answered(self.shared_state.give_back.remote(self.model, self.held.pop()))


@dataclass(frozen=True)
class SharedText:
    """A text in the run folder. See `collect.store.files.RunText`."""

    shared_state: Any
    name: str

    def read(self) -> str | None:
        text: str | None = _answered(self.shared_state.read_text.remote(self.name))
        return text

    def add(self, text: str) -> None:
        _answered(self.shared_state.add_text.remote(self.name, text))

    def replace(self, text: str | None) -> None:
        _answered(self.shared_state.replace_text.remote(self.name, text))
