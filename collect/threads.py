"""Jobs in threads of this machine, until they are done or somebody stops them."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TypeVar

Job = TypeVar("Job")


def run_in_threads(
    jobs: Iterable[Job], do: Callable[[Job], None], concurrency: int, stop: threading.Event
) -> None:
    """Call `do` on every job, in so many threads; jobs are taken as there is room.

    Ctrl-C, SIGTERM, and SIGHUP as from a terminal that goes away, set `stop`: no job is started
    any more, and those under way end at their next step. A second Ctrl-C or SIGTERM ends the
    process at once; sandboxes die with it. The first exception that `do` raises sets `stop` too,
    and is raised here once the jobs under way have ended.
    """
    running: set[Future[None]] = set()
    # The pool's threads outlive every job: a sandbox dies with the thread that started it.
    with _stopped_by_signals(stop), ThreadPoolExecutor(concurrency) as pool:
        try:
            waiting = iter(jobs)
            while True:
                for job in islice(waiting, 0 if stop.is_set() else concurrency - len(running)):
                    running.add(pool.submit(do, job))
                if not running:
                    return
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()
        except BaseException:
            stop.set()
            raise


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            # It may come several times: of the shell, and of the kernel. What is printed from now
            # on vanishes, unless it goes to a file: on a terminal that is gone it raises, and so it
            # does in a pipe whose reader has ended with that terminal.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for output in (1, 2):
                with suppress(OSError):
                    if not stat.S_ISREG(os.fstat(output).st_mode):
                        os.dup2(nowhere, output)
            os.close(nowhere)
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
