"""Workers that judge a run's conversations: this process, several local ones, or a Ray cluster."""

from __future__ import annotations

import platform
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import cycle
from multiprocessing import connection, get_context
from traceback import format_exc

from collect.errors import ConfigError
from collect.rollouts.ray_cluster.connecting import connect
from collect.store.build_info import code_version
from format.config import WorkersConfig
from format.judging import Judge, Judgement
from format.sources import Chunk

Judging = Callable[[Iterable[Chunk]], Iterator[Judgement]]
"""Judges chunks in order; reads no more ahead than needed to keep all workers busy."""
Submit = Callable[[Chunk], Future[list[Judgement]]]
AHEAD = 2
"""Maximum number of chunks per worker that are in progress, or finished and waiting for their
turn."""


@contextmanager
def judging(judge: Judge, config: WorkersConfig) -> Iterator[Judging]:
    """Run the workers while the context is open. Raises ConfigError if they can't be started, or
    are lost."""
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
    with ExitStack() as stack:
        workers = [stack.enter_context(closing(_Process(judge))) for _ in range(config.count)]
        turns = cycle(workers)
        yield lambda chunk: next(turns).submit(chunk)


class _Process:
    """A worker process. A thread waits for it, and sees the end of the pipe if it is killed."""

    def __init__(self, judge: Judge) -> None:
        spawn = get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_work, args=(theirs, judge), daemon=True)
        self._process.start()
        theirs.close()
        self._thread = ThreadPoolExecutor(1)

    def submit(self, chunk: Chunk) -> Future[list[Judgement]]:
        """The future raises ConfigError if the process has ended."""
        return self._thread.submit(self._ask, chunk)

    def close(self) -> None:
        """Also works while a task is running."""
        self._process.kill()
        self._thread.shutdown(cancel_futures=True)
        self._process.join()

    def _ask(self, chunk: Chunk) -> list[Judgement]:
        try:
            self._pipe.send(chunk)
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join()
            raise ConfigError(
                f"a process of format.workers ended before its work (exit code "
                f"{self._process.exitcode}; -9 is mostly a want of memory); nothing is written; "
                "lower format.workers.count, and start again"
            ) from error
        if isinstance(answer, str):
            raise RuntimeError(f"a process of format.workers failed:\n{answer}")
        return list(answer)


@contextmanager
def _on_ray(judge: Judge, config: WorkersConfig) -> Iterator[Submit]:
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


def _work(pipe: connection.Connection, judge: Judge) -> None:
    """Judge incoming chunks in a separate process, which ends with the command."""
    # Ctrl-C reaches the whole process group; the command ends its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, ConnectionError):
        while True:
            chunk = pipe.recv()
            try:
                answer: list[Judgement] | str = judge.judge(chunk)
            except Exception:
                answer = format_exc()
            pipe.send(answer)


def _judge_on_node(judge: Judge, chunk: Chunk, version: str) -> list[Judgement]:
    """Raises ConfigError if the node has another version of StepInto."""
    if version != code_version():
        raise ConfigError(
            f"node {platform.node()} has StepInto {code_version()}, and this is {version}; install "
            "the same on all nodes"
        )
    return judge.judge(chunk)
