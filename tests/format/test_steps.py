"""Rows of single steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset

from format.config import FormatConfig
from format.stage import run_format
from format.writing import KEYS
from tests.format.conversations import make_rollouts, nasty_arguments, write_run


def test_a_step_is_a_trained_turn_with_the_context_it_had(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(5, nasty_arguments()))
    report = run_format(FormatConfig(test_fraction=0.4, steps=True), run)
    for split in ("train", "test"):
        rows = load(run / "sft", "default", split, tmp_path)
        steps = load(run / "sft", "steps", split, tmp_path)
        assert report.outputs["steps"][split] == len(steps)
        assert steps == [step for row in rows for step in expected(row)]
    assert "| `steps/` | a row for each trained turn" in (run / "sft" / "README.md").read_text()


def load(folder: Path, name: str, split: str, tmp_path: Path) -> list[dict[str, Any]]:
    return list(load_dataset(str(folder), name, split=split, cache_dir=str(tmp_path / "cache")))


def expected(row: dict[str, Any]) -> list[dict[str, Any]]:
    """All that is left of a conversation after each turn is cut off, by its own way."""
    found, before = [], list[Any]()
    trained = list(zip(row["trained_turns"], row["turn_quality"], strict=True))
    for message in row["messages"]:
        if message["role"] == "assistant":
            step = len([each for each in before if each["role"] == "assistant"])
            facts = {"step": step, "steps": len(trained), "turn_quality": trained[step][1]}
            facts |= {name: row[name] for name in KEYS}
            made = {"prompt": list(before), "completion": [message], "tools": row["tools"]}
            if trained[step][0]:
                found.append(made | facts)
        before.append(message)
    return found


def test_masked_turns_are_context_alone(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(1))
    run_format(FormatConfig(test_fraction=0, steps=True), run)
    [row] = load(run / "sft", "default", "train", tmp_path)
    steps = load(run / "sft", "steps", "train", tmp_path)
    assert row["turn_quality"] == ["ok", "refused", "recovery", "ok"]
    assert [(each["step"], each["turn_quality"]) for each in steps] == [
        (0, "ok"),
        (2, "recovery"),
        (3, "ok"),
    ]
    assert row["messages"][4] in steps[1]["prompt"], "the refused turn"


@pytest.mark.parametrize("steps", [False, True])
def test_steps_are_written_where_they_are_wanted(tmp_path: Path, steps: bool) -> None:
    run = write_run(tmp_path / "run", make_rollouts(1))
    run_format(FormatConfig(test_fraction=0, steps=steps), run)
    assert (run / "sft" / "steps" / "data").is_dir() is steps
