"""Why a rollout did not resolve its bug, by rules.

The modes stand in the order in which they count: the first that holds is the primary one, and all
that hold are told. Those that Debug2Fix's table 4 has keep its names.
"""

from __future__ import annotations

from dataclasses import dataclass

from collect.agents.config import Variant
from collect.benchmarks.base import TestStatus
from collect.code.patches import ChangedRange
from collect.errors import FailureKind
from collect.questions.claims import same_file
from collect.rollouts.rollout import FAIL_TO_PASS, PASS_TO_PASS
from collect.store.records import Rollout, StopReason
from eval.qualitative.sessions import ANSWER_MODES, Session, modes_of_answer

MANY_SESSIONS = 3
"""More make a bug one of high complexity (table 4)."""
NEAR_LINES = 3
"""So close to a line that the gold patch changes, a change is at its place."""
UNSEEN_DEBUGGERS = (Variant.INSPECTCODER_NO_DEBUGGER, Variant.INSPECTCODER_NO_INSPECTWARE)
"""Variants without a debugger, or with a raw terminal, of which no event tells."""
RECORDED = frozenset({"infrastructure", "budget", "model_failure"})
"""Recorded facts, and nothing to have an opinion on."""
OF_TABLE_4 = (
    *("session_failed", "wrong_fix_after_debugging", "high_complexity", "subagent_error"),
    "static_analysis",
)
"""The paper's own, in its order."""


def _of_answers(*names: str) -> dict[str, tuple[str, str]]:
    return {name: ANSWER_MODES[name] for name in names}


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
    **_of_answers("subagent_error", "unusable_calls", "session_failed", "static_analysis"),
    "high_complexity": (
        "High Complexity Bug",
        f"More than {MANY_SESSIONS} debug sessions, and yet no correct fix.",
    ),
    **_of_answers("breakpoint_never_hit", "out_of_steps", "no_answer"),
    **_of_answers("misread_value", "ungrounded"),
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


@dataclass(frozen=True)
class Case:
    rollout: Rollout
    sessions: tuple[Session, ...] = ()
    """The sessions of agents that debug, in order."""
    changed: tuple[ChangedRange, ...] = ()
    """What the patch changes."""
    gold: tuple[ChangedRange, ...] = ()
    """What the gold patch changes; empty where it is not known."""

    def answer_modes(self) -> list[list[str]]:
        sees_debugger = self.rollout.variant not in UNSEEN_DEBUGGERS
        return [modes_of_answer(each, sees_debugger) for each in self.sessions]


def modes_of_rollout(case: Case) -> list[str]:
    """All modes that hold, the primary one first; an unresolved rollout has at least one."""
    rollout = case.rollout
    kind, stopped = rollout.failure_kind, rollout.stop_reason
    if rollout.variant == Variant.DEBUG_TOOLS_ONLY:
        never_debugged = not rollout.debug_calls
    else:
        never_debugged = bool(rollout.sub_model) and not rollout.sub_calls
    answers = case.answer_modes()
    sound = [
        session.touched
        for session, modes in zip(case.sessions, answers, strict=True)
        if session.answers and not modes
    ]
    near_gold = any(
        same_file(change.path, gold.path)
        and change.start <= gold.end + NEAR_LINES
        and change.end >= gold.start - NEAR_LINES
        for change in case.changed
        for gold in case.gold
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
        "high_complexity": sum(each.answers for each in case.sessions) > MANY_SESSIONS,
        "step_limit": stopped is StopReason.STEP_LIMIT,
        "gave_up": kind is None and not has_patch,
        "not_followed": has_patch and bool(sound) and all(each is False for each in sound),
        "wrong_location": bool(case.changed and case.gold) and not near_gold,
        "wrong_fix_after_debugging": has_patch and any(each is not False for each in sound),
        "breaks_tests": has_patch and fixed and broken,
        "wrong_fix": has_patch and not (fixed and broken),
        "attempts_used_up": stopped is StopReason.ATTEMPT_LIMIT,
    }
    # An answer's mode is the rollout's if no session has an answer without any.
    holds |= {
        name: all(answers) and any(name in modes for modes in answers) for name in ANSWER_MODES
    }
    return [name for name in MODES if holds[name]]
