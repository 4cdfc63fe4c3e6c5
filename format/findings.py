"""The `<debug_answer>` that a Program Inspector's findings make."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collect.agents.answer import CLOSE, LABEL, OPEN, parse_answer
from collect.records import DebugAnswer
from collect.self_repair.layout import TEST_PATHS
from format.inspection import Inspection, arguments_of
from format.vocabulary import Untranslatable
from sandbox.debugger import Action, DebugEvent, State

QUESTION = (
    "What is the root cause of the failure of this test, and what change to the program mends it?"
)
MAX_FINDINGS = 8
"""The last ones are given."""
MAX_CHARACTERS = 200
"""Of one piece of code, or of what it printed."""


def debug_answer(inspection: Inspection) -> DebugAnswer:
    """The plan, and what was seen in the session that led to it."""
    found = list(_findings(inspection))[-MAX_FINDINGS:]
    return DebugAnswer(
        question=QUESTION,
        answer=inspection.conclusion.plan,
        evidence="\n".join(f"- {each}" for each in found) or "Nothing was seen in the debugger.",
        location=last_location(inspection),
    )


def answer_text(answer: DebugAnswer) -> str:
    """The block. Raises Untranslatable where it would not be read as one.

    A line of the plan that begins as one of the block's four lines is set off by `> `.
    """
    text = (
        f"<debug_answer>\n**Question**: {answer.question}\n"
        f"**Answer**: {LABEL.sub(lambda label: '> ' + label[0], answer.answer)}\n"
        f"**Evidence**:\n{answer.evidence}\n**Location**: {answer.location}\n</debug_answer>"
    )
    if len(OPEN.findall(text)) > 1 or len(CLOSE.findall(text)) > 1 or parse_answer(text) is None:
        raise Untranslatable("the repair plan or a value holds a <debug_answer> tag, or no text")
    return text


def last_location(inspection: Inspection) -> str:
    """Where the program itself last stopped; else where the test did."""
    stops = [event for event in inspection.events if event.stops_program and event.file]
    tests = {inspection.test.partition("::")[0], *TEST_PATHS}
    inside = [event for event in stops if event.file not in tests]
    return _place((inside or stops)[-1]) if stops else "not observed"


def _findings(inspection: Inspection) -> Iterator[str]:
    """One line each: what was printed and changed where, and how the program went on."""
    place = _place(inspection.opening)
    for event in inspection.events:
        if event.action is Action.RUN_CODE and event.error_kind is None:
            yield f"at {place}, {_ran(event)}"
        elif event.action is Action.CONTINUE and event.state is State.DONE:
            yield f"the test then ended with exit code {event.exit_code}"
        elif event.exception is not None and event.action is Action.CONTINUE:
            what = _short(f"{event.exception.type}: {event.exception.message}")
            yield f"then `{what}` was raised at {_place(event)}"
        if event.stops_program:
            place = _place(event)


def _ran(event: DebugEvent) -> str:
    code = _short(str(arguments_of(event)["code"]))
    shown = f" printed `{_short(event.output)}`" if event.output.strip() else " was run"
    return f"`{code}`{shown}"


def _place(event: DebugEvent) -> str:
    return f"{event.file}:{event.line}"


def _short(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."
