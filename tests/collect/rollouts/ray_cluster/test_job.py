"""Where Ray's workers import from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs the extra ray")

from collect.rollouts.ray_cluster.cluster import _Job

ROLL_OUT = """
import ray
from collect.rollouts.ray_cluster.cluster import connect

connect(None)
print(ray.get(ray.remote(lambda: __import__("collect").__file__).remote()))
"""


def test_the_current_folder_is_no_place_of_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    job = _Job()
    # As Ray does when it connects.
    job._py_driver_sys_path += [sys.path[-1], os.getcwd()]
    assert [*job._get_proto_job_config().py_driver_sys_path] == [sys.path[-1]]


@pytest.mark.slow
def test_workers_run_no_module_of_the_current_folder(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in ("collect", "pydantic"):
        (tmp_path / f"{name}.py").write_text(f"open({str(canary)!r}, 'w')\n")
    command = [sys.executable, "-P", "-c", ROLL_OUT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not canary.exists()
