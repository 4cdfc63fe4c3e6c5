"""A run with a copy in S3, whose server goes away, and whose driver is killed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("moto.server", reason="needs moto[server]")

import pyarrow.fs as pafs
from moto.server import ThreadedMotoServer

from collect.copying.fetching import fetch
from collect.copying.folder import Folder
from collect.store.run_store import RunStore
from configs.command_line.shared import FAILED

ROOT = Path(__file__).resolve().parents[3]
SECRET = "secret-of-the-test"
SECONDS = 280
"""A command may take so long: each of its calls to a server that is away takes 6."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass
class Server:
    """An S3 server of this machine, with a bucket."""

    moto: ThreadedMotoServer
    port: int

    def uri(self, path: str) -> str:
        return f"s3://{path}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"

    def start(self) -> None:
        """Answer again, with what it had."""
        self.moto = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self.moto.start()

    @property
    def copy(self) -> Folder:
        return Folder.at(self.uri("bucket/runs/test"))

    def rows(self) -> int:
        return len([name for name in self.copy.listed("rollouts") if "part-" in name])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    running = Server(moto, moto.get_host_and_port()[1])
    files, _ = pafs.FileSystem.from_uri(f"{running.uri('bucket')}&allow_bucket_creation=true")
    files.create_dir("bucket")
    yield running
    running.moto.stop()
    running.start()
    files.delete_dir_contents("bucket")
    running.moto.stop()


def started(folder: Path, uri: str, *overrides: str) -> subprocess.Popen[str]:
    settings = [f"runs_folder={folder}", "run=test", f"runner.copy_to={uri}"]
    more = ["runner.copy_every=0.2", "runner.concurrency=1", "collect.benchmark.limit=8"]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "stepinto", "collect", "configs/quickstart.yaml"),
            *(*settings, *more, *overrides),
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def contents(run: Path) -> dict[str, str]:
    """When each rollout was begun, by its bug; fails where one has not its row and conversations
    exactly once."""
    store = RunStore(run)
    rows = list(store.read_rollouts())
    held = Counter(each.rollout_id for each in store.read_conversations())
    assert held == {row.rollout_id: 1 + row.sub_calls for row in rows}
    assert len({row.instance_id for row in rows}) == len(rows)
    return {row.instance_id: str(row.started_at) for row in rows}


def wait_for_rows(server: Server, count: int, process: subprocess.Popen[str]) -> None:
    """Until the copy has so many."""
    deadline = time.monotonic() + SECONDS
    while server.rows() < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def held_back(run: Path) -> int:
    """The rollouts that are done once what was under way is, and no more are begun."""
    deadline = time.monotonic() + SECONDS
    count, before = len(RunStore(run).rollouts.parts()), -1
    while count != before:
        assert time.monotonic() < deadline
        time.sleep(4)
        count, before = len(RunStore(run).rollouts.parts()), count
    return count


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    error = process.communicate(timeout=SECONDS)[1]
    return process.returncode, error


def test_killed_and_started_on_an_empty_folder_each_rollout_has_one_row(
    server: Server, tmp_path: Path
) -> None:
    uri = server.uri("bucket/runs")
    process = started(tmp_path, uri)
    wait_for_rows(server, 2, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = server.rows()
    shutil.rmtree(tmp_path / "test")
    status, error = ended(started(tmp_path, uri))
    assert status == 0, error
    assert "was fetched from s3://bucket/runs/test" in error
    assert len(contents(tmp_path / "test")) == 8
    fetch(server.copy, tmp_path / "fetched")
    assert contents(tmp_path / "fetched") == contents(tmp_path / "test")
    assert error.count("resolved | ") <= 8 - kept
    assert SECRET not in error
    held = [path.read_bytes() for path in (tmp_path / "fetched").rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in content for content in held)


def test_a_server_that_goes_away_holds_rollouts_back(server: Server, tmp_path: Path) -> None:
    process = started(tmp_path, server.uri("bucket/runs"), "runner.copy_behind=1")
    wait_for_rows(server, 1, process)
    server.moto.stop()
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert any("can't be written now" in line for line in lines)
    assert held_back(tmp_path / "test") < 8
    server.start()
    status, error = ended(process)
    assert status == 0, error
    assert "can't be written" not in error, "it is told once"
    fetch(server.copy, tmp_path / "fetched")
    assert len(contents(tmp_path / "fetched")) == 8


def test_a_server_that_stays_away_is_told_at_the_end(server: Server, tmp_path: Path) -> None:
    uri = server.uri("bucket/runs")
    process = started(tmp_path, uri)
    wait_for_rows(server, 1, process)
    server.moto.stop()
    status, error = ended(process)
    assert status == FAILED, error
    assert "files of" in error
    assert "the same command copies them when it is started again" in error
    assert len(RunStore(tmp_path / "test").rollouts.parts()) == 8, "compacted once it is copied"
    server.start()
    status, error = ended(started(tmp_path, uri))
    assert status == 0, error
    fetch(server.copy, tmp_path / "fetched")
    assert len(contents(tmp_path / "fetched")) == 8


def test_a_bucket_that_is_not_there_is_refused(server: Server, tmp_path: Path) -> None:
    status, error = ended(started(tmp_path, server.uri("another-bucket/runs")))
    assert status == 2
    assert "nothing can be written to s3://another-bucket/runs/test" in error
    assert not (tmp_path / "test").exists()
