"""The short form of the chaos run: `python -m tests.chaos` with few rollouts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs the extra ray")

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--rollouts", "24", "--nodes", "2", "--per-node", "1", "collect.benchmark.limit=6"]
DEFAULTS = ("runner.give_up_after=10", "models.oracle.retries={}")
ALWAYS = ("worker", "sandbox", "endpoint", "node", "driver")


def chaos(work: Path, *options: str) -> str:
    command = [sys.executable, "-m", "tests.chaos", "--work", str(work), *SHORT, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cannot_mount(folder: Path) -> str | None:
    """Why this user can't mount a disk; None where it can."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    tried = subprocess.run(mount, capture_output=True, text=True, check=False)
    if tried.returncode:
        return tried.stderr.strip()
    subprocess.run(["umount", str(folder)], check=True)
    return None


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_run_survives_what_is_struck(tmp_path: Path) -> None:
    """With the defaults nothing ends the driver but what kills it."""
    said = chaos(tmp_path, "--every", "2", *DEFAULTS)
    for name in ALWAYS:
        assert f"struck: {name}" in said
    assert set(re.findall("the driver ended: (.*)", said)) == {"killed", "done"}


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.docker
@pytest.mark.timeout(900)
def test_in_containers_whose_engine_is_killed_on_a_disk_that_fills(
    tmp_path: Path, image: str
) -> None:
    reason = cannot_mount(tmp_path)
    if reason is not None:
        pytest.skip(f"can't start an engine and mount a disk: {reason}")
    said = chaos(tmp_path, "--every", "1", "--image", image, "--disk-mb", "300")
    for name in (*ALWAYS, "container engine", "disk"):
        assert f"struck: {name}" in said
