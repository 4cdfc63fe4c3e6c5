"""Recordings: of run folders, of JSON lines, and scripts."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from collect.errors import ConfigError, ModelFailure
from collect.models.base import Model, Sampling
from collect.models.budget import Budget
from collect.models.config import ReplayConfig
from collect.models.replay import ReplayBackend
from collect.rollouts.executor import open_model, teacher_of
from collect.store.messages import Message, ToolCall
from collect.store.records import MODEL_TEACHER, ORACLE_TEACHER, PLAYED_TEACHER
from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.models.contexts import context
from tests.records import make_conversations, make_rollout
from tests.scripted_model import ScriptedBackend


def step(model: Model) -> Message:
    return model.complete([Message("user", "?")], [], Sampling()).message


def test_a_run_folder_is_given_back(tmp_path: Path) -> None:
    rollout = make_rollout()
    first, sub = make_conversations(rollout)
    store = RunStore.open(tmp_path)
    store.add(rollout, [first, sub])
    config = ReplayConfig(backend="replay", path=tmp_path)
    backend = open_model("m", config, Budget(None), threading.Event())
    for row in (first, sub):
        model = backend.open(
            context(row.role, row.index, row.instance_id, row.variant, row.attempt)
        )
        recorded = [one for one in row.messages if one.message.role == "assistant"]
        completions = [model.complete([], [], Sampling()) for _ in recorded]
        assert [one.message for one in completions] == [one.message for one in recorded]
        assert [one.usage.prompt_tokens for one in completions] == [
            one.prompt_tokens for one in recorded
        ]
        with pytest.raises(ModelFailure, match=rf"no step {len(recorded)} of m: {row.role}"):
            step(model)
    with pytest.raises(ModelFailure, match="attempt 7; it has 0 steps"):
        step(backend.open(context("main", 0, first.instance_id, first.variant, 7)))


@pytest.mark.parametrize("teacher", [ORACLE_TEACHER, PLAYED_TEACHER, MODEL_TEACHER])
def test_a_recording_keeps_its_teacher(tmp_path: Path, teacher: str) -> None:
    rollout = make_rollout()
    rows = [replace(row, teacher=teacher) for row in make_conversations(rollout)]
    RunStore.open(tmp_path).add(rollout, rows)
    config = ReplayConfig(backend="replay", path=tmp_path)
    backend = ReplayBackend.from_config("m", config)
    assert teacher_of(config, backend) == teacher


def test_lines_fit_what_they_name(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    call = {"name": "bash", "arguments": '{"command": "ls"}'}
    lines = [
        {"instance_id": "bug-2", "replies": [{"content": "For bug 2."}]},
        {"role": "main", "replies": [{"content": "Look.", "tool_calls": [call]}, {}]},
        {"replies": [{"content": "Anyone."}]},
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    backend = ReplayBackend.from_config("m", ReplayConfig(backend="replay", path=path))
    assert step(backend.open(context("main", instance_id="bug-2"))).content == "For bug 2."
    assert step(backend.open(context("debug_subagent"))).content == "Anyone."
    for _ in range(2):
        assert step(backend.open(context("main"))) == Message(
            "assistant",
            "Look.",
            tool_calls=(ToolCall("call_0_0", "bash", '{"command": "ls"}'),),
        )


@pytest.mark.parametrize(
    "line", ["not json", '{"replies": [{"text": "x"}]}', '{"reply": []}', "[]"]
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"replies": []}\n' + line)
    with pytest.raises(ConfigError, match=r"script\.jsonl, line 2"):
        ReplayBackend.from_config("m", ReplayConfig(backend="replay", path=path))


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigError, match=str(path)):
            ReplayBackend.from_config("m", ReplayConfig(backend="replay", path=path))


def test_a_bug_without_a_recording_is_refused_before_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, config = tmp_path / "said.jsonl", tmp_path / "config.yaml"
    said.write_text(json.dumps({"instance_id": "shopcart__login-merge", "replies": [{}]}))
    config.write_text(
        f"{{run: it, runs_folder: {tmp_path}, models: {{m: {{backend: replay, path: {said}}}}}, "
        "collect: {main: m, sub: m, variants: [baseline], benchmark: {name: bundled, instances: "
        "[shopcart__login-merge, shopcart__refused-order]}}}"
    )
    assert main(["collect", str(config)]) == 2
    assert "nothing was recorded of shopcart__refused-order" in capsys.readouterr().err
    said.write_text(json.dumps({"replies": [{}]}))
    assert main(["collect", str(config)]) == 0


def test_a_script_remembers_what_it_was_asked() -> None:
    backend = ScriptedBackend("m", {"main": [Message("assistant", "One."), Message("assistant")]})
    model = backend.open(context("main"))
    question = Message("user", "Which?")
    assert model.complete([question], [], Sampling()).message.content == "One."
    assert backend.requests == [("main", (question,), ())]
    with pytest.raises(ModelFailure):
        step(backend.open(context("debug_subagent")))
