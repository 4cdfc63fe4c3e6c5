"""Rows of Program Inspectors: real sessions in both vocabularies, and what the filters keep."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset

from collect.agents.config import AgentsConfig, RepairConfig
from collect.agents.debug2fix import subagent_toolbox
from collect.agents.inspectcoder.react import ActionCall, call_text
from collect.agents.rollout_context import RoleModel
from collect.agents.tools import Answered
from collect.models.base import Sampling
from collect.rollouts.rollout import RolloutSettings, RolloutSpec, run_rollout
from collect.rollouts.rows import RunIdentity, rows_of
from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation, Role, Rollout, StopReason
from format.config import FormatConfig, Vocabulary
from format.stage import run_format
from format.translation import MAPPING, TRANSLATED, Untranslatable, to_debug2fix
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import DebugEvent, DebugLimits, open_debugger
from tests.format.conversations import make_rollouts, write_run
from tests.format.inspections import (
    ENDED,
    PLAN,
    RESTARTED,
    breakpoint_at,
    conversation_of,
    inspection_of,
    ran,
    stop_at,
)
from tests.format.round_trip.back import to_inspector
from tests.format.round_trip.inspector_writing import Form, write_inspector
from tests.records import make_rollout
from tests.repair_bug import BUG, CORRECT, FAULT_LINE, FILES, RepairBugs
from tests.scripted_model import ScriptedBackend

forms = pytest.mark.parametrize("form", ["react", pytest.param("tools", marks=pytest.mark.slow)])
ALL_TRAIN = FormatConfig(test_fraction=0, max_similarity=None)


def at(line: int) -> ActionCall:
    return ActionCall("set_breakpoint", {"line": line})


def control(command: str) -> ActionCall:
    return ActionCall("control_execution", {"cmd": command})


def code(text: str) -> ActionCall:
    return ActionCall("interact_code", {"code": text})


SCRIPT = (
    (at(FAULT_LINE), control("continue"), code("print(word, count)\nprint(best)")),
    (at(10_000),),
    (code('best = \'"""\''), code("print(best, flush=True)"), code("1 / 0")),
    (control("restart"), control("continue")),
    (ActionCall("propose_repair", {"plan": "Compare with > instead of >=."}),),
)
"""A stop in the program, an error, a change, a restart, and the test's end by an exception."""


def reply(number: int, actions: Sequence[ActionCall], form: Form) -> Message:
    if form == "tools":
        calls = [ToolCall(f"c{number}_{i}", a.name, a.json) for i, a in enumerate(actions)]
        return Message("assistant", "I look.", tool_calls=tuple(calls))
    block = "\n".join(map(call_text, actions))
    return Message("assistant", f"### THOUGHT\nI look.\n### ACTION\n```debugger\n{block}\n```")


def scripted(form: Form) -> ScriptedBackend:
    inspector = [reply(number, actions, form) for number, actions in enumerate(SCRIPT)]
    patch = Message("assistant", f"```python\n{CORRECT}```")
    return ScriptedBackend("m", {"inspector": inspector, "patch_coder": [patch]})


@cache
def rolled_out(form: Form) -> tuple[Rollout, tuple[Conversation, ...]]:
    """The script's rollout, over real sessions and test runs."""
    agents = AgentsConfig(repair=RepairConfig(inspector_form=form))
    role_model = RoleModel(scripted(form), Sampling())
    settings = RolloutSettings(
        RepairBugs(), SandboxConfig(), agents, {"m": role_model}, threading.Event()
    )
    spec = RolloutSpec(BUG, "inspectcoder", "m", "m", 0)
    trace = run_rollout(spec, settings)
    rollout, conversations = rows_of(spec, trace, settings, RunIdentity("run", 0), "hash")
    return rollout, tuple(conversations)


def observations_of(messages: Sequence[Message]) -> Iterator[str]:
    """What Debug2Fix's tools really answer to the messages' calls, on the same bug."""
    with open_sandbox(SandboxConfig()) as sandbox:
        sandbox.write_files(FILES)
        with closing(open_debugger("python", sandbox, DebugLimits())) as debugger:
            toolbox = subagent_toolbox(debugger, sandbox, TRANSLATED, {})
            for message in messages:
                answered: list[Answered] = []
                for call in message.tool_calls:
                    reply = toolbox.call_after(answered, call)
                    answered.append(Answered(call, reply, 0.0))
                    yield reply.text


@forms
def test_rows_say_what_the_tools_answer(form: Form) -> None:
    inspector = next(each for each in rolled_out(form)[1] if each.role is Role.INSPECTOR)
    translated = to_debug2fix(inspector)
    messages = [row.message for row in translated.messages]
    assert "propose a change of the program only if the question asks for it" in messages[0].content
    assert "what change to the program fixes it?" in messages[1].content
    calls = [call for message in messages for call in message.tool_calls]
    assert [call.name for call in calls] == [
        "debug_start_session",
        *("debug_breakpoint", "debug_control", "debug_run_code", "debug_breakpoint"),
        *["debug_run_code"] * 3,
        *["debug_control"] * 2,
    ]
    told = [message.content for message in messages if message.role == "tool"]
    assert told == [*observations_of(messages)]
    assert translated.answer is not None
    assert translated.answer.answer == "Compare with > instead of >=."
    assert "printed `a 2 None`" in translated.answer.evidence
    assert "`AssertionError: " in translated.answer.evidence
    assert translated.answer.location == f"solution.py:{FAULT_LINE}"
    assert to_inspector(translated, form).events == inspector.events


@forms
@pytest.mark.parametrize("vocabulary", Vocabulary)
def test_a_run_becomes_rows_in_either_vocabulary(
    vocabulary: Vocabulary, form: Form, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run", [rolled_out(form)])
    run_format(FormatConfig(test_fraction=0, vocabulary=vocabulary), run)
    (row,) = load_dataset(str(run / "sft"), cache_dir=str(tmp_path / "cache"))["train"]
    names = [tool["function"]["name"] for tool in row["tools"]]
    if vocabulary is Vocabulary.DEBUG2FIX:
        assert "debug_run_code" in names
        assert row["messages"][-1]["content"].endswith("</debug_answer>")
    else:
        actions = ["set_breakpoint", "control_execution", "interact_code", "propose_repair"]
        assert names == (actions if form == "tools" else [])
    assert row["role"] == "inspector"
    assert row["system"] == ("inspectcoder+tools" if form == "tools" else "inspectcoder")
    card = (run / "sft" / "README.md").read_text()
    assert MAPPING in card
    assert f"  vocabulary: {vocabulary}\n" in card


SEEN = (breakpoint_at(2), stop_at(2)), (ran("print('x =', x)", output="x = 3\n"),)


def inspected(name: str, *turns: tuple[DebugEvent, ...]) -> tuple[Rollout, Conversation]:
    rollout = make_rollout(f"{name}-1", variant="inspectcoder", patch_attempts=1)
    inspection = inspection_of(*turns)
    template = replace(conversation_of(inspection), conversation_id=f"{rollout.rollout_id}-1")
    template = replace(template, rollout_id=rollout.rollout_id, repository=name)
    return rollout, write_inspector(inspection, template, "react")


def in_round(number: int) -> tuple[Rollout, Conversation]:
    rollout, conversation = inspected("earlier", *SEEN)
    return replace(rollout, patch_attempts=2), replace(conversation, patch_attempt=number)


def unfinished() -> tuple[Rollout, Conversation]:
    rollout, conversation = inspected("unfinished", *SEEN)
    return rollout, replace(conversation, final_answer="", stop_reason=StopReason.FAILURE)


BAD = {
    "resolved": in_round(1),
    "stopped": inspected("outside", (ran("print(1)", output="1\n"),)),
    "inspected": inspected("blind", SEEN[0]),
    "answered": unfinished(),
    "translatable": inspected("restarted", *SEEN, (ENDED,), (ran("print(2)"),)),
}
GOOD = [
    inspected("plain", *SEEN),
    inspected("ended", *SEEN, (ENDED,)),
    inspected("recorded", *SEEN, (ENDED, RESTARTED), (ran("print(1)"),)),
]


def test_filters_know_what_an_inspector_is_for(tmp_path: Path) -> None:
    rows = [(rollout, (conversation,)) for rollout, conversation in [*BAD.values(), *GOOD]]
    run = write_run(tmp_path / "run", [*rows, *make_rollouts(1)])
    funnel = run_format(ALL_TRAIN, run).funnel
    expected = dict.fromkeys(BAD, 1) | {"role": 1}
    assert {step.name: step.dropped for step in funnel.steps if step.dropped} == expected
    assert funnel.kept == len(GOOD) + 1
    config = ALL_TRAIN.model_copy(update={"vocabulary": Vocabulary.NATIVE})
    assert run_format(config, run).funnel.kept == len(GOOD) + 2


def test_a_test_begun_again_is_restarted_before_the_next_call() -> None:
    _, conversation = GOOD[2]
    translated = to_debug2fix(conversation)
    *_, before, last, answer = [r.message for r in translated.messages if r.message.role != "tool"]
    assert [json.loads(call.arguments) for call in before.tool_calls] == [{"action": "continue"}]
    assert [call.name for call in last.tool_calls] == ["debug_control", "debug_run_code"]
    assert f"**Answer**: {PLAN}\n" in answer.content
    assert to_inspector(translated).events == conversation.events


STARTED, *LATER = GOOD[0][1].events
ALL_ENDED = (STARTED, *(replace(row, event=ENDED) for row in LATER))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"messages": ()}, "no task"),
        ({"messages": GOOD[0][1].messages[:-1]}, "without a repair plan"),
        ({"events": ()}, "no session was started"),
        ({"events": (STARTED,)}, "not carried out"),
        ({"events": ALL_ENDED}, "carried out otherwise than it was called"),
        ({"tools": "[1]"}, "called for no action"),
    ],
)
def test_broken_conversations_are_refused_by_name(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Untranslatable, match=reason):
        to_debug2fix(replace(GOOD[0][1], **changes))
