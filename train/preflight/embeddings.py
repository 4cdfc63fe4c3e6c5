"""A model's embeddings, read from its weights without loading the model.

The rows of the input embeddings and, where they are not the same, of the output's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROWS_PER_READ = 16_384
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class EmbeddingMatrix:
    """One tensor of a safetensors file: a row for each id of the vocabulary."""

    name: str
    file: Path

    @property
    def rows(self) -> int:
        """How many ids it has."""
        with self._open() as file:
            return int(file.get_slice(self.name).get_shape()[0])

    def read(self, ids: Sequence[int]) -> Any:
        """The rows of some ids, which are in order, as float32."""
        import torch

        wanted = torch.tensor(ids, dtype=torch.long)
        found = [
            rows[wanted[(wanted >= start) & (wanted < start + len(rows))] - start]
            for start, rows in self.pieces()
        ]
        return torch.cat(found)

    def pieces(self) -> Iterator[tuple[int, Any]]:
        """All rows as float32, some at a time, each piece with the id of its first."""
        with self._open() as file:
            tensor = file.get_slice(self.name)
            for start in range(0, tensor.get_shape()[0], ROWS_PER_READ):
                yield start, tensor[start : start + ROWS_PER_READ].float()

    def _open(self) -> Any:
        from safetensors import safe_open

        return safe_open(str(self.file), framework="pt")


def embedding_matrices(base: str) -> list[EmbeddingMatrix]:
    """The embeddings of a model folder or hub id; none where it has no such weights."""
    files = _weight_files(base) if _cached(base, "config.json") else {}
    names = _embedding_names(base) if files else []
    return [EmbeddingMatrix(name, files[name]) for name in names if name in files]


def _weight_files(base: str) -> dict[str, Path]:
    """The file of each tensor."""
    from safetensors import safe_open

    index = _cached(base, INDEX)
    if index is not None:
        places = json.loads(index.read_text())["weight_map"]
        return {name: found for name, file in places.items() if (found := _cached(base, file))}
    single = _cached(base, SINGLE)
    if single is None:
        return {}
    with safe_open(str(single), framework="pt") as file:
        return dict.fromkeys(file.keys(), single)


def _cached(base: str, name: str) -> Path | None:
    from transformers.utils import cached_file

    found = cached_file(
        base,
        name,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return Path(found) if found else None


def _embedding_names(base: str) -> list[str]:
    """The tensors' names, from the model's code without its weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base))
    wanted = [model.get_input_embeddings(), model.get_output_embeddings()]
    weights = [module.weight for module in wanted if module is not None]
    # Tied weights are one parameter, under its first name.
    return [name for name, each in model.named_parameters() if any(each is w for w in weights)]
