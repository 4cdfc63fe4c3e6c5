"""What one request to a model in this process is, and how its next token is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from collect.models.base import Sampling

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
        """Of the scores of one next token, [vocabulary], such that the largest is the choice."""
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
