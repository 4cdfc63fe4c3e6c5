"""Whether the bugs of an evaluation are of repositories that the run trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from collect.benchmarks.base import Instance
from eval.metrics import Comparison

REPORT = Path("sft", "report.json")
"""Where the format stage says what the splits hold, below a run's folder."""


def note_training(comparison: Comparison, instances: Sequence[Instance], run: Path) -> Comparison:
    """The comparison, with the bugs whose repository the run's training data has."""
    trained = trained_repositories(run)
    seen = {(each.benchmark, each.id) for each in instances if each.repository in trained}
    return replace(comparison, trained_on=tuple(k for k in comparison.instances if k in seen))


def trained_repositories(run: Path) -> set[str]:
    """The repositories of the run's train split; empty where there is no training data."""
    path = run / REPORT
    if not path.is_file():
        return set()
    return set(json.loads(path.read_text(encoding="utf-8"))["splits"]["train"]["repositories"])
