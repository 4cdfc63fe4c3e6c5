"""Disks without room, found before work starts: a real one of two megabytes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collect.benchmarks.bundled import BundledBenchmark
from collect.config import RunnerConfig, RuntimeConfig
from collect.errors import ConfigError
from collect.preflight import room_for_rows, room_for_sandboxes, short_of_images
from collect.store.run_store import RunStore
from sandbox import SandboxConfig
from sandbox.engine import connect, local_root
from sandbox.images import GIGABYTE, ImagesConfig, image_bytes
from stepinto import main
from tests.records import make_conversations, make_rollout

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "quickstart.yaml"
FIRST = BundledBenchmark().instances()[0]
LOW = RunnerConfig(min_free_disk_gb=1e-6, concurrency=1)
"""A floor of a kilobyte."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a disk of its own can't be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def collect(folder: Path, *overrides: str) -> int:
    return main(["collect", str(CONFIG), f"runs_folder={folder}", "run=test", *overrides])


def test_a_runs_disk_below_the_floor(small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collect(small_disk) == 2
    told = capsys.readouterr().err
    assert "the disk is too full: 2.1 MB free in" in told
    assert f"{small_disk}/test" in told
    assert "runner.min_free_disk_gb=1 on top; set runs_folder to a larger disk" in told


def test_a_sandboxs_disk_below_the_floor(
    small_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    assert collect(tmp_path / "runs") == 2
    told = capsys.readouterr().err
    assert f"free in {small_disk}, about" in told
    assert "set TMPDIR to a larger disk" in told


def test_rollouts_are_estimated_by_those_there_are(small_disk: Path) -> None:
    with pytest.raises(ConfigError, match=r"about 4\.0 MB needed for the rows of 20 rollouts"):
        room_for_rows(RunStore(small_disk), 20, LOW)
    assert "about 0.2 MB needed" in room_for_rows(RunStore(small_disk), 1, LOW)
    rollout = make_rollout(patch=os.urandom(400_000).hex())
    store = RunStore.open(small_disk)
    store.add(rollout, make_conversations(rollout))
    store.close()
    with pytest.raises(ConfigError, match=r"about 2\.\d MB needed for the rows of 2 rollouts"):
        room_for_rows(store, 2, LOW)


def test_sandboxes_are_as_large_as_their_bug(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    assert "for sandboxes, 1 at once" in room_for_sandboxes(FIRST, RuntimeConfig(runner=LOW))
    many = RunnerConfig(min_free_disk_gb=1e-6, concurrency=1000)
    with pytest.raises(ConfigError, match="needed for sandboxes, 1000 at once"):
        room_for_sandboxes(FIRST, RuntimeConfig(runner=many))
    any_disk = RunnerConfig(min_free_disk_gb=0, concurrency=1000)
    assert "for sandboxes, 1000 at once" in room_for_sandboxes(
        FIRST, RuntimeConfig(runner=any_disk)
    )


@pytest.mark.slow
@pytest.mark.docker
def test_the_engines_disk(image: str) -> None:
    runtime = RuntimeConfig(sandbox=SandboxConfig(backend="docker", image=image), runner=LOW)
    root = local_root()
    told = room_for_sandboxes(FIRST, runtime)
    assert told.startswith("the container engine's disk") if root is None else str(root) in told
    if root is not None:
        vast = runtime.model_copy(update={"runner": RunnerConfig(min_free_disk_gb=10**9)})
        with pytest.raises(ConfigError, match=r"needed for containers.*`docker system df`"):
            room_for_sandboxes(FIRST, vast)


@pytest.mark.docker
def test_a_limit_of_images_beyond_the_engines_disk(image: str) -> None:
    root = local_root()
    if root is None:
        pytest.skip("needs an engine of this machine")
    client = connect()
    taken = image_bytes(client)
    client.close()
    most = (shutil.disk_usage(root).free + taken) / GIGABYTE
    docker = SandboxConfig(backend="docker")
    runner = RunnerConfig(backend="ray", min_free_disk_gb=1)
    vast = RuntimeConfig(sandbox=docker, runner=runner, images=ImagesConfig(disk_gb=most + 10))
    with pytest.raises(ConfigError, match=r"images\.disk_gb=\d+.*is more than images can take"):
        room_for_sandboxes(FIRST, vast)
    told = short_of_images(vast)
    assert told is not None
    assert f"free in {root}" in told
    fits = vast.model_copy(update={"images": ImagesConfig(disk_gb=most / 2)})
    assert short_of_images(fits) is None
    assert str(root) in room_for_sandboxes(FIRST, fits)
    one_image = {"sandbox": SandboxConfig(backend="docker", image=image)}
    assert str(root) in room_for_sandboxes(FIRST, vast.model_copy(update=one_image))
    fetches_none = {"runner": RunnerConfig(min_free_disk_gb=1)}
    assert str(root) in room_for_sandboxes(FIRST, vast.model_copy(update=fetches_none))
