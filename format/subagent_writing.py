"""A Program Inspector's work, written as a Debug Subagent's conversation."""

from __future__ import annotations

import json
from dataclasses import replace

from collect.agents.debug2fix import subagent_prompt
from collect.agents.debug_tools import reply
from collect.agents.prompts import prompt
from collect.agents.subagent_task import DebugSubagentArguments, subagent_task
from collect.agents.wording import wording
from collect.messages import Message, ToolCall
from collect.records import SESSION_START, Conversation, DebugAnswer, MessageRow
from format.draft import Draft
from format.findings import QUESTION, answer_text, debug_answer
from format.inspection import Inspection, Step, Turn, arguments_of
from format.schemas import LANGUAGE, subagent_schemas
from format.vocabulary import START_SESSION, debug_call
from sandbox.debugger import DebugEvent

RESTARTED = "_restart"
"""What the id of a restart that the Inspector did not ask for ends in, after that of the call by
which the test has ended."""


def write_subagent(inspection: Inspection, conversation: Conversation) -> Conversation:
    """The conversation as a Debug Subagent with `debug_run_code` would have held it, word for word
    what its tools answer. Raises Untranslatable."""
    answer, draft = debug_answer(inspection), Draft()
    draft.say("system", subagent_prompt(wording(LANGUAGE).values(), run_code=True))
    question = f"{QUESTION}\n\n{inspection.context}"
    draft.say(
        "user", subagent_task(DebugSubagentArguments(question=question, test=inspection.test))
    )
    _start(draft, inspection)
    unasked: Step | None = None
    for turn in inspection.turns:
        unasked = _write_turn(draft, turn, unasked)
    if unasked is not None:
        last = draft.events[-1]
        draft.note(last.message_index, last.tool_call_id, unasked.events[1:])
    text = _conclude(draft, inspection, answer)
    return replace(
        conversation,
        messages=tuple(draft.rows),
        events=tuple(draft.events),
        tools=subagent_schemas(),
        final_answer=text,
        answer=answer,
    )


def _start(draft: Draft, inspection: Inspection) -> None:
    arguments = {"test": inspection.test, "stop_at_test": True}
    call = ToolCall(SESSION_START, START_SESSION, json.dumps(arguments))
    draft.reply(MessageRow(Message("assistant")), "", [call])
    index = draft.last_index
    draft.answer(call, reply(inspection.opening))
    if inspection.opening_recorded:
        draft.note(index, SESSION_START, [inspection.opening])


def _write_turn(draft: Draft, turn: Turn, unasked: Step | None) -> Step | None:
    """Add a turn, before it the restart that a step of an earlier one has led to. Returns the
    turn's last step, where that has led to one."""
    calls: list[tuple[ToolCall, DebugEvent]] = []
    for step in turn.steps:
        if unasked is not None:
            calls.append(_restart(unasked))
        calls.append((_call(step), step.event))
        unasked = step if len(step.events) > 1 else None
    draft.reply(turn.reply, turn.thought, [call for call, _ in calls])
    index = draft.last_index
    for call, event in calls:
        draft.answer(call, reply(event))
        draft.note(index, call.id, [event])
    return unasked


def _call(step: Step) -> ToolCall:
    file = str(arguments_of(step.event).get("file", ""))
    name, arguments = debug_call(step.action, file)
    return ToolCall(step.call_id, name, json.dumps(arguments))


def _restart(step: Step) -> tuple[ToolCall, DebugEvent]:
    arguments = json.dumps({"action": "restart"})
    return ToolCall(f"{step.call_id}{RESTARTED}", "debug_control", arguments), step.events[1]


def _conclude(draft: Draft, inspection: Inspection, answer: DebugAnswer) -> str:
    """Add the final answer, and the demand for it. Returns its text."""
    conclusion = inspection.conclusion
    if conclusion.forced:
        draft.say("user", prompt("subagent_forced_answer"))
    text = f"{conclusion.thought}\n\n{answer_text(answer)}".lstrip("\n")
    draft.reply(conclusion.reply, text)
    return text
