"""Replies in the ReAct form, well-formed and not."""

from __future__ import annotations

import json

import pytest

from collect.agents.inspectcoder.react import (
    ReactForm,
    TerminalForm,
    UnreadableAction,
    action_block,
)
from collect.agents.tools import Answered, MalformedAction, ToolReply
from collect.store.messages import Message, ToolCall
from collect.store.records import ToolOutcome

BLOCK = 'set_breakpoint(3)\ncontrol_execution("continue")'
FORM = ReactForm(lambda: "State: paused")


@pytest.mark.parametrize(
    "reply",
    [
        f"### THOUGHT\nI look.\n### ACTION\n```debugger\n{BLOCK}\n```",
        f"### ACTION\n```\n{BLOCK}\n```\n### OBSERVATION\n```\nset_breakpoint(9)\n```",
        f"### THOUGHT\nThe code\n```python\nx = 1\n```\nis wrong.\n### ACTION\n```\n{BLOCK}\n```",
        f"### THOUGHT\nI look.\n### ACTION\n{BLOCK}",
        f"### Action:\n```python\n{BLOCK}",
        f"### ACTION\n{BLOCK}\nObservation: Paused at line 3",
        f"I look.\n```\n{BLOCK}\n```",
        f"## THOUGHT\nI look.\n## ACTIONS\n```\n{BLOCK}\n```\nThen I will see.",
    ],
)
def test_the_action_block_is_found(reply: str) -> None:
    assert action_block(reply) == BLOCK
    calls = FORM.calls(Message("assistant", reply), 4)
    assert [(call.id, call.name, json.loads(call.arguments)) for call in calls] == [
        ("action_4_0", "set_breakpoint", {"line": 3}),
        ("action_4_1", "control_execution", {"cmd": "continue"}),
    ]


def test_code_may_speak_of_observations() -> None:
    block = 'interact_code("""\nobservations = data[1:]\nprint(observations)\n""")'
    assert action_block(f"### ACTION\n```\n{block}\n```") == block


def test_a_plan_may_hold_a_block_of_code() -> None:
    block = (
        'propose_repair("""Add, between lines 17 and 18:\n```python\nelse:\n    x += 1\n```\n'
        'It was 0.""")'
    )
    assert action_block(f"### ACTION\n```\n{block}\n```") == block
    assert action_block(f"### ACTION\n```\n{block}\n```\n\n```\nanother\n```") == block


@pytest.mark.parametrize("reply", ["", "I would look at line 3.", "### THOUGHT\nHm.\n### ACTION\n"])
def test_a_reply_without_action_is_told_so(reply: str) -> None:
    with pytest.raises(UnreadableAction, match="no action"):
        action_block(reply)
    with pytest.raises(MalformedAction, match=r"(?s)no action.*### THOUGHT.*State: paused"):
        FORM.calls(Message("assistant", reply), 1)


def answered(name: str, arguments: dict[str, object], text: str, ok: bool = True) -> Answered:
    outcome = ToolOutcome.OK if ok else ToolOutcome.ERROR
    return Answered(ToolCall("c", name, json.dumps(arguments)), ToolReply(text, outcome), 0.5)


def test_one_observation_tells_of_all_calls_in_order() -> None:
    calls = [
        answered("set_breakpoint", {"line": 3}, "Breakpoints: 1"),
        answered("interact_code", {"code": 'print("a")'}, "NameError", ok=False),
    ]
    row = FORM.all_answered(calls, left_out=2, steps_left=1)
    assert row is not None
    assert row.message.role == "user"
    assert row.message.content == (
        "### OBSERVATION\n> set_breakpoint(3)\nBreakpoints: 1\n\n"
        '> interact_code("print(\\"a\\")")\nNameError\n\n'
        "(2 more actions were left out after this error.)\n\n"
        "You have 1 step left; propose a repair in it.\n\n"
        "## PDB Session State\nState: paused"
    )
    assert (row.tool_outcome, row.seconds) == (ToolOutcome.ERROR, 1.0)


def test_a_plain_terminal_is_typed_at_line_by_line() -> None:
    form = TerminalForm()
    reply = "### ACTION\n```\nb solution.py:3\nc\np x['a']\npropose_repair('Add one.')\n```"
    calls = form.calls(Message("assistant", reply), 1)
    assert [json.loads(call.arguments) for call in calls] == [
        {"command": "b solution.py:3"},
        {"command": "c"},
        {"command": "p x['a']"},
        {"plan": "Add one."},
    ]
    row = form.all_answered([Answered(calls[1], ToolReply("(Pdb) "), 0.1)], 0, 9)
    assert row is not None
    assert row.message.content == "### OBSERVATION\n> c\n(Pdb) "
