"""Answers to: what is this expression at that line?"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from collect.benchmarks.base import Instance
from collect.oracle.questions import wording as words
from collect.oracle.questions.line_navigator import Way
from collect.oracle.questions.session import Moves, Session
from collect.question_records import ValueAsk
from collect.questions.writing import ordinal

# Ways to read one expression where the program is paused.


OUTPUT = re.compile(r"^Program output:\n +(?P<text>.*)$", re.MULTILINE)
PART = re.compile(r"^(?P<base>.+?)(?:\.(?P<field>\w+)|(?P<key>\[[^\[\]]+\]))$")


def read_expression(
    session: Session, expression: str, wanted: int, run_code: bool
) -> Moves[str | None]:
    """Its text, by whichever way; None where it can't be read."""
    why = words.pick(session.habits, words.LOOK, expression=expression, wanted=wanted)
    part = PART.match(expression)
    text: str | None = None
    chance = 1.0 if session.habits.direct else session.rng.random()
    if expression.isidentifier() and chance < 0.45:
        text = (yield from session.locals(words.pick(session.habits, words.ALL_LOCALS))).get(
            expression
        )
    elif part is not None and chance < 0.4:
        name = part["field"] or part["key"]
        base = part["base"]
        text = (yield from session.fields(f"I look into `{base}`.", base)).get(name)
    elif run_code and chance < 0.7:
        text = yield from _printed(session, why, expression)
    if text is None or _is_cut(text):
        text = yield from session.evaluate(why, expression)
    if text is not None:
        session.note(f"{expression} = {text}")
    return text


def _printed(session: Session, why: str, expression: str) -> Moves[str | None]:
    code = f"print(repr({expression}))"
    text = yield from session.do(why, "debug_run_code", code=code)
    found = OUTPUT.search(text)
    return found["text"].strip() if found else None


def _is_cut(text: str) -> bool:
    return "..." in text or "0x" in text


MAX_CLEARED = 3


def investigate_value(
    instance: Instance, session: Session, ask: ValueAsk, run_code: bool
) -> Moves[str | None]:
    """The text of the value that was read; None where the program never got there."""
    way = Way(instance, session, ask.place, ask.hit, _aim(ask))
    there = yield from way.go()
    if not there:
        return None
    if ask.after:
        return (yield from _after(session, ask, run_code))
    text = yield from read_expression(session, ask.expression, ask.hit, run_code)
    if text is not None and session.habits.detour(0.3):
        yield from _look_around(session)
    if text is not None and ask.hit > 1 and session.habits.detour(0.25):
        yield from _confirm(session, ask, text)
    return text


def word_value(session: Session, ask: ValueAsk, text: str) -> str:
    """The answer's text."""
    visit = f"the {ordinal(ask.hit)} time"
    before, after = f"just before it runs {visit}", f"after it has run {visit}"
    when = after if ask.after else before
    if session.habits.detour(0.4):
        when = f"on visit {ask.hit}" if not ask.after else f"right after visit {ask.hit}"
    return words.pick(
        session.habits,
        words.VALUE_ANSWERS,
        expression=ask.expression,
        text=text,
        when=when,
        When=when[0].upper() + when[1:],
        place=ask.place,
    )


def _aim(ask: ValueAsk) -> str:
    last = f"and read `{ask.expression}`"
    return f", go to visit {ask.hit}, {'step over it, ' if ask.after else ''}{last}"


def _after(session: Session, ask: ValueAsk, run_code: bool) -> Moves[str | None]:
    """Let the line run, without stopping at it again inside, and read."""
    stopped = session.stopped
    for number in stopped.numbers[:MAX_CLEARED] if stopped is not None else ():
        yield from session.remove_breakpoint(
            f"This is visit {ask.hit}. I take the breakpoint away, so that the step ends after it.",
            number,
        )
    stopped = yield from session.control(words.pick(session.habits, words.OVER), "step_over")
    if stopped is None:
        return None
    return (yield from read_expression(session, ask.expression, ask.hit, run_code))


def _look_around(session: Session) -> Moves[None]:
    if session.rng.random() < 0.5:
        frames = yield from session.stack("Who called this?")
        if len(frames) > 1:
            caller = frames[1]
            session.note(f"called from {caller['file']}:{caller['line']} in {caller['function']}")
    else:
        yield from session.locals("And the rest of the frame?")


def _confirm(session: Session, ask: ValueAsk, text: str) -> Moves[None]:
    """Come to the same visit once more by a condition, where the value can be written as one."""
    if not _is_literal(text) or session.stopped is None:
        return
    numbers = session.stopped.numbers
    condition = f"{ask.expression} == {text}"
    yield from session.set_breakpoint(
        "I check this with a conditional breakpoint.", str(ask.place), condition=condition
    )
    for number in numbers:
        yield from session.remove_breakpoint("The unconditional one would stop earlier.", number)
    stopped = yield from session.control("From the start, with the condition.", "restart")
    if stopped is not None and not stopped.post_mortem:
        again = yield from session.evaluate(f"`{ask.expression}` once more.", ask.expression)
        if again == text:
            session.note(f"a breakpoint with the condition {condition} stops at {stopped.place}")


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return False
    return len(text) < 60


def shown(values: Mapping[str, str], names: tuple[str, ...]) -> str:
    """`a = 1, b = 2` of the names that were seen."""
    return ", ".join(f"{name} = {values[name]}" for name in names if name in values)
