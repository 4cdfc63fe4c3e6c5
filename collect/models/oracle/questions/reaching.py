"""Answers to: is this line reached, how often, and does the change make the test pass?"""

from __future__ import annotations

from collect.benchmarks.base import Instance
from collect.models.oracle.questions import wording as words
from collect.models.oracle.questions.going import Way
from collect.models.oracle.questions.session import Moves, Session
from collect.models.oracle.questions.values import investigate_value, word_value
from collect.questions.records import PostFixAsk, ReachAsk

MAX_CONTINUES = 14


def investigate_reach(instance: Instance, session: Session, ask: ReachAsk) -> Moves[str | None]:
    """The answer; None where the run did not come to its end."""
    aim = ", and count the visits" if ask.count else ", to see whether it is reached"
    way = Way(instance, session, ask.place, 1, aim)
    there = yield from way.go()
    if not there:
        over = session.stopped is None or session.stopped.post_mortem
        return (yield from _missed(session, ask)) if over else None
    session.note(f"the debugger stopped at {ask.place}")
    count = 1
    if not ask.count:
        if session.habits.detour(0.5):
            seen = yield from session.locals("It is reached. With which values?")
            for name, text in list(seen.items())[:2]:
                session.note(f"{name} = {text[:80]}")
        return _word(session, ask, None)
    for _ in range(MAX_CONTINUES):
        stopped = yield from session.control(
            words.pick(session.habits, words.COUNT_ON, count=count), "continue"
        )
        if stopped is None or stopped.post_mortem:
            session.note(f"{words.visits(count)}, then the test ended")
            return _word(session, ask, count)
        count += way.is_there(stopped)
    return None


def investigate_fix(
    instance: Instance, session: Session, ask: PostFixAsk, run_code: bool
) -> Moves[str | None]:
    """The value first, then the test's end."""
    habits = session.habits
    text = yield from investigate_value(instance, session, ask.value, run_code)
    if text is None:
        return None
    place = session.place
    for _ in range(MAX_CONTINUES):
        stopped = session.stopped
        if stopped is None or stopped.post_mortem:
            break
        for number in stopped.numbers:
            yield from session.remove_breakpoint("This stop has shown what I need.", number)
        yield from session.control(words.pick(habits, words.RUN_ON), "continue")
    stopped = session.stopped
    if stopped is not None and not stopped.post_mortem:
        return None
    passed = stopped is None and session.exit_code == 0
    if stopped is not None and stopped.raised is not None:
        session.note(stopped.raised[0])
    else:
        session.note(f"the program ended with exit code {session.exit_code}")
    session.place = place
    verdict = words.pick(habits, words.PASSES if passed else words.FAILS)
    return f"{verdict} {word_value(session, ask.value, text)}"


def _missed(session: Session, ask: ReachAsk) -> Moves[str | None]:
    """Sometimes look where execution went instead, before the no."""
    if session.habits.detour(0.4):
        function = ask.place.function
        stopped = yield from session.start(
            f"It did not stop there. Is `{function}` entered at all?", [function], False
        )
        if stopped is not None and not stopped.post_mortem:
            yield from session.locals(f"It is, at {stopped.place}. Which way does it go?")
            session.note(f"{function} is entered at {stopped.place}")
        else:
            session.note(f"{function} is not entered")
    session.note(f"a breakpoint at {ask.place} was not hit until the test ended")
    session.place = str(ask.place)
    return _word(session, ask, 0)


def _word(session: Session, ask: ReachAsk, count: int | None) -> str:
    place = ask.place
    phrases = words.NOT_REACHED if count == 0 else words.REACHED
    times = ""
    if ask.count and count is not None:
        times = ", 0 times" if count == 0 else f", {words.visits(count)}"
    return words.pick(
        session.habits, phrases, place=place, line=place.line, file=place.file, times=times
    )
