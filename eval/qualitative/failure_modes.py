"""Why an answer is of no use, and why a rollout did not resolve its bug, by rules.

Each mode is one function over plain facts. The modes stand in the order in which they are asked
for: the first that holds is the primary one, and all that hold are told. Those that Debug2Fix's
table 4 has keep its names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collect.agents.config import Variant
from collect.errors import FailureKind
from collect.patches import ChangedRange
from collect.questions.claims import same_file
from collect.records import Rollout, StopReason
from collect.scoring import FAIL_TO_PASS, PASS_TO_PASS
from eval.qualitative.sessions import Session

MANY_SESSIONS = 3
"""More make a bug one of high complexity (table 4)."""
NEAR_LINES = 3
"""So close to a line that the gold patch changes, a change is at its place."""
UNSEEN_DEBUGGERS = (Variant.INSPECTCODER_NO_DEBUGGER, Variant.INSPECTCODER_NO_INSPECTWARE)
"""Variants without a debugger, or with a raw terminal, of which no event tells."""
PASSED = "passed"


@dataclass(frozen=True)
class Case:
    """One unresolved rollout."""

    rollout: Rollout
    sessions: tuple[Session, ...] = ()
    """Of those that debug, in their order."""
    changed: tuple[ChangedRange, ...] = ()
    """What the patch changes."""
    gold: tuple[ChangedRange, ...] = ()
    """What the gold patch changes; empty where it is not known."""

    @property
    def sees_debugger(self) -> bool:
        """Whether events tell what the debugger did."""
        return self.rollout.variant not in UNSEEN_DEBUGGERS

    @property
    def modes(self) -> list[list[AnswerMode]]:
        """Those of each session."""
        return [modes_of_answer(each, self.sees_debugger) for each in self.sessions]

    @property
    def sound(self) -> list[Session]:
        """The sessions with an answer and no mode."""
        pairs = zip(self.sessions, self.modes, strict=True)
        return [session for session, modes in pairs if session.answers and not modes]


@dataclass(frozen=True)
class AnswerMode:
    """A way in which a subagent's answer fails."""

    name: str
    title: str
    description: str
    holds: Callable[[Session], bool]
    by_events: bool = False
    """Told by the debugger's events."""


@dataclass(frozen=True)
class Mode:
    """A way in which a rollout fails."""

    name: str
    title: str
    description: str
    holds: Callable[[Case], bool]


def modes_of_answer(session: Session, sees_debugger: bool = True) -> list[AnswerMode]:
    """All modes that hold, the primary one first; none: nothing is wrong with it."""
    modes = (mode for mode in ANSWER_MODES if sees_debugger or not mode.by_events)
    return [mode for mode in modes if mode.holds(session)]


def modes_of_rollout(case: Case) -> list[Mode]:
    """All modes that hold, the primary one first; an unresolved rollout has at least one."""
    return [mode for mode in MODES if mode.holds(case)]


def never_started(session: Session) -> bool:
    return session.launches > 0 and session.stops == 0 and session.inspections == 0


def nothing_observed(session: Session) -> bool:
    return session.answers and session.launches == session.stops == session.inspections == 0


def never_hit(session: Session) -> bool:
    if session.about_reaching or session.late_inspections:
        return False
    return session.stops > 0 and session.breakpoints and session.breakpoint_hits == 0


def no_call_done(session: Session) -> bool:
    return session.answers and 0 < session.calls == session.not_done


def no_answer(session: Session) -> bool:
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
        "No breakpoint that was set was ever come to, and nothing was looked at elsewhere but at "
        "the start of the test; not where reaching a line is the question.",
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


def lifted(mode: AnswerMode) -> Mode:
    """Of a rollout: no session was without a mode, and one at least has this one."""
    return Mode(
        mode.name,
        mode.title,
        mode.description,
        lambda case: all(case.modes) and any(mode in modes for modes in case.modes),
    )


def failed_as(kind: FailureKind) -> Callable[[Case], bool]:
    return lambda case: case.rollout.failure_kind is kind


def never_debugged(case: Case) -> bool:
    rollout = case.rollout
    if rollout.failure_kind is not None:
        return False
    if rollout.variant == Variant.DEBUG_TOOLS_ONLY:
        return not rollout.debug_calls
    return bool(rollout.sub_model) and not rollout.sub_calls


def many_sessions(case: Case) -> bool:
    return len([each for each in case.sessions if each.answers]) > MANY_SESSIONS


def has_patch(case: Case) -> bool:
    return bool(case.rollout.patch.strip())


def gave_up(case: Case) -> bool:
    return case.rollout.failure_kind is None and not has_patch(case)


def not_followed(case: Case) -> bool:
    touched = [session.touched for session in case.sound]
    return has_patch(case) and bool(touched) and all(each is False for each in touched)


def elsewhere(case: Case) -> bool:
    pairs = ((change, gold) for change in case.changed for gold in case.gold)
    return bool(case.changed and case.gold) and not any(_is_near(*pair) for pair in pairs)


def wrong_after_debugging(case: Case) -> bool:
    return has_patch(case) and any(each.touched is not False for each in case.sound)


def breaks_tests(case: Case) -> bool:
    tests = case.rollout.tests
    mended = all(test.after == PASSED for test in tests if test.group == FAIL_TO_PASS)
    broken = any(test.after != PASSED for test in tests if test.group == PASS_TO_PASS)
    return has_patch(case) and mended and broken


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
        "The main model could not go on: its context was full, or its server refused.",
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
        "The patch does not mend the failing tests.",
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


def titles(modes: Sequence[Mode | AnswerMode]) -> list[str]:
    """What the tables call them."""
    return [mode.title for mode in modes]
