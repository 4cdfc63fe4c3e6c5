"""Calls that a tool's schema had to be applied to: rows have what was carried out, or the turn is
invalid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import subagent_schemas
from collect.errors import ConfigError
from collect.store.records import Conversation, MessageRow, ToolOutcome
from collect.store.run_store import RunStore
from format.carried_out import ReadArguments
from format.config import FormatConfig
from format.dataset import read_rows, split_file
from format.stage import run_format
from tests.format.conversations import make_rollouts, write_run

ALL_TRAIN = FormatConfig(test_fraction=0)
SAID = '{"what": "locals", "frame": "0", "start": 5.0, "expression": null}'
WHOLE, COMPACT = AgentsConfig(), AgentsConfig(subagent_form="compact")


def run_of(folder: Path, agents: AgentsConfig = WHOLE, **answer: Any) -> Path:
    """A run of one subagent, whose last call is the one above."""
    [(rollout, (main, sub))] = make_rollouts(1, SAID)
    rows = list(sub.messages)
    rows[-2] = replace(rows[-2], **answer)
    tools = json.dumps(subagent_schemas("python", agents))
    return write_run(folder, [(rollout, (main, replace(sub, messages=tuple(rows), tools=tools)))])


def only_row(run: Path, **settings: Any) -> dict[str, Any]:
    run_format(ALL_TRAIN.model_copy(update=settings), run)
    (row,) = read_rows(split_file(run / "sft", "train"))
    return row


def last_call(row: dict[str, Any]) -> Any:
    return row["messages"][-3]["tool_calls"][0]["function"]["arguments"]


def test_a_row_has_what_was_carried_out(tmp_path: Path) -> None:
    done = '{"what": "locals", "frame": 0, "start": 5, "expression": null}'
    row = only_row(run_of(tmp_path / "run", carried_out=done))
    assert json.dumps(last_call(row)) == done
    assert (row["turn_quality"][-2], row["trained_turns"][-2]) == ("recovery", True)
    assert row["read_arguments"] is True
    assert "| read_arguments | true | 1 |" in (tmp_path / "run/sft/README.md").read_text()


@pytest.mark.parametrize("agents", [WHOLE, COMPACT])
def test_records_of_older_releases_are_read_by_the_rows_own_tools(
    tmp_path: Path, agents: AgentsConfig
) -> None:
    row = only_row(run_of(tmp_path / "run", agents))
    schemas = {each["function"]["name"]: each["function"]["parameters"] for each in row["tools"]}
    jsonschema.validate(last_call(row), schemas["debug_inspect"])
    assert (last_call(row)["frame"], type(last_call(row)["start"])) == (0, int)
    assert ("expression" in last_call(row)) == (agents is not COMPACT)


def test_the_record_keeps_what_the_model_wrote(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", carried_out='{"what": "locals"}')
    only_row(run)
    said = [row for each in RunStore(run).read_conversations() for row in each.messages]
    assert SAID in [call.arguments for row in said for call in row.message.tool_calls]
    assert '{"what": "locals"}' in [row.carried_out for row in said]


def test_such_calls_can_count_as_invalid(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    with pytest.raises(ConfigError, match="'valid_calls' dropped 1"):
        only_row(run, read_arguments=ReadArguments.INVALID)
    row = only_row(run, read_arguments=ReadArguments.INVALID, max_invalid_tool_calls=1)
    assert last_call(row) == json.loads(SAID)
    assert (row["turn_quality"][-2], row["trained_turns"][-2]) == ("invalid", False)


def test_calls_that_were_not_carried_out_are_as_the_model_wrote_them(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", tool_outcome=ToolOutcome.INVALID)
    row = only_row(run, max_invalid_tool_calls=1)
    assert last_call(row) == json.loads(SAID)
    assert (row["turn_quality"][-2], row["read_arguments"]) == ("invalid", False)


def test_calls_are_told_apart_by_their_place_if_their_ids_are_equal(tmp_path: Path) -> None:
    [(rollout, (main, sub))] = make_rollouts(1, '{"what": "locals"}')
    *before, reply, answer, last = sub.messages
    (call,) = reply.message.tool_calls
    second = replace(call, arguments='{"what": "locals", "frame": "1"}')
    message = replace(reply.message, tool_calls=(call, second))
    rows = (*before, replace(reply, message=message), answer, answer, last)
    run = write_run(tmp_path / "run", [(rollout, (main, with_tools(sub, rows)))])
    calls = only_row(run)["messages"][-4]["tool_calls"]
    given = [each["function"]["arguments"] for each in calls]
    assert given == [{"what": "locals"}, {"what": "locals", "frame": 1}]


def with_tools(sub: Conversation, rows: tuple[MessageRow, ...]) -> Conversation:
    return replace(sub, messages=rows, tools=json.dumps(subagent_schemas("python", WHOLE)))
