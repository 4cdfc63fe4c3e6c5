"""Bugs whose images are not there: said before any work starts, and fetched by a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stepinto
from collect.benchmarks.marks import require_images, required_images
from collect.benchmarks.swe_bench.benchmark import SweBenchBenchmark
from configs.command_line.shared import FAILED
from sandbox import SandboxConfig
from sandbox.errors import ImageMissing
from tests.collect.benchmarks.swe_bench.rows import live

DOCKER = SandboxConfig(backend="docker")


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    rows = [live(instance_id=f"m__c-{n}", docker_image=f"localhost:1/no:{n}") for n in range(7)]
    path.write_text("\n".join(map(json.dumps, [*rows, {**rows[0], "instance_id": "m__c-9"}])))
    return path


@pytest.mark.docker
def test_missing_images_are_counted_and_named(records: Path, image: str) -> None:
    instances = SweBenchBenchmark(records).instances()
    assert len(required_images(instances, DOCKER)) == 7
    with pytest.raises(
        ImageMissing, match=r"^7 of the 7 images .* localhost:1/no:0, .* and 2 more"
    ):
        require_images(instances, DOCKER)
    require_images(instances, SandboxConfig())
    require_images(instances, SandboxConfig(backend="docker", image=image))


@pytest.mark.slow
@pytest.mark.docker
def test_the_commands(
    records: Path,
    tmp_path: Path,
    image: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    config = tmp_path / "run.yaml"
    benchmark = {"name": "swe_bench", "path": str(records), "limit": 2}
    facts = {"run": "r", "runs_folder": str(tmp_path), "collect": {"benchmark": benchmark}}
    config.write_text(json.dumps({**facts, "sandbox": {"backend": "docker"}}))
    assert stepinto.main(["collect", str(config)]) == 2
    assert "2 of the 2 images" in capsys.readouterr().err
    assert stepinto.main(["bench", "pull", str(config)]) == FAILED
    said = capsys.readouterr().out
    assert "fetching localhost:1/no:0" in said
    assert "0 images fetched" in said
    room = "images.disk_gb=0.000001"
    assert stepinto.main(["bench", "pull", str(config), room]) == FAILED
    assert "no room for 2 more" in capsys.readouterr().err
