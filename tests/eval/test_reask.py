"""A run's questions, asked again of other subagents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stepinto
from collect.code.patches import TestFiles
from collect.store.records import Role
from collect.store.run_store import RunStore
from eval.reask import agreement

BUG = "collect.benchmark.instances=[calrules__rent_day_drifts]"
ANSWER = (
    "<debug_answer>\nquestion: as asked\nanswer: not established\nevidence: none\nlocation: none\n"
    "</debug_answer>"
)


def run(*arguments: str) -> int:
    return stepinto.main(arguments)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    settings = [f"runs_folder={runs}", "collect.main=oracle", "collect.sub=oracle", BUG]
    assert run("collect", "configs/debug2fix.yaml", "run=first", *settings) == 0
    return runs / "first"


def scripted(folder: Path) -> str:
    """A subagent that inspects once and establishes nothing."""
    call = {"name": "debug_control", "arguments": '{"action": "continue"}'}
    replies = [{"content": "I look.", "tool_calls": [call]}, {"content": ANSWER}]
    (folder / "script.jsonl").write_text(json.dumps({"role": "debug_subagent", "replies": replies}))
    return f"models.weak={{backend: replay, path: {folder / 'script.jsonl'}}}"


def test_the_same_questions_are_asked_of_another_subagent(
    collected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weak = scripted(tmp_path)
    assert run("bench", "reask", str(collected), "--sub", "weak", weak) == 0
    told = capsys.readouterr().out
    assert "1 of 1 question:" in told
    lines = (collected / "reask" / "answers.jsonl").read_text().splitlines()
    for each in map(json.loads, lines):
        first, second = each["answers"]["oracle"], each["answers"]["weak"]
        assert first["grounded"] == 1.0
        assert first["agreement"] is None
        assert second["answer"] == ANSWER
        assert second["agreement"] == 0.0
        assert second["answered"]
        assert second["steps"] == 2
    # The main agent said what it had said before, and what it asked was the same.
    stores = [RunStore(collected), RunStore(collected / "reask" / "weak")]
    calls = [
        sorted(
            [call.arguments for call in one.calls.values()]
            for one in store.read_conversations()
            if one.role is Role.MAIN
        )
        for store in stores
    ]
    assert calls[0] == calls[1]

    rows = sorted(row.started_at for row in stores[1].read_rollouts())
    assert run("bench", "reask", str(collected), "--sub", "weak", weak) == 0
    assert rows == sorted(row.started_at for row in stores[1].read_rollouts())


def test_what_can_not_be_asked_is_refused(
    collected: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert run("bench", "reask", str(collected), "--sub", "nobody") == 2
    assert "nobody" in caplog.text
    assert run("bench", "reask", str(collected), "--sub", "oracle") == 2
    assert "'oracle' is the subagent that the run has asked" in caplog.text
    empty = f"runs_folder={collected.parent / 'none'}"
    assert run("bench", "reask", "configs/debug2fix.yaml", "--sub", "oracle", empty) == 2
    assert "has no questions of main agents" in caplog.text


def test_answers_agree_with_themselves(collected: Path) -> None:
    asked = [
        one for one in RunStore(collected).read_conversations() if one.role is Role.DEBUG_SUBAGENT
    ]
    assert [agreement(one, one, TestFiles(())) for one in asked] == [1.0]
