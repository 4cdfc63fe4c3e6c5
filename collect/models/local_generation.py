"""Replies of a model in this process to many requests at once, each at its own pace.

A reply of a debug agent is a short call or a long answer. In fixed batches the calls would wait for
the answers; here a request joins before any token, and leaves with its last one.

`PrefixCache` lets a longer prompt read only its end: on a CPU, reading a conversation again at
every turn takes most of the time. `Slots` holds the replies, each in a row of its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from collect.errors import RolloutStopped
from collect.models.base import Sampling
from collect.threads import raise_if_stopped

if TYPE_CHECKING:
    from llguidance import LLMatcher

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
    constraint: LLMatcher | None
    """Tells which tokens can follow `ids`; null: any."""
    future: Future[Generated] = field(default_factory=Future)
    sampler: Sampler | None = None
    """None: the likeliest token is always chosen."""
    cached_tokens: int = 0
    ids: list[int] = field(default_factory=list)

    def choosable(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores of the next token, [vocabulary], to be maximised: -inf for what may not come."""
        if self.constraint is not None:
            allowed = bytearray(self.constraint.compute_logit_bias())
            forbidden = torch.frombuffer(allowed, dtype=torch.uint8).to(scores.device) == 0
            scores = scores.masked_fill(forbidden, float("-inf"))
        return scores if self.sampler is None else self.sampler.noisy(scores)

    def add(self, token: int) -> None:
        """Go on by a token. Raises RuntimeError if the constraint can't follow."""
        self.ids.append(token)
        if self.constraint is not None and not self.constraint.consume_token(token):
            raise RuntimeError(f"the constraint failed: {self.constraint.get_error()}")


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
        self._thread = threading.Thread(target=self._work, name="generator", daemon=True)
        self._thread.start()

    def submit(
        self,
        prompt: tuple[int, ...],
        max_new_tokens: int,
        sampling: Sampling,
        constraint: LLMatcher | None = None,
    ) -> Future[Generated]:
        """Ask for one reply to a prompt of tokens. The future raises what the model raised, for all
        that it worked on.
        """
        reply = _Reply(prompt, max_new_tokens, sampling, constraint)
        self._queue.put(reply)
        return reply.future

    def close(self) -> None:
        """End after the token that it works on; whoever waits gets RolloutStopped."""
        self._closed.set()
        self._queue.put(None)
        # PyTorch aborts a process that ends while a thread is inside it.
        self._thread.join()

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
        scores = self._slots.step([(reply.ids or reply.prompt)[-1] for reply in self._replies])
        for row, reply in enumerate(self._replies):
            if reply.constraint is not None or reply.sampler is not None:
                scores[row] = reply.choosable(scores[row])
        chosen = scores.argmax(dim=-1).tolist()
        # From the last row on: the last one moves into the place of one that leaves.
        for row in reversed(range(len(chosen))):
            reply, ended = self._replies[row], chosen[row] in self._end_ids
            if not ended:
                reply.add(chosen[row])
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


Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of one prompt, layer by layer, each of shape [1, heads, tokens, size]."""
GROWTH = 1_024
"""Tokens by which all slots are made longer at once."""


class PrefixCache:
    """The last prompts that were read. Not thread-safe."""

    def __init__(self, model: Any, max_entries: int) -> None:
        self._model = model
        self._max_entries = max_entries
        self._entries: dict[tuple[int, ...], Layers] = {}
        """By their tokens, oldest first."""

    def read(self, ids: tuple[int, ...]) -> tuple[int, Layers]:
        """How many of the tokens were known, and the keys and values of all of them."""
        shared = {entry: common_prefix(entry, ids) for entry in self._entries}
        best = max(shared, key=lambda entry: shared[entry], default=())
        known = shared.get(best, 0)
        layers: Layers = []
        if known:
            layers = [
                (keys[:, :, :known], values[:, :, :known]) for keys, values in self._entries[best]
            ]
        if known < len(ids):
            cache = DynamicCache(layers or None)
            tokens = torch.tensor([ids[known:]], device=self._model.device)
            self._model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
            layers = [(layer.keys, layer.values) for layer in cache.layers]
        # What is a prefix of the newest adds nothing.
        for entry in [entry for entry in self._entries if ids[: len(entry)] == entry]:
            del self._entries[entry]
        self._entries[ids] = layers
        while len(self._entries) > self._max_entries:
            del self._entries[next(iter(self._entries))]
        return known, layers


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two prompts have in common from the start."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def keeps_all_keys(model: Any) -> bool:
    """Whether every layer keeps all keys and values; sliding windows and state spaces do not."""
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


class Slots:
    """Rows of different lengths, which can join and leave before any step. Not thread-safe."""

    def __init__(self, model: Any, rows: int) -> None:
        """`rows` is the most there can be at once."""
        self._model = model
        self._rows = rows
        self._lengths: list[int] = []
        self._layers: list[_SlotLayer] = []

    def add(self, layers: Layers, length: int) -> None:
        """One more row, the last one; `length` tokens have been read into the layers."""
        if not self._layers:
            self._layers = [_SlotLayer(keys, values, self._rows) for keys, values in layers]
        self._grow(length)
        for layer, (keys, values) in zip(self._layers, layers, strict=True):
            layer.put(len(self._lengths), keys, values)
        self._lengths.append(length)

    def remove(self, row: int) -> None:
        """The last row takes the place of the removed one."""
        length = self._lengths.pop()
        last = len(self._lengths)
        if row != last:
            for layer in self._layers:
                layer.move(last, row, length)
            self._lengths[row] = length

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Read one more token in each row; the scores of the next one, [rows, vocabulary]."""
        device = self._model.device
        longest = max(self._lengths)
        self._grow(longest + 1)
        places = torch.tensor(self._lengths, device=device)
        cache = DynamicCache()
        cache.layers = self._layers
        numbers = torch.arange(len(places), device=device)
        for layer in self._layers:
            layer.aim(numbers, places, longest + 1)
        output = self._model(
            input_ids=torch.tensor(tokens, device=device).unsqueeze(1),
            position_ids=places.unsqueeze(1),
            # [rows, 1, 1, tokens]: each row sees its own tokens, and the one that is read now.
            attention_mask=torch.arange(longest + 1, device=device) <= places[:, None, None, None],
            past_key_values=cache,
            use_cache=True,
        )
        self._lengths = [length + 1 for length in self._lengths]
        scores: torch.Tensor = output.logits[:, -1].float()
        return scores

    def _grow(self, tokens: int) -> None:
        for layer in self._layers:
            layer.grow(-(-tokens // GROWTH) * GROWTH)


class _SlotLayer(DynamicLayer):  # type: ignore[misc]
    """One layer's keys and values of all rows, each of shape [rows, heads, tokens, size]."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, rows: int) -> None:
        super().__init__()
        self._keys, self._values = (
            each.new_zeros((rows, each.shape[1], 0, each.shape[3])) for each in (keys, values)
        )
        self.lazy_initialization(keys, values)

    def put(self, slot: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Fill one row from its start."""
        self._keys[slot, :, : keys.shape[2]] = keys[0]
        self._values[slot, :, : values.shape[2]] = values[0]

    def move(self, source: int, target: int, length: int) -> None:
        """Copy one row's tokens to another."""
        for each in (self._keys, self._values):
            each[target, :, :length] = each[source, :, :length]

    def grow(self, tokens: int) -> None:
        """Make room for so many tokens in each row. What is not used stays zero, hence finite."""
        room = tokens - self._keys.shape[2]
        if room > 0:
            self._keys, self._values = (pad(e, (0, 0, 0, room)) for e in (self._keys, self._values))

    def aim(self, numbers: torch.Tensor, places: torch.Tensor, width: int) -> None:
        """Where the next token of each row goes, and how much of the rows is looked at."""
        self._numbers, self._places, self._width = numbers, places, width

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add one token to each row, and return everything so far."""
        self._keys[self._numbers, :, self._places] = key_states[:, :, 0]
        self._values[self._numbers, :, self._places] = value_states[:, :, 0]
        rows = len(self._places)
        return self._keys[:rows, :, : self._width], self._values[:rows, :, : self._width]
