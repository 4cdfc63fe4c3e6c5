"""What the workers of a run share. Lives beside the driver, and ends with it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

from collect.errors import BudgetExhausted
from collect.models.budget import Budget
from collect.rollout_journal import replies_of
from collect.watching.log_lines import log_file


class Office:
    """An actor of asyncio: others are heard while some wait for a slot of a model, and else it
    answers one call at a time. What it is told of a request stays, should the worker be lost. Each
    call may come twice, where a connection breaks: slots and dollars count once, and a journal or a
    log may have a line twice."""

    def __init__(self, folder: Path, limit_dollars: float | None, spent: float) -> None:
        """`folder` is the run's."""
        self._folder = folder
        self._budget = Budget(limit_dollars, spent, folder)
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._taken: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """The worker that has a slot of a model, by the slot's token."""
        self._freed = asyncio.Condition()
        self._gone: set[str] = set()

    def exhausted(self) -> str | None:
        """Why no request may be sent any more that costs; None: it may."""
        try:
            self._budget.check()
        except BudgetExhausted as error:
            return str(error)
        return None

    def spent(self, worker: str, dollars: float) -> None:
        """Count what all requests of a worker have cost so far."""
        more = dollars - self._spent[worker]
        if more > 0:
            self._spent[worker] = dollars
            self._budget.add(more)

    def note(self) -> None:
        """Keep what was spent so far, for the next start."""
        self._budget.note()

    async def take(self, model: str, limit: int, worker: str, token: str, seconds: float) -> bool:
        """Let a worker send one request more to a model as soon as fewer than `limit` are under
        way; whether that was so within these seconds. `token` is the request's own."""
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
        """A request was answered."""
        self._taken[model].pop(token, None)
        await self._tell()

    async def forget(self, worker: str) -> None:
        """A worker is gone, and its requests with it."""
        self._gone.add(worker)
        for taken in self._taken.values():
            for token in [token for token, has_it in taken.items() if has_it == worker]:
                del taken[token]
        await self._tell()

    def add_log(self, rollout_id: str, text: str) -> None:
        """Keep more of a rollout's log."""
        log_file(self._folder, rollout_id).add(text)

    def replies(self, rollout_id: str) -> str | None:
        """The journal of a rollout."""
        return replies_of(self._folder, rollout_id).read()

    def add_replies(self, rollout_id: str, text: str) -> None:
        """Keep more of it."""
        replies_of(self._folder, rollout_id).add(text)

    def replace_replies(self, rollout_id: str, text: str | None) -> None:
        """Keep others, or none."""
        replies_of(self._folder, rollout_id).replace(text)

    async def _tell(self) -> None:
        """Let those who wait for a slot look again."""
        async with self._freed:
            self._freed.notify_all()
