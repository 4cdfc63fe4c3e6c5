"""A Program Inspector's work, written in either of its native forms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from collect.agents.config import RepairConfig
from collect.agents.debug_tools import reply
from collect.agents.inspectcoder.ablations import Ablation
from collect.agents.inspectcoder.inspector import inspector_prompt
from collect.agents.inspectcoder.inspector_tools import (
    RAN_OUT,
    STARTED_AGAIN,
    ControlExecution,
    InspectorSession,
    InteractCode,
    ProposeArguments,
    ProposeRepair,
    SetBreakpoint,
)
from collect.agents.inspectcoder.react import (
    STATE_HEADING,
    ActionCall,
    ReactForm,
    UnreadableAction,
    action_block,
    call_text,
    parse_actions,
)
from collect.agents.prompts import prompt
from collect.agents.tools import Answered, Toolbox, ToolReply
from collect.store.messages import ToolCall
from collect.store.records import SESSION_START, TASK_MESSAGE, Conversation
from format.translation import (
    PROPOSE,
    Conclusion,
    Draft,
    Inspection,
    Step,
    Turn,
    Untranslatable,
    react_id,
)
from sandbox.debugger import Action, Debugger
from sandbox.debugger.rendering import render
from tests.format.round_trip.session_view import SessionView

Form = Literal["react", "tools"]
CONFIG = RepairConfig()
SESSION = InspectorSession(cast(Debugger, None), "", "", CONFIG)


@dataclass(frozen=True)
class Seen:
    """A step, and what the Inspector is told of it."""

    step: Step
    reply: ToolReply
    state: str
    """The session's, after it."""


def write_inspector(inspection: Inspection, conversation: Conversation, form: Form) -> Conversation:
    """The conversation as an Inspector of this form would have held it. Raises Untranslatable.

    Of the session's state it shows what the events tell: the innermost frame alone.
    """
    draft, by_tools = Draft(), form == "tools"
    view = SessionView(inspection.opening)
    draft.say("system", _system_prompt(conversation, by_tools))
    draft.say("user", f"{inspection.context}\n\n{STATE_HEADING}\n{view.text}")
    draft.note(TASK_MESSAGE, SESSION_START, [inspection.opening])
    for number, turn in enumerate(inspection.turns, 1):
        seen = [_seen(step, view, inspection) for step in turn.steps]
        (_write_tools if by_tools else _write_react)(draft, turn, number, seen)
    (_conclude_tools if by_tools else _conclude_react)(draft, inspection.conclusion)
    return replace(
        conversation,
        messages=tuple(draft.rows),
        events=tuple(draft.events),
        tools=_schemas() if by_tools else "[]",
        final_answer=inspection.conclusion.plan,
        answer=None,
    )


def _system_prompt(conversation: Conversation, by_tools: bool) -> str:
    # Only the raw terminal's prompt names the solution's file, and no terminal is read.
    ablation, steps = Ablation(conversation.variant), CONFIG.max_reasoning_steps
    return inspector_prompt(ablation, by_tools, steps, solution="")


def _seen(step: Step, view: SessionView, inspection: Inspection) -> Seen:
    for event in step.events:
        view.follow(event)
    answer = reply(step.event)
    if step.ends_session:
        again = step.events[-1] if len(step.events) > 1 else inspection.opening
        view.follow(again)
        ran_out = step.event.exit_code == 0 and step.event.error is None
        ended = RAN_OUT if ran_out else STARTED_AGAIN
        told = ended if again.error_kind is None else render(again)
        answer = replace(answer, text=f"{answer.text}\n{told}")
    return Seen(step, SESSION.cut(answer), view.text)


def _write_tools(draft: Draft, turn: Turn, number: int, seen: Sequence[Seen]) -> None:
    calls = [ToolCall(s.step.call_id, s.step.action.name, s.step.action.json) for s in seen]
    draft.reply(turn.reply, turn.thought, calls)
    index = draft.last_index
    for each, call in zip(seen, calls, strict=True):
        told = each.reply
        if each is seen[-1] and any(s.step.event.action is not Action.RUN_CODE for s in seen):
            told = replace(told, text=f"{told.text}\n\n{STATE_HEADING}\n{each.state}")
        draft.answer(call, told)
        draft.note(index, call.id, each.step.events)


def _write_react(draft: Draft, turn: Turn, number: int, seen: Sequence[Seen]) -> None:
    actions = [each.step.action for each in seen]
    draft.reply(turn.reply, _react_text(turn.thought, actions))
    answered = []
    for position, each in enumerate(seen):
        call = ToolCall(react_id(number, position), each.step.action.name, each.step.action.json)
        draft.note(draft.last_index, call.id, each.step.events)
        answered.append(Answered(call, each.reply, 0.0))
    form = ReactForm(lambda: seen[-1].state)
    row = form.all_answered(answered, 0, CONFIG.max_reasoning_steps - number)
    if row is not None:
        draft.rows.append(row)


def _conclude_tools(draft: Draft, conclusion: Conclusion) -> None:
    if conclusion.forced:
        return _conclude_forced(draft, conclusion)
    action = ActionCall(PROPOSE, {"plan": conclusion.plan})
    call = ToolCall(f"call_{PROPOSE}", action.name, action.json)
    draft.reply(conclusion.reply, conclusion.thought, [call])
    draft.answer(call, ProposeRepair().call(ProposeArguments(plan=conclusion.plan), call.id))


def _conclude_react(draft: Draft, conclusion: Conclusion) -> None:
    if conclusion.forced:
        return _conclude_forced(draft, conclusion)
    action = ActionCall(PROPOSE, {"plan": conclusion.plan})
    draft.reply(conclusion.reply, _react_text(conclusion.thought, [action]))


def _conclude_forced(draft: Draft, conclusion: Conclusion) -> None:
    draft.say("user", prompt("inspectcoder/forced_plan"))
    draft.reply(conclusion.reply, conclusion.plan)


def _react_text(thought: str, actions: Sequence[ActionCall]) -> str:
    """A reply that the parser reads these actions out of."""
    for write in (call_text, _escaped):
        calls = "\n".join(map(write, actions))
        text = f"### THOUGHT\n{thought}\n### ACTION\n```debugger\n{calls}\n```"
        try:
            if parse_actions(action_block(text)) == list(actions):
                return text
        except UnreadableAction:
            continue
    raise Untranslatable("an action can't be written down so that it is read as it was")


def _escaped(action: ActionCall) -> str:
    """The call on one line, in plain characters: a fence in it, or an odd end of line, is none."""
    return f"{action.name}({', '.join(map(ascii, action.arguments.values()))})"


def _schemas() -> str:
    """A Program Inspector's tools as JSON."""
    kinds = (SetBreakpoint, ControlExecution, InteractCode)
    return json.dumps(Toolbox([*(kind(SESSION) for kind in kinds), ProposeRepair()]).schemas())
