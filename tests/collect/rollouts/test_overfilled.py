"""What a model does to void its own failure: it kills its sandbox, lets its program break the
debugger, or leaves odd names.

A sandbox that ends once is the machine's, twice the model's.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from collect.errors import FailureKind
from collect.store.records import Rollout
from collect.store.run_store import RunStore
from sandbox.debugger import KillReason
from stepinto import main

FILL = "for n in $(seq 40); do head -c 5000000 /dev/zero >file$n; done; sleep 100"


FORGE = """\
cat >forging.py <<END
import sys
frame = sys._getframe()
while "session" not in frame.f_locals:
    frame = frame.f_back
Link = type(frame.f_locals["session"].link)
real = Link.answer
Link.answer = lambda self, fields: real(self, {**fields, "values": 5})
raise ValueError
END
"""
"""Leaves a program that changes the debugger's answers into what none can be."""


def collected(
    folder: Path, *overrides: str, script: str = FILL, debugs: int = 0, variant: str = "baseline"
) -> Rollout:
    """The one row, after a start with a scripted model that runs it in its sandbox, then starts
    some debug sessions."""
    call = {"name": "bash", "arguments": json.dumps({"command": script})}
    launch = {"test": "forging.py", "stop_at_test": False}
    start = {"name": "debug_start_session", "arguments": json.dumps(launch)}
    said = folder / "said.jsonl"
    calls = [call, *[start] * debugs]
    replies = [*({"tool_calls": [each]} for each in calls), {"content": "Done."}]
    said.write_text(json.dumps({"role": "main", "replies": replies}) + "\n")
    config = folder / "config.yaml"
    config.write_text(
        f"run: full\nruns_folder: {folder}\nsandbox: {{disk_mb: 64}}\n"
        f"models: {{greedy: {{backend: replay, path: {said}}}}}\n"
        f"collect: {{main: greedy, sub: greedy, variants: [{variant}],\n"
        "  benchmark: {name: bundled, limit: 1}}\n"
    )
    main(["collect", str(config), *overrides])
    (row,) = RunStore(folder / "full").read_rollouts()
    assert not row.resolved
    return row


@contextmanager
def killed_from_outside(marker: str) -> Iterator[None]:
    """Every sandbox in which a command with this marker runs is killed, as an escape would."""
    ended = threading.Event()

    def kill() -> None:
        while not ended.wait(0.05):
            for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
                program, *arguments = command_line(pid)
                if program.endswith("bwrap") and marker in " ".join(arguments):
                    with suppress(ProcessLookupError):  # it died with its parent
                        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return [""]


@pytest.mark.slow
def test_twice_in_a_start_is_the_models_and_final(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = collected(tmp_path)
    assert (row.failure_type, row.failure_kind) == ("DiskExceeded", FailureKind.MODEL)
    assert collected(tmp_path).started_at == row.started_at
    assert main(["replay", str(tmp_path / "full")]) == 0
    assert "1 rollout had failed" in capsys.readouterr().out


@pytest.mark.slow
def test_once_is_the_infrastructures_and_other_settings_begin_anew(tmp_path: Path) -> None:
    once = "runner.again=0"
    assert collected(tmp_path, once).failure_kind is FailureKind.INFRASTRUCTURE
    more = collected(tmp_path, once, "sandbox.disk_mb=65")
    assert more.failure_kind is FailureKind.INFRASTRUCTURE
    assert collected(tmp_path, once, "sandbox.disk_mb=65").failure_kind is FailureKind.MODEL


def test_a_model_that_kills_its_sandbox_has_failed(tmp_path: Path) -> None:
    script = "sleep 3141.59"
    with killed_from_outside("3141.59"):
        row = collected(tmp_path, script=script)
        assert (row.failure_type, row.failure_kind) == ("SandboxDead", FailureKind.MODEL)
        assert collected(tmp_path, script=script).started_at == row.started_at


@pytest.mark.slow
def test_so_has_one_that_does_over_restarts_and_in_other_ways(tmp_path: Path) -> None:
    once = "runner.again=0"
    with killed_from_outside("3141.58"):
        row = collected(tmp_path, once, script="sleep 3141.58")
    assert (row.failure_type, row.failure_kind) == ("SandboxDead", FailureKind.INFRASTRUCTURE)
    row = collected(tmp_path, once)
    assert (row.failure_type, row.failure_kind) == ("DiskExceeded", FailureKind.MODEL)


def test_a_program_that_forges_the_debuggers_answers_voids_nothing(tmp_path: Path) -> None:
    """However often: each session ends as the program's doing, and the patch is judged."""
    row = collected(tmp_path, script=FORGE, debugs=3, variant="debug_tools_only")
    assert (row.failure_kind, row.failure_message) == (None, None)
    assert row.tests, "its patch was judged"
    conversations = RunStore(tmp_path / "full").read_conversations()
    reasons = [row.event.kill_reason for each in conversations for row in each.events]
    assert reasons == [KillReason.INTERFERENCE] * 3


@pytest.mark.slow
def test_a_name_that_is_no_text_is_part_of_the_patch(tmp_path: Path) -> None:
    names = r"printf 'x = 1\n' >$(printf 'bad\377.py'); printf '\377' >$(printf '\376.bin')"
    row = collected(tmp_path, script=names)
    assert row.failure_message is None
    assert row.tests, "its patch was judged"
    assert r'+++ "b/bad\377.py"' in row.patch
    assert r'this patch: "\376.bin"' in row.patch


def test_changes_without_end_are_no_patch(tmp_path: Path) -> None:
    """Their patch, taken apart, would take all memory."""
    script = "for n in 1 2 3; do yes '' | head -c 1000000 >file$n.py; done"
    row = collected(tmp_path, script=script)
    assert (row.failure_type, row.failure_kind) == ("ModelFailure", FailureKind.MODEL)
    assert "more than 200000 lines" in (row.failure_message or "")
