"""What `stepinto status` says of a run: while it runs, after a kill, and at its end."""

from __future__ import annotations

import os
import platform
import pty
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from collect.config import SAVED_NAME
from collect.errors import ConfigError, FileMoved
from collect.models.budget import Budget
from collect.rollouts import status
from collect.rollouts.progress import Progress
from collect.rollouts.status import (
    NAME,
    SILENT_SECONDS,
    Heartbeat,
    NodeStatus,
    beating,
    is_over,
    read_heartbeat,
    read_status,
)
from collect.store.run_store import RunStore
from stepinto import main
from tests.records import make_conversations, make_rollout

ROOT = Path(__file__).parents[3]
START = 1_000_000.0


def beat(**changes: object) -> Heartbeat:
    facts = {
        "total": 10,
        "done": 4,
        "numbers": "4/10 resolved 1 (33%) running 1 tokens 59.6k $0.1200 left 1h00m",
        "metrics": {
            "rollouts/per_hour": 6,
            "tokens": 59_600,
            "dollars": 0.12,
            "failed/SandboxDead": 1,
            "failed/EndpointDown": 0,
        },
        "started_at": START,
        "seen_at": START + 1800,
        "ended": False,
        "host": "node-1",
        "process": 17,
        "running": (("ledger-9 debug2fix", 70),),
    }
    return Heartbeat.model_validate(facts | changes)


def keep(folder: Path, heartbeat: Heartbeat) -> None:
    (folder / NAME).write_text(heartbeat.model_dump_json())


def shown(folder: Path, now: float) -> list[str]:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(read_status(folder, now), highlight=False)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_run_that_is_on(tmp_path: Path) -> None:
    with closing(RunStore.open(tmp_path)) as store:
        for number in range(3):
            store.add(make_rollout(f"ledger-{number}", seconds=60.0 * (number + 1)), [])
        store.compact()
    keep(tmp_path, beat())
    assert shown(tmp_path, START + 1810) == [
        "state       running for 30m (node-1, process 17)",
        "rollouts    4/10 resolved 1 (33%) running 1 tokens 59.6k $0.1200 left 1h00m",
        "rate        6.0 an hour",
        "at the end  about 149k tokens, $0.3000",
        "failed: 1 SandboxDead",
        "slowest: 3m ledger-2 debug2fix large → small",
        "slowest: 2m ledger-1 debug2fix large → small",
        "slowest: 1m ledger-0 debug2fix large → small",
        "running: 1m ledger-9 debug2fix",
    ]


@pytest.mark.parametrize("compacted", [False, True])
def test_replies_that_were_cut_are_counted(tmp_path: Path, compacted: bool) -> None:
    with closing(RunStore.open(tmp_path)) as store:
        for number in range(2):
            rollout = make_rollout(f"ledger-{number}")
            main, *others = make_conversations(rollout)
            last = replace(main.messages[-1], finish_reason="length")
            store.add(rollout, [replace(main, messages=(*main.messages[:-1], last)), *others])
        if compacted:
            store.compact()
        replies = sum(
            row.finish_reason is not None
            for conversation in store.read_conversations()
            for row in conversation.messages
        )
    keep(tmp_path, beat())
    told = f"cut         2 of {replies} replies at the limit of their length"
    assert told in shown(tmp_path, START + 1810)


def test_files_that_the_run_moves_meanwhile_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(RunStore.open(tmp_path)) as store:
        store.add(make_rollout("ledger-0", seconds=60.0), [])
    keep(tmp_path, beat())
    moves = [1]

    def moved(folder: Path) -> RunStore:
        moves[0] -= 1
        if moves[0] >= 0:
            raise FileMoved("moved")
        return RunStore(folder)

    monkeypatch.setattr(status, "RunStore", moved)
    assert "slowest: 1m ledger-0 debug2fix large → small" in shown(tmp_path, START + 1810)
    moves[0] = 6
    assert not [line for line in shown(tmp_path, START + 1810) if line.startswith("slowest")]


def test_what_left_no_row_was_paid_for_all_the_same(tmp_path: Path) -> None:
    keep(tmp_path, beat())
    Budget(None, 0.5, tmp_path).note()
    more = "$0.5000 with first requests, and rollouts that left no row or were done again"
    assert f"spent       {more}" in shown(tmp_path, START + 1810)


def test_the_nodes_of_a_cluster_are_shown(tmp_path: Path) -> None:
    ready = NodeStatus(host="node-1", state="ready", running=2, done=7, lost=0)
    gone = NodeStatus(host="node-2", state="gone", running=0, done=3, lost=2)
    keep(tmp_path, beat(nodes=(ready, gone)))
    lines = shown(tmp_path, START + 1810)
    assert "node: node-1 ready: 2 running, 7 done, 0 lost" in lines
    assert "node: node-2 gone: 0 running, 3 done, 2 lost" in lines


@pytest.mark.parametrize(
    ("changes", "after", "state"),
    [
        ({}, SILENT_SECONDS + 1, "died, last heard of 1m ago (node-1, process 17); start it again"),
        ({"ended": True}, 7200, "ended 2h00m ago, 6 left to do (node-1, process 17)"),
        ({"ended": True, "done": 10}, 7200, "ended 2h00m ago (node-1, process 17)"),
    ],
)
def test_states(changes: dict[str, object], after: float, state: str, tmp_path: Path) -> None:
    keep(tmp_path, beat(**changes))
    assert shown(tmp_path, START + 1800 + after)[0].split(maxsplit=1) == ["state", state]


def test_a_driver_of_this_machine_that_is_gone_has_died_at_once(tmp_path: Path) -> None:
    keep(tmp_path, beat(host=platform.node(), process=2**22 + 1))
    assert shown(tmp_path, START + 1815)[0].split()[1:6] == ["died,", "last", "heard", "of", "15s"]


def test_a_clock_that_was_set_back_hides_no_death(tmp_path: Path) -> None:
    keep(tmp_path, beat(host=platform.node(), process=2**22 + 1))
    assert shown(tmp_path, START - 86_400)[0].split()[1] == "died,"


def test_a_start_that_died_before_its_first_rollout_ended_had_no_rate(tmp_path: Path) -> None:
    keep(tmp_path, beat(metrics={"rollouts/per_hour": 0, "tokens": 59_600, "dollars": 0.12}))
    names = [line.split("  ")[0] for line in shown(tmp_path, START + 1800 + SILENT_SECONDS + 1)]
    assert names[:3] == ["state", "rollouts", "at the end"]


def test_a_run_of_an_unknown_start(tmp_path: Path) -> None:
    with closing(RunStore.open(tmp_path)) as store:
        store.add(make_rollout("ledger-0"), [])
    assert shown(tmp_path, START) == ["state     no start is known here", "rollouts  1"]


def test_a_run_is_over_once_its_process_is_gone(tmp_path: Path) -> None:
    now, here = time.time(), {"host": platform.node(), "process": os.getpid()}
    assert not is_over([]), "it starts"
    for changes, over in (
        ({"seen_at": now, **here}, False),
        ({"seen_at": now, "ended": True, **here}, False),
        ({"seen_at": now, "ended": True, **here, "process": 2**22 + 1}, True),
        ({"seen_at": now, "ended": True}, True),
        ({"seen_at": now - SILENT_SECONDS - 1}, True),
    ):
        keep(tmp_path, beat(**changes))
        assert is_over([tmp_path]) is over, changes


def test_a_run_that_starts_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / SAVED_NAME).write_text("run: x\n")
    assert main(["status", str(tmp_path)]) == 0
    assert "no rollout has begun: a start first makes its checks" in capsys.readouterr().out


def test_watching_ends_with_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "stepinto", "status", str(run), "--watch"]
    shown_so_far = ""

    def wait_for(text: str) -> None:
        nonlocal shown_so_far
        while text not in shown_so_far:
            shown_so_far += os.read(ours, 10_000).decode()

    with subprocess.Popen(command, cwd=ROOT, stdout=theirs, stdin=subprocess.DEVNULL) as watching:
        os.close(theirs)
        wait_for("no rollout has begun")
        with beating(run, progress := Progress(3), every=0.05):
            progress.started("one", "ledger-1 debug2fix")
            wait_for("ledger-1 debug2fix")
        wait_for("its command goes on")
        keep(run, beat(ended=True, done=3, total=3, seen_at=time.time(), process=2**22 + 1))
        wait_for("(node-1, process 4194305)")
        assert watching.wait(60) == 0
    os.close(ours)


def test_broken_and_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(tmp_path)]) == 2
    assert "has no rollouts" in capsys.readouterr().err
    assert main(["status", str(tmp_path / "nowhere"), "--watch"]) == 2
    assert "nowhere: no such folder" in capsys.readouterr().err
    (tmp_path / NAME).write_text("{}")
    with pytest.raises(ConfigError, match="remove it"):
        read_status(tmp_path)


def test_the_heart_beats_and_survives_what_it_cannot_write(tmp_path: Path) -> None:
    progress = Progress(3)
    with beating(tmp_path, progress, every=0.05):
        progress.started("one", "ledger-1 debug2fix")
        while not (tmp_path / NAME).is_dir():
            (tmp_path / NAME).unlink()
            with suppress(FileExistsError):  # a beat came in between
                (tmp_path / NAME).mkdir()
        time.sleep(0.2)
        (tmp_path / NAME).rmdir()
        deadline = time.monotonic() + 30
        while not (tmp_path / NAME).is_file() and time.monotonic() < deadline:
            time.sleep(0.05)
        found = read_heartbeat(tmp_path)
        assert found is not None
        assert [label for label, _ in found.running] == ["ledger-1 debug2fix"]
        assert found.numbers == "0/3 resolved 0 running 1 tokens 0 $0.00 left ?"
        assert not found.ended
    found = read_heartbeat(tmp_path)
    assert found is not None
    assert found.ended


@pytest.mark.slow
def test_of_a_real_run_that_is_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overrides = [f"runs_folder={tmp_path}", "run=test", "collect.benchmark.limit=3"]
    command = [sys.executable, "-m", "stepinto", "collect", "configs/quickstart.yaml", *overrides]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    process.stderr.readline()
    assert main(["status", str(tmp_path / "test")]) == 0
    assert "running for" in capsys.readouterr().out
    process.send_signal(signal.SIGKILL)
    process.communicate()
    found = read_heartbeat(tmp_path / "test")
    assert found is not None
    assert shown(tmp_path / "test", found.seen_at + 100)[0].split()[1] == "died,"
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
    assert main(["status", str(tmp_path / "test")]) == 0
    told = capsys.readouterr().out
    assert "rollouts  3/3" in told
    assert "ended" in told
