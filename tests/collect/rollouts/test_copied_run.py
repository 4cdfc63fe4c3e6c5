"""A run folder that is copied while it runs, as docs/run-folder.md says, is a run folder."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from collect.store.records import Conversation, Rollout
from collect.store.run_store import RunStore
from tests.records import make_conversations, make_failed_rollout, make_rollout

ROOT = Path(__file__).resolve().parents[3]
SECTION = (ROOT / "docs" / "run-folder.md").read_text("utf-8").split("## Copying a run", 1)[1]
SNAPSHOT = re.findall(r"^```bash\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)[0]
"""The commands that make a snapshot of `runs/first`."""
BUGS = 4

Rows = dict[str, tuple[Rollout, list[Conversation]]]


def snapshot(folder: Path) -> Path | None:
    """Of the run below a folder; None if files were merged meanwhile."""
    made = subprocess.run(
        ["bash", "-c", f"{SNAPSHOT}\nsnapshot"], cwd=folder, capture_output=True, check=False
    )
    return folder / "runs" / "first.snapshot" if made.returncode == 0 else None


def upload(source: Path, copy: Path) -> Iterator[Path]:
    """Copy a snapshot's files, those of `rollouts/` last; each when it is there."""
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    for file in sorted(files, key=lambda file: (file.parent.name == "rollouts", file)):
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / file, copy / f"{file}.part")
        (copy / f"{file}.part").rename(copy / file)
        yield file


def rows(folder: Path) -> Rows:
    """Of a folder; fails if a rollout is there twice, or has another's conversations."""
    store = RunStore(folder)
    held = defaultdict(list)
    for each in store.read_conversations():
        held[each.rollout_id].append(each)
    rollouts = list(store.read_rollouts())
    found = {row.rollout_id: (row, held[row.rollout_id]) for row in rollouts}
    assert len(found) == len(rollouts)
    return found


def collect(folder: Path, *overrides: str) -> list[str]:
    return [sys.executable, "-m", "stepinto", "collect", str(folder), *overrides]


@pytest.mark.slow
def test_a_run_goes_on_from_its_copy(tmp_path: Path) -> None:
    run, copy = tmp_path / "runs" / "first", tmp_path / "elsewhere" / "first"
    settings = ["run=first", f"runs_folder={run.parent}", f"collect.benchmark.limit={BUGS}"]
    command = collect(ROOT / "configs" / "quickstart.yaml", *settings, "runner.concurrency=1")
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as driver:
        deadline, copied = time.monotonic() + 120, 0
        while copied < BUGS // 2 and time.monotonic() < deadline:
            time.sleep(0.2)
            taken = snapshot(tmp_path) if run.is_dir() else None
            for file in upload(taken, copy) if taken is not None else ():
                if file.parent.name == "rollouts":
                    # A copy that is cut off here is good, too.
                    assert all(len(said) == 1 + row.sub_calls for row, said in rows(copy).values())
            copied = len(rows(copy))
        driver.send_signal(signal.SIGKILL)
    before = rows(copy)
    assert BUGS // 2 <= len(before) < BUGS
    shutil.rmtree(run.parent)
    finished = subprocess.run(collect(copy), cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    after = rows(copy)
    assert len({row.instance_id for row, _ in after.values()}) == len(after) == BUGS
    assert {key: after[key] for key in before} == before
    assert all(len(said) == 1 + row.sub_calls for row, said in after.values())


def test_each_file_of_a_copy_leaves_it_whole(tmp_path: Path) -> None:
    """While rows are written, failed ones again, and files are merged."""
    run, copy = tmp_path / "runs" / "first", tmp_path / "copy"
    ended, made, chance = threading.Event(), set[str](), random.Random(7)

    def write() -> None:
        number = 0
        with closing(RunStore.open(run)) as store:
            while not ended.wait(0.01):
                number += 1
                row = make_rollout(f"ledger-{number}", dollars=float(number))
                if chance.random() < 0.5:
                    failed = make_failed_rollout(instance_id=f"ledger-{number}")
                    store.add(failed, [_said(each, "failed") for each in make_conversations(row)])
                store.add(row, [_said(each, str(number)) for each in make_conversations(row)])
                made.add(row.rollout_id)
                if chance.random() < 0.1:
                    store.compact()

    def merged() -> list[Path]:
        return list(copy.glob("rollouts/data-*"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        rounds = finished = 0
        deadline = time.monotonic() + 60
        while (rounds < 5 or not merged()) and time.monotonic() < deadline:
            expected, taken = set(made), snapshot(tmp_path)
            if taken is None:
                continue
            rounds += 1
            for file in upload(taken, copy):
                if file.parent.name == "rollouts" and chance.random() < 0.5:
                    finished = _check(copy, finished)
            assert expected <= rows(copy).keys()
            finished = _check(copy, finished)
    finally:
        ended.set()
        writer.join()
    assert rounds >= 5
    assert merged()


def _said(conversation: Conversation, text: str) -> Conversation:
    return replace(conversation, final_answer=text)


def _check(copy: Path, finished: int) -> int:
    """Each row is with its conversations, and none is lost; how many are finished now."""
    done = [(row, said) for row, said in rows(copy).values() if row.failure_kind is None]
    for row, said in done:
        assert [each.final_answer for each in said] == [f"{row.dollars:.0f}"] * 2
    assert len(done) >= finished
    return len(done)
