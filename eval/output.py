"""Write an evaluation's results: tables.md, CSV files, results.json, and the figures' CSV files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from collect.errors import FailureKind
from collect.store.atomic_files import write_text
from collect.store.records import Rollout
from eval.figures import Record, csv_text, notes, parts, table, write_records
from eval.labels import Labels
from eval.metrics import ArmMetrics, Comparison, Facts, change, has_verdict
from eval.paired.report import PairedReport, comparison_facts, gain_facts, paired_parts
from eval.repair_tables import (
    Panel,
    by_benchmark,
    is_repair,
    models_table,
    repair_facts,
    repair_foot,
    repair_table,
)
from eval.tables import FLAT_NOTE, flat_table, foot, paper_table

FORMAT_VERSION = 1
MARKDOWN, RESULTS, FIGURES = "tables.md", "results.json", "figures"
"""Names of the tables, of the file with everything, and of the folder of further figures."""
OUTCOME = (
    *("variant", "main_model", "sub_model", "benchmark", "instance_id", "attempt", "rollout_id"),
    *("instance_hash", "teacher", "resolved", "tampered", "failure_kind", "failure_type"),
    *("sub_calls", "debug_calls", "debug_stops", "main_steps", "sub_steps", "dollars"),
    *("sub_dollars", "patch_attempts", "seconds", "scoring_seconds"),
)
"""Fields of each rollout that results.json contains; it is ordered by the first ones."""
CHANGES = ("pass_rate", "main_steps", "main_tokens")
"""Metrics with a column for their change relative to the baseline, in percent."""


@dataclass(frozen=True)
class TablePaths:
    markdown: Path
    csv: Path
    """One row per arm or model; other CSV files are next to it."""
    json: Path


def write_results(
    folder: Path,
    page: str,
    tables: Mapping[str, Sequence[Facts]],
    results: Mapping[str, Any],
    records: Sequence[Record],
) -> TablePaths:
    """Write `page`, a CSV file for each table and record, and `results` with the records, each file
    atomically. The first of `tables` has a file even if it is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.csv" for name in tables]
    write_text(folder / MARKDOWN, page)
    for path, rows in zip(paths, tables.values(), strict=True):
        if rows or path is paths[0]:
            write_text(path, csv_text(rows))
    if records:
        write_records(records, folder / FIGURES)
    whole = {"format_version": FORMAT_VERSION, **results, "figures": [asdict(r) for r in records]}
    write_text(folder / RESULTS, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    return TablePaths(folder / MARKDOWN, paths[0], folder / RESULTS)


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
) -> TablePaths:
    """Write the tables of arms.

    `panels`, `paired` and `records` are those of the same rollouts; without them, their tables,
    statistics and figures are missing. `config` must be JSON-serialisable; it goes into
    results.json with the rollouts' outcomes.
    """
    labels = labels or Labels()
    arms = [arm_row(comparison, metrics) for metrics in comparison.arms]
    flat = [
        {name: value for name, value in row.items() if name != "failures"}
        | {f"{kind.value}_failures": row["failures"].get(kind.value, 0) for kind in FailureKind}
        for row in arms
    ]
    tables: dict[str, list[Facts]] = {}
    if panels:
        # A system without a subagent is in several panels.
        repair = {tuple(row.items()): row for panel in panels for row in repair_facts(panel)}
        tables["repair"] = list(repair.values())
    if paired:
        tables["comparisons"] = comparison_facts(paired)
        tables["recovered_gain"] = gain_facts(paired)
    outcomes = [
        {name: getattr(row, name) for name in OUTCOME} | {"verdict": has_verdict(row)}
        for row in rollouts
    ]
    named = ("benchmark", "instance_id")
    results = {
        "config": dict(config) if config is not None else None,
        "baseline": comparison.baseline,
        "notes": all_notes(comparison, labels, panels),
        "instances": [dict(zip(named, key, strict=True)) for key in comparison.instances],
        "left_out": [dict(zip(named, key, strict=True)) for key in comparison.left_out],
        "attempts_left_out": comparison.attempts_left_out,
        "arms": arms,
        **tables,
        "outcomes": sorted(outcomes, key=lambda row: [row[name] for name in OUTCOME[:6]]),
    }
    page = markdown(comparison, labels, panels, paired=paired, records=records)
    return write_results(folder, page, {"arms": flat, **tables}, results, records)


def arm_row(comparison: Comparison, metrics: ArmMetrics) -> Facts:
    """One arm's metrics as plain numbers, None if there is nothing to average over."""
    row = asdict(metrics.arm)
    row |= {f.name: getattr(metrics, f.name) for f in fields(metrics) if f.name != "arm"}
    baseline = comparison.baseline_of(metrics.arm)
    for name in CHANGES:
        base = getattr(baseline, name) if baseline else None
        row[f"{name}_change"] = change(getattr(metrics, name), base)
    return row


def all_notes(comparison: Comparison, labels: Labels, panels: Sequence[Panel] = ()) -> list[str]:
    """Notes for readers of the tables, one or two sentences per line."""
    repair = repair_foot(panels, labels) if panels else []
    return [*repair, *foot(comparison, labels)]


def summary(
    comparison: Comparison,
    labels: Labels,
    panels: Sequence[Panel] = (),
    paired: PairedReport | None = None,
) -> str:
    """The papers' tables for the present systems, their notes, and the paired comparisons, as
    Markdown that is aligned in a terminal.

    Debug2Fix's variants are in its table, the others in InspectCoder's.
    """
    sections = []
    arms = tuple(m for m in comparison.arms if not is_repair(m.arm.variant))
    if arms or not panels:
        sections.append(table(paper_table(replace(comparison, arms=arms), labels)))
    for group in by_benchmark(panels):
        for panel in group:
            sections += [f"## Repair: {panel.title(labels)}", table(repair_table(panel, labels))]
        if len(group) > 1:
            sections.append(f"## By model: {group[0].benchmark_name}")
            sections.append(table(models_table(group, labels)))
    sections.append(notes(all_notes(comparison, labels, panels)))
    sections += paired_parts(paired, labels) if paired else []
    return "\n\n".join(sections) + "\n"


def markdown(
    comparison: Comparison,
    labels: Labels,
    panels: Sequence[Panel] = (),
    *,
    paired: PairedReport | None = None,
    records: Sequence[Record] = (),
) -> str:
    every_arm = ["## Every arm", FLAT_NOTE, table(flat_table(comparison, labels))]
    told = summary(comparison, labels, panels, paired).rstrip()
    return "\n\n".join(["# Evaluation", told, *parts(records), *every_arm]) + "\n"
