"""Run all preflight checks in one pass over the rows."""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from train.base_model import context_length
from train.config import TrainConfig
from train.preflight.masks import MasksAreTurns, MasksNotEmpty, PrefixesPreserved, TemplatesAgree
from train.preflight.rendered import RenderedRow
from train.preflight.report import Check, Finding, Preflight, Verdict
from train.preflight.tool_calls import ToolCallsSurvive

# Check that the special tokens to be learned have embeddings that were ever trained.
#
# A model never learns to emit `<tool_call>` through LoRA if that token's row of the frozen
# embeddings was never trained, though loss and token accuracy look good. Such rows lie
#
# - at zero, after weight decay;
# - at the mean of all rows, where `resize_token_embeddings` puts new ones;
# - close together in groups, since nothing has driven them apart: of the 17 of SmolLM2, 11,
#   with 6 tokens of no text, lie within 5% of a usual distance, while none of 1,000 usual rows has
#   even one other row that near;
# - among the rows that no text can reach, beyond the last id or reserved. These reference
#   rows are an idea of Land and Bartolo, "Fishing for Magikarp" (arXiv:2405.05417).


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


# Row lengths, and what is lost by cutting.


BOUNDS = tuple(2**power for power in range(8, 21))
"""Tokens: the inclusive upper bounds of the histogram's bars."""


class Lengths:
    """Checks that no more rows are cut than the config allows, and that the model can read the
    rest."""

    name = "lengths"
    every_row = True

    def __init__(self, config: TrainConfig, context: int | None) -> None:
        """`context` is the model's context length in tokens, if known."""
        self.max_length = config.max_length
        self._allowed = config.max_truncated_share
        self._context = context
        self._lengths = array("I")
        self.cut = 0
        self.lost = 0
        self.untrained = 0
        self.tokens = 0
        self.trained_tokens = 0
        self._trained_before = 0

    def add(self, row: RenderedRow) -> None:
        encoded = row.encoded
        kept = encoded.cut(self.max_length)
        self._lengths.append(len(encoded.input_ids))
        self.tokens += len(kept.input_ids)
        self.trained_tokens += kept.trained
        self._trained_before += encoded.trained
        if not encoded.trained:
            self.untrained += 1
        elif len(encoded.input_ids) > self.max_length:
            self.cut += 1
            self.lost += not kept.trained

    @property
    def rows(self) -> int:
        return len(self._lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest row before cutting."""
        return max(self._lengths, default=0)

    @property
    def histogram(self) -> dict[int, int]:
        """Number of rows by the smallest of BOUNDS that they fit in; longer ones by the last."""
        places = (bisect_left(BOUNDS, length, hi=len(BOUNDS) - 1) for length in self._lengths)
        return {BOUNDS[place]: count for place, count in sorted(Counter(places).items())}

    def finding(self) -> Finding:
        advice = self._advice()
        lost = 1 - self.trained_tokens / self._trained_before if self._trained_before else 0.0
        bars = ", ".join(f"{count} up to {bound:,}" for bound, count in self.histogram.items())
        return Finding(
            check=self.name,
            verdict=Verdict.FAILED if advice else Verdict.PASSED,
            number=f"{self.cut} of {self.rows} rows are longer than train.max_length = "
            f"{self.max_length} tokens, and {lost:.1%} of the trained tokens are cut off; the "
            f"median has {self._quantile(0.5):,}, 90% have at most {self._quantile(0.9):,}, the "
            f"longest {self.longest:,} ({bars})",
            meaning="A row that is cut loses its end, where the answer is.",
            advice=advice,
        )

    def _quantile(self, share: float) -> int:
        """The length that this share of the rows stays below, to the nearest row."""
        ordered = sorted(self._lengths)
        return ordered[int(share * (len(ordered) - 1))] if ordered else 0

    def _advice(self) -> str:
        """Advice; empty if there is nothing to do."""
        if self.rows and self.lost == self.rows:
            return (
                f"train.max_length = {self.max_length} cuts off all trained tokens of every row: "
                f"raise it, the longest row has {self.longest} tokens."
            )
        if self.cut > self._allowed * self.rows:
            share = ceil(self.cut / self.rows * 1000) / 1000
            return (
                f"That is more than train.max_truncated_share = {self._allowed} allows: "
                f"{self._room()}, or raise max_truncated_share to {share}."
            )
        if self._context is not None and min(self.longest, self.max_length) > self._context:
            return (
                f"The longest row has {self.longest} tokens, more than the base model's context of "
                f"{self._context}: set train.max_length = {self._context}, or lower "
                "format.max_characters."
            )
        return ""

    def _room(self) -> str:
        """Explain how the longest row would fit."""
        if self._context is not None and self.longest > self._context:
            return f"lower format.max_characters, as the model reads {self._context} tokens at most"
        return f"raise max_length to {self.longest}, lower format.max_characters"


class PreflightRun:
    """Passes each row to its checks, and collects their findings."""

    def __init__(self, config: TrainConfig, base: str, tokenizer: Any, rows: int) -> None:
        """`base` is a folder or a hub id; `rows` is how many will come.

        Raises ConfigError if a waived check does not exist.
        """
        self._config = config
        self._rows = rows
        self._looked_through = 0
        self.masks = MasksNotEmpty()
        self.serving = TemplatesAgree()
        self.lengths = Lengths(config, context_length(base))
        self.checks: tuple[Check, ...] = (
            self.masks,
            MasksAreTurns(),
            self.serving,
            PrefixesPreserved(),
            ToolCallsSurvive(config.tool_call_parser, tokenizer),
            SpecialTokensTrained(config, tokenizer, partial(embedding_matrices, base)),
            self.lengths,
        )
        _check_names(config.waived_checks, self.checks)

    def add(self, row: RenderedRow) -> None:
        """Check the next row."""
        thorough = self._in_sample(self.masks.rows)
        self._looked_through += thorough
        for check in self.checks:
            if check.every_row or thorough:
                check.add(row)

    def _in_sample(self, place: int) -> bool:
        """Whether the row at a place is in the evenly spread sample."""
        wanted, rows = self._config.preflight_rows, max(self._rows, 1)
        return (place + 1) * wanted // rows > place * wanted // rows

    def report(self) -> Preflight:
        """Counts and findings over the rows so far."""
        lengths = self.lengths
        return Preflight(
            max_length=lengths.max_length,
            rows=lengths.rows,
            empty=self.masks.empty,
            cut=lengths.cut,
            lost=lengths.lost,
            other_when_served=self.serving.different,
            tokens=lengths.tokens,
            trained_tokens=lengths.trained_tokens,
            longest=lengths.longest,
            first_empty=self.masks.first_empty,
            untrained=lengths.untrained - self.masks.empty,
            looked_through=self._looked_through,
            findings=[self._waived(check.finding()) for check in self.checks],
        )

    def _waived(self, finding: Finding) -> Finding:
        if finding.verdict is Verdict.FAILED and finding.check in self._config.waived_checks:
            return finding.model_copy(update={"verdict": Verdict.WAIVED})
        return finding


def _check_names(waived: tuple[str, ...], checks: tuple[Check, ...]) -> None:
    names = [check.name for check in checks]
    unknown = [name for name in waived if name not in names]
    if unknown:
        raise ConfigError(
            f"train.waived_checks: there is no check {unknown[0]!r}; there are {', '.join(names)}"
        )
