"""Keys and values of prompts already read, so that a longer prompt reads only its end.

On a CPU, reading a conversation again at every turn takes most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of one prompt, layer by layer, each of shape [1, heads, tokens, size]."""


@dataclass(frozen=True)
class _Entry:
    ids: tuple[int, ...]
    layers: Layers


class PrefixCache:
    """The last prompts that were read, oldest first. Not thread-safe."""

    def __init__(self, model: Any, max_entries: int) -> None:
        self._model = model
        self._max_entries = max_entries
        self._entries: list[_Entry] = []

    def read(self, ids: tuple[int, ...]) -> tuple[int, Layers]:
        """How many of the tokens were known, and the keys and values of all of them."""
        best = max(self._entries, key=lambda entry: common_prefix(entry.ids, ids), default=None)
        known = common_prefix(best.ids, ids) if best else 0
        start = (
            [(keys[:, :, :known], values[:, :, :known]) for keys, values in best.layers]
            if (best and known)
            else []
        )
        layers = self._extend(start, ids[known:])
        self._remember(_Entry(ids, layers))
        return known, layers

    def _extend(self, layers: Layers, ids: tuple[int, ...]) -> Layers:
        if not ids:
            return layers
        cache = DynamicCache(layers or None)
        tokens = torch.tensor([ids], device=self._model.device)
        self._model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _remember(self, new: _Entry) -> None:
        """The newest goes last; what is a prefix of it adds nothing."""
        kept = [entry for entry in self._entries if new.ids[: len(entry.ids)] != entry.ids]
        self._entries = [*kept, new][max(0, len(kept) + 1 - self._max_entries) :]


def supports_prefix_cache(model: Any) -> bool:
    """Whether every layer keeps all keys and values; sliding windows and state spaces do not."""
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two prompts have in common from the start."""
    shorter = min(len(first), len(second))
    for place in range(shorter):
        if first[place] != second[place]:
            return place
    return shorter
