"""A conversation that may become a row, the outcome of its rollout, and the translation of Program
Inspectors' conversations into Debug2Fix's vocabulary."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from sys import intern
from typing import cast

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import subagent_prompt, subagent_tools
from collect.agents.debug_tools import ShownSource, placed, withheld
from collect.agents.forms import Answered
from collect.agents.inspectcoder.inspector import plan_of
from collect.agents.inspectcoder.inspector_tools import (
    STATE_HEADING,
    ControlArguments,
    InteractArguments,
    ProposeArguments,
    SetBreakpointArguments,
)
from collect.agents.inspectcoder.react import (
    ACTION,
    ActionCall,
    UnreadableAction,
    action_block,
    parse_actions,
)
from collect.agents.prompts import prompt
from collect.agents.subagent_task import (
    CLOSE,
    LABEL,
    OPEN,
    DebugSubagentArguments,
    parse_answer,
    subagent_task,
)
from collect.agents.tools import Arguments, Toolbox, ToolReply
from collect.agents.wording import wording
from collect.benchmarks.self_repair.problem import TEST_PATHS
from collect.code.patches import ChangedRange, TestFiles
from collect.errors import FailureKind
from collect.questions.grounding.checking import ground
from collect.questions.grounding.fixes import changed_by, fix_touched_location
from collect.questions.grounding.records import Grounding
from collect.store.messages import Message, ToolCall
from collect.store.messages import Role as MessageRole
from collect.store.records import (
    SESSION_START,
    TASK_MESSAGE,
    Conversation,
    DebugAnswer,
    EventRow,
    MessageRow,
    Role,
    Rollout,
    StopReason,
)
from format.inspection import (
    PROPOSE,
    START_SESSION,
    Conclusion,
    Inspection,
    Step,
    Turn,
    Untranslatable,
    Vocabulary,
    arguments_of,
    debug_call,
    events_by_call,
    recorded_start,
    shown_opening,
)
from format.leaks import Leak, leaks_of
from format.rows import Reasoning, exact_messages
from format.turn_quality import TurnQuality, turn_qualities
from format.worth import DifficultyLevel, Pairs
from sandbox import Sandbox
from sandbox.debugger import Action, DebugEvent, Debugger, State

# Read a Program Inspector's conversation in either native format.


TEST = re.compile(r"^Failing test, (.+):$", re.MULTILINE)
THOUGHT = re.compile(r"^\s*#{1,6}[ \t]*THOUGHTS?[ \t]*:?[ \t]*$", re.MULTILINE | re.IGNORECASE)
ARGUMENTS: dict[str, type[Arguments]] = {
    "set_breakpoint": SetBreakpointArguments,
    "control_execution": ControlArguments,
    "interact_code": InteractArguments,
    PROPOSE: ProposeArguments,
}


def read_inspector(conversation: Conversation) -> Inspection:
    """The Inspector's actions in a recorded conversation. Raises Untranslatable."""
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
        """Whether a reply is the final one, requested after the steps are used up."""
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
        """The executed actions of a reply, and the plan if it proposes one."""
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
    """The loop's id for an action of a block: reply number, from 1, and position in the block."""
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
    """The call as the tool understood it: `set_breakpoint("11")` becomes `set_breakpoint(11)`."""
    known = ARGUMENTS.get(action.name)
    try:
        given = known.model_validate(action.arguments).model_dump() if known else None
    except ValueError:
        given = None
    if given is None:
        raise Untranslatable(f"{action.name} with {action.json[:80]} is no action")
    return ActionCall(action.name, given)


# The translated conversation.


@dataclass
class Draft:
    """The messages and events so far."""

    rows: list[MessageRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    shown: ShownSource = field(default_factory=ShownSource)

    def say(self, role: MessageRole, content: str) -> None:
        """Add a message without costs."""
        self.rows.append(MessageRow(Message(role, content)))

    def reply(self, original: MessageRow, content: str, calls: Sequence[ToolCall] = ()) -> None:
        """Add an assistant message that replaces `original` and keeps its reasoning and costs."""
        reasoning = original.message.reasoning
        message = Message("assistant", content, reasoning, tool_calls=tuple(calls))
        self.rows.append(replace(original, message=message))

    def answer(self, call: ToolCall, reply: ToolReply) -> None:
        """Add a tool's answer."""
        message = Message("tool", reply.text, tool_call_id=call.id, name=call.name)
        self.rows.append(MessageRow(message, tool_outcome=reply.outcome))

    def note(self, index: int, call_id: str, events: Sequence[DebugEvent]) -> None:
        """Add the events of a call in the message at `index`."""
        self.events += [EventRow(index, call_id, event) for event in events]

    @property
    def last_index(self) -> int:
        """Index of the newest message."""
        return len(self.rows) - 1


# The `<debug_answer>` from a Program Inspector's findings.


QUESTION = (
    "What is the root cause of the failure of this test, and what change to the program fixes it?"
)
MAX_FINDINGS = 8
"""Only the last findings are kept."""
MAX_CHARACTERS = 200
"""Limit for one piece of code, or for its output."""


def debug_answer(inspection: Inspection) -> DebugAnswer:
    """The plan, and the findings of the session that led to it."""
    found = list(_findings(inspection))[-MAX_FINDINGS:]
    return DebugAnswer(
        question=QUESTION,
        answer=inspection.conclusion.plan,
        evidence="\n".join(f"- {each}" for each in found) or "Nothing was seen in the debugger.",
        location=last_location(inspection),
    )


def answer_text(answer: DebugAnswer) -> str:
    """The block. Raises Untranslatable if it could not be parsed as one.

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


def last_location(inspection: Inspection) -> str:
    """The program's last stop, or else the test's."""
    stops = [event for event in inspection.events if event.stops_program and event.file]
    tests = {inspection.test.partition("::")[0], *TEST_PATHS}
    inside = [event for event in stops if event.file not in tests]
    return _place((inside or stops)[-1]) if stops else "not observed"


def _findings(inspection: Inspection) -> Iterator[str]:
    """One line per finding: what was printed or changed where, and how the program continued."""
    place = _place(inspection.opening)
    for event in inspection.events:
        if event.action is Action.RUN_CODE and event.error_kind is None:
            yield f"at {place}, {_ran(event)}"
        elif event.action is Action.CONTINUE and event.state is State.DONE:
            yield f"the test then ended with exit code {event.exit_code}"
        elif event.exception is not None and event.action is Action.CONTINUE:
            what = _short(f"{event.exception.type}: {event.exception.message}")
            yield f"then `{what}` was raised at {_place(event)}"
        if event.stops_program:
            place = _place(event)


def _ran(event: DebugEvent) -> str:
    code = _short(str(arguments_of(event)["code"]))
    shown = f" printed `{_short(event.output)}`" if event.output.strip() else " was run"
    return f"`{code}`{shown}"


def _place(event: DebugEvent) -> str:
    return f"{event.file}:{event.line}"


def _short(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


# The tools of the agents whose conversations become rows, as sent to a model.


LANGUAGE = "python"
"""The language of all programs that an Inspector has debugged."""

# The schema comes from the tool's class alone; the arguments are never used.
_NO_DEBUGGER = cast(Debugger, None)
_NO_SANDBOX = cast(Sandbox, None)


@cache
def subagent_schemas() -> str:
    """The tools of a Debug Subagent, `debug_run_code` included, as JSON."""
    tools = subagent_tools(_NO_DEBUGGER, _NO_SANDBOX, run_code=True)
    return json.dumps(Toolbox(tools, wording(LANGUAGE)).schemas())


# Write a Program Inspector's work as a Debug Subagent's conversation.


TRANSLATED = AgentsConfig(start_session="model", debug_run_code=True)
"""The settings of such a Debug Subagent."""
RESTARTED = "_restart"
"""Suffix of the id of an automatic restart, after the id of the call that ended the test."""


def write_subagent(inspection: Inspection, conversation: Conversation) -> Conversation:
    """The conversation as a Debug Subagent with `debug_run_code` would have had it, with its tools'
    exact answers. Raises Untranslatable."""
    answer, draft = debug_answer(inspection), Draft()
    draft.say(
        "system",
        subagent_prompt(wording(LANGUAGE), TRANSLATED),
    )
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
    draft.answer(call, draft.shown.reply(inspection.opening))
    if inspection.opening_recorded:
        draft.note(index, SESSION_START, [inspection.opening])


def _write_turn(draft: Draft, turn: Turn, unasked: Step | None) -> Step | None:
    """Add a turn, preceded by the restart that an earlier step caused. Returns the turn's last step
    if it caused a restart."""
    calls: list[tuple[ToolCall, DebugEvent]] = []
    for step in turn.steps:
        if unasked is not None:
            calls.append(_restart(unasked))
        calls.append((_call(step), step.event))
        unasked = step if len(step.events) > 1 else None
    draft.reply(turn.reply, turn.thought, [call for call, _ in calls])
    index = draft.last_index
    answered: list[Answered] = []
    for call, event in calls:
        if withheld(call, answered) is not None:
            raise Untranslatable("the program ran on behind an error in the same message")
        reply = placed(call, draft.shown.reply(event), answered)
        answered.append(Answered(call, reply, 0.0))
        draft.answer(call, reply)
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
    """Add the request for the final answer, and the answer. Returns its text."""
    conclusion = inspection.conclusion
    if conclusion.forced:
        draft.say("user", prompt("subagent_forced_answer"))
    text = f"{conclusion.thought}\n\n{answer_text(answer)}".lstrip("\n")
    draft.reply(conclusion.reply, text)
    return text


def to_debug2fix(conversation: Conversation) -> Conversation:
    """Translate an Inspector's conversation, in either native format, to a Debug Subagent's.

    Raises Untranslatable if an action was invalid or refused, if there is no plan, or if no event
    explains how the session continued.
    """
    return write_subagent(read_inspector(conversation), conversation)


BUGS_AT_HAND = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The data of a rollout that filters and rows need. A whole run's outcomes are in memory at
    once."""

    resolved: bool
    failure_kind: FailureKind | None
    language: str
    teacher: str
    system: str
    patch_attempts: int
    instance_hash: str
    tests: TestFiles = field(default_factory=TestFiles)
    changed: tuple[ChangedRange, ...] = ()
    """The lines that the rollout's patch changed."""
    debug_helped: int | None = None
    category: str | None = None
    """Category of the question, or else of the bug."""
    difficulty: DifficultyLevel | None = None
    code_version: str = ""
    question_id: str | None = None
    """Id of the answered runtime question, if known."""
    tampered: bool = False
    """Whether its code interfered with the test run."""
    patch_marks: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        rollout: Rollout,
        pairs: Pairs | None = None,
        difficulty: DifficultyLevel | None = None,
        question_id: str | None = None,
    ) -> Outcome:
        """The outcome of one rollout; `pairs` are those of its run."""
        return cls(
            rollout.resolved,
            rollout.failure_kind,
            intern(rollout.language),
            intern(rollout.teacher),
            intern(rollout.system),
            rollout.patch_attempts,
            intern(rollout.instance_hash),
            _test_files(tuple(test.name for test in rollout.tests)),
            changed_by(rollout.patch),
            pairs.debug_helped(rollout) if pairs is not None else None,
            intern(rollout.category) if rollout.category is not None else None,
            difficulty,
            intern(rollout.code_version),
            question_id,
            rollout.tampered is not None,
            rollout.patch_marks,
        )


@lru_cache(BUGS_AT_HAND)
def _test_files(tests: tuple[str, ...]) -> TestFiles:
    """Cached: the same for all rollouts on a bug."""
    return TestFiles(tests)


@dataclass(frozen=True)
class Background:
    """Further facts about a conversation."""

    gold_lines: frozenset[str] | None = None
    """Distinctive lines that the gold patch adds; None if it is not available."""
    git_history: bool = False
    """Whether an agent of its rollout has looked at later commits."""
    before_changes: frozenset[str] = frozenset()
    """The conversations of its rollout that started before any file could have been changed."""


@dataclass(frozen=True)
class Candidate:
    """A conversation and its rollout's outcome."""

    conversation: Conversation
    outcome: Outcome
    vocabulary: Vocabulary
    """Vocabulary of a Program Inspector's row."""
    background: Background = Background()
    replay_verified: bool | None = None
    """Whether a replay of its calls had the recorded results; None if there was no replay."""
    reasoning: Reasoning = Reasoning.KEEP
    """What its row shows of the model's reasoning."""

    @property
    def inspects(self) -> bool:
        """Whether it is a Program Inspector's."""
        return self.conversation.role is Role.INSPECTOR

    @cached_property
    def as_row(self) -> Conversation | None:
        """The conversation in its row's vocabulary; None if that can't express it."""
        if not self.inspects or self.vocabulary is Vocabulary.NATIVE:
            return self.conversation
        try:
            return to_debug2fix(self.conversation)
        except Untranslatable:
            return None

    @property
    def said(self) -> Conversation:
        """The conversation in its row's vocabulary, or as recorded if that can't express it."""
        return self.as_row or self.conversation

    @cached_property
    def texts(self) -> list[str] | None:
        """The messages of its row as JSON texts; None if these would not be exact."""
        return exact_messages(self.as_row, self.reasoning) if self.as_row is not None else None

    @cached_property
    def grounding(self) -> Grounding:
        """The claims of its answer, and the evidence for each."""
        return ground(self.said, self.outcome.tests)

    @cached_property
    def turn_quality(self) -> tuple[TurnQuality, ...]:
        """A label for each of the assistant's messages."""
        return turn_qualities(self.said)

    @cached_property
    def leaks(self) -> tuple[Leak, ...]:
        """What it may know that a working agent could not."""
        return leaks_of(
            self.said,
            self.outcome.teacher,
            self.grounding,
            self.background.gold_lines,
            self.background.git_history,
        )

    @property
    def fix_touched_location(self) -> bool | None:
        """Whether the rollout's patch changed the place that the answer reported."""
        return fix_touched_location(self.said, self.outcome.changed)
