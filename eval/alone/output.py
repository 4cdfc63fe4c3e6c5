"""What an evaluation of subagents alone leaves in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from collect.durable import write_text
from eval.alone.metrics import AloneMetrics, ModelAnswers
from eval.alone.tables import AloneResults, alone_notes, alone_parts
from eval.figures import FOLDER as FIGURES
from eval.figures import Record, parts, write_records
from eval.labels import Labels
from eval.output import FORMAT_VERSION, csv_text
from eval.paired.tables import comparison_facts, gain_facts
from eval.panels import Facts

NESTED = ("accuracy", "categories", "reasons")


@dataclass(frozen=True)
class AlonePaths:
    """Where the tables lie."""

    markdown: Path
    csv: Path
    """One row a model; beside it one row a model and category, and the paired statistics."""
    json: Path


def write_alone(
    results: AloneResults,
    answers: Sequence[ModelAnswers],
    folder: Path,
    config: Mapping[str, Any],
    labels: Labels,
    *,
    records: Sequence[Record] = (),
) -> AlonePaths:
    """Write the tables in three forms, each file whole or not at all, and a CSV file a record.

    `config` must be JSON-serialisable; it goes into results.json, as does every answer's verdict.
    """
    paths = AlonePaths(folder / "tables.md", folder / "models.csv", folder / "results.json")
    tables = {
        "models": [model_row(each) for each in results.models],
        "categories": [row for each in results.models for row in category_rows(each)],
        "comparisons": comparison_facts(results.paired),
        "recovered_gain": gain_facts(results.paired),
    }
    page = ["# Evaluation", *alone_parts(results, labels), *parts(records)]
    write_text(paths.markdown, "\n\n".join(page) + "\n")
    write_records(records, folder / FIGURES)
    for name, rows in tables.items():
        if rows:
            write_text(folder / f"{name}.csv", csv_text(rows))
    whole = {
        "format_version": FORMAT_VERSION,
        "config": dict(config),
        "notes": alone_notes(results, labels),
        **tables,
        "figures": [asdict(record) for record in records],
        "reasons": {each.model: each.reasons for each in results.models},
        "answers": [row for each in answers for row in answer_rows(each)],
    }
    write_text(paths.json, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    return paths


def model_row(metrics: AloneMetrics) -> Facts:
    """One model as plain numbers."""
    row: Facts = {
        each.name: getattr(metrics, each.name)
        for each in fields(metrics)
        if each.name not in NESTED
    }
    found = metrics.accuracy
    return row | {
        "right": found.right if found else None,
        "accuracy": found.percent if found else None,
        "accuracy_low": found.low if found else None,
        "accuracy_high": found.high if found else None,
    }


def category_rows(metrics: AloneMetrics) -> list[Facts]:
    """One row a category."""
    return [
        {"model": metrics.model, "category": category.value, **asdict(found)}
        for category, found in metrics.categories.items()
    ]


def answer_rows(model: ModelAnswers) -> list[dict[str, Any]]:
    """One row an answer."""
    return [
        {
            "model": model.model,
            "question_id": each.question.id,
            "benchmark": each.question.benchmark,
            "instance_id": each.question.instance_id,
            "category": each.question.category.value,
            "right": each.verdict.correct,
            "reason": each.verdict.reason.value,
            "rollout_id": each.rollout.rollout_id if each.rollout is not None else None,
            "steps": each.steps,
            "tool_calls": each.tool_calls,
        }
        for each in model.answered
    ]
