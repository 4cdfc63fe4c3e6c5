"""Batches by transformers' `generate`: a batch of prompts in, a batch of replies out.

For models whose layers forget: with sliding windows or states, a reply can't join a running batch.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation import LogitsProcessor, StoppingCriteria

from collect.models.decoding import Decode, Generated, Prompt, Sampler, holds_stop
from collect.models.waiting import raise_if_stopped


class Generator:
    """A loaded model. Not thread-safe."""

    def __init__(
        self, model: Any, end_ids: Sequence[int], *, stop: threading.Event, decode: Decode
    ) -> None:
        self._model = model
        self._decode = decode
        self._end_ids = frozenset(end_ids)
        self._pad_id = end_ids[0]
        self._stop = stop
        # In place of the model's own: what the config does not say, such as a top_k or a
        # repetition penalty, would otherwise come from the model's folder.
        model.generation_config = GenerationConfig(
            do_sample=False,
            pad_token_id=self._pad_id,
            eos_token_id=list(end_ids),
            use_cache=True,
        )

    def generate(self, prompts: Sequence[Prompt]) -> list[Generated]:
        """Complete all prompts together. Raises RolloutStopped when the run is stopped."""
        with torch.inference_mode():
            return self._generate(prompts)

    def _generate(self, prompts: Sequence[Prompt]) -> list[Generated]:
        width = max(len(prompt.ids) for prompt in prompts)
        ids, mask = self._left_padded(prompts, width)
        output = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=max(prompt.max_new_tokens for prompt in prompts),
            logits_processor=LogitsProcessorList([RowSamplers(prompts, ids.device)]),
            stopping_criteria=StoppingCriteriaList(
                [RowLimits(prompts, width, self._stop), RowStops(prompts, width, self._decode)]
            ),
        )
        raise_if_stopped(self._stop)
        replies = output[:, width:].tolist()
        return [
            self._cut(reply[: prompt.max_new_tokens])
            for prompt, reply in zip(prompts, replies, strict=True)
        ]

    def _left_padded(
        self, prompts: Sequence[Prompt], width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [[self._pad_id] * (width - len(prompt.ids)) + [*prompt.ids] for prompt in prompts]
        masks = [[0] * (width - len(prompt.ids)) + [1] * len(prompt.ids) for prompt in prompts]
        device = self._model.device
        return torch.tensor(rows, device=device), torch.tensor(masks, device=device)

    def _cut(self, reply: list[int]) -> Generated:
        for place, token in enumerate(reply):
            if token in self._end_ids:
                return Generated(tuple(reply[:place]), True, 0)
        return Generated(tuple(reply), False, 0)


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

    def __init__(self, prompts: Sequence[Prompt], width: int, decode: Decode) -> None:
        self._stops = [prompt.sampling.stop or () for prompt in prompts]
        self._width = width
        self._decode = decode

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any
    ) -> torch.Tensor:
        replies = input_ids[:, self._width :].tolist()
        found = [
            holds_stop(reply, stops, self._decode)
            for reply, stops in zip(replies, self._stops, strict=True)
        ]
        return torch.tensor(found, device=input_ids.device)


class RowSamplers(LogitsProcessor):  # type: ignore[misc]
    """Samples each row by its own settings, while `generate` itself stays greedy."""

    def __init__(self, prompts: Sequence[Prompt], device: torch.device) -> None:
        self._samplers = [Sampler(prompt.sampling, device) for prompt in prompts]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        for row, sampler in enumerate(self._samplers):
            if not sampler.is_greedy:
                scores[row] = sampler.noisy(scores[row])
        return scores
