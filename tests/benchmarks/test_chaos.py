"""The short form of the chaos run: `python -m benchmarks.chaos` with few rollouts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs stepinto[ray]")

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--rollouts", "24", "--nodes", "2", "--per-node", "1", "--every", "2"]
SHORT += ["collect.benchmark.limit=6"]
ALWAYS = ("worker", "sandbox", "endpoint", "node", "driver")


def chaos(work: Path, *options: str) -> str:
    command = [sys.executable, "-m", "benchmarks.chaos", "--work", str(work), *SHORT, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_run_survives_what_is_struck(tmp_path: Path) -> None:
    said = chaos(tmp_path)
    for name in ALWAYS:
        assert f"struck: {name}" in said


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.docker
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an engine and mount a disk")
def test_in_containers_whose_engine_is_killed_on_a_disk_that_fills(
    tmp_path: Path, image: str
) -> None:
    said = chaos(tmp_path, "--image", image, "--disk-mb", "300")
    for name in (*ALWAYS, "container engine", "disk"):
        assert f"struck: {name}" in said
