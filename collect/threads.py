"""Jobs and blocking calls in threads of this machine, until they are done or the run is stopped."""

from __future__ import annotations

import math
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TypeVar

from collect.errors import RolloutStopped

Job = TypeVar("Job")
Result = TypeVar("Result")
POLL_SECONDS = 0.2
STOPPING = b"stepinto: stopping: what is under way ends at its next step; again to end it now\n"


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
            # What is printed from now on vanishes, unless it goes to a file: on a terminal that is
            # gone, or in a pipe whose reader has ended with it, it would raise.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for output in (1, 2):
                with suppress(OSError):
                    if not stat.S_ISREG(os.fstat(output).st_mode):
                        os.dup2(nowhere, output)
            os.close(nowhere)
        elif stop.is_set():
            os._exit(128 + number)
        else:
            # Not by a logger, whose lock the interrupted code may hold.
            with suppress(OSError):
                os.write(2, STOPPING)
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


def raise_if_stopped(stop: threading.Event) -> None:
    """Raises RolloutStopped if the run is being stopped."""
    if stop.is_set():
        raise RolloutStopped("the run is being stopped")


def result_unless_stopped(future: Future[Result], stop: threading.Event) -> Result:
    """The future's result. Raises RolloutStopped as soon as the run is stopped."""
    return result_unless(future, partial(raise_if_stopped, stop))


def result_unless(future: Future[Result], check: Callable[[], None]) -> Result:
    """The future's result; raises what `check` raises before that."""
    while True:
        check()
        # Not `result(timeout)`, because its TimeoutError may also come from the future itself.
        wait([future], POLL_SECONDS)
        if future.done():
            return future.result()


def call_unless_stopped(
    function: Callable[[], Result], stop: threading.Event, seconds: float = math.inf
) -> Result:
    """Call in a separate thread, which is abandoned if the run is stopped, or after `seconds` with
    a TimeoutError.

    A daemon thread, so that neither it nor its server can delay the program's end.
    """
    future: Future[Result] = Future()
    deadline = time.monotonic() + seconds

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # passed to the caller
            future.set_exception(error)

    def check() -> None:
        raise_if_stopped(stop)
        if time.monotonic() > deadline:
            raise TimeoutError(f"no result within {seconds:g} s")

    threading.Thread(target=call, name="model-request", daemon=True).start()
    return result_unless(future, check)


def sleep_unless_stopped(seconds: float, stop: threading.Event) -> None:
    """Sleep. Raises RolloutStopped as soon as the run is stopped."""
    if stop.wait(seconds):
        raise_if_stopped(stop)
