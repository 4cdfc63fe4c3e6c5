"""What is copied, in an order in which a kill at any moment leaves whole rollouts alone."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from collect.copying.fetching import fetch
from collect.copying.folder import Folder, Listing
from collect.copying.transfer import Transfer
from collect.errors import ConfigError
from collect.store.run_store import RunStore
from tests.collect.copying.versions import add, versions

ROOT = Path(__file__).resolve().parents[3]


def bring(source: Path, target: Path) -> Transfer:
    transfer = Transfer(Folder.local(source), Folder.local(target))
    transfer.run()
    return transfer


def files(folder: Path) -> Listing:
    return Folder.local(folder).listed(recursive=True)


def test_what_a_run_has_is_copied_but_for_what_is_made_of_its_rows(tmp_path: Path) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    for name in ("config.yaml", "settings/a.json", "journal/b.jsonl", "eval/results.json"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    for name in ("sft/train.parquet", "model/weights", "eval/report/index.html", ".tmp-x"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    for store in (run, run / "eval", run / "eval" / "questions"):
        with closing(RunStore.open(store)) as opened:
            add(opened, 1, 1)
    transfer = bring(run, copy)
    plain = {name for name in files(copy) if not name.endswith(".parquet")}
    assert plain == {"config.yaml", "settings/a.json", "journal/b.jsonl", "eval/results.json"}
    for below in ("", "eval", "eval/questions"):
        assert len(versions(copy / below, tmp_path / "look")) == 1
    assert transfer.missing() == 0
    (run / "journal" / "b.jsonl").unlink()
    (run / "settings" / "a.json").unlink()
    transfer.run()
    assert "journal/b.jsonl" not in files(copy)
    assert "settings/a.json" in files(copy), "nothing takes its place"


def test_compacted_files_take_the_place_of_what_they_replace(tmp_path: Path) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    with closing(RunStore.open(run)) as store:
        for version in range(3):
            for number in range(4 + version):
                add(store, number, version)
            bring(run, copy)
            assert files(copy).keys() == files(run).keys()
            store.compact()
            bring(run, copy)
            assert files(copy).keys() == files(run).keys()
            assert versions(copy, tmp_path / "look") == versions(run, tmp_path / "look2")


def test_rows_that_are_gone_stay_in_the_copy(tmp_path: Path) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    with closing(RunStore.open(run)) as store:
        add(store, 1, 1)
        add(store, 2, 1)
    transfer = bring(run, copy)
    before = versions(copy, tmp_path / "look")
    for path in run.rglob("*.parquet"):
        path.unlink()
    transfer.run()
    assert versions(copy, tmp_path / "look") == before


def test_what_is_the_same_is_not_taken_again(tmp_path: Path) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    with closing(RunStore.open(run)) as store:
        add(store, 1, 1)
        bring(run, copy)
        before = files(copy)
        add(store, 2, 1)
        again = Transfer(Folder.local(run), Folder.local(copy))
        again.trust()
        again.run()
    assert {name: files(copy)[name] for name in before} == before
    fetch(Folder.local(copy), tmp_path / "new")
    onwards = Transfer(Folder.local(tmp_path / "new"), Folder.local(copy))
    onwards.trust()
    assert onwards.missing() == 0, "fetched files are as old as those in the copy"


@pytest.mark.slow
def test_kill_9_leaves_whole_rollouts_in_the_copy(tmp_path: Path) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    copy.mkdir()
    script = [sys.executable, "-m", "tests.collect.copying.versions", str(run), f"file://{copy}"]
    chance = random.Random(7)
    for seed in range(8):
        with subprocess.Popen([*script, str(seed)], cwd=ROOT, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"open\n"
            time.sleep(chance.uniform(0.1, 1.5))
            writer.send_signal(signal.SIGKILL)
        here, there = versions(run, tmp_path / "look"), versions(copy, tmp_path / "look2")
        assert there.keys() <= here.keys() | unfinished(run)
        assert all(there[key] <= here[key] for key in there.keys() & here.keys())
    assert there


def unfinished(run: Path) -> set[str]:
    """Rollouts that were about to be written anew."""
    return RunStore(run).conversations.parts().keys() - RunStore(run).rollouts.parts().keys()


@pytest.mark.slow
def test_a_copy_that_is_written_to_is_fetched_whole(tmp_path: Path) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    copy.mkdir()
    script = [sys.executable, "-m", "tests.collect.copying.versions", str(run), f"file://{copy}"]
    with subprocess.Popen([*script, "1"], cwd=ROOT, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        time.sleep(1)
        fetched = 0
        for number in range(10):
            try:
                fetch(Folder.at(f"file://{copy}"), tmp_path / f"fetched-{number}")
            except ConfigError:
                continue  # it says that it changes too fast
            fetched += 1
            versions(tmp_path / f"fetched-{number}", tmp_path / "look")
        writer.kill()
    assert fetched
