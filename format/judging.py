"""Which conversations become rows, and these rows: judged in processes of their own, in order."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

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
    outcome = candidate.outcome
    said = candidate.said
    grounding = candidate.grounding
    rows = candidate.conversation.messages
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
        "turn_quality": [label.value for label in candidate.turn_quality],
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
    # Arrow's threads would be lost in a fork.
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _follow_the_caller)
    asked = deque[Future[list[Judged]]]()
    try:
        for chunk in chunks:
            asked.append(pool.submit(judge_chunk, chunk))
            if len(asked) > AHEAD * processes:
                yield from asked.popleft().result()
        while asked:
            yield from asked.popleft().result()
    except BrokenProcessPool as error:
        raise ConfigError(
            f"a process of format ended: {error} If the machine's memory is short, or this runs "
            'in a script without `if __name__ == "__main__":`, set format.processes=1'
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _follow_the_caller() -> None:
    """In a process of the pool: leave Ctrl-C to the caller, and end if the caller is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_after_the_caller, daemon=True).start()


def _end_after_the_caller() -> None:
    caller = parent_process()
    if caller is not None:
        caller.join()
        os._exit(1)


def process_count(wanted: int | None, rollouts: int) -> int:
    """How many processes to judge so many rollouts in; `wanted` is the config's."""
    if wanted is not None:
        return wanted
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, rollouts // ROLLOUTS_PER_PROCESS))
