"""Answers to: which exception, from where? Which assertion, with what values?"""

from __future__ import annotations

from collections.abc import Mapping

from collect.benchmarks.base import Instance
from collect.models.oracle.questions import wording as words
from collect.models.oracle.questions.session import Moves, Session, Stopped
from collect.questions.records import ExceptionAsk
from collect.questions.sides import Sides, sides_at
from collect.questions.statements import is_test_file
from collect.syntax import parse

MAX_RAISES = 10


def investigate_exception(
    instance: Instance, session: Session, ask: ExceptionAsk
) -> Moves[str | None]:
    """The answer; None where no exception was seen."""
    if not ask.ends_test:
        return (yield from _first_raise(instance, session, ask.function))
    stopped = yield from _to_the_end(session)
    if stopped is None or not stopped.post_mortem or stopped.raised is None:
        return None
    frames = yield from session.stack("Where does it come from? I read the stack.")
    inside = [frame for frame in frames if frame["file"] in instance.files]
    if not inside:
        return None
    origin = inside[0]
    yield from _look_at_frames(session, origin, inside)
    return _word(session, stopped, f"{origin['file']}:{origin['line']}", origin["function"])


def investigate_assertion(instance: Instance, session: Session) -> Moves[str | None]:
    """The answer; None where no assertion of the tests has failed."""
    stopped = yield from _to_the_end(session)
    if stopped is None or not stopped.post_mortem:
        return None
    frames: list[Mapping[str, str]] = [
        {"index": "0", "file": stopped.file, "line": str(stopped.line)}
    ]
    if stopped.file not in instance.files or session.habits.detour(0.5):
        frames = yield from session.stack("Which assertion is it?")
    frame = next((f for f in frames if is_test_file(instance, f["file"])), None)
    if frame is None or frame["file"] not in instance.files:
        return None
    line = int(frame["line"])
    sides = sides_at(parse(instance.files[frame["file"]]), line)
    if sides is None:
        return None
    if session.habits.detour(0.5):
        yield from session.read("I read the whole assertion.", frame["file"], line - 2, line + 6)
    index = int(frame["index"])
    actual = yield from session.evaluate(_compares(sides), sides.actual, index)
    if actual is None:
        return None
    session.place = f"{frame['file']}:{line}"
    session.note(f"{sides.actual} = {actual}")
    if sides.expected is None:
        return words.pick(session.habits, words.TRUTH_ANSWERS, place=session.place, actual=actual)
    expected = yield from session.evaluate(
        f"And the other side, `{sides.expected}`?", sides.expected, index
    )
    session.note(f"{sides.expected} = {expected}")
    return words.pick(
        session.habits,
        words.ASSERTION_ANSWERS,
        place=session.place,
        actual=actual,
        expected=expected,
    )


def _compares(sides: Sides) -> str:
    if sides.expected is None:
        return f"The assertion checks `{sides.actual}`. What did it come to?"
    return f"The assertion compares `{sides.actual}` with `{sides.expected}`. I read the first."


def _to_the_end(session: Session) -> Moves[Stopped | None]:
    """Run the test until an exception ends it, by way of its beginning or not."""
    at_test = session.habits.detour(0.6)
    why = words.pick(session.habits, words.START_AT_TEST if at_test else words.RUN_THROUGH)
    stopped = yield from session.start(why, [], at_test)
    if stopped is not None and not stopped.post_mortem and session.habits.detour(0.3):
        stopped = yield from session.control("I step over the first line.", "step_over")
    for _ in range(3):
        if stopped is None or stopped.post_mortem:
            break
        stopped = yield from session.control(words.pick(session.habits, words.RUN_ON), "continue")
    if stopped is not None and stopped.raised is not None:
        session.place = stopped.place
        session.note(stopped.raised[0])
    return stopped


def _look_at_frames(
    session: Session, origin: Mapping[str, str], frames: list[Mapping[str, str]]
) -> Moves[None]:
    """The variables of the frame that raised, and sometimes of its caller."""
    if session.habits.detour(0.7):
        seen = yield from session.locals(
            f"What does {origin['function']} work on?", int(origin["index"])
        )
        for name, text in list(seen.items())[:2]:
            session.note(f"{name} = {text[:80]}")
    if len(frames) > 1 and session.habits.detour(0.5):
        caller = frames[1]
        yield from session.locals(f"One frame up, in {caller['function']}.", int(caller["index"]))
        session.note(f"called from {caller['file']}:{caller['line']}")


def _first_raise(instance: Instance, session: Session, function: str) -> Moves[str | None]:
    """Stop at every raise until one is the program's own."""
    rng = session.rng
    if rng.random() < 0.5 or session.habits.direct:
        stopped = yield from session.start(
            "I stop at every exception that is raised.", ["exception Exception"], False
        )
    else:
        yield from session.start(words.pick(session.habits, words.START_AT_TEST), [], True)
        yield from session.set_breakpoint(
            "I want to stop wherever an exception is raised.", "exception Exception"
        )
        stopped = yield from session.control("Again from the start.", "restart")
    for _ in range(MAX_RAISES):
        if stopped is None or stopped.post_mortem:
            return None
        own = stopped.file in instance.files and not is_test_file(instance, stopped.file)
        if own and stopped.raised is not None and function in ("", stopped.function):
            session.note(stopped.raised[0])
            if session.habits.detour(0.6):
                yield from session.locals("Which values led to it?")
            session.place = stopped.place
            return _word(session, stopped, stopped.place, stopped.function)
        stopped = yield from session.control(
            f"{stopped.place}, in {stopped.function}, is not the one; I continue.", "continue"
        )
    return None


def _word(session: Session, stopped: Stopped, place: str, function: str) -> str:
    assert stopped.raised is not None
    session.place = place
    said = stopped.raised["message"] or ""
    message = f' ("{said}")' if said and len(said) < 80 and session.habits.detour(0.4) else ""
    return words.pick(
        session.habits,
        words.EXCEPTION_ANSWERS,
        type=stopped.raised["type"],
        place=place,
        function=function,
        message=message,
    )
