"""Why a rollout did not resolve its bug, by rules.

Each mode is one function over plain facts. They stand in the order in which they are asked for: the
first that holds is the primary one, and all that hold are told. Those that Debug2Fix's table 4 has
keep its names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from collect.agents.config import Variant
from collect.benchmarks.base import TestStatus
from collect.code.patches import ChangedRange
from collect.errors import FailureKind
from collect.questions.claims import same_file
from collect.rollouts.scoring import FAIL_TO_PASS, PASS_TO_PASS
from collect.store.records import Rollout, StopReason
from eval.qualitative.sessions import ANSWER_MODES, AnswerMode, Session, modes_of_answer

MANY_SESSIONS = 3
"""More make a bug one of high complexity (table 4)."""
NEAR_LINES = 3
"""So close to a line that the gold patch changes, a change is at its place."""
UNSEEN_DEBUGGERS = (Variant.INSPECTCODER_NO_DEBUGGER, Variant.INSPECTCODER_NO_INSPECTWARE)
"""Variants without a debugger, or with a raw terminal, of which no event tells."""


@dataclass(frozen=True)
class Case:
    """One unresolved rollout."""

    rollout: Rollout
    sessions: tuple[Session, ...] = ()
    """The sessions of agents that debug, in order."""
    changed: tuple[ChangedRange, ...] = ()
    """What the patch changes."""
    gold: tuple[ChangedRange, ...] = ()
    """What the gold patch changes; empty where it is not known."""

    @property
    def sees_debugger(self) -> bool:
        """Whether events tell what the debugger did."""
        return self.rollout.variant not in UNSEEN_DEBUGGERS

    @cached_property
    def modes(self) -> list[list[AnswerMode]]:
        """The modes of each session."""
        return [modes_of_answer(each, self.sees_debugger) for each in self.sessions]

    @property
    def sound(self) -> list[Session]:
        """The sessions with an answer and no mode."""
        pairs = zip(self.sessions, self.modes, strict=True)
        return [session for session, modes in pairs if session.answers and not modes]


@dataclass(frozen=True)
class Mode:
    """A way in which a rollout fails."""

    name: str
    title: str
    description: str
    holds: Callable[[Case], bool]


def modes_of_rollout(case: Case) -> list[Mode]:
    """All modes that hold, the primary one first; an unresolved rollout has at least one."""
    return [mode for mode in MODES if mode.holds(case)]


def lifted(mode: AnswerMode) -> Mode:
    """The mode of a rollout in which every session has some mode, and at least one has this one."""
    return Mode(
        mode.name,
        mode.title,
        mode.description,
        lambda case: all(case.modes) and any(mode in modes for modes in case.modes),
    )


def failed_as(kind: FailureKind) -> Callable[[Case], bool]:
    """Whether the rollout ended early, and by whose fault."""
    return lambda case: case.rollout.failure_kind is kind


def never_debugged(case: Case) -> bool:
    """A debugger was at hand, by itself or through a subagent, and was not used."""
    rollout = case.rollout
    if rollout.failure_kind is not None:
        return False
    if rollout.variant == Variant.DEBUG_TOOLS_ONLY:
        return not rollout.debug_calls
    return bool(rollout.sub_model) and not rollout.sub_calls


def many_sessions(case: Case) -> bool:
    """More questions than a bug should need."""
    return len([each for each in case.sessions if each.answers]) > MANY_SESSIONS


def has_patch(case: Case) -> bool:
    """Something was changed."""
    return bool(case.rollout.patch.strip())


def gave_up(case: Case) -> bool:
    """It came to its end, and changed nothing."""
    return case.rollout.failure_kind is None and not has_patch(case)


def not_followed(case: Case) -> bool:
    """Every sound answer names a place that the patch did not touch."""
    touched = [session.touched for session in case.sound]
    return has_patch(case) and bool(touched) and all(each is False for each in touched)


def elsewhere(case: Case) -> bool:
    """Every change is far from those of the gold patch."""
    pairs = ((change, gold) for change in case.changed for gold in case.gold)
    return bool(case.changed and case.gold) and not any(_is_near(*pair) for pair in pairs)


def wrong_after_debugging(case: Case) -> bool:
    """A sound answer was followed, as far as that can be told, and the fix is wrong."""
    return has_patch(case) and any(each.touched is not False for each in case.sound)


def breaks_tests(case: Case) -> bool:
    """What failed passes, and what passed fails."""
    tests = case.rollout.tests
    fixed = all(test.after == TestStatus.PASSED for test in tests if test.group == FAIL_TO_PASS)
    broken = any(test.after != TestStatus.PASSED for test in tests if test.group == PASS_TO_PASS)
    return has_patch(case) and fixed and broken


def _is_near(change: ChangedRange, gold: ChangedRange) -> bool:
    apart = change.start > gold.end + NEAR_LINES or change.end < gold.start - NEAR_LINES
    return same_file(change.path, gold.path) and not apart


LIFTED = {mode.name: lifted(mode) for mode in ANSWER_MODES}
ENDED_EARLY = (
    Mode(
        "infrastructure",
        "Infrastructure",
        "A sandbox, an endpoint or the test harness did not work.",
        failed_as(FailureKind.INFRASTRUCTURE),
    ),
    Mode("budget", "Budget", "The run's dollars were spent.", failed_as(FailureKind.BUDGET)),
)
"""They say nothing about the models."""
RECORDED = frozenset({"infrastructure", "budget", "model_failure"})
"""Recorded facts, and nothing to have an opinion on."""
MODES = (
    *ENDED_EARLY,
    Mode(
        "model_failure",
        "Model Failure",
        "The main model could not go on: its context was full, its server refused, or its calls "
        "filled the sandbox twice.",
        failed_as(FailureKind.MODEL),
    ),
    Mode(
        "never_debugged",
        "Debugger Not Used",
        "The main agent never asked the subagent, or never called the debug tools that it has.",
        never_debugged,
    ),
    *(LIFTED[name] for name in ("subagent_error", "unusable_calls", "session_failed")),
    LIFTED["static_analysis"],
    Mode(
        "high_complexity",
        "High Complexity Bug",
        f"More than {MANY_SESSIONS} debug sessions, and yet no correct fix.",
        many_sessions,
    ),
    *(LIFTED[name] for name in ("breakpoint_never_hit", "out_of_steps", "no_answer")),
    *(LIFTED[name] for name in ("misread_value", "ungrounded")),
    Mode(
        "step_limit",
        "Step Limit",
        "The main agent used up its steps.",
        lambda case: case.rollout.stop_reason is StopReason.STEP_LIMIT,
    ),
    Mode("gave_up", "Gave Up", "It ended without changing anything.", gave_up),
    Mode(
        "not_followed",
        "Answer Not Followed",
        "The answer was sound, and the patch is not at the place that it reports.",
        not_followed,
    ),
    Mode(
        "wrong_location",
        "Wrong Location",
        f"No change is within {NEAR_LINES} lines of one that the gold patch makes.",
        elsewhere,
    ),
    Mode(
        "wrong_fix_after_debugging",
        "Wrong Fix Despite Correct Debugging",
        "The answer was sound, and the fix at its place incorrect or incomplete.",
        wrong_after_debugging,
    ),
    Mode(
        "breaks_tests",
        "Breaks Passing Tests",
        "The failing tests pass, and others that passed fail.",
        breaks_tests,
    ),
    Mode(
        "wrong_fix",
        "Wrong Fix",
        "The patch does not fix the failing tests.",
        lambda case: has_patch(case) and not breaks_tests(case),
    ),
    Mode(
        "attempts_used_up",
        "Attempts Used Up",
        "No patch of all that may be tried passed the public tests.",
        lambda case: case.rollout.stop_reason is StopReason.ATTEMPT_LIMIT,
    ),
)
OF_TABLE_4 = (
    *("session_failed", "wrong_fix_after_debugging", "high_complexity", "subagent_error"),
    "static_analysis",
)
"""The paper's own, in its order."""
