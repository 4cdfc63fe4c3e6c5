"""What a failing test claims of the program: what it calls, what it expects, and what it gets."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from collect.factory.comparisons import (
    CONDITIONS,
    EQUAL,
    assignments,
    computed_both,
    computed_right,
    is_constant,
    is_equality,
    is_method_of_constant,
    name_of,
    printed_values,
    raising,
    sides,
)
from collect.factory.symptom import Symptom

MAX_CHARACTERS = 200
"""Of a value, an expression or a message that a report shows."""
_BUILT_IN = {name for kind in (str, bytes, list, dict, set) for name in dir(kind)}
"""Methods that say nothing of the program."""
_BUILT_IN |= {*dir(builtins), "raises"}
_NOT_RAISED = re.compile(r"DID NOT RAISE|not raised(?: by \S+)?\s*$")


class Outcome(StrEnum):
    """How the program lets the test down."""

    WRONG_VALUE = "wrong_value"
    UNMET = "unmet"
    """A condition does not hold."""
    NO_ERROR = "no_error"
    ERROR = "error"
    WRONG_ERROR = "wrong_error"
    """Another exception than the one that is expected."""


@dataclass(frozen=True)
class Claim:
    """What a report tells. Any text may be empty."""

    outcome: Outcome
    call: str
    """The expression, or the statement, that goes wrong."""
    function: str
    """The name of what it calls."""
    expected: str = ""
    """A value; for NO_ERROR and WRONG_ERROR the exception."""
    actual: str = ""
    condition: str = ""
    """For UNMET: what does not hold."""
    message: str = ""
    """For ERROR and WRONG_ERROR: the exception's text."""


def read_claim(symptom: Symptom) -> Claim:
    """The first failing test's claim, without anything that the traceback alone shows."""
    statement = _parsed(symptom.statement)
    inner = statement.body[-1] if isinstance(statement, ast.With) else statement
    given = assignments(symptom.source, symptom.line)
    subject = _subject(inner, given)
    constant = subject is not None and is_constant(subject, given)
    call = "" if constant else _code(symptom.statement, subject or inner)
    function = _called(subject or inner, given, symptom.helpers)
    expected = symptom.expected_exception
    if expected and _NOT_RAISED.search(symptom.message):
        return Claim(Outcome.NO_ERROR, call, function, expected)
    if symptom.exception not in ("AssertionError", "Failed"):
        message = _shown(symptom.message.split("\n")[0], symptom)
        outcome = Outcome.WRONG_ERROR if expected else Outcome.ERROR
        return Claim(outcome, call, function, expected, message=message)
    expected, actual = _values(inner, symptom)
    if expected and actual and expected != actual:
        return Claim(Outcome.WRONG_VALUE, call, function, expected, actual)
    return Claim(Outcome.UNMET, call, function, condition=_condition(inner, symptom.statement))


def _parsed(source: str) -> ast.stmt | None:
    try:
        return ast.parse(source).body[0]
    except (SyntaxError, IndexError):
        return None


def _code(source: str, node: ast.AST | None) -> str:
    """Its text on one line; empty where that is long, or has nothing but variables."""
    if node is None or isinstance(node, ast.For | ast.While | ast.If | ast.Try):
        return ""
    if not any(isinstance(part, ast.Call | ast.Attribute) for part in ast.walk(node)):
        return ""
    made = not hasattr(node, "lineno")
    text = ast.unparse(node) if made else ast.get_source_segment(source, node) or ""
    text = ast.unparse(node) if "\n" in text else text
    return text if len(text) <= MAX_CHARACTERS and "\n" not in text else ""


def _subject(statement: ast.AST | None, given: Mapping[str, ast.expr]) -> ast.expr | None:
    """The expression that a statement checks or evaluates; of a comparison, what is tested."""
    both = sides(statement)
    if both is not None:
        return both[1] if computed_right(statement, given) else both[0]
    if isinstance(statement, ast.Assert):
        return statement.test
    raises = raising(statement)
    if raises is not None:
        rest = raises.args[1:]
        starred = any(isinstance(argument, ast.Starred) for argument in rest[:1])
        return ast.Call(rest[0], rest[1:], raises.keywords) if rest and not starred else None
    if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.Return):
        value = statement.value
        if not isinstance(value, ast.Call) or not name_of(value.func).startswith("assert"):
            return value
        computed = (argument for argument in value.args if not is_constant(argument, given))
        return next(computed, value)
    return None


def _condition(statement: ast.AST | None, source: str) -> str:
    """What an assertion asserts, as an expression."""
    if isinstance(statement, ast.Assert):
        return _code(source, statement.test)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        form = CONDITIONS.get(name_of(call.func))
        texts = [ast.unparse(arg) for arg in call.args]
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        if form is not None and not starred and len(texts) > form.count("{1}"):
            condition = form.format(*texts)
            return _code(condition, ast.parse(condition, mode="eval").body)
    return ""


def _called(node: ast.AST | None, given: Mapping[str, ast.expr], helpers: frozenset[str]) -> str:
    """The program's function or method that an expression is about, through the variable that
    holds its result."""
    parts = list(ast.walk(node)) if node is not None else []
    for part in parts:
        if isinstance(part, ast.Call) and not is_method_of_constant(part):
            name = name_of(part.func)
            own = isinstance(part.func, ast.Name) and part.func.id in given
            known = own or name in {*_BUILT_IN, *EQUAL, ""}
            if not known and not _root(part.func) & helpers:
                return name
    sources = [given[part.id] for part in parts if isinstance(part, ast.Name) and part.id in given]
    return next(filter(None, (_called(source, {}, helpers) for source in sources)), "")


def _root(function: ast.expr) -> set[str]:
    """The name that what is called begins with, as `match` of `match.set_data`."""
    while isinstance(function, ast.Attribute):
        function = function.value
    return {function.id} if isinstance(function, ast.Name) else set()


def _values(statement: ast.AST | None, symptom: Symptom) -> tuple[str, str]:
    """Expected and actual value of an equality."""
    given = assignments(symptom.source, symptom.line)
    if not is_equality(statement) or computed_both(statement, given):
        return "", ""
    left, right = (_shown(value, symptom) for value in printed_values(symptom.message))
    return (left, right) if computed_right(statement, given) else (right, left)


def _shown(text: str, symptom: Symptom) -> str:
    """The text; nothing where it is long, or has a name or an address that no user has seen."""
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    inner = {word for word in words if word.startswith("_")} | set(re.findall(r"(\w+)\(", text))
    unseen = words & symptom.hidden or inner - set(re.findall(r"\w+", symptom.source))
    long = len(text) > MAX_CHARACTERS or "\n" in text
    return "" if long or unseen or re.search(r"\b0x[0-9a-f]|\.\.\.", text) else text.strip()
