"""Keys and values of prompts already read, and of the replies that are being generated.

`PrefixCache` lets a longer prompt read only its end: on a CPU, reading a conversation again at
every turn takes most of the time. `Slots` holds the replies, each in a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

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
        best = max(self._entries, key=lambda entry: common_prefix(entry, ids), default=())
        known = common_prefix(best, ids)
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


def keeps_all_keys(model: Any) -> bool:
    """Whether every layer keeps all keys and values; sliding windows and state spaces do not."""
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two prompts have in common from the start."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))


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
        slot = len(self._lengths)
        self._lengths.append(length)
        for layer, (keys, values) in zip(self._layers, layers, strict=True):
            layer.put(slot, keys, values)

    def remove(self, row: int) -> None:
        """The last row takes the place of the removed one."""
        last = len(self._lengths) - 1
        if row != last:
            for layer in self._layers:
                layer.move(last, row, self._lengths[last])
        self._lengths[row] = self._lengths[last]
        del self._lengths[last]

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
