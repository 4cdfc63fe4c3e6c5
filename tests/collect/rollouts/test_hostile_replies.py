"""`stepinto collect` against servers whose replies no row can hold: each is a row, and no more."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from collect.errors import FailureKind
from collect.models.budget import read_spent
from collect.rollouts.executor import RolloutWork, Rows
from collect.rollouts.rollout import RolloutSettings
from collect.store.records import Rollout
from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.models.chat_server import Answer, ChatServer, collect_from, error, reply

ONE = ("collect.benchmark.limit=1", "runner.again=0")
DEEP = "[" * 200_000
HUGE = {"prompt_tokens": 2**63, "completion_tokens": 1}


def collect(server: ChatServer, folder: Path, *overrides: str) -> list[Rollout]:
    main(collect_from(server, folder, *overrides))
    return list(RunStore(folder / "test").read_rollouts())


NONE = (
    reply(usage=HUGE),
    Answer(body=DEEP),
    Answer(body='{"choices": [{"message": []}]}'),
    Answer(body=reply(tool_calls=[{}]).body.replace("[{}]", "5")),
)


def test_a_reply_that_is_none_is_a_row(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(*NONE, reply())
    rows = collect(server, tmp_path, *ONE, f"collect.attempts={len(NONE) + 1}")
    failures = {row.attempt: row.failure_type for row in rows}
    assert failures == {**dict.fromkeys(range(len(NONE)), "InvalidReply"), len(NONE): None}


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["baseline", "inspectcoder", "autosd", "ldb_line"])
def test_deep_nesting_ends_no_rollout(
    server: ChatServer, tmp_path: Path, variant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = {"id": "c", "function": {"name": "bash", "arguments": DEEP}}
    block = f"```python\n{DEEP}\n```"
    server.will_answer(reply(block, tool_calls=[call]), reply(f"<debug_answer>{DEEP}"))
    overrides = ["collect.benchmark.limit=1", f"collect.variants=[{variant}]"]
    if variant != "baseline":
        overrides += ["collect.benchmark={name: self_repair, limit: 1}", "collect.sub=frontier"]
    (row,) = collect(server, tmp_path, *overrides)
    assert row.failure_message is None
    run = str(tmp_path / "test")
    assert main(["format", run]) in (0, 2), "there may be no row that stays"
    assert main(["view", run]) == 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_journal_of_an_older_release_is_no_dead_end(server: ChatServer, tmp_path: Path) -> None:
    """That kept replies whose tokens no row can hold, and so ended at every start."""
    call = {"id": "c", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    server.will_answer(reply(tool_calls=[call]), error(500, "down"))
    (row,) = collect(server, tmp_path, *ONE)
    (journal,) = (tmp_path / "test" / "journal").iterdir()
    settings, line = journal.read_text().splitlines()
    kept = json.loads(line)
    kept["completion"]["usage"]["prompt_tokens"] = 2**63
    journal.write_text(f"{settings}\n{json.dumps(kept)}\n")
    server.will_answer(reply("Done."))
    (row,) = collect(server, tmp_path, *ONE)
    assert (row.failure_kind, row.main_steps, row.main_prompt_tokens) == (None, 1, 100)
    assert not list((tmp_path / "test" / "journal").iterdir())


@pytest.mark.slow
def test_a_row_that_cannot_be_written_is_a_failed_one(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever puts such a value there."""

    def do(self: RolloutWork, settings: RolloutSettings) -> Rows:
        row, conversations = done(self, settings)
        steps = 2**63 if self.spec.attempt == 0 else row.main_steps
        return replace(row, main_steps=steps), conversations

    done = RolloutWork.do
    monkeypatch.setattr(RolloutWork, "do", do)
    overrides = ("collect.benchmark.limit=1", "runner.again=0", "collect.attempts=2")
    failed, whole = sorted(collect(server, tmp_path, *overrides), key=lambda row: row.attempt)
    assert (failed.failure_type, failed.failure_kind) == ("RowRefused", FailureKind.INFRASTRUCTURE)
    assert "rollouts can hold it" in (failed.failure_message or "")
    assert failed.dollars == whole.dollars > 0
    assert read_spent(tmp_path / "test") == pytest.approx(2 * whole.dollars)
    monkeypatch.undo()
    rows = collect(server, tmp_path, *overrides)
    assert [row.failure_type for row in rows] == [None, None]


@pytest.mark.slow
def test_a_defect_of_one_rollout_leaves_the_others(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def do(self: RolloutWork, settings: RolloutSettings) -> Rows:
        if self.spec.attempt == 0:
            raise RecursionError("too deep")
        return done(self, settings)

    done = RolloutWork.do
    monkeypatch.setattr(RolloutWork, "do", do)
    overrides = ("collect.benchmark.limit=1", "runner.again=0", "collect.attempts=2")
    rows = collect(server, tmp_path, *overrides)
    assert sorted(str(row.failure_type) for row in rows) == ["None", "RecursionError"]


def test_a_reply_of_endless_calls_is_the_models_failure(server: ChatServer, tmp_path: Path) -> None:
    call = {"id": "c", "function": {"name": "bash", "arguments": '{"command": "sleep 100"}'}}
    server.will_answer(reply(tool_calls=[call] * 10_000))
    (row,) = collect(server, tmp_path, *ONE)
    assert (row.failure_type, row.failure_kind) == ("ModelFailure", FailureKind.MODEL)
    assert "10000 calls, more than 128" in (row.failure_message or "")
