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
class Prompt:
    """One request, in tokens."""

    ids: tuple[int, ...]
    max_new_tokens: int
    sampling: Sampling


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
    """A request that is being answered."""

    prompt: Prompt
    future: Future[Generated]
    sampler: Sampler
    cached_tokens: int
    ids: list[int] = field(default_factory=list)

    @property
    def newest(self) -> int:
        """The token that is to be read next."""
        return self.ids[-1] if self.ids else self.prompt.ids[-1]


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
        self._queue: queue.SimpleQueue[tuple[Prompt, Future[Generated]] | None] = (
            queue.SimpleQueue()
        )
        self._closed = threading.Event()
        threading.Thread(target=self._work, name="generator", daemon=True).start()

    def submit(self, prompt: Prompt) -> Future[Generated]:
        """Ask for one reply. The future raises what the model raised, for all that it worked on."""
        future: Future[Generated] = Future()
        self._queue.put((prompt, future))
        return future

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
        self._refuse_all()

    def _admit(self) -> None:
        """Take in what waits, as long as there is room; wait for it where nothing runs."""
        while len(self._replies) < self._max_batch:
            try:
                asked = self._queue.get(block=not self._replies)
            except queue.Empty:
                return
            if asked is None:
                return
            self._begin(*asked)

    def _begin(self, prompt: Prompt, future: Future[Generated]) -> None:
        """Read all of the prompt but its last token, which the next step reads."""
        try:
            raise_if_stopped(self._stop)
            known, layers = self._prefixes.read(prompt.ids[:-1])
        except Exception as error:  # belongs to this caller alone
            future.set_exception(error)
            return
        sampler = Sampler(prompt.sampling, self._model.device)
        self._replies.append(_Reply(prompt, future, sampler, known))
        self._slots.add(layers, len(prompt.ids) - 1)

    def _step(self) -> None:
        """One token more for every reply. Raises RolloutStopped when the run is stopped."""
        raise_if_stopped(self._stop)
        scores = self._slots.step([reply.newest for reply in self._replies])
        for row, reply in enumerate(self._replies):
            if not reply.sampler.is_greedy:
                scores[row] = reply.sampler.noisy(scores[row])
        chosen = scores.argmax(dim=-1).tolist()
        # From the last row on: the last one moves into the place of one that leaves.
        for row in reversed(range(len(chosen))):
            generated = self._taken(self._replies[row], chosen[row])
            if generated is not None:
                self._leave(row).set_result(generated)

    def _taken(self, reply: _Reply, token: int) -> Generated | None:
        """The whole reply, where the token was its last one."""
        if token in self._end_ids:
            return Generated(tuple(reply.ids), True, reply.cached_tokens)
        reply.ids.append(token)
        full = len(reply.ids) >= reply.prompt.max_new_tokens
        if full or holds_stop(reply.ids, reply.prompt.sampling.stop or (), self._decode):
            return Generated(tuple(reply.ids), False, reply.cached_tokens)
        return None

    def _leave(self, row: int) -> Future[Generated]:
        self._slots.remove(row)
        future = self._replies[row].future
        self._replies[row] = self._replies[-1]
        del self._replies[-1]
        return future

    def _fail(self, error: Exception) -> None:
        """Nothing is known of the slots any more: all begin anew."""
        for reply in self._replies:
            reply.future.set_exception(error)
        self._replies = []
        self._slots = Slots(self._model, self._max_batch)

    def _refuse_all(self) -> None:
        self._fail(RolloutStopped("the model was closed"))
        while not self._queue.empty():
            waiting = self._queue.get()
            if waiting is not None:
                waiting[1].set_exception(RolloutStopped("the model was closed"))


class Sampler:
    """Chooses the tokens of one reply by its own settings and seed, whatever else is in the batch.

    By the Gumbel-max trick: the largest of log-probability plus Gumbel noise is a sample of the
    distribution. At temperature 0 there is no noise.
    """

    def __init__(self, sampling: Sampling, device: torch.device) -> None:
        self._sampling = sampling
        self._random = _generator(sampling.seed, device) if sampling.temperature else None

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is always chosen."""
        return self._random is None

    def noisy(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores of the next token, [vocabulary], with sampling noise: the largest wins."""
        if self._random is None or not self._sampling.temperature:
            return scores
        logits = scores.float() / self._sampling.temperature
        if self._sampling.top_p is not None:
            logits = _within_top_p(logits, self._sampling.top_p)
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


def _generator(seed: int | None, device: torch.device) -> torch.Generator:
    generator = torch.Generator(device=device)
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    return generator


def _within_top_p(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the fewest tokens whose probabilities reach `top_p`; at least one."""
    ordered, places = logits.softmax(dim=-1).sort(descending=True)
    before = ordered.cumsum(dim=-1) - ordered
    dropped = places[before >= top_p]
    dropped = dropped[dropped != places[0]]
    return logits.index_fill(0, dropped, float("-inf"))
