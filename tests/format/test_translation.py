"""Program Inspectors' conversations in Debug2Fix's vocabulary, and back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from collect.agents.inspectcoder.react import ActionCall
from collect.agents.subagent_task import parse_answer
from collect.store.records import Conversation
from format.translation import (
    MAX_FINDINGS,
    Inspection,
    Untranslatable,
    debug_call,
    read_inspector,
    to_debug2fix,
)
from sandbox.debugger.rendering import render
from tests.format.inspections import codes, conversation_of, inspections
from tests.format.round_trip.back import to_inspector
from tests.format.round_trip.inspector_writing import Form, write_inspector
from tests.format.round_trip.subagent_reading import inspector_call

FORMS: tuple[Form, ...] = ("react", "tools")
actions = st.one_of(
    st.builds(lambda line: ActionCall("set_breakpoint", {"line": line}), st.integers(1, 10**9 - 1)),
    st.builds(
        lambda cmd: ActionCall("control_execution", {"cmd": cmd}),
        st.sampled_from(["continue", "restart"]),
    ),
    st.builds(lambda code: ActionCall("interact_code", {"code": code}), codes),
)


PLACE = re.compile(r"\AAt \S+:\d+ in \S+:\n")
"""What precedes an inspection behind a run in the same message."""


def calls(conversation: Conversation) -> list[ActionCall]:
    inspection = read_inspector(conversation)
    return [step.action for step in inspection.steps]


@given(actions, st.sampled_from(["solution.py", "src/a b.py", "a:1.py"]))
def test_every_action_has_a_call_and_comes_back(action: ActionCall, file: str) -> None:
    name, arguments = debug_call(action, file)
    assert inspector_call(name, arguments) == action
    assert file in arguments.get("location", file)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("debug_control", {"action": "step_over"}),
        ("debug_breakpoint", {"action": "set", "location": "solution.py:3"}),
        ("debug_breakpoint", {"action": "set", "location": "f", "temporary": True}),
        (
            "debug_breakpoint",
            {"action": "set", "location": "a.py:3", "temporary": True, "condition": "x"},
        ),
        ("debug_run_code", {"code": "x", "frame": 1}),
        ("debug_inspect", {"what": "evaluate", "expression": "x"}),
        ("read_file", {"path": "solution.py"}),
    ],
)
def test_what_an_inspector_has_no_action_for_is_refused(
    name: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(Untranslatable, match=name):
        inspector_call(name, arguments)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25)
@given(data=st.data())
def test_calls_and_events_round_trip_in_both_forms(form: Form, data: st.DataObject) -> None:
    inspection = data.draw(inspections(by_tools=form == "tools"))
    native = write_inspector(inspection, conversation_of(inspection), form)
    try:
        translated = to_debug2fix(native)
    except Untranslatable as error:
        if "ran on behind an error in the same message" not in str(error):
            raise
        reject()
    back = to_inspector(translated, form)
    assert calls(back) == calls(native) == [step.action for step in inspection.steps]
    assert back.events == native.events
    assert back.final_answer == inspection.conclusion.plan
    assert back == native
    assert to_debug2fix(back) == translated
    assert_grounded(translated, inspection)


def assert_grounded(translated: Conversation, inspection: Inspection) -> None:
    """Every observation is what the tools say of the recorded event, and the answer is one."""
    events = {row.tool_call_id: row.event for row in reversed(translated.events)}
    for row in translated.messages:
        message = row.message
        if message.role == "tool" and message.tool_call_id in events:
            told = PLACE.sub("", message.content)
            assert told == render(events[message.tool_call_id])
    answer = parse_answer(translated.final_answer)
    assert answer is not None
    assert translated.answer is not None
    assert translated.answer.answer == inspection.conclusion.plan
    assert answer.location == translated.answer.location
    assert answer.evidence.count("\n") < MAX_FINDINGS
    assert [row.event for row in translated.events] == list(inspection.events)
