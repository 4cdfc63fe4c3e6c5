"""Write an evaluation's results: tables.md, arms.csv, results.json.

For systems in InspectCoder's tables, also one CSV file per entry of `DATA`; for paired comparisons,
one per entry of `PAIRED`; and one per additional table and figure, in `figures`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from collect.errors import FailureKind
from collect.store.atomic_files import write_text
from collect.store.records import Rollout
from eval.actions import actions_facts
from eval.attempts import attempts_facts, pairs_facts, sets_facts
from eval.figures import FOLDER as FIGURES
from eval.figures import Record, write_records
from eval.labels import Labels
from eval.metrics import ArmMetrics, Comparison, change, has_verdict
from eval.page import all_notes, markdown
from eval.paired.report import PairedReport
from eval.paired.tables import comparison_facts, gain_facts
from eval.panels import Facts, Panel
from eval.repair_tables import repair_facts

FORMAT_VERSION = 1
FAILURE_KINDS = tuple(kind.value for kind in FailureKind)
OUTCOME = (
    *("rollout_id", "benchmark", "instance_id", "instance_hash", "variant", "main_model"),
    *("sub_model", "attempt", "teacher", "resolved", "tampered", "failure_kind"),
    *("failure_type", "sub_calls", "debug_calls", "debug_stops", "main_steps", "sub_steps"),
    *("dollars", "sub_dollars", "patch_attempts", "seconds", "scoring_seconds"),
)
"""Fields of each rollout that results.json contains."""
CHANGES = ("pass_rate", "main_steps", "main_tokens")
"""Metrics with a column for their change relative to the baseline, in percent."""
DATA: dict[str, Callable[[Panel], list[Facts]]] = {
    "repair": repair_facts,
    "patch_attempts": attempts_facts,
    "actions": actions_facts,
    "overlap": sets_facts,
    "overlap_pairs": pairs_facts,
}
"""The data of InspectCoder's tables and figures, by name of the CSV file and of the list in
results.json. Rates and shares are in percent."""

PAIRED: dict[str, Callable[[PairedReport], list[Facts]]] = {
    "comparisons": comparison_facts,
    "recovered_gain": gain_facts,
}
"""Paired statistics, by name of the CSV file and of the list in results.json."""


@dataclass(frozen=True)
class TablePaths:
    """Paths of the written files."""

    markdown: Path
    csv: Path
    json: Path
    data: tuple[Path, ...] = ()
    """The CSV files of InspectCoder's tables and figures."""
    paired: tuple[Path, ...] = ()
    """The CSV files of the paired statistics."""
    figures: tuple[Path, ...] = ()
    """The CSV files of additional tables and figures."""


def write_tables(
    comparison: Comparison,
    rollouts: Iterable[Rollout],
    folder: Path,
    *,
    panels: Sequence[Panel] = (),
    paired: PairedReport | None = None,
    records: Sequence[Record] = (),
    config: Mapping[str, Any] | None = None,
    labels: Labels | None = None,
    title: str = "Evaluation",
) -> TablePaths:
    """Write the tables in three formats, each file atomically.

    `panels`, `paired` and `records` are those of the same rollouts; without them, their tables,
    statistics and figures are missing. `config` must be JSON-serialisable; it goes into
    results.json with the rollouts' outcomes.
    """
    labels = labels or Labels()
    folder.mkdir(parents=True, exist_ok=True)
    data = {name: _distinct(of, panels) for name, of in DATA.items()} if panels else {}
    compared = {name: of(paired) for name, of in PAIRED.items()} if paired else {}
    paths = TablePaths(
        folder / "tables.md",
        folder / "arms.csv",
        folder / "results.json",
        tuple(folder / f"{name}.csv" for name in data),
        tuple(folder / f"{name}.csv" for name, rows in compared.items() if rows),
        write_records(records, folder / FIGURES) if records else (),
    )
    data |= compared
    results = {
        "format_version": FORMAT_VERSION,
        "config": dict(config) if config is not None else None,
        "baseline": comparison.baseline,
        "notes": all_notes(comparison, labels, panels),
        "instances": [_instance(key) for key in comparison.instances],
        "left_out": [_instance(key) for key in comparison.left_out],
        "attempts_left_out": comparison.attempts_left_out,
        "arms": [arm_row(comparison, metrics) for metrics in comparison.arms],
        **data,
        "figures": [asdict(record) for record in records],
        "outcomes": sorted((_outcome(row) for row in rollouts), key=_outcome_key),
    }
    write_text(
        paths.markdown, markdown(comparison, labels, panels, title, paired=paired, records=records)
    )
    write_text(paths.csv, arms_csv(comparison))
    for path in (*paths.data, *paths.paired):
        write_text(path, csv_text(data[path.stem]))
    write_text(paths.json, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return paths


def arm_row(comparison: Comparison, metrics: ArmMetrics) -> dict[str, Any]:
    """One arm's metrics as plain numbers, None if there is nothing to average over."""
    row = asdict(metrics.arm)
    row |= {f.name: getattr(metrics, f.name) for f in fields(metrics) if f.name != "arm"}
    baseline = comparison.baseline_of(metrics.arm)
    for name in CHANGES:
        base = getattr(baseline, name) if baseline else None
        row[f"{name}_change"] = change(getattr(metrics, name), base)
    return row


def arms_csv(comparison: Comparison) -> str:
    """One row per arm; one column per kind of failure, empty cells for None."""
    rows = [arm_row(comparison, metrics) for metrics in comparison.arms]
    for row in rows:
        failures = row.pop("failures")
        row |= {f"{kind}_failures": failures.get(kind, 0) for kind in FAILURE_KINDS}
    return csv_text(rows)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV of rows with the same columns, with a header; empty cells for None."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def _distinct(facts_of: Callable[[Panel], list[Facts]], panels: Iterable[Panel]) -> list[Facts]:
    """The distinct rows of all panels: a system without a subagent is in several panels."""
    rows = [row for panel in panels for row in facts_of(panel)]
    return list({tuple(row.items()): row for row in rows}.values())


def _outcome(rollout: Rollout) -> dict[str, Any]:
    return {name: getattr(rollout, name) for name in OUTCOME} | {"verdict": has_verdict(rollout)}


def _outcome_key(outcome: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("variant", "main_model", "sub_model", "benchmark", "instance_id", "attempt")
    return tuple(outcome[name] for name in names)


def _instance(key: tuple[str, str]) -> dict[str, str]:
    return {"benchmark": key[0], "instance_id": key[1]}
