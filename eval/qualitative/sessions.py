"""What one agent that debugs did, and what its answer is worth: what modes are told by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from collect.agents.config import Variant
from collect.agents.inspectcoder.react import UnreadableAction, action_block, parse_actions
from collect.code.patches import ChangedRange, TestFiles
from collect.questions.grounding import (
    MAX_CHARACTERS,
    ClaimKind,
    Grounding,
    Support,
    answer_texts,
    claims_in,
    fix_touched_location,
    ground,
)
from collect.questions.observations import last_part, observed
from collect.store.messages import Message
from collect.store.records import Conversation, Role, StopReason, ToolOutcome
from sandbox.debugger import INSPECTIONS, LAUNCHES, Action, DebugEvent
from sandbox.debugger import StopReason as DebugStopReason

LOOKS = (*INSPECTIONS, Action.RAW)
"""What reads state. Of a raw terminal's command it is not known, and so supposed."""
NOT_DONE = (ToolOutcome.INVALID, ToolOutcome.REFUSED)


@dataclass(frozen=True)
class Session:
    """One conversation of an agent that debugs."""

    answers: bool
    """Whether it reports to another agent; not where the main agent debugs by itself."""
    failed: bool
    """Its model could not go on, or gave nothing at all."""
    out_of_steps: bool
    calls: int
    """Answers to its calls, and to what should have been one."""
    not_done: int
    """Calls that were invalid, or refused by the debugger's state."""
    launches: int
    stops: int
    inspections: int
    late_inspections: int
    """Inspections after the program had stopped anywhere but at the start of the test."""
    breakpoints: bool
    """Whether any was set on a line or a function."""
    breakpoint_hits: int
    well_formed: bool
    """Whether there is an answer in the form that the main agent reads, or a plan."""
    ungrounded: int
    """Claims of the answer that the conversation did not observe."""
    misread: int
    """Ungrounded claims that give a name a value other than the observed one."""
    touched: bool | None
    """Whether the patch changed the place that the answer reports; None: not known."""


def session_of(
    conversation: Conversation, tests: Sequence[str], changed: Sequence[ChangedRange]
) -> Session:
    """The facts of a conversation. `tests` are the bug's, `changed` what the patch changes."""
    events = [row.event for row in conversation.events]
    outcomes = [row.tool_outcome for row in conversation.messages if row.tool_outcome is not None]
    files = TestFiles(tests)
    answers = conversation.role is not Role.MAIN
    claims = ground(conversation, files) if answers else Grounding()
    return Session(
        answers=answers,
        failed=answers and _failed(conversation),
        out_of_steps=conversation.stop_reason is StopReason.STEP_LIMIT,
        calls=len(outcomes),
        not_done=sum(outcome in NOT_DONE for outcome in outcomes),
        launches=sum(event.action in LAUNCHES for event in events),
        stops=sum(event.stops_program for event in events),
        inspections=sum(_looks(event) for event in events),
        late_inspections=_late(events),
        breakpoints=any(not b.exception for event in events for b in event.breakpoints),
        breakpoint_hits=sum(event.stop_reason is DebugStopReason.BREAKPOINT for event in events),
        well_formed=_is_well_formed(conversation),
        ungrounded=claims.counts[Support.UNGROUNDED],
        misread=_misread(conversation, claims, files),
        touched=fix_touched_location(conversation, changed) if answers else None,
    )


def _failed(conversation: Conversation) -> bool:
    stopped = conversation.stop_reason is StopReason.FAILURE
    return stopped or not conversation.final_answer.strip()


def _looks(event: DebugEvent) -> bool:
    looked = event.action in LOOKS or bool(event.values or event.collected)
    return looked and event.error_kind is None


def _late(events: Sequence[DebugEvent]) -> int:
    """How many inspections come after a stop at another place than the entry."""
    stops = (
        index
        for index, event in enumerate(events)
        if event.stops_program and event.stop_reason is not DebugStopReason.ENTRY
    )
    return sum(_looks(event) for event in events[next(stops, len(events)) :])


def _is_well_formed(conversation: Conversation) -> bool:
    if conversation.role is Role.DEBUG_SUBAGENT:
        return conversation.answer is not None
    return any(text.strip() for text in answer_texts(conversation))


def _misread(conversation: Conversation, claims: Grounding, tests: TestFiles) -> int:
    """How many ungrounded values are given to a name that was seen with other ones."""
    doubted = {
        each.text
        for each in claims.claims
        if each.kind is ClaimKind.VALUE and each.grounded is Support.UNGROUNDED
    }
    if not doubted:
        return 0
    seen = observed(conversation, len(conversation.messages), tests)
    texts = answer_texts(conversation)
    stated = {claim for text in texts for claim in _named(text[:MAX_CHARACTERS])}
    return sum(text in doubted and bool(seen.values.get(last_part(n))) for text, n in stated)


def _named(text: str) -> list[tuple[str, str]]:
    """Claims of a value for a name: as text, and the name."""
    return [(str(c), c.name) for c in claims_in(text) if c.kind is ClaimKind.VALUE and c.name]


# Which tools an agent that debugs calls, step by step (Debug2Fix, figure 5).


FINISH = "finish"
UNREADABLE = "unreadable action"
COMMANDS = "debugger command"


def tools_by_step(conversation: Conversation) -> Iterator[tuple[int, str]]:
    """Each call as its step, from 1, and its tool; a reply without one is `finish`."""
    step = 0
    for row in conversation.messages:
        if row.message.role == "assistant":
            step += 1
            for name in _tools(row.message, conversation):
                yield step, name


def _tools(reply: Message, conversation: Conversation) -> list[str]:
    called = [call.name for call in reply.tool_calls]
    if called or conversation.role is not Role.INSPECTOR:
        return called or [FINISH]
    if conversation.variant == Variant.INSPECTCODER_NO_INSPECTWARE:
        return [COMMANDS]
    try:
        return [action.name for action in parse_actions(action_block(reply.content))]
    except UnreadableAction:
        return [UNREADABLE]


# Why the answer of an agent that debugs is of no use, by rules.
#
# Each mode is one function over plain facts. They stand in the order in which they are asked for:
# the first that holds is the primary one. Those that Debug2Fix's table 4 has keep its names.


@dataclass(frozen=True)
class AnswerMode:
    """A way in which a subagent's answer fails."""

    name: str
    title: str
    description: str
    holds: Callable[[Session], bool]
    by_events: bool = False
    """Told by the debugger's events."""


def modes_of_answer(session: Session, sees_debugger: bool = True) -> list[AnswerMode]:
    """All modes that hold, the primary one first; none: nothing is wrong with it."""
    modes = (mode for mode in ANSWER_MODES if sees_debugger or not mode.by_events)
    return [mode for mode in modes if mode.holds(session)]


def never_started(session: Session) -> bool:
    """The program was launched, but nothing of it was ever observed."""
    return session.launches > 0 and session.stops == 0 and session.inspections == 0


def nothing_observed(session: Session) -> bool:
    """The program was not launched."""
    return session.answers and session.launches == session.stops == session.inspections == 0


def never_hit(session: Session) -> bool:
    """The program stopped, but never at a breakpoint; only its entry was inspected."""
    if session.late_inspections:
        return False
    return session.stops > 0 and session.breakpoints and session.breakpoint_hits == 0


def no_call_done(session: Session) -> bool:
    """No call succeeded."""
    return session.answers and 0 < session.calls == session.not_done


def no_answer(session: Session) -> bool:
    """It said something that is no answer."""
    return session.answers and not session.failed and not session.well_formed


ANSWER_MODES = (
    AnswerMode(
        "subagent_error",
        "Subagent API Error",
        "Its request failed, or it ended without a word, so that the answer is empty.",
        lambda session: session.failed,
    ),
    AnswerMode(
        "unusable_calls",
        "No Usable Call",
        "Every call was invalid, or refused by the debugger's state.",
        no_call_done,
    ),
    AnswerMode(
        "session_failed",
        "Debugger Session Failed",
        "A session was launched, and the program never stopped in it: failed build or test, no "
        "such test, a program that ended before.",
        never_started,
        by_events=True,
    ),
    AnswerMode(
        "static_analysis",
        "Subagent Static Analysis",
        "No session was launched: the answer is from reading the code.",
        nothing_observed,
        by_events=True,
    ),
    AnswerMode(
        "breakpoint_never_hit",
        "Breakpoint Never Hit",
        "No breakpoint that was set was ever hit, and nothing was looked at but the start of the "
        "test. This can be the right answer if the question was whether a line is reached.",
        never_hit,
        by_events=True,
    ),
    AnswerMode(
        "out_of_steps",
        "Subagent Out of Steps",
        "The steps were used up, and the answer that was then asked for has not its form.",
        lambda session: no_answer(session) and session.out_of_steps,
    ),
    AnswerMode(
        "no_answer",
        "No Answer",
        "It ended without an answer in its form.",
        no_answer,
    ),
    AnswerMode(
        "misread_value",
        "Misread Value",
        "It gives a name a value other than the debugger showed for it.",
        lambda session: session.misread > 0,
    ),
    AnswerMode(
        "ungrounded",
        "Ungrounded Answer",
        "It states a value, a place or an exception that it has not observed.",
        lambda session: session.ungrounded > 0,
    ),
)
