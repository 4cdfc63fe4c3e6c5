"""What a Debug Subagent's conversation says, where a Program Inspector could have done it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from pydantic import ValidationError

from collect.agents.debug2fix import answer_prompt
from collect.agents.debug_tools import LINE_LOCATION, DefaultStartArguments
from collect.agents.inspectcoder.react import ActionCall
from collect.agents.subagent_task import OPEN, parse_answer
from collect.store.messages import ToolCall
from collect.store.records import Conversation, StopReason
from format.translation import (
    QUESTION,
    RESTARTED,
    START_SESSION,
    TRANSLATED,
    Conclusion,
    Inspection,
    Step,
    Turn,
    Untranslatable,
    events_by_call,
    recorded_start,
)
from sandbox.debugger import DebugEvent

TASK = re.compile(r"Question: (?P<question>.*)\nTest: (?P<test>[^\n]+)(?:\n.*)?", re.DOTALL)


def read_subagent(conversation: Conversation) -> Inspection:
    """What the Debug Subagent of a conversation did. Raises Untranslatable."""
    rows = conversation.messages
    task = TASK.fullmatch(rows[1].message.content) if len(rows) > 1 else None
    if task is None:
        raise Untranslatable("the task has no question and test")
    start = recorded_start(conversation)
    if start is None:
        raise Untranslatable("no session is started")
    return Inspection(
        context=task["question"].removeprefix(f"{QUESTION}\n\n"),
        test=task["test"],
        opening=start.event,
        turns=_turns(conversation, task["test"]),
        conclusion=_conclusion(conversation),
    ).checked()


def _turns(conversation: Conversation, test: str) -> tuple[Turn, ...]:
    """The replies with calls, but for the start of the session."""
    turns = []
    for index, found in groupby(_steps(conversation, test), lambda step: step[0]):
        row = conversation.messages[index]
        steps = tuple(step for _, step in found)
        turns.append(Turn(row.message.content, steps, row))
    return tuple(turns)


def _steps(conversation: Conversation, test: str) -> list[tuple[int, Step]]:
    """Every step, and the index of its message."""
    events = events_by_call(conversation)
    steps: list[tuple[int, Step]] = []
    for number, (index, call) in enumerate(_calls(conversation)):
        caused = events.get((index, call.id), ())
        if number == 0:
            _check_start(call, test)
        elif steps and caused and call.id == f"{steps[-1][1].call_id}{RESTARTED}":
            before, ended = steps[-1]
            steps[-1] = before, replace(ended, events=(*ended.events, *caused))
        else:
            steps.append((index, _step(call, caused)))
    return steps


def _calls(conversation: Conversation) -> list[tuple[int, ToolCall]]:
    rows = enumerate(conversation.messages)
    return [(index, call) for index, row in rows for call in row.message.tool_calls]


def _check_start(call: ToolCall, test: str) -> None:
    """The Inspector's session is started first, once, without breakpoints, at the task's test."""
    try:
        launch = DefaultStartArguments.model_validate_json(call.arguments)
    except ValidationError:
        launch = None
    expected = DefaultStartArguments(test=test)
    if call.name != START_SESSION or launch != expected:
        raise Untranslatable(
            "the first call does not start a session as the Inspector's is started"
        )


def _step(call: ToolCall, events: tuple[DebugEvent, ...]) -> Step:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = None
    if not events or not isinstance(arguments, dict):
        raise Untranslatable(f"{call.name} was not carried out, or is not the debugger's")
    step = Step(call.id, events)
    if inspector_call(call.name, arguments) != step.action:
        raise Untranslatable(f"{call.name} was carried out otherwise than it was called")
    return step


def _conclusion(conversation: Conversation) -> Conclusion:
    """The last reply."""
    *_, before, row = conversation.messages
    answer = conversation.answer or parse_answer(row.message.content)
    if answer is None or row.message.role != "assistant" or row.message.tool_calls:
        raise Untranslatable("the conversation ends without a <debug_answer>")
    thought = OPEN.split(row.message.content)[0].rstrip("\n")
    asked = before.message.content == answer_prompt("forced_answer", TRANSLATED)
    forced = asked and conversation.stop_reason is StopReason.STEP_LIMIT
    return Conclusion(thought, answer.answer, forced, row)


def inspector_call(name: str, arguments: Mapping[str, Any]) -> ActionCall:
    """The action that does what a call of a debug tool did. Raises Untranslatable."""
    given = {key: value for key, value in arguments.items() if value is not None}
    match name, given:
        case "debug_breakpoint", {"action": "set", "location": str(place), "temporary": True}:
            line = LINE_LOCATION.match(place.strip())
            if line is not None and len(given) == 3:
                return ActionCall("set_breakpoint", {"line": int(line["line"])})
        case "debug_control", {"action": "continue" | "restart" as command}:
            return ActionCall("control_execution", {"cmd": command})
        case "debug_run_code", {"code": str(code)} if not given.get("frame"):
            return ActionCall("interact_code", {"code": code})
    raise Untranslatable(f"the Program Inspector has no action for {name} with {dict(arguments)}")
