"""Rollouts that fill their sandbox until it is killed: once is the machine's, twice the model's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collect.errors import FailureKind
from collect.records import Rollout
from collect.store import RunStore
from stepinto import main

FILL = "for n in $(seq 40); do head -c 5000000 /dev/zero >file$n; done; sleep 100"
pytestmark = pytest.mark.slow


def collected(folder: Path, *overrides: str) -> Rollout:
    """The one row, after a start with a scripted model that fills its sandbox."""
    call = {"name": "bash", "arguments": json.dumps({"command": FILL})}
    said = folder / "said.jsonl"
    said.write_text(json.dumps({"role": "main", "replies": [{"tool_calls": [call]}]}) + "\n")
    config = folder / "config.yaml"
    config.write_text(
        f"run: full\nruns_folder: {folder}\nsandbox: {{disk_mb: 64}}\n"
        f"models: {{greedy: {{backend: replay, path: {said}}}}}\n"
        "collect: {main: greedy, sub: greedy, variants: [baseline],\n"
        "  benchmark: {name: bundled, limit: 1}}\n"
    )
    main(["collect", str(config), *overrides])
    (row,) = RunStore(folder / "full").read_rollouts()
    assert (row.failure_type, row.resolved) == ("DiskExceeded", False)
    return row


def test_twice_in_a_start_is_the_models_and_final(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = collected(tmp_path)
    assert row.failure_kind is FailureKind.MODEL
    assert collected(tmp_path).started_at == row.started_at
    assert main(["replay", str(tmp_path / "full")]) == 0
    assert "1 rollout had failed" in capsys.readouterr().out


def test_once_is_the_infrastructures_and_other_settings_begin_anew(tmp_path: Path) -> None:
    once = "runner.again=0"
    assert collected(tmp_path, once).failure_kind is FailureKind.INFRASTRUCTURE
    more = collected(tmp_path, once, "sandbox.disk_mb=65")
    assert more.failure_kind is FailureKind.INFRASTRUCTURE
    assert collected(tmp_path, once, "sandbox.disk_mb=65").failure_kind is FailureKind.MODEL
