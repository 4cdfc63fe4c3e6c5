"""Why the answer of an agent that debugs is of no use, by rules.

Each mode is one function over plain facts. They stand in the order in which they are asked for: the
first that holds is the primary one. Those that Debug2Fix's table 4 has keep its names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eval.qualitative.sessions import Session


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
    """Launched, and nothing of the program was ever seen."""
    return session.launches > 0 and session.stops == 0 and session.inspections == 0


def nothing_observed(session: Session) -> bool:
    """Not even launched."""
    return session.answers and session.launches == session.stops == session.inspections == 0


def never_hit(session: Session) -> bool:
    """Stopped, but never where it was to, and looked at nothing but the entry."""
    if session.about_reaching or session.late_inspections:
        return False
    return session.stops > 0 and session.breakpoints and session.breakpoint_hits == 0


def no_call_done(session: Session) -> bool:
    """It called, always in vain."""
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
