"""Runs many rollouts at once."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

Job = TypeVar("Job")


class AsyncioRunner:
    """Rollouts on this machine: asyncio assigns each to a thread.

    Ctrl-C, SIGTERM and SIGHUP (a closed terminal) set `stop`: no new job starts, and running ones
    end at their next step. A second Ctrl-C or SIGTERM ends the process at once; sandboxes die with
    it.
    """

    def __init__(self, concurrency: int, stop: threading.Event) -> None:
        self._concurrency = concurrency
        self._stop = stop

    def run(self, jobs: Iterable[Job], do: Callable[[Job], None]) -> None:
        """Call `do` on every job as threads become free.

        The first exception from `do` ends the run; it is raised here once the running jobs have
        ended.
        """
        with _stopped_by_signals(self._stop):
            asyncio.run(self._run(jobs, do))

    async def _run(self, jobs: Iterable[Job], do: Callable[[Job], None]) -> None:
        waiting = iter(jobs)
        # The pool's threads outlive every job: a sandbox dies with the thread that started it.
        with ThreadPoolExecutor(self._concurrency) as pool:
            workers = [self._work(waiting, do, pool) for _ in range(self._concurrency)]
            results = await asyncio.gather(*workers, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _work(
        self, waiting: Iterator[Job], do: Callable[[Job], None], pool: ThreadPoolExecutor
    ) -> None:
        loop = asyncio.get_running_loop()
        for job in waiting:
            if self._stop.is_set():
                return
            try:
                await loop.run_in_executor(pool, do, job)
            except BaseException:
                self._stop.set()
                raise


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            # SIGHUP may come twice: from the shell and from the kernel.
            _print_nowhere()
        elif stop.is_set():
            os._exit(128 + number)
        stop.set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as `nohup` asks for
        numbers.append(signal.SIGHUP)
    earlier = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _print_nowhere() -> None:
    """Discard later output unless it goes to a file: printing to a closed terminal raises, and so
    does a pipe whose reader has ended with it.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        with suppress(OSError):
            if not stat.S_ISREG(os.fstat(output).st_mode):
                os.dup2(nowhere, output)
    os.close(nowhere)
