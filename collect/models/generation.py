"""Text generation by transformers: a batch of prompts in, a batch of replies out.

Imports torch and transformers; `collect.models.local` loads it when a local model is opened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation import LogitsProcessor, StoppingCriteria

from collect.errors import RolloutStopped
from collect.models.base import Sampling
from collect.models.prefix_cache import PrefixCache, join_left_padded


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


class Generator:
    """A loaded model. Not thread-safe."""

    def __init__(
        self,
        model: Any,
        pad_id: int,
        end_ids: Sequence[int],
        prefixes: PrefixCache | None,
        *,
        stop: threading.Event,
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self._model = model
        self._decode = decode
        self._pad_id = pad_id
        self._end_ids = frozenset(end_ids)
        self._prefixes = prefixes
        self._stop = stop
        # In place of the model's own: what the config does not say, such as a top_k or a
        # repetition penalty, would otherwise come from the model's folder.
        model.generation_config = GenerationConfig(
            do_sample=False, pad_token_id=pad_id, eos_token_id=sorted(end_ids), use_cache=True
        )

    def generate(self, prompts: Sequence[Prompt]) -> list[Generated]:
        """Complete all prompts together. Raises RolloutStopped when the run is stopped."""
        with torch.inference_mode():
            return self._generate(prompts)

    def _generate(self, prompts: Sequence[Prompt]) -> list[Generated]:
        width = max(len(prompt.ids) for prompt in prompts)
        ids, mask = self._left_padded(prompts, width)
        cached_tokens, cache = self._cached(prompts, width)
        output = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=cache,
            max_new_tokens=max(prompt.max_new_tokens for prompt in prompts),
            logits_processor=LogitsProcessorList([RowSampler(prompts, ids.device)]),
            stopping_criteria=StoppingCriteriaList(
                [RowLimits(prompts, width, self._stop), RowStops(prompts, width, self._decode)]
            ),
        )
        self._raise_if_stopped()
        replies = output[:, width:].tolist()
        return [
            self._cut(reply[: prompt.max_new_tokens], cached)
            for prompt, reply, cached in zip(prompts, replies, cached_tokens, strict=True)
        ]

    def _left_padded(
        self, prompts: Sequence[Prompt], width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [[self._pad_id] * (width - len(prompt.ids)) + [*prompt.ids] for prompt in prompts]
        masks = [[0] * (width - len(prompt.ids)) + [1] * len(prompt.ids) for prompt in prompts]
        device = self._model.device
        return torch.tensor(rows, device=device), torch.tensor(masks, device=device)

    def _cached(self, prompts: Sequence[Prompt], width: int) -> tuple[list[int], Any]:
        """Keys and values of all but each prompt's last token, and how many were known."""
        if self._prefixes is None:
            return [0] * len(prompts), None
        rows, known = [], []
        for prompt in prompts:
            self._raise_if_stopped()
            reused, layers = self._prefixes.read(prompt.ids[:-1])
            known.append(reused)
            rows.append(layers)
        # The last token of the prompt, and all but the last of the reply, are still to be read.
        room = max(prompt.max_new_tokens for prompt in prompts)
        return known, join_left_padded(rows, width - 1, room)

    def _cut(self, reply: list[int], cached_tokens: int) -> Generated:
        for place, token in enumerate(reply):
            if token in self._end_ids:
                return Generated(tuple(reply[:place]), True, cached_tokens)
        return Generated(tuple(reply), False, cached_tokens)

    def _raise_if_stopped(self) -> None:
        if self._stop.is_set():
            raise RolloutStopped("the run is being stopped")


class RowLimits(StoppingCriteria):  # type: ignore[misc]
    """Ends each row at its own limit, and all of them when the run is stopped."""

    def __init__(self, prompts: Sequence[Prompt], width: int, stop: threading.Event) -> None:
        self._limits = torch.tensor([prompt.max_new_tokens for prompt in prompts])
        self._width = width
        self._stop = stop

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any
    ) -> torch.Tensor:
        generated = input_ids.shape[1] - self._width
        done = (self._limits <= generated) | self._stop.is_set()
        return done.to(input_ids.device)


class RowStops(StoppingCriteria):  # type: ignore[misc]
    """Ends each row whose text has come to one of its own stop texts."""

    def __init__(
        self, prompts: Sequence[Prompt], width: int, decode: Callable[[Sequence[int]], str]
    ) -> None:
        self._stops = [prompt.sampling.stop or () for prompt in prompts]
        self._width = width
        self._decode = decode

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any
    ) -> torch.Tensor:
        found = [self._is_at(row, stops) for row, stops in zip(input_ids, self._stops, strict=True)]
        return torch.tensor(found, device=input_ids.device)

    def _is_at(self, row: torch.Tensor, stops: Sequence[str]) -> bool:
        if not stops:
            return False
        # A token is at least a byte: the newest tokens hold all of a stop text that ends here.
        longest = max(len(stop.encode()) for stop in stops)
        text = self._decode(row[self._width :][-longest - 1 :].tolist())
        return any(stop in text for stop in stops)


class RowSampler(LogitsProcessor):  # type: ignore[misc]
    """Samples each row by its own settings and seed, whatever else is in the batch.

    By the Gumbel-max trick: the largest of log-probability plus Gumbel noise is a sample of the
    distribution, so that `generate` itself can stay greedy. Rows of temperature 0 have no noise.
    """

    def __init__(self, prompts: Sequence[Prompt], device: torch.device) -> None:
        self._rows = [
            (row, prompt.sampling, _generator(prompt.sampling.seed, device))
            for row, prompt in enumerate(prompts)
            if prompt.sampling.temperature
        ]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        for row, sampling, generator in self._rows:
            logits = scores[row].float() / sampling.temperature
            if sampling.top_p is not None:
                logits = _within_top_p(logits, sampling.top_p)
            noise = torch.empty_like(logits).exponential_(generator=generator)
            scores[row] = torch.log_softmax(logits, dim=-1) - noise.log()
        return scores


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
