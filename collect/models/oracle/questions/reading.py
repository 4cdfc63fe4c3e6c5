"""Ways to read one expression where the program is paused."""

from __future__ import annotations

import re

from collect.models.oracle.questions import wording as words
from collect.models.oracle.questions.session import Moves, Session

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
