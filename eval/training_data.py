"""Find bugs of an evaluation whose repositories its models were trained on."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from collect.benchmarks.base import Instance
from collect.benchmarks.held_out import RepositoryNames
from collect.models.config import LocalConfig, ModelConfig, VllmConfig, trained_on
from eval.metrics import Comparison

REPORT = Path("sft", "report.json")
"""The format stage's report on the splits, in a run's folder."""


def note_training(
    comparison: Comparison, instances: Sequence[Instance], trained: Collection[str]
) -> Comparison:
    """The comparison, with the bugs whose repository, in any spelling, is among those trained
    on."""
    known = RepositoryNames(trained)
    seen = {(each.benchmark, each.id) for each in instances if each.repository in known}
    return replace(comparison, trained_on=tuple(k for k in comparison.instances if k in seen))


def trained_repositories(run: Path, models: Iterable[ModelConfig]) -> set[str]:
    """The repositories of the run's train split, and those that its models declare as training
    data."""
    found: set[str] = set()
    path = run / REPORT
    if path.is_file():
        report = json.loads(path.read_text(encoding="utf-8"))
        found.update(report["splits"]["train"]["repositories"])
    for config in models:
        if isinstance(config, LocalConfig | VllmConfig):
            found.update(*map(trained_on, config.folders))
    return found
