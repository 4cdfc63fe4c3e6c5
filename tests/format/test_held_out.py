"""What is held out does not become training data."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.held_out import HeldOutConfig
from collect.errors import ConfigError
from format.config import FormatConfig
from format.dataset import read_rows, split_file
from format.stage import run_format
from tests.format.conversations import make_rollouts, write_run
from tests.records import make_conversations, make_rollout

ALL_TRAIN = FormatConfig(test_fraction=0)
LISTED = HeldOutConfig.model_validate({"benchmarks": [{"name": "bundled"}]})


def test_held_out_conversations_are_dropped_and_counted(tmp_path: Path) -> None:
    bug = BundledBenchmark().instances()[0]
    by_id = make_rollout(bug.id)
    by_hash = make_rollout("renamed", benchmark="local", instance_hash=bug.hash)
    rollouts = [*make_rollouts(3), *((row, make_conversations(row)) for row in (by_id, by_hash))]
    run = write_run(tmp_path / "run", rollouts)
    held_out = LISTED.model_copy(update={"repositories": ("textflow",)})
    report = run_format(ALL_TRAIN, run, held_out)
    [step] = [step for step in report.funnel.steps if step.name == "not_held_out"]
    assert (step.dropped, step.remaining) == (3, 2)
    rows = read_rows(split_file(run / "sft", "train"))
    assert {row["repository"] for row in rows} == {"ledger", "shopcart"}
    card = (run / "sft" / "README.md").read_text()
    assert "| not_held_out | The bug is not kept for measuring alone: neither" in card
    assert "held_out:\n  benchmarks:\n  - " in card


def test_a_run_with_nothing_else_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(1))
    with pytest.raises(ConfigError, match="'not_held_out' dropped 1"):
        run_format(ALL_TRAIN, run, HeldOutConfig(repositories=("ledger",)))
    assert not (run / "sft").exists()
