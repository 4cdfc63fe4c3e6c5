"""The conversations of a run, judged by several processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from collect.errors import ConfigError
from collect.store.run_store import RunStore, conversations_of
from collect.store.tables import rollout_batches
from format.config import FormatConfig, PreferencesConfig, WorkersConfig
from format.stage import run_format
from tests.debugger_sessions import descendants
from tests.format.attempts import attempt
from tests.format.conversations import make_rollouts, write_run

CONFIG = FormatConfig(preferences=PreferencesConfig(), only_resolved=True, atif=True)
ROOT = Path(__file__).parents[2]
COMMAND = "import sys, stepinto; sys.exit(stepinto.main(sys.argv[1:]))"


def by(count: int) -> FormatConfig:
    return CONFIG.model_copy(update={"workers": WorkersConfig(count=count)})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Half its rows compacted, some alike, some dropped, in several chunks."""
    monkeypatch.setattr("format.candidates.ROWS_PER_CHUNK", 5)
    attempts = [attempt(n, looks=1 + n % 3, resolved=n % 4 > 0) for n in range(20)]
    made = [*make_rollouts(), *attempts]
    folder = write_run(tmp_path / "run", made[::2])
    with closing(RunStore.open(folder)) as store:
        store.compact()
    return write_run(folder, made[1::2])


def written(run: Path) -> dict[str, bytes]:
    """All files but for the config that they quote."""
    files = [path for path in (run / "sft").rglob("*") if path.is_file()]
    quoting = {"README.md", "report.json"}
    return {
        str(each.relative_to(run)): each.read_bytes() for each in files if each.name not in quoting
    }


def test_chunks_are_cut_between_rollouts(run: Path) -> None:
    store, chance = RunStore(run), random.Random(5)
    whole = [each.conversation_id for each in store.read_conversations()]
    batches = list(store.conversations.batches())
    for _ in range(50):
        rows = chance.randrange(1, 12)
        cut = [batch.slice(start, 3) for batch in batches for start in range(0, batch.num_rows, 3)]
        tables = list(rollout_batches(cut, store.conversations.schema, rows, 10**9))
        held = [[each.rollout_id for each in conversations_of(table)] for table in tables]
        assert all(len(each) >= rows for each in held[:-1])
        assert not any(set(one) & set(next_) for one, next_ in pairwise(held))
        assert [c.conversation_id for table in tables for c in conversations_of(table)] == whole
    assert not list(rollout_batches([], store.conversations.schema, 3, 10**9))


@pytest.mark.slow
def test_processes_write_what_one_writes(run: Path) -> None:
    alone = run_format(by(1), run)
    expected = written(run)
    assert any(name.startswith("sft/preferences/") for name in expected)
    together = run_format(by(3), run)
    assert written(run) == expected
    assert together.funnel == alone.funnel
    assert together.splits == alone.splits
    dropped = {step.name for step in alone.funnel.steps if step.dropped}
    assert {"role", "resolved"} <= dropped


@pytest.mark.slow
def test_a_killed_process_is_told_and_nothing_written(run: Path) -> None:
    run_format(by(1), run)
    before = written(run)
    killer = threading.Thread(target=kill_a_child)
    killer.start()
    with pytest.raises(ConfigError, match=r"a process of format\.workers ended before its work"):
        run_format(by(2), run)
    killer.join()
    assert written(run) == before
    assert not list(run.glob(".tmp-*"))


def kill_a_child() -> None:
    """As soon as there is one that judges."""
    while True:
        for child in descendants(os.getpid()):
            if b"spawn_main" in command_of(child):
                os.kill(child, signal.SIGKILL)
                return
        time.sleep(0.02)


def command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
def test_processes_end_with_a_killed_command(run: Path) -> None:
    (run / "config.yaml").write_text(f"run: {run.name}\nruns_folder: {run.parent}\n")
    command = [sys.executable, "-c", COMMAND, "format", str(run), "format.workers.count=2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        children: list[int] = []
        while not children:
            assert process.poll() is None, "it was faster than its processes"
            children = [c for c in descendants(process.pid) if b"spawn_main" in command_of(c)]
        process.kill()
    until = time.monotonic() + 30
    while any(b"spawn_main" in command_of(child) for child in children):
        assert time.monotonic() < until, "they wait for a command that is dead"
        time.sleep(0.05)
