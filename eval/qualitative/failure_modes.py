"""What agents that debug did, and by rules why their answers are of no use, and why a rollout did
not resolve its bug.

The modes stand in the order in which they count: the first that holds is the primary one, and all
that hold are told. Those that Debug2Fix's table 4 has keep its names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from collect.agents.inspectcoder.react import UnreadableAction, action_block, parse_actions
from collect.agents.systems import names_of
from collect.benchmarks.base import TestStatus
from collect.code.patches import ChangedRange, TestFiles
from collect.errors import FailureKind
from collect.questions.claims import MAX_CHARACTERS, same_file
from collect.questions.grounding import (
    ClaimKind,
    Grounding,
    Support,
    answer_texts,
    claims_in,
    fix_touched_location,
    ground,
)
from collect.questions.observations import last_part, observed
from collect.rollouts.rollout import FAIL_TO_PASS, PASS_TO_PASS
from collect.store.records import Conversation, Role, Rollout, StopReason, ToolOutcome
from eval.metrics import IN_TERMINALS
from sandbox.debugger import INSPECTIONS, LAUNCHES, Action, DebugEvent
from sandbox.debugger import StopReason as DebugStopReason

LOOKS = (*INSPECTIONS, Action.RAW)
"""What reads state. Of a raw terminal's command it is not known, and so supposed."""
NOT_DONE = (ToolOutcome.INVALID, ToolOutcome.REFUSED)
DEBUGGED_UNSEEN = names_of(lambda system: system.debugging != "session")
"""Variants whose debug sessions leave no events, or none of the program."""
MAIN_DEBUGS = names_of(lambda system: system.main_debugs)
FINISH = "finish"
UNREADABLE = "unreadable action"


@dataclass(frozen=True)
class Session:
    """What an agent that debugs did."""

    answers: bool
    """Whether it reports to another agent; not where the main agent debugs by itself."""
    modes: tuple[str, ...]
    """All modes of `ANSWER_MODES` that hold, the primary one first; none: nothing is wrong."""
    touched: bool | None
    """Whether the patch changed the place that the answer reports; None: not known."""
    finds: bool = True
    """Whether the answer has evidence, or states a value, a place or an exception."""


def _looks(event: DebugEvent) -> bool:
    """Whether it has read state."""
    looked = event.action in LOOKS or bool(event.values or event.collected)
    return looked and event.error_kind is None


def _misread(conversation: Conversation, claims: Grounding, tests: TestFiles) -> bool:
    """Whether an ungrounded value is given to a name that was seen with other ones."""
    doubted = {
        each.text
        for each in claims.claims
        if each.kind is ClaimKind.VALUE and each.grounded is Support.UNGROUNDED
    }
    if not doubted:
        return False
    seen = observed(conversation, len(conversation.messages), tests)
    stated = {
        (str(claim), claim.name)
        for text in answer_texts(conversation)
        for claim in claims_in(text[:MAX_CHARACTERS])
        if claim.kind is ClaimKind.VALUE and claim.name
    }
    return any(text in doubted and bool(seen.values.get(last_part(n))) for text, n in stated)


def tools_by_step(conversation: Conversation) -> Iterator[tuple[int, str]]:
    """Each call's step, from 1, and tool (Debug2Fix, figure 5); `finish` of a reply without one."""
    replies = [row.message for row in conversation.messages if row.message.role == "assistant"]
    for step, reply in enumerate(replies, 1):
        names = [call.name for call in reply.tool_calls]
        if not names and conversation.role is not Role.INSPECTOR:
            names = [FINISH]
        elif not names and conversation.variant in IN_TERMINALS:
            names = ["debugger command"]
        elif not names:
            try:
                names = [action.name for action in parse_actions(action_block(reply.said))]
            except UnreadableAction:
                names = [UNREADABLE]
        yield from ((step, name) for name in names)


MANY_SESSIONS = 3
"""More make a bug one of high complexity (table 4)."""
NEAR_LINES = 3
"""So close to a line that the gold patch changes, a change is at its place."""
OF_TABLE_4 = (
    *("session_failed", "wrong_fix_after_debugging", "high_complexity", "subagent_error"),
    "static_analysis",
)
"""The paper's own, in its order."""


MODES: dict[str, tuple[str, str]] = {
    "infrastructure": (
        "Infrastructure",
        "A sandbox, an endpoint or the test harness did not work.",
    ),
    "budget": ("Budget", "The run's dollars were spent."),
    "model_failure": (
        "Model Failure",
        "The main model could not go on: its context was full, its server refused, or its calls "
        "filled the sandbox twice.",
    ),
    "never_debugged": (
        "Debugger Not Used",
        "The main agent never asked the subagent, or never called the debug tools that it has.",
    ),
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
    "high_complexity": (
        "High Complexity Bug",
        f"More than {MANY_SESSIONS} debug sessions, and yet no correct fix.",
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
    "step_limit": ("Step Limit", "The main agent used up its steps."),
    "gave_up": ("Gave Up", "It ended without changing anything."),
    "not_followed": (
        "Answer Not Followed",
        "The answer was sound, and the patch is not at the place that it reports.",
    ),
    "wrong_location": (
        "Wrong Location",
        f"No change is within {NEAR_LINES} lines of one that the gold patch makes.",
    ),
    "wrong_fix_after_debugging": (
        "Wrong Fix Despite Correct Debugging",
        "The answer was sound, and the fix at its place incorrect or incomplete.",
    ),
    "breaks_tests": (
        "Breaks Passing Tests",
        "The failing tests pass, and others that passed fail.",
    ),
    "wrong_fix": ("Wrong Fix", "The patch does not fix the failing tests."),
    "attempts_used_up": (
        "Attempts Used Up",
        "No patch of all that may be tried passed the public tests.",
    ),
}
"""Titles and descriptions."""
OF_ANSWERS = (
    *("subagent_error", "unusable_calls", "session_failed", "static_analysis"),
    *("breakpoint_never_hit", "out_of_steps", "no_answer", "misread_value", "ungrounded"),
)
ANSWER_MODES = {name: MODES[name] for name in OF_ANSWERS}
"""Those of a rollout that are also ways in which a single answer fails."""


def session_of(
    conversation: Conversation, tests: Sequence[str], changed: Sequence[ChangedRange]
) -> Session:
    """`tests` are the bug's, `changed` what the patch changes."""
    events, files = [row.event for row in conversation.events], TestFiles(tests)
    outcomes = [row.tool_outcome for row in conversation.messages if row.tool_outcome is not None]
    answers = conversation.role is not Role.MAIN
    claims = ground(conversation, files) if answers else Grounding()
    if conversation.role is Role.DEBUG_SUBAGENT:
        well_formed = conversation.answer is not None
    else:
        well_formed = any(text.strip() for text in answer_texts(conversation))
    stopped = conversation.stop_reason is StopReason.FAILURE
    failed = answers and (stopped or not conversation.final_answer.strip())
    no_answer = answers and not failed and not well_formed
    stopped_once = any(event.stops_program for event in events)
    past_entry = dropwhile(
        lambda each: not each.stops_program or each.stop_reason is DebugStopReason.ENTRY, events
    )
    looked_late = any(map(_looks, past_entry))
    launched = any(event.action in LAUNCHES for event in events)
    # Events tell nothing of no debugger, nor of a raw terminal.
    sees_debugger = conversation.variant not in DEBUGGED_UNSEEN
    nothing_seen = sees_debugger and not stopped_once and not any(map(_looks, events))
    has_points = any(not point.exception for event in events for point in event.breakpoints)
    hit = any(event.stop_reason is DebugStopReason.BREAKPOINT for event in events)
    holds = {
        "subagent_error": failed,
        "unusable_calls": answers and bool(outcomes) and all(each in NOT_DONE for each in outcomes),
        "session_failed": nothing_seen and launched,
        "static_analysis": nothing_seen and not launched and answers,
        "breakpoint_never_hit": (
            sees_debugger and stopped_once and not looked_late and has_points and not hit
        ),
        "out_of_steps": no_answer and conversation.stop_reason is StopReason.STEP_LIMIT,
        "no_answer": no_answer,
        "misread_value": _misread(conversation, claims, files),
        "ungrounded": claims.counts[Support.UNGROUNDED] > 0,
    }
    touched = fix_touched_location(conversation, changed) if answers else None
    answer = conversation.answer
    evidence = answer.evidence.strip(" .").lower() if answer is not None else ""
    finds = bool(claims.claims) or evidence not in ("", "none")
    return Session(answers, tuple(name for name in ANSWER_MODES if holds[name]), touched, finds)


def modes_of_rollout(
    rollout: Rollout,
    sessions: Sequence[Session] = (),
    changed: Sequence[ChangedRange] = (),
    gold: Sequence[ChangedRange] = (),
) -> list[str]:
    """All modes that hold, the primary one first; an unresolved rollout has at least one.

    `sessions` are of the agents that debug, in order; `changed` is what the patch changes, `gold`
    what the gold patch does, empty where it is not known.
    """
    kind, stopped = rollout.failure_kind, rollout.stop_reason
    if rollout.variant in MAIN_DEBUGS:
        never_debugged = not rollout.debug_calls
    else:
        never_debugged = bool(rollout.sub_model) and not rollout.sub_calls
    sound = [each.touched for each in sessions if each.answers and each.finds and not each.modes]
    near_gold = any(
        same_file(change.path, place.path)
        and change.start <= place.end + NEAR_LINES
        and change.end >= place.start - NEAR_LINES
        for change in changed
        for place in gold
    )
    has_patch = bool(rollout.patch.strip())
    tests = rollout.tests
    fixed = all(test.after == TestStatus.PASSED for test in tests if test.group == FAIL_TO_PASS)
    broken = any(test.after != TestStatus.PASSED for test in tests if test.group == PASS_TO_PASS)
    holds = {
        "infrastructure": kind is FailureKind.INFRASTRUCTURE,
        "budget": kind is FailureKind.BUDGET,
        "model_failure": kind is FailureKind.MODEL,
        "never_debugged": kind is None and never_debugged,
        "high_complexity": sum(each.answers for each in sessions) > MANY_SESSIONS,
        "step_limit": stopped is StopReason.STEP_LIMIT,
        "gave_up": kind is None and not has_patch,
        "not_followed": has_patch and bool(sound) and all(each is False for each in sound),
        "wrong_location": bool(changed and gold) and not near_gold,
        "wrong_fix_after_debugging": has_patch and any(each is not False for each in sound),
        "breaks_tests": has_patch and fixed and broken,
        "wrong_fix": has_patch and not (fixed and broken),
        "attempts_used_up": stopped is StopReason.ATTEMPT_LIMIT,
    }
    # An answer's mode is the rollout's if no session has an answer without any.
    holds |= {
        name: all(each.modes for each in sessions) and any(name in each.modes for each in sessions)
        for name in ANSWER_MODES
    }
    return [name for name in MODES if holds[name]]
