"""Replies of a model in this process to many requests at once, each at its own pace.

A reply of a debug agent is a short call or a long answer. In fixed batches the calls would wait for
the answers; here a request joins before any token, and leaves with its last one.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch

from collect.errors import RolloutStopped
from collect.models.base import Sampling
from collect.models.local_cache import PrefixCache, Slots
from collect.models.waiting import raise_if_stopped

Decode = Callable[[Sequence[int]], str]
"""Tokens to text."""


@dataclass(frozen=True)
class Generated:
    """What was generated for one prompt."""

    ids: tuple[int, ...]
    """Without the token that ended the turn."""
    ended: bool
    """Whether the model ended its turn, rather than the limit."""
    cached_tokens: int
    """Tokens of the prompt that did not have to be read again."""


@dataclass
class _Reply:
    """A request, which waits or is being answered."""

    prompt: tuple[int, ...]
    max_new_tokens: int
    sampling: Sampling
    future: Future[Generated] = field(default_factory=Future)
    sampler: Sampler | None = None
    """None: the likeliest token is always chosen."""
    cached_tokens: int = 0
    ids: list[int] = field(default_factory=list)

    @property
    def newest(self) -> int:
        """The token that is to be read next."""
        return self.ids[-1] if self.ids else self.prompt[-1]


class ContinuousGenerator:
    """One worker thread with a model whose layers keep all keys and values."""

    def __init__(
        self,
        model: Any,
        end_ids: Collection[int],
        prefixes: PrefixCache,
        *,
        max_batch: int,
        stop: threading.Event,
        decode: Decode,
    ) -> None:
        self._model = model
        self._end_ids = frozenset(end_ids)
        self._prefixes = prefixes
        self._max_batch = max_batch
        self._stop = stop
        self._decode = decode
        self._replies: list[_Reply] = []
        """In the order of the slots."""
        self._slots = Slots(model, max_batch)
        self._queue: queue.SimpleQueue[_Reply | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        threading.Thread(target=self._work, name="generator", daemon=True).start()

    def submit(
        self, prompt: tuple[int, ...], max_new_tokens: int, sampling: Sampling
    ) -> Future[Generated]:
        """Ask for one reply to a prompt of tokens. The future raises what the model raised, for all
        that it worked on.
        """
        reply = _Reply(prompt, max_new_tokens, sampling)
        self._queue.put(reply)
        return reply.future

    def close(self) -> None:
        """End now; whoever waits gets RolloutStopped."""
        self._closed.set()
        self._queue.put(None)

    def _work(self) -> None:
        with torch.inference_mode():
            while not self._closed.is_set():
                try:
                    self._admit()
                    if self._replies:
                        self._step()
                except Exception as error:  # belongs to the callers, who translate it
                    self._fail(error)
        closed = RolloutStopped("the model was closed")
        self._fail(closed)
        while not self._queue.empty():
            waiting = self._queue.get()
            if waiting is not None:
                waiting.future.set_exception(closed)

    def _admit(self) -> None:
        """Take in what waits, as long as there is room; wait for it where nothing runs."""
        while len(self._replies) < self._max_batch:
            try:
                reply = self._queue.get(block=not self._replies)
            except queue.Empty:
                return
            if reply is None:
                return
            try:
                raise_if_stopped(self._stop)
                # All of the prompt but its last token, which the next step reads.
                reply.cached_tokens, layers = self._prefixes.read(reply.prompt[:-1])
            except Exception as error:  # belongs to this caller alone
                reply.future.set_exception(error)
                continue
            if reply.sampling.temperature:
                reply.sampler = Sampler(reply.sampling, self._model.device)
            self._replies.append(reply)
            self._slots.add(layers, len(reply.prompt) - 1)

    def _step(self) -> None:
        """One token more for every reply. Raises RolloutStopped when the run is stopped."""
        raise_if_stopped(self._stop)
        scores = self._slots.step([reply.newest for reply in self._replies])
        for row, reply in enumerate(self._replies):
            if reply.sampler is not None:
                scores[row] = reply.sampler.noisy(scores[row])
        chosen = scores.argmax(dim=-1).tolist()
        # From the last row on: the last one moves into the place of one that leaves.
        for row in reversed(range(len(chosen))):
            reply, ended = self._replies[row], chosen[row] in self._end_ids
            if not ended:
                reply.ids.append(chosen[row])
            full = len(reply.ids) >= reply.max_new_tokens
            if ended or full or holds_stop(reply.ids, reply.sampling.stop or (), self._decode):
                self._slots.remove(row)
                self._replies[row] = self._replies[-1]
                del self._replies[-1]
                generated = Generated(tuple(reply.ids), ended, reply.cached_tokens)
                reply.future.set_result(generated)

    def _fail(self, error: Exception) -> None:
        """Nothing is known of the slots any more: all begin anew."""
        for reply in self._replies:
            reply.future.set_exception(error)
        self._replies = []
        self._slots = Slots(self._model, self._max_batch)


class Sampler:
    """Chooses the tokens of one reply by its own settings and seed, whatever else is in the batch.

    By the Gumbel-max trick: the largest of log-probability plus Gumbel noise is a sample of the
    distribution.
    """

    def __init__(self, sampling: Sampling, device: torch.device) -> None:
        self._sampling = sampling
        self._random = torch.Generator(device=device)
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed)

    def noisy(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores of the next token, [vocabulary], with sampling noise: the largest wins."""
        logits = scores.float() / (self._sampling.temperature or 1.0)
        if self._sampling.top_p is not None:
            # Keep the fewest tokens whose probabilities reach `top_p`; at least one.
            ordered, places = logits.softmax(dim=-1).sort(descending=True)
            before = ordered.cumsum(dim=-1) - ordered
            dropped = places[1:][before[1:] >= self._sampling.top_p]
            logits = logits.index_fill(0, dropped, float("-inf"))
        noise = torch.empty_like(logits).exponential_(generator=self._random)
        return torch.log_softmax(logits, dim=-1) - noise.log()


def holds_stop(reply: Sequence[int], stops: Sequence[str], decode: Decode) -> bool:
    """Whether a stop text ends in the newest tokens of a reply."""
    if not stops:
        return False
    # A token is at least a byte: the newest tokens hold all of a stop text that ends here.
    longest = max(len(stop.encode()) for stop in stops)
    text = decode(reply[-longest - 1 :])
    return any(stop in text for stop in stops)
