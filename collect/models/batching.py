"""Requests of many threads, run together."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from collect.errors import RolloutStopped

Job = TypeVar("Job")
Result = TypeVar("Result")


class Batcher(Generic[Job, Result]):
    """One worker thread that gathers what others submit, and runs it in batches."""

    def __init__(
        self,
        run: Callable[[Sequence[Job]], Sequence[Result]],
        max_batch: int,
        wait_seconds: float,
    ) -> None:
        """`run` is called in the worker only, with at least one job, and answers in order."""
        self._run = run
        self._max_batch = max_batch
        self._wait_seconds = wait_seconds
        self._queue: queue.SimpleQueue[tuple[Job, Future[Result]] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        threading.Thread(target=self._work, name="batcher", daemon=True).start()

    def submit(self, job: Job) -> Future[Result]:
        """Ask for one job. The future raises what `run` raised, for every job of the batch."""
        future: Future[Result] = Future()
        self._queue.put((job, future))
        return future

    def close(self) -> None:
        """End after the batch that is running; what still waits raises RolloutStopped."""
        self._closed.set()
        self._queue.put(None)

    def _work(self) -> None:
        while not self._closed.is_set():
            batch = self._gather()
            if batch:
                self._run_batch(batch)
        while not self._queue.empty():
            waiting = self._queue.get()
            if waiting is not None:
                waiting[1].set_exception(RolloutStopped("the model was closed"))

    def _gather(self) -> list[tuple[Job, Future[Result]]]:
        """The first request, and what arrives within the wait after it."""
        batch: list[tuple[Job, Future[Result]]] = []
        deadline: float | None = None
        while len(batch) < self._max_batch:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                item = self._queue.get(timeout=left)
            except queue.Empty:
                break
            if item is None:
                self._queue.put(None)
                break
            batch.append(item)
            deadline = deadline or time.monotonic() + self._wait_seconds
        return batch

    def _run_batch(self, batch: Sequence[tuple[Job, Future[Result]]]) -> None:
        try:
            results = self._run([job for job, _ in batch])
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)
        except Exception as error:  # belongs to the callers, who translate it
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
