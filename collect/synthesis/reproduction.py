"""A program that shows a bug: what it does in the buggy and in the correct project is what an issue
tells."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import partial

from collect.benchmarks.projects.failing_input import unbound
from collect.benchmarks.projects.issue_text import (
    Claim,
    Outcome,
    Symptom,
    excerpts,
    failing_inputs,
    read_claim,
    visible,
)
from sandbox import Command, Sandbox

SECONDS = 20.0
"""Time for one run of a program."""
_SHOWING = "import builtins; print = lambda *values: builtins.print(*map(repr, values))\n"
"""Shows strings with their quotes, on one line."""
_RAISED = re.compile(r"^(?:\w+\.)*(\w+)(?:: (.*))?\Z", re.DOTALL)
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")


@dataclass(frozen=True)
class Ending:
    """What a program printed, or the exception that ended it."""

    printed: str
    exception: str = ""
    """Its class, without the module."""
    message: str = ""


@dataclass(frozen=True)
class Trees:
    """The buggy and the correct project, each in a sandbox."""

    buggy: Sandbox
    correct: Sandbox

    def run(self, code: str) -> tuple[Ending, Ending] | None:
        """How a Python program ends in each; None if one does not end."""
        both = [_run(code, sandbox) for sandbox in (self.buggy, self.correct)]
        return (both[0], both[1]) if both[0] and both[1] else None


def _run(code: str, sandbox: Sandbox) -> Ending | None:
    argv = [sandbox.python, "-W", "ignore", "-"]
    environment, source = {"PYTHONHASHSEED": "0"}, (_SHOWING + code).encode()
    # Outside the workspace, without the tests' files.
    result = sandbox.run(Command(argv, "/tmp", environment, source, SECONDS))
    if result.timed_out:
        return None
    output = _ADDRESS.sub("0x…", result.output)
    printed, _, trace = output.rpartition("Traceback (most recent call last):\n")
    raised = re.search(r"^\S.*", trace, re.MULTILINE | re.DOTALL)
    if result.exit_code == 0 or raised is None:
        return Ending(output.strip())
    named = _RAISED.match(raised[0].strip())
    kind, message = named.groups() if named is not None else (raised[0], "")
    return Ending(printed.strip(), kind, message or "")


def reproduce(symptom: Symptom, trees: Trees) -> tuple[Claim, dict[str, str]] | None:
    """What a user sees who runs a part of the failing test, and that program with the exception;
    None if no part shows the bug and what should happen."""
    claim = read_claim(symptom)
    for code in failing_inputs(symptom):
        endings = trees.run(code) if trees.buggy.workspace not in code else None
        told = _told(claim, *endings, symptom) if endings is not None else None
        if told is not None and endings is not None:
            shown = {"snippet": _reduced(code, endings, trees), "exception": endings[0].exception}
            return told, shown
    return None


def _reduced(code: str, endings: tuple[Ending, Ending], trees: Trees) -> str:
    """The program without those of its statements that don't change how it ends."""
    lines = code.split("\n")
    for node in ast.parse(code).body[-2::-1]:
        first = min(part.lineno for part in ast.walk(node) if isinstance(part, ast.stmt | ast.expr))
        fewer = [*lines[: first - 1], *lines[node.end_lineno or first :]]
        shorter = "\n".join(fewer)
        if not unbound(ast.parse(shorter)) and trees.run(shorter) == endings:
            lines = fewer
    return "\n".join(lines).strip("\n")


def _told(claim: Claim, wrong: Ending, right: Ending, symptom: Symptom) -> Claim | None:
    """The claim with these endings; None if they are equal, or a user could not tell from it what
    should happen."""
    if wrong == right:
        return None
    value = partial(visible, symptom=symptom, printed=True)
    message = visible(wrong.message.split("\n")[0], symptom)
    told = replace(claim, expected="", actual="", condition="", message=message)
    if right.exception:
        told = replace(told, outcome=Outcome.NO_ERROR, expected=right.exception)
        if wrong.exception == right.exception:
            both = visible(right.message, symptom), visible(wrong.message, symptom)
            told = replace(told, outcome=Outcome.WRONG_MESSAGE, expected=both[0], actual=both[1])
        elif wrong.exception:
            told = replace(told, outcome=Outcome.WRONG_ERROR)
    elif wrong.exception == "AssertionError" and claim.outcome is Outcome.UNMET:
        told = claim
    elif wrong.exception:
        told = replace(told, outcome=Outcome.ERROR, expected=value(right.printed))
    else:
        actual, expected = map(value, excerpts(wrong.printed, right.printed))
        told = replace(told, outcome=Outcome.WRONG_VALUE, expected=expected, actual=actual)
    blind = told.outcome is Outcome.WRONG_VALUE and not told.actual
    return told if told.tells and not blind else None
