"""Whether the bugs of an evaluation are of repositories that its models were trained on."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from collect.benchmarks.base import Instance
from collect.benchmarks.held_out import RepositoryNames
from collect.models.config import LocalConfig, ModelConfig, VllmConfig
from collect.models.model_folders import trained_on
from eval.metrics import Comparison

REPORT = Path("sft", "report.json")
"""Where the format stage says what the splits hold, below a run's folder."""


def note_training(
    comparison: Comparison, instances: Sequence[Instance], trained: Collection[str]
) -> Comparison:
    """The comparison, with the bugs whose repository, however its name is written, is among those
    that were trained on."""
    known = RepositoryNames(trained)
    seen = {(each.benchmark, each.id) for each in instances if each.repository in known}
    return replace(comparison, trained_on=tuple(k for k in comparison.instances if k in seen))


def trained_repositories(run: Path, models: Iterable[ModelConfig]) -> set[str]:
    """Those of the run's train split, and of what its models say that they were trained on."""
    found = _split_repositories(run)
    for config in models:
        if isinstance(config, LocalConfig | VllmConfig):
            found.update(*map(trained_on, config.folders))
    return found


def _split_repositories(run: Path) -> set[str]:
    path = run / REPORT
    if not path.is_file():
        return set()
    return set(json.loads(path.read_text(encoding="utf-8"))["splits"]["train"]["repositories"])
