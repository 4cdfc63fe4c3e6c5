"""A run with a copy in Google Cloud Storage, which an emulator of its API stands for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("gcp_storage_emulator", reason="needs gcp-storage-emulator")

from gcp_storage_emulator.server import create_server

from collect.copying.fetching import fetch
from collect.copying.folder import Folder
from collect.errors import ConfigError
from collect.models.serving.server import free_port
from collect.store.run_store import RunStore
from stepinto import main


@pytest.fixture
def uri() -> Iterator[str]:
    port = free_port("127.0.0.1")
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="bucket")
    server.start()
    server_of = f"endpoint_override=127.0.0.1:{port}&scheme=http&retry_limit_seconds=10"
    yield f"gs://anonymous@bucket/runs?{server_of}"
    server.stop()


def test_files_are_written_listed_read_and_removed(uri: str) -> None:
    folder = Folder.at(uri)
    assert folder.name == "gs://bucket/runs"
    assert folder.probed() > 0
    content = b"row" * 4_000_000
    folder.write("rollouts/part-1.parquet", content)
    folder.write("config.yaml", b"run: test\n")
    assert folder.listed("rollouts").keys() == {"rollouts/part-1.parquet"}
    assert folder.read("rollouts/part-1.parquet") == content
    before = folder.stamp("config.yaml")
    folder.write("config.yaml", b"run: another\n")
    assert folder.stamp("config.yaml") != before
    folder.remove("config.yaml")
    assert folder.read("config.yaml") is None
    assert folder.listed(recursive=True).keys() == {"rollouts/part-1.parquet"}


@pytest.mark.slow
def test_a_run_is_copied_and_goes_on_from_its_copy(uri: str, tmp_path: Path) -> None:
    def rows(run: Path) -> dict[str, str]:
        return {row.rollout_id: str(row.started_at) for row in RunStore(run).read_rollouts()}

    def collect(bugs: int) -> int:
        settings = [f"runs_folder={tmp_path}", "run=test", f"runner.copy_to={uri}"]
        limit = f"collect.benchmark.limit={bugs}"
        return main(["collect", "configs/quickstart.yaml", *settings, limit])

    assert collect(2) == 0
    first = rows(tmp_path / "test")
    shutil.rmtree(tmp_path / "test")
    assert collect(3) == 0
    assert len(rows(tmp_path / "test")) == 3
    assert first.items() <= rows(tmp_path / "test").items(), "they are not done again"
    fetch(Folder.at(uri).below("test"), tmp_path / "fetched")
    assert rows(tmp_path / "fetched") == rows(tmp_path / "test")


def test_a_bucket_that_is_not_there_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="nothing can be written to gs://other/runs"):
        Folder.at(uri.replace("bucket", "other")).probed()
