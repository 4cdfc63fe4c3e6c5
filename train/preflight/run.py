"""Run all preflight checks in one pass over the rows."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from functools import partial
from math import ceil
from typing import Any

from collect.errors import ConfigError
from train.base_model import context_length
from train.config import TrainConfig
from train.preflight.masks import MasksAreTurns, MasksNotEmpty
from train.preflight.prefixes import PrefixesPreserved, TemplatesAgree
from train.preflight.rendered import RenderedRow
from train.preflight.report import Check, Finding, Preflight, Verdict
from train.preflight.special_tokens import SpecialTokensTrained, embedding_matrices
from train.preflight.tool_calls import ToolCallsSurvive

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
