"""What one agent that debugs did, which tools it called, and why its answer is of no use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from collect.store.records import Conversation, Role, StopReason, ToolOutcome
from sandbox.debugger import INSPECTIONS, LAUNCHES, Action
from sandbox.debugger import StopReason as DebugStopReason

LOOKS = (*INSPECTIONS, Action.RAW)
"""What reads state. Of a raw terminal's command it is not known, and so supposed."""
NOT_DONE = (ToolOutcome.INVALID, ToolOutcome.REFUSED)
FINISH = "finish"
UNREADABLE = "unreadable action"


@dataclass(frozen=True)
class Session:
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
    stopped = conversation.stop_reason is StopReason.FAILURE
    if conversation.role is Role.DEBUG_SUBAGENT:
        well_formed = conversation.answer is not None
    else:
        well_formed = any(text.strip() for text in answer_texts(conversation))
    inspections = late_inspections = 0
    is_late = False
    for event in events:
        is_late |= event.stops_program and event.stop_reason is not DebugStopReason.ENTRY
        looked = event.action in LOOKS or bool(event.values or event.collected)
        if looked and event.error_kind is None:
            inspections += 1
            late_inspections += is_late
    return Session(
        answers=answers,
        failed=answers and (stopped or not conversation.final_answer.strip()),
        out_of_steps=conversation.stop_reason is StopReason.STEP_LIMIT,
        calls=len(outcomes),
        not_done=sum(outcome in NOT_DONE for outcome in outcomes),
        launches=sum(event.action in LAUNCHES for event in events),
        stops=sum(event.stops_program for event in events),
        inspections=inspections,
        late_inspections=late_inspections,
        breakpoints=any(not b.exception for event in events for b in event.breakpoints),
        breakpoint_hits=sum(event.stop_reason is DebugStopReason.BREAKPOINT for event in events),
        well_formed=well_formed,
        ungrounded=claims.counts[Support.UNGROUNDED],
        misread=_misread(conversation, claims, files),
        touched=fix_touched_location(conversation, changed) if answers else None,
    )


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
    stated = {
        (str(claim), claim.name)
        for text in answer_texts(conversation)
        for claim in claims_in(text[:MAX_CHARACTERS])
        if claim.kind is ClaimKind.VALUE and claim.name
    }
    return sum(text in doubted and bool(seen.values.get(last_part(n))) for text, n in stated)


def tools_by_step(conversation: Conversation) -> Iterator[tuple[int, str]]:
    """Each call as its step, from 1, and its tool (Debug2Fix, figure 5); a reply without one is
    `finish`."""
    replies = [row.message for row in conversation.messages if row.message.role == "assistant"]
    for step, reply in enumerate(replies, 1):
        names = [call.name for call in reply.tool_calls]
        if not names and conversation.role is not Role.INSPECTOR:
            names = [FINISH]
        elif not names and conversation.variant == Variant.INSPECTCODER_NO_INSPECTWARE:
            names = ["debugger command"]
        elif not names:
            try:
                names = [action.name for action in parse_actions(action_block(reply.content))]
            except UnreadableAction:
                names = [UNREADABLE]
        yield from ((step, name) for name in names)


ANSWER_MODES: dict[str, tuple[str, str]] = {
    "subagent_error": (
        "Subagent API Error",
        "Its request failed, or it ended without a word, so that the answer is empty.",
    ),
    "unusable_calls": (
        "No Usable Call",
        "Every call was invalid, or refused by the debugger's state.",
    ),
    "session_failed": (
        "Debugger Session Failed",
        "A session was launched, and the program never stopped in it: failed build or test, no "
        "such test, a program that ended before.",
    ),
    "static_analysis": (
        "Subagent Static Analysis",
        "No session was launched: the answer is from reading the code.",
    ),
    "breakpoint_never_hit": (
        "Breakpoint Never Hit",
        "No breakpoint that was set was ever hit, and nothing was looked at but the start of the "
        "test. This can be the right answer if the question was whether a line is reached.",
    ),
    "out_of_steps": (
        "Subagent Out of Steps",
        "The steps were used up, and the answer that was then asked for has not its form.",
    ),
    "no_answer": ("No Answer", "It ended without an answer in its form."),
    "misread_value": (
        "Misread Value",
        "It gives a name a value other than the debugger showed for it.",
    ),
    "ungrounded": (
        "Ungrounded Answer",
        "It states a value, a place or an exception that it has not observed.",
    ),
}
"""Titles and descriptions of the ways in which an answer fails, in the order in which they count:
the first that holds is the primary one. Those that Debug2Fix's table 4 has keep its names."""


def modes_of_answer(session: Session, sees_debugger: bool = True) -> list[str]:
    """All modes that hold, the primary one first; none: nothing is wrong with it.

    `sees_debugger`: whether events tell what the debugger did.
    """
    nothing_seen = session.stops == session.inspections == 0
    at_entry_only = session.stops > 0 and not session.late_inspections
    no_answer = session.answers and not session.failed and not session.well_formed
    holds = {
        "subagent_error": session.failed,
        "unusable_calls": session.answers and 0 < session.calls == session.not_done,
        "session_failed": sees_debugger and nothing_seen and session.launches > 0,
        "static_analysis": (
            sees_debugger and nothing_seen and session.launches == 0 and session.answers
        ),
        "breakpoint_never_hit": (
            sees_debugger and at_entry_only and session.breakpoints and session.breakpoint_hits == 0
        ),
        "out_of_steps": no_answer and session.out_of_steps,
        "no_answer": no_answer,
        "misread_value": session.misread > 0,
        "ungrounded": session.ungrounded > 0,
    }
    return [name for name in ANSWER_MODES if holds[name]]
