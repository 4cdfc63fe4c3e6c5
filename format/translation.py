"""Program Inspectors' conversations, translated to Debug2Fix's vocabulary.

`MAPPING` is the table. A `print(x)` does not become `debug_inspect`, which shows `repr(x)` and its
type: a print has neither. `debug_run_code` is the fifth debug tool (`agents.debug_run_code`).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import answer_prompt, subagent_prompt, subagent_schemas
from collect.agents.debug_tools import DebugCallsTogether, ShownSource
from collect.agents.inspectcoder.inspector import plan_of
from collect.agents.inspectcoder.inspector_tools import (
    ControlArguments,
    InteractArguments,
    ProposeArguments,
    SetBreakpointArguments,
)
from collect.agents.inspectcoder.react import (
    ACTION,
    STATE_HEADING,
    ActionCall,
    UnreadableAction,
    action_block,
    parse_actions,
)
from collect.agents.prompts import prompt, wording
from collect.agents.subagent_task import (
    CLOSE,
    LABEL,
    OPEN,
    DebugSubagentArguments,
    parse_answer,
    subagent_task,
)
from collect.agents.tools import Answered, Arguments, ToolReply
from collect.benchmarks.self_repair.benchmark import TEST_PATHS
from collect.store.messages import Message, ToolCall
from collect.store.messages import Role as MessageRole
from collect.store.records import (
    SESSION_START,
    TASK_MESSAGE,
    Conversation,
    DebugAnswer,
    EventRow,
    MessageRow,
    StopReason,
)
from sandbox.debugger import Action, DebugEvent, ErrorKind, State

MAPPING = """\
| InspectCoder's Program Inspector | Debug2Fix's Debug Subagent |
| --- | --- |
| the session that is open beforehand | `debug_start_session{test, stop_at_test: true}` |
| `set_breakpoint(line)` | `debug_breakpoint{action: set, location: FILE:LINE, temporary: true}` |
| `control_execution("continue")` | `debug_control{action: continue}` |
| `control_execution("restart")` | `debug_control{action: restart}` |
| a test that has ended is begun again | `debug_control{action: restart}`, before the next call |
| `interact_code(code)` | `debug_run_code{code}` |
| `propose_repair(plan)` | the final `<debug_answer>`, its answer the plan |"""

START_SESSION = "debug_start_session"
PROPOSE = "propose_repair"
ARGUMENTS: dict[str, type[Arguments]] = {
    "set_breakpoint": SetBreakpointArguments,
    "control_execution": ControlArguments,
    "interact_code": InteractArguments,
    PROPOSE: ProposeArguments,
}
TEST = re.compile(r"^Failing test, (.+):$", re.MULTILINE)
THOUGHT = re.compile(r"^[ \t]*#{1,6}[ \t]*THOUGHTS?[ \t]*+:?[ \t]*+$", re.MULTILINE | re.IGNORECASE)


class Untranslatable(Exception):
    """The other vocabulary can't express a conversation; the message says why."""


# What a Program Inspector did, independent of vocabulary.


@dataclass(frozen=True)
class Step:
    call_id: str
    events: tuple[DebugEvent, ...]
    """The action's own event, and the session's restart if the action ended it."""

    @property
    def event(self) -> DebugEvent:
        return self.events[0]

    @property
    def action(self) -> ActionCall:
        """The call that caused the event. Raises Untranslatable."""
        arguments = arguments_of(self.event)
        match self.event.action, arguments:
            case Action.SET_BREAKPOINT, {"file": str(), "line": int(line), "temporary": True}:
                if len(arguments) == 3:
                    return ActionCall("set_breakpoint", {"line": line})
            case ((Action.CONTINUE | Action.RESTART), _):
                return ActionCall("control_execution", {"cmd": str(self.event.action)})
            case Action.RUN_CODE, {"code": str(code), "frame": 0}:
                return ActionCall("interact_code", {"code": code})
        raise Untranslatable(f"no action of the Program Inspector causes {self.event.action}")

    @property
    def ends_session(self) -> bool:
        """Whether the Inspector's session restarts after it."""
        done = self.event.state is State.DONE and self.event.action is not Action.RESTART
        refused = self.event.error_kind is ErrorKind.NOT_ALLOWED
        return done and not (refused and self.event.action is Action.RUN_CODE)


@dataclass(frozen=True)
class Turn:
    """A reply and the actions that it caused, at least one."""

    thought: str
    steps: tuple[Step, ...]
    reply: MessageRow
    """The original message, for its costs."""


@dataclass(frozen=True)
class Conclusion:
    thought: str
    plan: str
    forced: bool
    """Whether it was requested because the steps were used up."""
    reply: MessageRow


@dataclass(frozen=True)
class Inspection:
    context: str
    """The task in the prompt, without the session's state."""
    test: str
    opening: DebugEvent
    """The start of the session."""
    turns: tuple[Turn, ...]
    conclusion: Conclusion

    @property
    def steps(self) -> Iterator[Step]:
        return (step for turn in self.turns for step in turn.steps)

    @property
    def events(self) -> Iterator[DebugEvent]:
        yield self.opening
        yield from (event for step in self.steps for event in step.events)

    def checked(self) -> Inspection:
        """Returns itself if it has every restart that a later step needs. Raises Untranslatable."""
        for step, following in itertools.pairwise(self.steps):
            going_on = following.event.action is not Action.RESTART
            if going_on and step.ends_session and len(step.events) == 1:
                raise Untranslatable(
                    "the test ended and was begun again, which no event of the conversation tells"
                )
        return self


def arguments_of(event: DebugEvent) -> dict[str, Any]:
    arguments: dict[str, Any] = json.loads(event.arguments)
    return arguments


def events_by_call(conversation: Conversation) -> dict[tuple[int, str], tuple[DebugEvent, ...]]:
    found: dict[tuple[int, str], tuple[DebugEvent, ...]] = {}
    for row in conversation.events:
        key = row.message_index, row.tool_call_id
        found[key] = (*found.get(key, ()), row.event)
    return found


def recorded_start(conversation: Conversation) -> EventRow | None:
    return next((row for row in conversation.events if row.event.action is Action.START), None)


# Read a Program Inspector's conversation in either native format.


def read_inspector(conversation: Conversation) -> Inspection:
    """The Inspector's actions in a recorded conversation. Raises Untranslatable."""
    rows = conversation.messages
    if len(rows) < 3 or rows[TASK_MESSAGE].message.role != "user":
        raise Untranslatable("the conversation has no task, or no reply to it")
    context, _, _ = rows[TASK_MESSAGE].message.content.rpartition(f"{STATE_HEADING}\n")
    test = TEST.search(context)
    if test is None:
        raise Untranslatable("the task names no failing test")
    start = recorded_start(conversation)
    if start is None:
        raise Untranslatable("no session was started")
    turns, conclusion = _read_replies(conversation)
    context = context.rstrip("\n")
    return Inspection(context, test[1], start.event, tuple(turns), conclusion).checked()


def _read_replies(conversation: Conversation) -> tuple[list[Turn], Conclusion]:
    rows, react = conversation.messages, conversation.tools == "[]"
    events = events_by_call(conversation)
    turns: list[Turn] = []
    replies = [i for i, row in enumerate(rows) if row.message.role == "assistant"]
    for number, index in enumerate(replies, 1):
        row, text = rows[index], rows[index].message.said
        limited = conversation.stop_reason is StopReason.STEP_LIMIT and index == len(rows) - 1
        if limited and rows[index - 1].message.content == prompt("inspectcoder/forced_plan"):
            return turns, Conclusion("", plan_of(text), True, row)
        thought = text
        if react:
            heading = ACTION.search(text)
            end = heading.start() if heading else text.find("```")
            thought = THOUGHT.sub("", text[: max(end, 0)], count=1).strip()
        steps: list[Step] = []
        for call_id, action in _calls(row.message, number, react):
            if action.name == PROPOSE:
                plan = str(action.arguments["plan"])
                if not steps:
                    return turns, Conclusion(thought, plan, False, row)
                turns.append(Turn(thought, tuple(steps), row))
                return turns, Conclusion("", plan, False, MessageRow(Message("assistant")))
            caused = events.get((index, call_id))
            if caused is None and react and steps and steps[-1].event.error_kind is not None:
                break  # what follows an error in a block is left out
            if caused is None:
                raise Untranslatable(f"{action.name} was not carried out")
            steps.append(Step(call_id, caused))
            if steps[-1].action != action:
                raise Untranslatable(f"{action.name} was carried out otherwise than it was called")
        if not steps:
            raise Untranslatable("a reply called for no action")
        turns.append(Turn(thought, tuple(steps), row))
    raise Untranslatable("the conversation ends without a repair plan")


def _calls(message: Message, number: int, react: bool) -> Iterator[tuple[str, ActionCall]]:
    """The ids and actions of a reply, as the tools understood them: `set_breakpoint("11")` becomes
    `set_breakpoint(11)`."""
    called = [(call.id, call.name, call.arguments) for call in message.tool_calls]
    if react:
        try:
            actions = parse_actions(action_block(message.said))
        except UnreadableAction as error:
            raise Untranslatable(f"a reply can't be read: {error}") from None
        called = [(react_id(number, i), each.name, each.json) for i, each in enumerate(actions)]
    for call_id, name, arguments in called:
        try:
            given = ARGUMENTS[name].model_validate_json(arguments).model_dump()
        except (KeyError, ValueError):
            raise Untranslatable(f"{name} with {arguments[:80]} is no action") from None
        yield call_id, ActionCall(name, given)


def react_id(number: int, position: int) -> str:
    """The loop's id for an action of a block: reply number, from 1, and position in the block."""
    return f"action_{number}_{position}"


# Write a Program Inspector's work as a Debug Subagent's conversation.


QUESTION = (
    "What is the root cause of the failure of this test, and what change to the program fixes it?"
)
MAX_FINDINGS = 8
MAX_CHARACTERS = 200
"""Limit for one piece of code, or for its output."""
LANGUAGE = "python"
"""The language of all programs that an Inspector has debugged."""
TRANSLATED = AgentsConfig(start_session="model", debug_run_code=True)
RESTARTED = "_restart"
"""Suffix of the id of an automatic restart, after the id of the call that ended the test."""


@dataclass
class Draft:
    """The messages and events of a translated conversation so far."""

    rows: list[MessageRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    shown: ShownSource = field(default_factory=ShownSource)

    def say(self, role: MessageRole, content: str) -> None:
        self.rows.append(MessageRow(Message(role, content)))

    def reply(self, original: MessageRow, content: str, calls: Sequence[ToolCall] = ()) -> None:
        """Add an assistant message that replaces `original` and keeps its reasoning and costs."""
        reasoning = original.message.thought or None
        message = Message("assistant", content, reasoning, tool_calls=tuple(calls))
        self.rows.append(replace(original, message=message))

    def answer(self, call: ToolCall, reply: ToolReply) -> None:
        message = Message("tool", reply.text, tool_call_id=call.id, name=call.name)
        self.rows.append(MessageRow(message, tool_outcome=reply.outcome))

    def note(self, index: int, call_id: str, events: Sequence[DebugEvent]) -> None:
        self.events += [EventRow(index, call_id, event) for event in events]

    @property
    def last_index(self) -> int:
        return len(self.rows) - 1


def to_debug2fix(conversation: Conversation) -> Conversation:
    """Translate an Inspector's conversation, in either native format, to a Debug Subagent's with
    `debug_run_code`, with its tools' exact answers.

    Raises Untranslatable if an action was invalid or refused, if there is no plan, or if no event
    explains how the session continued.
    """
    inspection, draft = read_inspector(conversation), Draft()
    draft.say("system", subagent_prompt(wording(LANGUAGE), TRANSLATED))
    question = f"{QUESTION}\n\n{inspection.context}"
    task = DebugSubagentArguments(question=question, test=inspection.test)
    draft.say("user", subagent_task(task))
    arguments = json.dumps({"test": inspection.test, "stop_at_test": True})
    start = ToolCall(SESSION_START, START_SESSION, arguments)
    draft.reply(MessageRow(Message("assistant")), "", [start])
    draft.note(draft.last_index, SESSION_START, [inspection.opening])
    draft.answer(start, draft.shown.reply(inspection.opening))
    unasked: Step | None = None
    for turn in inspection.turns:
        unasked = _write_turn(draft, turn, unasked)
    if unasked is not None:
        last = draft.events[-1]
        draft.note(last.message_index, last.tool_call_id, unasked.events[1:])
    conclusion = inspection.conclusion
    if conclusion.forced:
        draft.say("user", answer_prompt("forced_answer", TRANSLATED))
    answer = _debug_answer(inspection)
    text = f"{conclusion.thought}\n\n{_answer_text(answer)}".lstrip("\n")
    draft.reply(conclusion.reply, text)
    return replace(
        conversation,
        messages=tuple(draft.rows),
        events=tuple(draft.events),
        tools=json.dumps(subagent_schemas(LANGUAGE, TRANSLATED)),
        final_answer=text,
        answer=answer,
    )


def _write_turn(draft: Draft, turn: Turn, unasked: Step | None) -> Step | None:
    """Add a turn, preceded by the restart that an earlier step caused. Returns the turn's last step
    if it caused a restart."""
    calls: list[tuple[ToolCall, DebugEvent]] = []
    for step in turn.steps:
        if unasked is not None:
            restart = json.dumps({"action": "restart"})
            call = ToolCall(f"{unasked.call_id}{RESTARTED}", "debug_control", restart)
            calls.append((call, unasked.events[1]))
        name, arguments = debug_call(step.action, arguments_of(step.event).get("file", ""))
        calls.append((ToolCall(step.call_id, name, json.dumps(arguments)), step.event))
        unasked = step if len(step.events) > 1 else None
    draft.reply(turn.reply, turn.thought, [call for call, _ in calls])
    index = draft.last_index
    together = DebugCallsTogether()
    answered: list[Answered] = []
    for call, event in calls:
        if together.refusal(call, answered) is not None:
            raise Untranslatable("the program ran on behind an error in the same message")
        reply = together.completed(call, draft.shown.reply(event), answered)
        answered.append(Answered(call, reply, 0.0))
        draft.answer(call, reply)
        draft.note(index, call.id, [event])
    return unasked


def debug_call(action: ActionCall, file: str) -> tuple[str, dict[str, Any]]:
    """The debug tool and arguments that do the same as an action in the program `file`.

    Raises Untranslatable.
    """
    match action:
        case ActionCall("set_breakpoint", {"line": int(line)}):
            place = f"{file}:{line}"
            return "debug_breakpoint", {"action": "set", "location": place, "temporary": True}
        case ActionCall("control_execution", {"cmd": "continue" | "restart" as command}):
            return "debug_control", {"action": command}
        case ActionCall("interact_code", {"code": str(code)}):
            return "debug_run_code", {"code": code}
    raise Untranslatable(f"no debug tool does what {action.name} with {action.json} does")


def _debug_answer(inspection: Inspection) -> DebugAnswer:
    """The plan, and the findings that led to it: what was printed or changed where, and how the
    program continued. The location is the program's last stop, or else the test's."""
    found, stops, place = [], [], _place(inspection.opening)
    for event in inspection.events:
        if event.action is Action.RUN_CODE and event.error_kind is None:
            code, output = _short(arguments_of(event)["code"]), _short(event.output)
            found.append(f"at {place}, `{code}`{f' printed `{output}`' if output else ' was run'}")
        elif event.action is Action.CONTINUE and event.state is State.DONE:
            found.append(f"the test then ended with exit code {event.exit_code}")
        elif event.exception is not None and event.action is Action.CONTINUE:
            what = _short(f"{event.exception.type}: {event.exception.message}")
            found.append(f"then `{what}` was raised at {_place(event)}")
        if event.stops_program:
            place = _place(event)
            stops += [event] if event.file else []
    tests = {inspection.test.partition("::")[0], *TEST_PATHS}
    inside = [event for event in stops if event.file not in tests]
    evidence = "\n".join(f"- {each}" for each in found[-MAX_FINDINGS:])
    return DebugAnswer(
        question=QUESTION,
        answer=inspection.conclusion.plan,
        evidence=evidence or "Nothing was seen in the debugger.",
        location=_place((inside or stops)[-1]) if stops else "not observed",
    )


def _place(event: DebugEvent) -> str:
    return f"{event.file}:{event.line}"


def _short(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


def _answer_text(answer: DebugAnswer) -> str:
    """The `<debug_answer>` block. Raises Untranslatable if it could not be parsed as one.

    A plan line that begins like one of the block's four lines is prefixed with `> `.
    """
    text = (
        f"<debug_answer>\n**Question**: {answer.question}\n"
        f"**Answer**: {LABEL.sub(lambda label: '> ' + label[0], answer.answer)}\n"
        f"**Evidence**:\n{answer.evidence}\n**Location**: {answer.location}\n</debug_answer>"
    )
    if len(OPEN.findall(text)) > 1 or len(CLOSE.findall(text)) > 1 or parse_answer(text) is None:
        raise Untranslatable("the repair plan or a value holds a <debug_answer> tag, or no text")
    return text
