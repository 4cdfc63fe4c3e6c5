"""A Program Inspector's conversation, read in either of its native forms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from collect.agents.prompts import prompt
from collect.agents.repair.actions import ActionCall, UnreadableAction, parse_actions
from collect.agents.repair.inspector import TASK_MESSAGE, plan_of
from collect.agents.repair.inspector_tools import (
    STATE_HEADING,
    ControlArguments,
    InteractArguments,
    ProposeArguments,
    SetBreakpointArguments,
)
from collect.agents.repair.react import ACTION, action_block
from collect.agents.tools import Arguments
from collect.messages import Message
from collect.records import Conversation, MessageRow, StopReason
from format.inspection import (
    Conclusion,
    Inspection,
    Step,
    Turn,
    events_by_call,
    recorded_start,
    shown_opening,
)
from format.vocabulary import PROPOSE, Untranslatable

TEST = re.compile(r"^Failing test, (.+):$", re.MULTILINE)
THOUGHT = re.compile(r"^\s*#{1,6}[ \t]*THOUGHTS?[ \t]*:?[ \t]*$", re.MULTILINE | re.IGNORECASE)
ARGUMENTS: dict[str, type[Arguments]] = {
    "set_breakpoint": SetBreakpointArguments,
    "control_execution": ControlArguments,
    "interact_code": InteractArguments,
    PROPOSE: ProposeArguments,
}


def read_inspector(conversation: Conversation) -> Inspection:
    """What the Inspector of a recorded conversation did. Raises Untranslatable."""
    rows = conversation.messages
    if len(rows) < 3 or rows[TASK_MESSAGE].message.role != "user":
        raise Untranslatable("the conversation has no task, or no reply to it")
    context, _, state = rows[TASK_MESSAGE].message.content.rpartition(f"{STATE_HEADING}\n")
    test = TEST.search(context)
    if test is None:
        raise Untranslatable("the task names no failing test")
    start = recorded_start(conversation)
    turns, conclusion = _Reader(conversation).read()
    return Inspection(
        context=context.rstrip("\n"),
        test=test[1],
        opening=start.event if start else shown_opening(state, test[1]),
        opening_recorded=start is not None,
        turns=tuple(turns),
        conclusion=conclusion,
    ).checked()


class _Reader:
    """Reads the replies of one conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._rows = conversation.messages
        self._events = events_by_call(conversation)
        self._react = conversation.tools == "[]"

    def read(self) -> tuple[list[Turn], Conclusion]:
        turns: list[Turn] = []
        replies = [i for i, row in enumerate(self._rows) if row.message.role == "assistant"]
        for number, index in enumerate(replies, 1):
            row = self._rows[index]
            if self._is_forced(index):
                return turns, Conclusion("", plan_of(row.message.content), True, row)
            thought = self._thought(row.message)
            steps, plan = self._steps(index, number)
            if steps:
                turns.append(Turn(thought, tuple(steps), row))
            if plan is not None:
                alone = not steps
                paid = row if alone else MessageRow(Message("assistant"))
                return turns, Conclusion(thought if alone else "", plan, False, paid)
            if not steps:
                raise Untranslatable("a reply called for no action")
        raise Untranslatable("the conversation ends without a repair plan")

    def _is_forced(self, index: int) -> bool:
        """Whether a reply is the one that is asked for when the steps are used up."""
        last = index == len(self._rows) - 1
        limited = self._conversation.stop_reason is StopReason.STEP_LIMIT
        asked = self._rows[index - 1].message.content == prompt("inspectcoder/forced_plan")
        return last and limited and asked

    def _thought(self, message: Message) -> str:
        if not self._react:
            return message.content
        heading = ACTION.search(message.content)
        end = heading.start() if heading else message.content.find("```")
        return THOUGHT.sub("", message.content[: max(end, 0)], count=1).strip()

    def _steps(self, index: int, number: int) -> tuple[list[Step], str | None]:
        """The actions of a reply that were carried out, and the plan where it proposes one."""
        steps: list[Step] = []
        for call_id, action in self._calls(index, number):
            if action.name == PROPOSE:
                return steps, str(action.arguments["plan"])
            events = self._events.get((index, call_id))
            if events is None and self._react and steps and steps[-1].event.error_kind is not None:
                return steps, None  # what follows an error in a block is left out
            if events is None:
                raise Untranslatable(f"{action.name} was not carried out")
            steps.append(Step(call_id, events))
            if steps[-1].action != action:
                raise Untranslatable(f"{action.name} was carried out otherwise than it was called")
        return steps, None

    def _calls(self, index: int, number: int) -> Iterator[tuple[str, ActionCall]]:
        message = self._rows[index].message
        if not self._react:
            for call in message.tool_calls:
                yield call.id, _exact(ActionCall(call.name, _object(call.arguments)))
            return
        try:
            actions = parse_actions(action_block(message.content))
        except UnreadableAction as error:
            raise Untranslatable(f"a reply can't be read: {error}") from None
        for position, action in enumerate(actions):
            yield react_id(number, position), _exact(action)


def react_id(number: int, position: int) -> str:
    """What the loop calls an action of a block: of which reply, from 1, and the how manieth."""
    return f"action_{number}_{position}"


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Untranslatable(f"the arguments of a call are no JSON object: {text[:80]}")
    return value


def _exact(action: ActionCall) -> ActionCall:
    """The call as the tool understood it: `set_breakpoint("11")` is `set_breakpoint(11)`."""
    known = ARGUMENTS.get(action.name)
    try:
        given = known.model_validate(action.arguments).model_dump() if known else None
    except ValueError:
        given = None
    if given is None:
        raise Untranslatable(f"{action.name} with {action.json[:80]} is no action")
    return ActionCall(action.name, given)
