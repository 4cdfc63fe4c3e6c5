"""How long the rows are, and what is lost where they are cut."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from math import ceil

from train.config import TrainConfig
from train.preflight.check import Finding, Verdict
from train.preflight.rendered import RenderedRow

BOUNDS = tuple(2**power for power in range(8, 21))
"""Tokens: the upper bounds of the histogram's bars, each included."""


class Lengths:
    """No more rows are cut than the config allows, and the model can read what is left."""

    name = "lengths"
    every_row = True

    def __init__(self, config: TrainConfig, context: int | None) -> None:
        """`context` is the longest input in tokens that the model was made for, where known."""
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
        """See `Check`."""
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
        """How many there were."""
        return len(self._lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest row before cutting."""
        return max(self._lengths, default=0)

    @property
    def histogram(self) -> dict[int, int]:
        """Rows by the smallest of BOUNDS that they fit in; longer ones by the last."""
        places = (bisect_left(BOUNDS, length, hi=len(BOUNDS) - 1) for length in self._lengths)
        return {BOUNDS[place]: count for place, count in sorted(Counter(places).items())}

    def finding(self) -> Finding:
        """See `Check`."""
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
        """The length below which this share of the rows is, to the nearest row."""
        ordered = sorted(self._lengths)
        return ordered[int(share * (len(ordered) - 1))] if ordered else 0

    def _advice(self) -> str:
        """What to do; empty where nothing has to be done."""
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
        """How the longest row would fit."""
        if self._context is not None and self.longest > self._context:
            return f"lower format.max_characters, as the model reads {self._context} tokens at most"
        return f"raise max_length to {self.longest}, lower format.max_characters"
