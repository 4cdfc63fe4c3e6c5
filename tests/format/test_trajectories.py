"""Rollouts as ATIF trajectories."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import atif
import pytest

from collect.store.messages import ToolCall
from collect.store.records import Conversation, Role
from format.atif import trajectories
from format.candidates import Outcome
from format.config import FormatConfig
from format.dataset import read_rows, split_file
from format.stage import run_format
from tests.format.conversations import make_rollouts, write_run
from tests.records import make_conversations, make_rollout


def read(path: Path) -> list[atif.Trajectory]:
    return [atif.Trajectory.model_validate_json(line) for line in path.read_text().splitlines()]


def test_a_subagent_is_linked_to_the_call_that_it_answers(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(2))
    report = run_format(FormatConfig(test_fraction=0, atif=True), run)
    found = read(run / "sft" / "atif" / "train-00000.jsonl")
    assert report.outputs["atif"] == {"train": len(found)} == {"train": 2}
    main = found[0]
    [sub] = main.subagent_trajectories or []
    results = [each for step in main.steps if step.observation for each in step.observation.results]
    [result] = [each for each in results if each.subagent_trajectory_ref]
    assert result.source_call_id == "call_main_1"
    [ref] = result.subagent_trajectory_ref or []
    assert ref.trajectory_id == sub.trajectory_id
    assert sub.agent.name == "stepinto-debug_subagent"
    assert (sub.session_id, main.session_id) == (main.session_id, ref.session_id)


def test_nothing_of_a_conversation_is_lost() -> None:
    rollout = make_rollout()
    held = make_conversations(rollout)
    [main] = trajectories(held, Outcome.of(rollout))
    [sub] = main.subagent_trajectories or []
    for trajectory, conversation in ((main, held[0]), (sub, held[1])):
        assert messages_of(trajectory) == messages_in(conversation)
        assert trajectory.agent.tool_definitions == json.loads(conversation.tools)
    tokens = sum(row.prompt_tokens for row in held[1].messages)
    assert sub.final_metrics is not None
    assert sub.final_metrics.total_prompt_tokens == tokens > 0
    assert main.extra is not None
    assert main.extra["resolved"] is True
    [stop, refusal] = [
        each.extra["debugger_events"]
        for step in sub.steps
        if step.observation
        for each in step.observation.results
        if each.extra
    ]
    assert (stop[0]["stop_reason"], refusal[0]["error_kind"]) == ("breakpoint", "not_allowed")


def messages_of(trajectory: atif.Trajectory) -> list[object]:
    """What was said, called and answered, by a trajectory."""
    found: list[object] = []
    for step in trajectory.steps:
        calls = [
            (c.tool_call_id, c.function_name, (c.extra or {}).get("raw_arguments", c.arguments))
            for c in step.tool_calls or []
        ]
        found.append((step.source, step.message, step.reasoning_content, calls))
        results = step.observation.results if step.observation else []
        found += [(each.source_call_id, each.content) for each in results]
    return found


def messages_in(conversation: Conversation) -> list[object]:
    """The same by its conversation."""
    found: list[object] = []
    for row in conversation.messages:
        message = row.message
        if message.role == "tool":
            found.append((message.tool_call_id, message.content))
            continue
        calls = [(call.id, call.name, decoded(call.arguments)) for call in message.tool_calls]
        source = "agent" if message.role == "assistant" else message.role
        found.append((source, message.content, message.reasoning, calls))
    return found


def decoded(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", '{"a": NaN}', '{"a": "\\ud800"}'])
def test_arguments_that_are_no_object_stay_as_they_were(arguments: str) -> None:
    rollout = make_rollout()
    main, _ = make_conversations(rollout)
    first = next(i for i, row in enumerate(main.messages) if row.message.tool_calls)
    call = ToolCall("broken", "bash", arguments)
    message = replace(main.messages[first].message, tool_calls=(call,))
    rows = [*main.messages[:first], replace(main.messages[first], message=message)]
    [trajectory] = trajectories([replace(main, messages=tuple(rows))], Outcome.of(rollout))
    [sent] = trajectory.steps[-1].tool_calls or []
    assert (sent.arguments, sent.extra) == ({}, {"raw_arguments": arguments})
    assert atif.Trajectory.model_validate_json(trajectory.model_dump_json())


def test_a_scripted_turn_is_no_inference() -> None:
    rollout = make_rollout(sub_model="oracle", teacher="oracle")
    _, sub = make_conversations(rollout)
    rows = tuple(replace(row, prompt_tokens=0, completion_tokens=0) for row in sub.messages)
    scripted = replace(sub, teacher="oracle", messages=rows)
    [trajectory] = trajectories([scripted], Outcome.of(rollout))
    turns = [step for step in trajectory.steps if step.source == "agent"]
    assert {(step.llm_call_count, step.metrics) for step in turns} == {(0, None)}
    assert trajectory.subagent_trajectories is None, "what it answers is not there"


def test_a_relay_says_who_wrote_what(tmp_path: Path) -> None:
    """A row names the model that it trains: the one that took over."""
    [(rollout, (main, sub))] = make_rollouts(1)
    wrote = iter(["small", *["frontier"] * len(sub.messages)])
    rows = []
    for row in sub.messages:
        by = next(wrote) if row.message.role == "assistant" else None
        rows.append(replace(row, player=by, served_model=by and f"{by}-2026"))
    run = write_run(tmp_path / "run", [(rollout, (main, replace(sub, messages=tuple(rows))))])
    run_format(FormatConfig(test_fraction=0, atif=True), run)
    (formatted,) = read_rows(split_file(run / "sft", "train"))
    assert formatted["served_model"] == "frontier-2026"
    [trajectory] = read(run / "sft" / "atif" / "train-00000.jsonl")
    [relayed] = trajectory.subagent_trajectories or []
    names = [step.model_name for step in relayed.steps if step.source == "agent"]
    assert names[0] == "small"
    assert set(names[1:]) == {"frontier"}


def test_agents_that_none_has_called_stand_side_by_side() -> None:
    rollout = make_rollout()
    main, sub = make_conversations(rollout)
    alone = replace(sub, role=Role.INSPECTOR, parent_conversation_id=None, parent_call_id=None)
    found = trajectories([main, alone], Outcome.of(rollout))
    assert [each.session_id for each in found] == [rollout.rollout_id] * 2
