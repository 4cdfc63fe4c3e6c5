"""A run with a copy in a shared folder: kept, fetched back, and never written to by two."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from collect.config import RunnerConfig
from collect.copying.folder import Folder
from collect.copying.lineage import MARK
from collect.copying.owner import NAME, SILENT_SECONDS, Owner, Ownership
from collect.copying.run_copy import RunCopy, copying
from collect.errors import ConfigError
from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.copying.versions import add, versions

ROOT = Path(__file__).resolve().parents[3]
STRANGER = Owner(token="another", host="node-7", process=17, tag="another")


def collect(folder: Path, place: str, *overrides: str) -> int:
    settings = [f"runs_folder={folder}", "run=test", f"runner.copy_to={place}"]
    few = ["collect.benchmark.limit=2", "runner.copy_every=0.2", *overrides]
    return main(["collect", str(ROOT / "configs" / "quickstart.yaml"), *settings, *few])


@pytest.mark.slow
def test_a_run_is_copied_and_fetched(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store, copy = tmp_path / "store", tmp_path / "store" / "test"
    assert collect(tmp_path / "one", str(store)) == 0
    run = tmp_path / "one" / "test"
    assert Folder.local(copy).listed(recursive=True).keys() == {
        str(path.relative_to(run))
        for path in run.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    assert not (copy / NAME).exists()
    assert main(["fetch", str(copy), str(tmp_path / "fetched")]) == 0
    assert main(["status", str(tmp_path / "fetched")]) == 0
    assert len(list(RunStore(tmp_path / "fetched").read_rollouts())) == 2
    assert main(["fetch", str(copy), str(tmp_path / "fetched")]) == 2
    assert "is not empty" in capfd.readouterr().err
    assert main(["fetch", str(store / "none"), str(tmp_path / "none")]) == 2
    assert "has no rollouts" in capfd.readouterr().err
    before = started(run)
    assert collect(tmp_path / "two", f"file://{store}", "collect.benchmark.limit=3") == 0
    assert before.items() <= started(tmp_path / "two" / "test").items(), "they are not done again"
    assert "was fetched from" in capfd.readouterr().err
    assert collect(tmp_path / "one", str(store)) == 2
    assert "has rollouts that were not copied from" in capfd.readouterr().err


def started(run: Path) -> dict[str, str]:
    return {row.rollout_id: str(row.started_at) for row in RunStore(run).read_rollouts()}


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("store", "is no place for a copy"),
        ("s4://bucket/store", "is no place for a copy"),
        ("s3://KEY:SECRET@bucket/store", "$AWS_SECRET_ACCESS_KEY"),
        ("/proc/version/store", "nothing can be written to"),
    ],
)
def test_places_that_will_not_do_are_refused_before_any_work(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], place: str, told: str
) -> None:
    assert collect(tmp_path, place) == 2
    error = capfd.readouterr().err
    assert told in error
    assert "SECRET@" not in error
    assert not (tmp_path / "test").exists()


def test_another_driver_is_refused_until_it_is_silent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    owner = tmp_path / "store" / "test" / NAME
    owner.parent.mkdir(parents=True)
    owner.write_text(STRANGER.model_dump_json())
    assert collect(tmp_path, str(tmp_path / "store")) == 2
    assert "another driver (process 17 on node-7) copies its rollouts" in capfd.readouterr().err
    assert owner.read_text() == STRANGER.model_dump_json()
    long_ago = time.time() - SILENT_SECONDS - 1
    os.utime(owner, (long_ago, long_ago))
    ownership = Ownership(Folder.local(owner.parent))
    ownership.take(time.time_ns())
    assert owner.read_text() != STRANGER.model_dump_json()
    ownership.give_back()
    assert not owner.exists()


def test_a_driver_whose_copy_is_taken_over_stops(tmp_path: Path) -> None:
    ownership = Ownership(Folder.local(tmp_path), every=0.05)
    ownership.take(time.time_ns())
    ownership.check()
    with pytest.raises(ConfigError, match=r"process 17 on node-7.* has taken"):
        take_over(tmp_path, ownership)
    ownership.give_back()
    assert (tmp_path / NAME).read_text() == STRANGER.model_dump_json()


def opened(tmp_path: Path, behind: float = 900) -> RunCopy:
    copy = Folder.local(tmp_path / "store")
    config = RunnerConfig(copy_every=0.1, copy_behind=behind)
    run_copy = RunCopy(config, copy, tmp_path / "run")
    run_copy.open()
    return run_copy


def test_a_fetch_that_was_cut_off_is_begun_again(tmp_path: Path) -> None:
    for name in ("store", "run"):
        with closing(RunStore.open(tmp_path / name)) as store:
            for number in range(1 if name == "run" else 3):
                add(store, number, 1)
    with pytest.raises(ConfigError, match="has rollouts that were not copied from"):
        opened(tmp_path)
    (tmp_path / "run" / ".fetching").touch()
    with (
        pytest.raises(ConfigError, match=r"is fetched in part only: give the runner\.copy_to"),
        copying(RunnerConfig(), tmp_path / "run"),
    ):
        pass
    assert opened(tmp_path).close() is None
    assert len(versions(tmp_path / "run", tmp_path / "look")) == 3
    with copying(RunnerConfig(), tmp_path / "run") as missing:
        assert not missing


def test_a_folder_with_another_history_than_the_copy_is_refused(tmp_path: Path) -> None:
    with closing(RunStore.open(tmp_path / "run")) as store:
        for number in range(3):
            add(store, number, 1)
        assert opened(tmp_path).close() is None
        store.compact()
    shutil.move(tmp_path / "run", tmp_path / "first")
    second = opened(tmp_path)
    with closing(RunStore.open(tmp_path / "run")) as store:
        add(store, 2, 20)
        store.compact()
    assert second.close() is None
    shutil.move(tmp_path / "run", tmp_path / "second")
    shutil.move(tmp_path / "first", tmp_path / "run")
    before = versions(tmp_path / "store", tmp_path / "look")
    assert set(before.values()) == {1, 20}
    with pytest.raises(ConfigError, match="another driver has gone on"):
        opened(tmp_path)
    assert versions(tmp_path / "store", tmp_path / "look") == before
    shutil.rmtree(tmp_path / "run")
    shutil.move(tmp_path / "second", tmp_path / "run")
    assert opened(tmp_path).close() is None


def test_a_driver_that_died_before_it_left_its_mark_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(RunStore.open(tmp_path / "run")) as store:
        add(store, 1, 1)
    assert opened(tmp_path).close() is None
    write = Folder.write

    def dies(folder: Folder, name: str, content: bytes) -> None:
        if name == MARK:
            raise OSError("the store is gone")
        write(folder, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", dies)
        with pytest.raises(ConfigError, match="the store is gone"):
            opened(tmp_path)
    assert opened(tmp_path).close() is None


def test_a_copy_that_can_t_follow_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collect.copying.run_copy.FIRST_WAIT", 0.001)
    with closing(RunStore.open(tmp_path / "run")) as store:
        add(store, 1, 1)
        store.compact()
        assert opened(tmp_path).close() is None
        for path in (tmp_path / "run").glob("*/data-*"):
            path.unlink()
        add(store, 2, 1)
        copy = opened(tmp_path)
        until, told = time.monotonic() + 60, ""
        while "can't be brought up to date" not in told and time.monotonic() < until:
            time.sleep(0.05)
            told += capfd.readouterr().err
        assert "has no compacted file any more" in str(copy.close())
    assert "can't be brought up to date" in told
    assert len(versions(tmp_path / "store", tmp_path / "look")) >= 1


@contextmanager
def held(copy: RunCopy) -> Iterator[None]:
    """A rollout waits for the copy until what is in its way is removed, in here."""
    time.sleep(1)
    went_on = threading.Event()

    def wait() -> None:
        copy.hold(threading.Event())
        went_on.set()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert not went_on.wait(1)
    yield
    assert went_on.wait(20)
    waiting.join()


def test_rollouts_wait_for_a_copy_that_is_behind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = opened(tmp_path, behind=0.5)
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "store").write_text("no folder")
    with closing(RunStore.open(tmp_path / "run")) as store:
        add(store, 1, 1)
    with held(copy):
        (tmp_path / "store").unlink()
    assert copy.close() is None
    assert len(versions(tmp_path / "store", tmp_path / "look")) == 1
    assert capfd.readouterr().err.count("can't be written now") == 1


def unlistable(run: Path) -> Path:
    """A file with a name that pyarrow can't decode, which fails with no OSError."""
    path = run / os.fsdecode(b"\xff")
    path.touch()
    return path


def test_an_error_that_is_no_oserror_is_told_and_tried_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = opened(tmp_path, behind=0.5)
    bad = unlistable(tmp_path / "run")
    with held(copy):
        bad.unlink()
    assert copy.close() is None
    told = capfd.readouterr().err
    assert told.count("can't be written now: UnicodeDecodeError") == 1


def test_an_error_that_stays_is_told_at_the_end(tmp_path: Path) -> None:
    config = RunnerConfig(copy_to=str(tmp_path / "store"))
    (tmp_path / "run").mkdir()
    with copying(config, tmp_path / "run") as missing:
        unlistable(tmp_path / "run")
    (told,) = missing
    assert told.startswith(f"Files of {tmp_path / 'run'} are not in")
    assert "UnicodeDecodeError: 'utf-8' codec can't decode byte" in told


def test_a_copy_outlives_its_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = opened(tmp_path, behind=0.5)
    with suppress(OSError), open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr("sys.stderr", full)
        bad = unlistable(tmp_path / "run")
        with held(copy):
            bad.unlink()
    assert copy.close() is None


def test_an_owner_is_heard_of_after_any_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ownership = Ownership(Folder.local(tmp_path), every=0.05)
    ownership.take(time.time_ns())
    failed = threading.Event()

    def fails(folder: Folder, name: str) -> bytes:
        failed.set()
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "read", fails)
        assert failed.wait(30)
    with pytest.raises(ConfigError, match="has taken"):
        take_over(tmp_path, ownership)
    ownership.give_back()


def take_over(folder: Path, ownership: Ownership) -> None:
    """Be the owner until the one before notices; raises what it is told then."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        # Anew each time: the one before may have looked already, and writes its own name next.
        (folder / NAME).write_text(STRANGER.model_dump_json())
        ownership.check()
        time.sleep(0.05)
