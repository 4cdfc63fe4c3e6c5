"""Batching requests of many threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from collect.errors import RolloutStopped
from collect.models.batching import Batcher


def test_what_arrives_meanwhile_runs_together() -> None:
    batches: list[list[int]] = []
    first_runs, go_on = threading.Event(), threading.Event()

    def double(jobs: Sequence[int]) -> list[int]:
        batches.append(list(jobs))
        first_runs.set()
        assert go_on.wait(10)
        return [2 * job for job in jobs]

    batcher = Batcher(double, max_batch=4, wait_seconds=0.0)
    first = batcher.submit(0)
    assert first_runs.wait(10)
    rest = [batcher.submit(job) for job in range(1, 7)]
    go_on.set()
    assert [future.result(10) for future in [first, *rest]] == [0, 2, 4, 6, 8, 10, 12]
    assert batches == [[0], [1, 2, 3, 4], [5, 6]]
    batcher.close()


def test_an_error_reaches_its_batch_only() -> None:
    def invert(jobs: Sequence[int]) -> list[float]:
        return [1 / job for job in jobs]

    batcher = Batcher(invert, max_batch=1, wait_seconds=0.0)
    futures = [batcher.submit(job) for job in (1, 0, 2)]
    assert futures[0].result(10) == 1
    with pytest.raises(ZeroDivisionError):
        futures[1].result(10)
    assert futures[2].result(10) == 0.5
    batcher.close()


def test_closing_frees_whoever_waits() -> None:
    runs, go_on = threading.Event(), threading.Event()

    def wait(jobs: Sequence[int]) -> Sequence[int]:
        runs.set()
        assert go_on.wait(10)
        return jobs

    batcher = Batcher(wait, max_batch=1, wait_seconds=0.0)
    with ThreadPoolExecutor(1):
        running = batcher.submit(1)
        assert runs.wait(10)
        waiting = batcher.submit(2)
        batcher.close()
        go_on.set()
        assert running.result(10) == 1
        with pytest.raises(RolloutStopped):
            waiting.result(10)
