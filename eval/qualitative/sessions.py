"""What one agent that debugs did, and what its answer is worth: what modes are told by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collect.agents.subagent_task import read_subagent_task
from collect.bug_tests import TestFiles
from collect.grounding.checking import MAX_CHARACTERS, answer_texts, ground, task_text
from collect.grounding.claims import claims_in
from collect.grounding.fixes import fix_touched_location
from collect.grounding.observations import last_part, observed
from collect.grounding.records import ClaimKind, Grounding, Support
from collect.patches import ChangedRange
from collect.questions.records import Category
from collect.records import Conversation, Role, StopReason, ToolOutcome
from eval.qualitative.question_rules import categorize
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
    """Those that were invalid, or refused by the debugger's state."""
    launches: int
    stops: int
    inspections: int
    late_inspections: int
    """Those once the program had stopped anywhere but at the start of the test."""
    breakpoints: bool
    """Whether any was set on a line or a function."""
    breakpoint_hits: int
    about_reaching: bool
    """Whether it was asked if a line is reached, so that no hit is an answer."""
    well_formed: bool
    """Whether there is an answer in the form that the main agent reads, or a plan."""
    ungrounded: int
    """Claims of the answer that the conversation did not observe."""
    misread: int
    """Those of them that give a value to a name that was observed with another."""
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
        about_reaching=categorize(_question(conversation)) is Category.REACHABILITY,
        well_formed=_is_well_formed(conversation),
        ungrounded=claims.counts[Support.UNGROUNDED],
        misread=_misread(conversation, claims, files),
        touched=fix_touched_location(conversation, changed) if answers else None,
    )


def _failed(conversation: Conversation) -> bool:
    stopped = conversation.stop_reason is StopReason.FAILURE
    return stopped or not conversation.final_answer.strip()


def _looks(event: DebugEvent) -> bool:
    return event.action in LOOKS and event.error_kind is None


def _late(events: Sequence[DebugEvent]) -> int:
    """How many inspections come after a stop at another place than the entry."""
    stops = (
        index
        for index, event in enumerate(events)
        if event.stops_program and event.stop_reason is not DebugStopReason.ENTRY
    )
    return sum(_looks(event) for event in events[next(stops, len(events)) :])


def _question(conversation: Conversation) -> str:
    """What it was asked; all that it was told where that has another form."""
    told = task_text(conversation)
    asked = read_subagent_task(told)
    return asked.question if asked else told


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
