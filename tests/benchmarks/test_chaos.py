"""The short form of the chaos run: `python -m benchmarks.chaos` with few rollouts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs stepinto[ray]")

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--rollouts", "24", "--nodes", "2", "--every", "3", "collect.benchmark.limit=6"]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_run_survives_what_is_struck(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.chaos", "--work", str(tmp_path), *SHORT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("worker", "sandbox", "node", "driver"):
        assert f"struck: {name}" in done.stdout
