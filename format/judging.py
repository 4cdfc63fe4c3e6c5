"""Which conversations become rows, and these rows: judged in processes of their own, in order.

Each process runs `main`. It gets the stored conversations of some rollouts at a time, pickled, and
answers with what it found.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from collect.control_tokens import OF_KNOWN_FAMILIES
from collect.errors import ConfigError
from format.candidates import FILTERS, Candidate, Chunk, characters
from format.dataset import COLUMNS, tool_texts
from format.duplicates import Signature, session_key, signature_of
from format.preferences import Attempt, attempt_of
from format.turn_quality import takeover

Row = dict[str, Any]
ROLLOUTS_PER_PROCESS = 250
"""Fewer are judged sooner than another process starts."""
LENGTH = 8
"""Bytes that say how long a pickle is."""
AHEAD = 2
"""Chunks per process that are read before their answers are taken."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a conversation is for the data, duplicates aside."""

    dropped_by: str | None
    """The filter that dropped it."""
    attempt: Attempt | None = None
    key: bytes = b""
    """Equal for conversations with the same text."""
    signature: Signature | None = None
    row: Row | None = None
    characters: int = 0


def judge(candidate: Candidate) -> Judged:
    config = candidate.config
    dropped_by = next((keep.__name__ for keep in FILTERS if not keep(candidate)), None)
    attempt = attempt_of(candidate, dropped_by) if config.preferences is not None else None
    if dropped_by is not None:
        return Judged(dropped_by, attempt)
    said = candidate.said
    return Judged(
        None,
        attempt,
        key=session_key(said),
        signature=signature_of(said) if config.max_similarity is not None else None,
        row=row_columns(candidate),
        characters=characters(said),
    )


def row_columns(candidate: Candidate) -> Row:
    outcome, said, grounding = candidate.outcome, candidate.said, candidate.grounding
    rows, quality = candidate.conversation.messages, candidate.turn_quality
    # Of a relay's two models the one that the row trains.
    served = (row.served_model for row in rows[takeover(candidate.conversation) :])
    facts = {name: getattr(said, name) for name in COLUMNS if hasattr(said, name)}
    facts |= {name: getattr(outcome, name) for name in COLUMNS if hasattr(outcome, name)}
    return facts | {
        "messages": candidate.texts,
        "tools": tool_texts(said.tools),
        "role": str(said.role),
        "served_model": next(filter(None, served), None),
        "prompt_tokens": sum(row.prompt_tokens for row in rows),
        "completion_tokens": sum(row.completion_tokens for row in rows),
        "grounding": grounding.score,
        "claims": grounding.counts,
        "turn_quality": [label.value for label in quality],
        "trained_turns": list(candidate.trained),
        "leaks": [leak.value for leak in candidate.leaks],
        "control_tokens": any(OF_KNOWN_FAMILIES.marks(text) for text in candidate.texts or ()),
        "read_arguments": candidate.read_arguments,
        "fix_touched_location": candidate.fix_touched_location,
        "replay_verified": candidate.replay_verified,
    }


def judge_chunk(chunk: Chunk) -> list[Judged]:
    return [judge(candidate) for rollout in chunk.rollouts() for candidate in rollout]


def judge_all(chunks: Iterable[Chunk], processes: int) -> Iterator[Judged]:
    """Judge all conversations, in their order; one process is this one.

    Raises ConfigError if a chunk's rows are broken, or a process is killed.
    """
    if processes == 1:
        for chunk in chunks:
            yield from judge_chunk(chunk)
        return
    with judges(processes) as idle, ThreadPoolExecutor(processes) as threads:
        asked = deque[Future[list[Judged]]]()
        try:
            for chunk in chunks:
                asked.append(threads.submit(_ask, idle, chunk))
                if len(asked) > AHEAD * processes:
                    yield from asked.popleft().result()
            while asked:
                yield from asked.popleft().result()
        finally:
            threads.shutdown(cancel_futures=True)


def process_count(wanted: int | None, rollouts: int) -> int:
    """How many processes to judge so many rollouts in; `wanted` is the config's."""
    if wanted is not None:
        return wanted
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, rollouts // ROLLOUTS_PER_PROCESS))


Judges = SimpleQueue[subprocess.Popen[bytes]]


@contextmanager
def judges(count: int) -> Iterator[Judges]:
    """Processes that judge, ended with the block."""
    idle, started = Judges(), []
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    # As a program's own module, its classes would have other names in the pickles.
    command = [sys.executable, "-P", "-c", "from format.judging import main; main()"]
    pipe = subprocess.PIPE
    try:
        for _ in range(count):
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)
            started.append(process)
            idle.put(process)
        yield idle
    finally:
        for process in started:
            process.communicate()


def _ask(idle: Judges, chunk: Chunk) -> list[Judged]:
    process = idle.get()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send(process.stdin, chunk)
        answer: list[Judged] | ConfigError = _received(process.stdout)
    except (EOFError, BrokenPipeError) as error:
        raise ConfigError(
            f"a process of format ended with status {process.wait()}; if the machine's memory is "
            "short, set format.processes=1"
        ) from error
    finally:
        idle.put(process)
    if isinstance(answer, ConfigError):
        raise answer
    return answer


def _send(file: IO[bytes], value: object) -> None:
    data = pickle.dumps(value)
    file.write(len(data).to_bytes(LENGTH))
    file.write(data)
    file.flush()


def _received(file: IO[bytes]) -> Any:
    """What was sent. Raises EOFError at the end."""
    # `pickle.load` would wait for what comes after it.
    length = file.read(LENGTH)
    data = file.read(int.from_bytes(length))
    if len(length) < LENGTH or not data:
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    """Judge the chunks that come in, until there are no more."""
    # The process that asks is interrupted, and then ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    chunks, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What a library prints is no answer.
    os.dup2(2, 1)
    while True:
        try:
            chunk = _received(chunks)
        except EOFError:
            return
        try:
            answer: Sequence[Judged] | ConfigError = judge_chunk(chunk)
        except ConfigError as error:
            answer = error
        _send(answers, answer)
