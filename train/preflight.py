"""The preflight: one pass that checks and encodes the rows, its report, the refusal to train."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from collect.agents.debug2fix import instructions_hash
from collect.errors import ConfigError
from collect.models.config import WEIGHTS
from collect.store.files import StrictRecord
from collect.store.records import Role
from format.dataset import read_rows
from train.base_model import Tokenization, context_length
from train.checks import (
    Check,
    Finding,
    MasksAreTurns,
    PrefixesPreserved,
    ReasoningTrained,
    ToolCallsSurvive,
    Verdict,
)
from train.config import TrainConfig
from train.encoding import RenderedRow


class Preflight(StrictRecord):
    """Counts over all rows of the train split, for one tokenizer, template and length."""

    rows: int = 0
    cut: int = 0
    """Rows longer than `train.max_length`, which are truncated."""
    left_out: int = 0
    """Rows without a trained token, or that truncation would leave without one."""
    tokens: int = 0
    """Tokens of all rows as trained, after cutting."""
    trained_tokens: int = 0
    longest: int = 0
    """Tokens of the longest row before cutting."""
    marked: int = 0
    """Rows with control tokens in their messages, where they are marked, so that they are text."""
    looked_through: int = 0
    """Rows that all checks read. Of other rows only length and special tokens are checked."""
    pairs: int = 0
    """Number of trained pairs, if pairs are trained. Each side counts as a row, and the tokens are
    those of both."""
    pairs_left_out: int = 0
    """Pairs with a side that is too long, or has no token to train on."""
    findings: list[Finding] = Field(default_factory=list)
    repositories: list[str] = Field(default_factory=list)
    """The repositories whose bugs the rows are about."""
    instructions: list[str] = Field(default_factory=list)
    """Hashes of the Debug Subagents' system prompts and tools in the rows."""

    @property
    def failures(self) -> list[Finding]:
        return [each for each in self.findings if each.verdict is Verdict.FAILED]

    @property
    def warnings(self) -> list[Finding]:
        return [each for each in self.findings if each.verdict is Verdict.WARNING]

    def lines(self) -> Iterator[str]:
        for each in self.findings:
            yield f"{each.verdict.upper():<11} {each.line}"

    def refuse_failures(self) -> None:
        """Raise ConfigError if training on these rows would teach nothing, or too little."""
        if self.failures:
            lines = "\n".join(f"  {each.line}" for each in self.failures)
            raise ConfigError(
                f"the training data fails {len(self.failures)} of {len(self.findings)} checks:\n"
                f"{lines}\nFix that, or name the checks in train.waived_checks to train "
                "nevertheless"
            )


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


ROWS_COMPARED = 16_384
"""At once, in float32."""
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


def embeddings(base: str) -> list[Any]:
    """The input embeddings of a model folder or hub id and, unless tied, the output embeddings, as
    tensors with a row for each id; none if it has no weights. Safetensors are mapped, not read."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    if Path(base).is_dir() and not (Path(base) / "config.json").is_file():
        return []
    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(base, dtype="auto", **WEIGHTS)
    except (OSError, ImportError, ValueError):  # no weights, no network, no quantiser
        return []
    modules = (model.get_input_embeddings(), model.get_output_embeddings())
    weights = {id(each.weight): each.weight.detach() for each in modules if each is not None}
    return list(weights.values())


def untrained(
    matrix: Any, ids: list[int], ordinary_ids: list[int], unreachable_ids: list[int]
) -> list[int]:
    """Those of the ids whose rows lie where untrained rows lie.

    Compares them with ids that occur in ordinary texts, and with ids that no text contains.
    """
    import torch

    targets, ordinary = matrix[ids].float(), matrix[ordinary_ids].float()
    found = torch.zeros(len(targets), dtype=torch.bool)
    for centre in (torch.zeros(ordinary.shape[1]), ordinary.mean(0)):
        typical = _distances(ordinary, centre).median()
        found |= _distances(targets, centre) < NEAR * typical
    neighbours = torch.full((len(targets),), -1)  # each is its own neighbour
    for rows in matrix.split(ROWS_COMPARED):
        # With a matrix product, torch's default, equal rows would not be at distance 0.
        exact = torch.cdist(targets, rows.float(), compute_mode="donot_use_mm_for_euclid_dist")
        neighbours += (exact < float(CLOSE * typical)).sum(1)
    found |= neighbours >= CROWD
    if len(unreachable_ids) >= LEAST:
        unreachable = matrix[unreachable_ids].float()
        centre = unreachable.mean(0)
        reach = REACH * _distances(unreachable, centre).median()
        among = (_distances(ordinary, centre) <= reach).float().mean()
        found |= (_distances(targets, centre) <= reach) & bool(among < FEW)
    return [i for i, is_found in zip(ids, found.tolist(), strict=True) if is_found]


def _distances(rows: Any, centre: Any) -> Any:
    return (rows - centre).norm(dim=1)


class SpecialTokensTrained(Check):
    """Checks that no special token among the targets has an embedding that was never trained."""

    name = "special_tokens_trained"
    meaning = (
        "LoRA leaves the embeddings as they are, and can't teach a token whose own was never "
        "trained."
    )
    every_row = True

    def __init__(self, config: TrainConfig, tokenizer: Any, base: str) -> None:
        super().__init__()
        self._tokenizer, self._base = tokenizer, base
        modules = config.lora.target_modules if config.lora else ()
        named = not isinstance(modules, str) and EMBEDDING_MODULES & set(modules)
        self._learned = config.lora is None or bool(named)
        self._special = set(tokenizer.get_added_vocab().values()) | set(tokenizer.all_special_ids)
        self._targets: Counter[int] = Counter()

    def add(self, row: RenderedRow) -> None:
        pairs = zip(row.encoded.input_ids, row.encoded.mask, strict=True)
        self._targets.update(token for token, kept in pairs if kept and token in self._special)

    def finding(self) -> Finding:
        matrices = embeddings(self._base) if self._targets else []
        found = sorted({i for each in matrices for i in self._untrained(each)})
        number = f"{len(self._targets)} special tokens among the targets"
        verdict = Verdict.FAILED if found and not self._learned else Verdict.PASSED
        if not matrices and self._targets:
            number, verdict = f"{number}: there are no weights", Verdict.NOT_CHECKED
        elif matrices:
            number = f"{len(found)} of {number} have an embedding that was never trained"
        if found:
            note = ", and this training trains it" if self._learned else ""
            names = ", ".join(
                f"{self._tokenizer.convert_ids_to_tokens(i)} ({self._targets[i]} times)"
                for i in found
            )
            number += f"{note}: {names}"
        advice = (
            "Drop these tokens from the tokenizer's added tokens, so that they are written as "
            "ordinary ones (what the parser reads stays the same), take templates without them, or "
            "train the embeddings too (train.lora: null)."
            if found
            else "Give a model folder with its weights."
        )
        return self.found(verdict, number, advice)

    def _untrained(self, matrix: Any) -> list[int]:
        rows, added = len(matrix), self._tokenizer.get_added_vocab()
        reserved = {i for name, i in added.items() if RESERVED.search(name)}
        known = set(self._tokenizer.get_vocab().values())
        unreachable = sorted(({*range(rows)} - known) | reserved)
        ordinary = sorted({i for i in known if i < rows} - self._special - reserved)
        targets = [i for i in sorted(self._targets) if i < rows]
        # Evenly spread ids are enough for a median.
        samples = [ids[:: max(1, len(ids) // SAMPLE)] for ids in (ordinary, unreachable)]
        beyond = [i for i in self._targets if i >= rows]
        return beyond + untrained(matrix, targets, *samples)


class Lengths(Check):
    """Checks that no more rows are cut than the config allows, and that the model can read the
    rest."""

    name = "lengths"
    meaning = "A row that is cut loses its end, where the answer is."
    every_row = True

    def __init__(self, config: TrainConfig, context: int | None) -> None:
        """`context` is the model's context length in tokens, if known."""
        super().__init__()
        self._max_length = config.max_length
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
        kept = encoded.cut(self._max_length)
        self.rows += 1
        self._lengths.append(len(encoded.input_ids))
        self.tokens += len(kept.input_ids)
        self.trained_tokens += kept.trained
        self._trained_before += encoded.trained
        if not encoded.trained:
            self.untrained += 1
        elif len(encoded.input_ids) > self._max_length:
            self.cut += 1
            self.lost += not kept.trained

    @property
    def longest(self) -> int:
        return max(self._lengths, default=0)

    def finding(self) -> Finding:
        lost = 1 - self.trained_tokens / self._trained_before if self._trained_before else 0.0
        ordered = sorted(self._lengths) or [0]
        median, most = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.9))
        number = (
            f"{self.cut} of {self.rows} rows are longer than train.max_length = "
            f"{self._max_length} tokens, and {lost:.1%} of the trained tokens are cut off; the "
            f"median has {median:,}, 90% have at most {most:,}, the longest {self.longest:,}"
        )
        advice = self._advice()
        return self.found(Verdict.FAILED if advice else None, number, advice)

    def _advice(self) -> str:
        too_long = self._context is not None and self.longest > self._context
        if not self.trained_tokens:
            return (
                f"No row has a token to train on before train.max_length = {self._max_length}: "
                f"{'raise it, ' * bool(self.lost)}the longest row has {self.longest} tokens."
            )
        if self.cut > self._allowed * self.rows:
            share = ceil(self.cut / self.rows * 1000) / 1000
            fewer = "lower format.max_characters"
            room = f"raise max_length to {self.longest}, {fewer}"
            if too_long:
                room = f"{fewer}, as the model reads {self._context} tokens at most"
            return (
                f"That is more than train.max_truncated_share = {self._allowed} allows: "
                f"{room}, or raise max_truncated_share to {share}."
            )
        if self._context is not None and min(self.longest, self._max_length) > self._context:
            return (
                f"The longest row has {self.longest} tokens, more than the base model's context of "
                f"{self._context}: set train.max_length = {self._context}, or lower "
                "format.max_characters."
            )
        return ""


class PreflightRun:
    def __init__(self, config: TrainConfig, base: str, tokenizer: Any, rows: int) -> None:
        """`base` is a folder or a hub id; `rows` is how many will come.

        Raises ConfigError if a waived check does not exist.
        """
        self._config = config
        self._rows = max(rows, 1)
        self._looked_through = 0
        self._marked = 0
        self._repositories, self._instructions = set[str](), set[str]()
        self.lengths = Lengths(config, context_length(base))
        self.checks: tuple[Check, ...] = (
            MasksAreTurns(),
            PrefixesPreserved(),
            ReasoningTrained(),
            ToolCallsSurvive(config.tool_call_parser, tokenizer),
            SpecialTokensTrained(config, tokenizer, base),
            self.lengths,
        )
        names = [check.name for check in self.checks]
        for waived in set(config.waived_checks).difference(names):
            raise ConfigError(
                f"train.waived_checks: there is no check {waived!r}; there are {', '.join(names)}"
            )

    def add(self, row: RenderedRow) -> None:
        place, wanted = self.lengths.rows, self._config.preflight_rows
        thorough = (place + 1) * wanted // self._rows > place * wanted // self._rows
        self._looked_through += thorough
        self._marked += row.has_marks
        for check in self.checks:
            if check.every_row or thorough:
                check.add(row)
        read, opening = row.row, row.row["messages"][0]
        if "repository" in read:
            self._repositories.add(read["repository"])
        of_subagent = read.get("role", Role.DEBUG_SUBAGENT) == Role.DEBUG_SUBAGENT
        if of_subagent and opening["role"] == "system":
            self._instructions.add(instructions_hash(opening["content"], read["tools"]))

    def report(self) -> Preflight:
        lengths, findings = self.lengths, [check.finding() for check in self.checks]
        for place, each in enumerate(findings):
            if each.verdict is Verdict.FAILED and each.check in self._config.waived_checks:
                findings[place] = each.model_copy(update={"verdict": Verdict.WAIVED})
        return Preflight(
            rows=lengths.rows,
            cut=lengths.cut,
            left_out=lengths.untrained + lengths.lost,
            tokens=lengths.tokens,
            trained_tokens=lengths.trained_tokens,
            longest=lengths.longest,
            marked=self._marked,
            looked_through=self._looked_through,
            findings=findings,
            repositories=sorted(self._repositories),
            instructions=sorted(self._instructions),
        )


# Splits as token ids with labels, memory-mapped, to train on.

SCHEMA = pa.schema({"input_ids": pa.list_(pa.int32()), "labels": pa.list_(pa.int64())})
ROWS_PER_BATCH = 64
READ = ("messages", "tools", "conversation_id", "trained_turns", "repository", "role")
"""The columns that are read; a split needs only the first two."""


def rendered_rows(split: Path, tokenization: Tokenization) -> Iterator[RenderedRow]:
    for row in read_rows(split, READ):
        yield tokenization.rendered(row)


def check_split(split: Path, config: TrainConfig, tokenization: Tokenization) -> Preflight:
    rows = pq.read_metadata(split).num_rows
    checks = PreflightRun(config, tokenization.base, tokenization.tokenizer, rows)
    for row in rendered_rows(split, tokenization):
        checks.add(row)
    return checks.report()


def encode_split(
    split: Path, target: Path, config: TrainConfig, tokenization: Tokenization
) -> Preflight:
    """Write every row of a split to `target`, cut to `max_length`, and report on them."""
    rows = pq.read_metadata(split).num_rows
    checks = PreflightRun(config, tokenization.base, tokenization.tokenizer, rows)

    def encoded() -> Iterator[dict[str, Any]]:
        for row in rendered_rows(split, tokenization):
            checks.add(row)
            kept = row.encoded.cut(config.max_length)
            if kept.trained:
                yield {"input_ids": kept.input_ids, "labels": kept.labels}

    write_encoded(encoded(), target, SCHEMA)
    return checks.report()


def write_encoded(rows: Iterator[dict[str, Any]], target: Path, schema: pa.Schema) -> None:
    """Write rows as an Arrow file for `load_rows`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        while batch := list(islice(rows, ROWS_PER_BATCH)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema))


def load_rows(path: Path) -> Any:
    """Rows with any columns as a memory-mapped `datasets.Dataset`."""
    from datasets import Dataset

    return Dataset.from_file(str(path))
