"""Who judges a run's conversations: this process, several of this machine, or a Ray cluster."""

from __future__ import annotations

import os
import platform
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import cycle
from multiprocessing import connection, get_context, parent_process

from collect.build_info import code_version
from collect.errors import ConfigError
from format.config import WorkersConfig
from format.judging import Judge, Judgement
from format.sources import Chunk

Judging = Callable[[Iterable[Chunk]], Iterator[Judgement]]
"""Judges chunks, in their order; no more are read ahead than keep all workers busy."""
Submit = Callable[[Chunk], Future[list[Judgement]]]
AHEAD = 2
"""Chunks for each worker that are with it, or have come back and wait for their turn."""


@contextmanager
def judging(judge: Judge, config: WorkersConfig) -> Iterator[Judging]:
    """Have the workers there meanwhile. Raises ConfigError where they can't be had, or are lost."""
    if config.count == 1 and config.ray_address is None:
        yield lambda chunks: (each for chunk in chunks for each in judge.judge(chunk))
        return
    workers = _processes if config.ray_address is None else _on_ray
    with workers(judge, config) as submit:
        yield lambda chunks: _in_order(submit, chunks, AHEAD * config.count)


def _in_order(submit: Submit, chunks: Iterable[Chunk], ahead: int) -> Iterator[Judgement]:
    waiting: deque[Future[list[Judgement]]] = deque()
    for chunk in chunks:
        waiting.append(submit(chunk))
        if len(waiting) == ahead:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()


@contextmanager
def _processes(judge: Judge, config: WorkersConfig) -> Iterator[Submit]:
    # A pool each: one of several does not always notice when a process of it dies at its start.
    spawn = get_context("spawn")
    pools = [ProcessPoolExecutor(1, spawn, _begin, (judge,)) for _ in range(config.count)]
    turns = cycle(pools)
    try:
        yield lambda chunk: next(turns).submit(_judge_here, chunk)
    except BrokenProcessPool as error:
        raise ConfigError(
            f"one of the {config.count} processes of format.workers was killed, most likely for "
            "want of memory; nothing is written; lower format.workers.count, and start again"
        ) from error
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _on_ray(judge: Judge, config: WorkersConfig) -> Iterator[Submit]:
    # Not everybody has it.
    from collect.cluster.connecting import connect

    assert config.ray_address is not None
    ray = connect(config.ray_address, "format.workers.ray_address")
    lent, task, version = ray.put(judge), ray.remote(_judge_on_node), code_version()
    try:
        yield lambda chunk: task.remote(lent, chunk, version).future()
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise ConfigError(
            f"tasks of format were lost on the Ray cluster, more often than Ray tries them again: "
            f"{error}; nothing is written; look at the nodes' memory, and start again"
        ) from error
    finally:
        ray.shutdown()


_lent: list[Judge] = []
"""To a process that judges: one."""


def _begin(judge: Judge) -> None:
    """In a process of its own, which ends with the command."""
    _lent[:] = [judge]
    # Ctrl-C reaches the whole group; the command ends its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A pool's processes would wait for ever where the command was killed.
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _judge_here(chunk: Chunk) -> list[Judgement]:
    (judge,) = _lent
    return judge.judge(chunk)


def _judge_on_node(judge: Judge, chunk: Chunk, version: str) -> list[Judgement]:
    """Raises ConfigError where the node has another StepInto."""
    if version != code_version():
        raise ConfigError(
            f"node {platform.node()} has StepInto {code_version()}, and this is {version}; install "
            "the same on all nodes"
        )
    return judge.judge(chunk)
