"""Check that the special tokens to be learned have embeddings that were ever trained.

A model never learns to emit `<tool_call>` through LoRA if that token's row of the frozen embeddings
was never trained, though loss and token accuracy look good. Such rows lie

- at zero, after weight decay;
- at the mean of all rows, where `resize_token_embeddings` puts new ones;
- close together in groups, since nothing has driven them apart: of SmolLM2's 17 special tokens 11,
  with 6 tokens of no text, lie within 5% of a usual distance, while none of 1,000 usual rows has
  even one other row that near;
- among the rows that no text can reach, beyond the tokenizer's last id or reserved. These reference
  rows are an idea of Land and Bartolo, "Fishing for Magikarp" (arXiv:2405.05417).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from train.config import TrainConfig
from train.preflight.rendered import RenderedRow
from train.preflight.report import Finding, Verdict

# Reads a model's embeddings from its weights without loading the model.
#
# These are the input embeddings and, unless tied, the output embeddings.


ROWS_PER_READ = 16_384
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class EmbeddingMatrix:
    """One tensor of a safetensors file: a row for each id of the vocabulary."""

    name: str
    file: Path

    @property
    def rows(self) -> int:
        """Number of ids."""
        with self._open() as file:
            return int(file.get_slice(self.name).get_shape()[0])

    def read(self, ids: Sequence[int]) -> Any:
        """The rows of some ids (sorted), as float32."""
        import torch

        wanted = torch.tensor(ids, dtype=torch.long)
        found = [
            rows[wanted[(wanted >= start) & (wanted < start + len(rows))] - start]
            for start, rows in self.pieces()
        ]
        return torch.cat(found)

    def pieces(self) -> Iterator[tuple[int, Any]]:
        """All rows as float32 in pieces, each with the id of its first row."""
        with self._open() as file:
            tensor = file.get_slice(self.name)
            for start in range(0, tensor.get_shape()[0], ROWS_PER_READ):
                yield start, tensor[start : start + ROWS_PER_READ].float()

    def _open(self) -> Any:
        from safetensors import safe_open

        return safe_open(str(self.file), framework="pt")


def embedding_matrices(base: str) -> list[EmbeddingMatrix]:
    """The embeddings of a model folder or hub id; none if it has no such weights."""
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


NEAR = 0.25
"""Share of the median distance of ordinary rows: a row closer to zero or the mean was never
trained."""
CLOSE = 0.05
"""Share of the median distance of ordinary rows from their mean: closer rows are neighbours."""
CROWD = 3
"""Neighbours from which on a row counts as never trained."""
REACH = 1.5
"""Factor on the median distance of the unreachable rows from their own mean."""
FEW = 0.01
"""If a larger share of ordinary rows lies among the unreachable ones, these prove nothing."""
SAMPLE = 10_000
"""Approximate size of the sample that stands for all rows of a kind."""
LEAST = 8
"""Fewest unreachable rows for which they are used."""
RESERVED = re.compile(r"reserved|unused|placeholder|dummy", re.IGNORECASE)
EMBEDDING_MODULES = {"embed_tokens", "lm_head", "wte", "word_embeddings"}


class SpecialTokensTrained:
    """Checks that no special token among the targets has an embedding that was never trained."""

    name = "special_tokens_trained"
    every_row = True

    def __init__(
        self,
        config: TrainConfig,
        tokenizer: Any,
        matrices: Callable[[], list[EmbeddingMatrix]],
    ) -> None:
        """`matrices` returns the model's embeddings, none if the weights are not available."""
        self._tokenizer = tokenizer
        self._matrices = matrices
        self._learned = learns_embeddings(config)
        self._special = set(tokenizer.get_added_vocab().values()) | set(tokenizer.all_special_ids)
        self._targets: Counter[int] = Counter()

    def add(self, row: RenderedRow) -> None:
        pairs = zip(row.encoded.input_ids, row.encoded.mask, strict=True)
        self._targets.update(token for token, kept in pairs if kept and token in self._special)

    def finding(self) -> Finding:
        matrices = self._matrices() if self._targets else []
        found = sorted({i for each in matrices for i in self._untrained(each)})
        return Finding(
            check=self.name,
            verdict=self._verdict(bool(matrices), bool(found)),
            number=self._number(found, bool(matrices)),
            meaning="LoRA leaves the embeddings as they are, and can't teach a token whose own was "
            "never trained.",
            advice="Drop these tokens from the tokenizer's added tokens, so that they are written "
            "as ordinary ones (what the parser reads stays the same), take templates without them, "
            "or train the embeddings too (train.lora: null)."
            if found
            else "Give a model folder with its safetensors weights.",
        )

    def _verdict(self, has_weights: bool, found: bool) -> Verdict:
        if self._targets and not has_weights:
            return Verdict.NOT_CHECKED
        return Verdict.FAILED if found and not self._learned else Verdict.PASSED

    def _number(self, found: list[int], has_weights: bool) -> str:
        if not has_weights:
            reason = ": there are no weights" if self._targets else ""
            return f"{len(self._targets)} special tokens among the targets{reason}"
        names = ", ".join(
            f"{self._tokenizer.convert_ids_to_tokens(i)} ({self._targets[i]} times)" for i in found
        )
        number = (
            f"{len(found)} of {len(self._targets)} special tokens among the targets have an "
            "embedding that was never trained"
        )
        note = ", and this training trains it" if found and self._learned else ""
        return f"{number}{note}" + (f": {names}" if names else "")

    def _untrained(self, matrix: EmbeddingMatrix) -> list[int]:
        beyond = [i for i in self._targets if i >= matrix.rows]
        return beyond + untrained(matrix, self._groups(matrix.rows))

    def _groups(self, rows: int) -> Groups:
        """Sort the ids of an embedding matrix into groups."""
        added = self._tokenizer.get_added_vocab()
        reserved = {i for name, i in added.items() if RESERVED.search(name)}
        known = set(self._tokenizer.get_vocab().values())
        unreachable = ({*range(rows)} - known) | reserved
        ordinary = {i for i in known if i < rows} - self._special - reserved
        targets = [i for i in sorted(self._targets) if i < rows]
        return Groups(targets, _thinned(ordinary), _thinned(unreachable))


def learns_embeddings(config: TrainConfig) -> bool:
    """Whether the training changes the embeddings."""
    if config.lora is None:
        return True
    targets = config.lora.target_modules
    return not isinstance(targets, str) and bool(EMBEDDING_MODULES & set(targets))


def _thinned(ids: set[int]) -> list[int]:
    """Evenly spread ids, at most as many as a median needs."""
    ordered = sorted(ids)
    return ordered[:: max(1, len(ordered) // SAMPLE)]


@dataclass(frozen=True)
class Groups:
    """Ids of the rows of an embedding matrix."""

    targets: list[int]
    """Special tokens that are to be learned."""
    ordinary: list[int]
    """Ids that occur in ordinary texts."""
    unreachable: list[int]
    """Ids that no text contains."""


def untrained(matrix: EmbeddingMatrix, groups: Groups) -> list[int]:
    """The targets whose rows lie where untrained rows lie."""
    import torch

    targets, ordinary = matrix.read(groups.targets), matrix.read(groups.ordinary)
    near = torch.zeros(len(targets), dtype=torch.bool)
    for centre in (torch.zeros(ordinary.shape[1]), ordinary.mean(0)):
        typical = _distances(ordinary, centre).median()
        near |= _distances(targets, centre) < NEAR * typical
    near |= _neighbours(matrix, targets, float(CLOSE * typical)) >= CROWD
    if len(groups.unreachable) >= LEAST:
        near |= _among_unreachable(targets, ordinary, matrix.read(groups.unreachable))
    return [i for i, found in zip(groups.targets, near.tolist(), strict=True) if found]


def _neighbours(matrix: EmbeddingMatrix, targets: Any, reach: float) -> Any:
    """Number of other rows within reach of each target."""
    import torch

    counts = torch.full((len(targets),), -1)  # each is its own neighbour
    for _, rows in matrix.pieces():
        # With a matrix product, torch's default, equal rows would not be at distance 0.
        exact = torch.cdist(targets, rows, compute_mode="donot_use_mm_for_euclid_dist")
        counts += (exact < reach).sum(1)
    return counts


def _among_unreachable(targets: Any, ordinary: Any, unreachable: Any) -> Any:
    """Which targets lie among the unreachable rows; none if ordinary rows do so as well."""
    centre = unreachable.mean(0)
    reach = REACH * _distances(unreachable, centre).median()
    among = (_distances(ordinary, centre) <= reach).float().mean()
    return (_distances(targets, centre) <= reach) & bool(among < FEW)


def _distances(rows: Any, centre: Any) -> Any:
    return (rows - centre).norm(dim=1)
