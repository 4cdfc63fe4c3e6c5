"""What an evaluation leaves in its folder: tables.md, arms.csv, results.json."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from collect.durable import write_text
from collect.errors import FailureKind
from collect.records import Rollout
from eval.metrics import ArmMetrics, Comparison, change, has_verdict
from eval.tables import Labels, foot, markdown

FORMAT_VERSION = 1
FAILURE_KINDS = tuple(kind.value for kind in FailureKind)
OUTCOME = (
    *("rollout_id", "benchmark", "instance_id", "instance_hash", "variant", "main_model"),
    *("sub_model", "attempt", "teacher", "resolved", "failure_kind", "failure_type"),
    *("sub_calls", "debug_calls", "debug_stops", "main_steps", "sub_steps", "dollars"),
)
"""Fields of a rollout that results.json repeats for each one."""
CHANGES = ("pass_rate", "main_steps", "main_tokens")
"""Metrics that have a column with their relative change to the baseline, in percent."""


@dataclass(frozen=True)
class TablePaths:
    """Where the tables lie."""

    markdown: Path
    csv: Path
    json: Path


def write_tables(
    comparison: Comparison,
    rollouts: Iterable[Rollout],
    folder: Path,
    *,
    config: Mapping[str, Any] | None = None,
    labels: Labels | None = None,
    title: str = "Evaluation",
) -> TablePaths:
    """Write the tables in three forms, each file whole or not at all.

    `config` must be JSON-serialisable; it goes into results.json, as do the rollouts' outcomes.
    """
    labels = labels or Labels()
    folder.mkdir(parents=True, exist_ok=True)
    paths = TablePaths(folder / "tables.md", folder / "arms.csv", folder / "results.json")
    results = {
        "format_version": FORMAT_VERSION,
        "config": dict(config) if config is not None else None,
        "baseline": comparison.baseline,
        "notes": foot(comparison, labels),
        "instances": [_instance(key) for key in comparison.instances],
        "left_out": [_instance(key) for key in comparison.left_out],
        "arms": [arm_row(comparison, metrics) for metrics in comparison.arms],
        "outcomes": sorted((_outcome(row) for row in rollouts), key=_outcome_key),
    }
    write_text(paths.markdown, markdown(comparison, labels, title))
    write_text(paths.csv, arms_csv(comparison))
    write_text(paths.json, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return paths


def arm_row(comparison: Comparison, metrics: ArmMetrics) -> dict[str, Any]:
    """One arm as plain numbers, None where there is nothing to average over."""
    row = asdict(metrics.arm)
    row |= {f.name: getattr(metrics, f.name) for f in fields(metrics) if f.name != "arm"}
    baseline = comparison.baseline_of(metrics.arm)
    for name in CHANGES:
        base = getattr(baseline, name) if baseline else None
        row[f"{name}_change"] = change(getattr(metrics, name), base)
    return row


def arms_csv(comparison: Comparison) -> str:
    """One row an arm; failures as one column a kind, empty cells for None."""
    rows = [arm_row(comparison, metrics) for metrics in comparison.arms]
    for row in rows:
        failures = row.pop("failures")
        row |= {f"{kind}_failures": failures.get(kind, 0) for kind in FAILURE_KINDS}
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def _outcome(rollout: Rollout) -> dict[str, Any]:
    return {name: getattr(rollout, name) for name in OUTCOME} | {"verdict": has_verdict(rollout)}


def _outcome_key(outcome: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("variant", "main_model", "sub_model", "benchmark", "instance_id", "attempt")
    return tuple(outcome[name] for name in names)


def _instance(key: tuple[str, str]) -> dict[str, str]:
    return {"benchmark": key[0], "instance_id": key[1]}
