"""What a failing assertion compared, read post mortem from the frame that holds it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from collect.models.oracle.python_source import is_pure
from collect.questions.comparing import same_text
from collect.questions.program import Program
from collect.questions.python_module import PythonModule
from collect.questions.sides import Sides, sides_at
from sandbox.debugger import DebugEvent, Debugger, Frame, Value


@dataclass(frozen=True)
class SeenAssertion:
    """A failing assertion, and what it compared."""

    file: str
    line: int
    function: str
    actual: Value
    expected: Value | None


def see_assertion(
    debugger: Debugger, ending: DebugEvent, frames: tuple[Frame, ...], program: Program
) -> SeenAssertion | None:
    """Evaluate both sides in the frame post mortem.

    None where it compares in another way than by `==` or truth, or where evaluating it again gives
    something else than the message says: then the comparison has changed what it reads.
    """
    frame = next((f for f in frames if f.file in program.tests), None)
    if frame is None or ending.exception is None or ending.exception.type != "AssertionError":
        return None
    module = program.tests[frame.file]
    sides = sides_at(module.tree, frame.line) if isinstance(module, PythonModule) else None
    if sides is None:
        return None
    actual = _evaluated(debugger, sides.actual, frame.index)
    expected = _evaluated(debugger, sides.expected, frame.index) if sides.expected else None
    if actual is None or (sides.expected is not None and expected is None):
        return None
    if not _fits(ending.exception.message, sides, actual, expected):
        return None
    return SeenAssertion(frame.file, frame.line, frame.function, actual, expected)


def _evaluated(debugger: Debugger, expression: str, frame: int) -> Value | None:
    event = debugger.evaluate(expression, frame)
    if event.error_kind is not None or not event.values or event.values[0].truncated:
        return None
    return event.values[0]


def _fits(message: str, sides: Sides, actual: Value, expected: Value | None) -> bool:
    """Whether the values fail the assertion, and are those that its message shows.

    The message cuts long values in the middle: then their ends are compared.
    """
    wanted_pure = all(map(is_pure_text, filter(None, (sides.actual, sides.expected))))
    first = message.partition("\n")[0]
    if expected is None:
        shown = first.removeprefix("assert ").removeprefix("not ").strip()
        return wanted_pure or _shows(shown, actual.text)
    if same_text(actual.text, expected.text):
        return False
    for between in (" == ", " != ", " is "):
        left, found, right = first.removeprefix("assert ").partition(between)
        if found:
            pairs = ((actual.text, expected.text), (expected.text, actual.text))
            return any(_shows(left, one) and _shows(right, other) for one, other in pairs)
    return wanted_pure


def _shows(shown: str, text: str) -> bool:
    """Whether a message's text can be this value."""
    head, cut, tail = shown.strip().partition("...")
    if cut:
        return text.startswith(head) and text.endswith(tail)
    return same_text(shown, text)


def is_pure_text(expression: str) -> bool:
    """Whether evaluating an expression again changes nothing that it reads."""
    return is_pure(ast.parse(expression, mode="eval").body)
