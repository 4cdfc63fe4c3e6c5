"""All checks over the rows of one pass."""

from __future__ import annotations

from functools import partial
from typing import Any

from collect.errors import ConfigError
from train.base_model import context_length
from train.config import TrainConfig
from train.preflight.check import Check, Finding, Verdict
from train.preflight.embeddings import embedding_matrices
from train.preflight.empty_masks import MasksNotEmpty
from train.preflight.lengths import Lengths
from train.preflight.masks import MasksAreTurns
from train.preflight.prefixes import PrefixesPreserved
from train.preflight.rendered import RenderedRow
from train.preflight.report import Preflight
from train.preflight.serving import TemplatesAgree
from train.preflight.special_tokens import SpecialTokensTrained
from train.preflight.tool_calls import ToolCallsSurvive


class PreflightRun:
    """Gives each row to the checks that are to see it, and collects what they found."""

    def __init__(self, config: TrainConfig, base: str, tokenizer: Any, rows: int) -> None:
        """`base` is a folder or a hub id; `rows` says how many there will be.

        Raises ConfigError where a waived check is none.
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
        """Look at the next row."""
        thorough = self._in_sample(self.masks.rows)
        self._looked_through += thorough
        for check in self.checks:
            if check.every_row or thorough:
                check.add(row)

    def _in_sample(self, place: int) -> bool:
        """Whether the row at a place is one of those, evenly spread, that are looked through."""
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
