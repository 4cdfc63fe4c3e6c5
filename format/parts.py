"""Datasets besides the conversations, below `sft/`: pairs of attempts, and prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from format.card import column_table, front_matter, markdown_table
from format.columns import Column
from format.config import FormatConfig
from format.dataset import SplitWriter
from format.splits import TEST, TRAIN

Row = dict[str, Any]


class PartReport(BaseModel):
    """The contents of one dataset; its `report.json`."""

    model_config = ConfigDict(extra="forbid")

    rows: dict[str, dict[str, int]]
    """Number of rows by split and by the value of `about`."""
    config: dict[str, Any]
    """The config section that produced it."""

    @property
    def totals(self) -> dict[str, int]:
        """Rows by split."""
        return {name: sum(counts.values()) for name, counts in self.rows.items()}


@dataclass(frozen=True)
class Part:
    """The name and content of one dataset."""

    name: str
    """Name of its folder, also in its title."""
    columns: dict[str, Column]
    about: str
    """The column by whose values rows are counted."""
    introduction: str

    def write(
        self, sft: Path, config: FormatConfig, section: BaseModel, rows: Iterable[tuple[str, Row]]
    ) -> PartReport:
        """Write rows, each with its split, below the `sft` folder, with a report and a card."""
        folder = sft / self.name
        counts = self._write_rows(folder, rows)
        report = PartReport(rows=counts, config=section.model_dump(mode="json"))
        (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n")
        (folder / "README.md").write_text(self._card(folder, config, report))
        return report

    def _write_rows(
        self, folder: Path, rows: Iterable[tuple[str, Row]]
    ) -> dict[str, dict[str, int]]:
        counts: dict[str, Counter[str]] = {TRAIN: Counter(), TEST: Counter()}
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(closing(SplitWriter(folder, name, self.columns)))
                for name in counts
            }
            for split, row in rows:
                writers[split].add(row)
                counts[split][row[self.about]] += 1
        return {name: dict(found) for name, found in counts.items() if found}

    def _card(self, folder: Path, config: FormatConfig, report: PartReport) -> str:
        title = f"{config.name}: {self.name}"
        kinds = sorted({kind for counts in report.rows.values() for kind in counts})
        table = [
            [name, f"{report.totals[name]:,}", *(f"{counts.get(kind, 0):,}" for kind in kinds)]
            for name, counts in report.rows.items()
        ]
        sections = [
            front_matter(folder, title, config.model_dump(mode="json"), report.totals),
            f"# {title}",
            self.introduction,
            "## Splits\n\nBy repository, as those of the conversations.\n\n"
            + markdown_table(["split", "rows", *kinds], table),
            "## Columns\n\n" + column_table(self.columns),
            f"## Config\n\n```yaml\n{yaml.safe_dump(report.config).rstrip()}\n```",
        ]
        return "\n\n".join(sections) + "\n"
