"""What to try in the running program: the correct statements in place of the wrong ones
(InspectCoder, section 2.3.2: missing logic, and flawed logic)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import dedent

from collect.benchmarks.base import Instance
from collect.models.oracle.current_code import correct_program, program
from collect.models.oracle.python_source import is_pure
from collect.patches import ChangedRange, changed_lines, reverse_patch
from collect.syntax import parse
from sandbox.text import source_lines

Compound = ast.If | ast.While | ast.For | ast.With | ast.Try | ast.FunctionDef | ast.ClassDef
TRIED = "tried"
"""The name that holds a value which has none of its own."""


@dataclass(frozen=True)
class Experiment:
    """Code to run in the paused frame."""

    code: str
    """The correct statements."""
    shows: str
    """The expression that shows what came of it."""
    missing: bool
    """Whether it adds what is missing, so that the program can go on with it."""
    wrong: str = ""
    """What the program computes in its place, where that can be evaluated without effect."""
    skips: bool = False
    """Whether it is what the program would do next without the statement that is one too many."""


def experiment_of(instance: Instance) -> Experiment | None:
    """The statements of the correct program at the first place where the two differ."""
    ranges = changed_lines(instance.gold_patch)
    targets = changed_lines(reverse_patch(instance.gold_patch))
    buggy, correct = parse(program(instance)), parse(correct_program(instance))
    for before, after in zip(ranges, targets, strict=True):
        statements = list(_statements(correct, after))
        if after.insertion:
            return _without(buggy, before, statements)
        pieces = [piece for piece in map(_piece, statements) if piece[0]]
        if pieces:
            missing = before.insertion and all(_is_simple(each) for each in statements)
            code = "\n".join(code for code, _ in pieces)
            wrong = "" if before.insertion else _wrong(buggy, before, statements[-1])
            return Experiment(code, pieces[-1][1], missing, wrong)
    return None


def _without(
    buggy: ast.Module, removed: ChangedRange, around: Sequence[ast.stmt]
) -> Experiment | None:
    """Of statements that are one too many: what comes after them in the same block."""
    indents = {node.col_offset for node in _statements(buggy, removed)}
    code, shows = _piece(around[-1]) if around else ("", "")
    if not code or around[-1].col_offset not in indents:
        return None
    return Experiment(code, shows, missing=False, skips=True)


def _wrong(buggy: ast.Module, changed: ChangedRange, correct: ast.stmt) -> str:
    """The value of the wrong statement in the correct one's place, as an expression: the last of
    those that give the same thing."""
    for statement in reversed(list(_statements(buggy, changed))):
        given = getattr(statement, "value", None) or _value(statement)
        if _gives(statement) == _gives(correct) and isinstance(given, ast.expr) and is_pure(given):
            return ast.unparse(given)
    return ""


def _gives(node: ast.stmt) -> str:
    """What a statement is about: two of them can be compared where it is the same."""
    match node:
        case ast.Assign(targets=[target, *_]) | ast.AugAssign(target=target):
            return ast.unparse(target)
        case ast.AnnAssign(target=target):
            return ast.unparse(target)
        case ast.If() | ast.While():
            return "condition"
        case _:
            return type(node).__name__


def replaced(instance: Instance) -> tuple[str, str]:
    """The lines that the gold patch takes out first, and those it puts in their place, with the
    indents that they have to each other."""
    before = changed_lines(instance.gold_patch)[0]
    after = changed_lines(reverse_patch(instance.gold_patch))[0]
    return _text(program(instance), before), _text(correct_program(instance), after)


def _text(code: str, changed: ChangedRange) -> str:
    if changed.insertion:
        return ""
    lines = source_lines(code)[changed.start - 1 : changed.end]
    return dedent("\n".join(line.rstrip() for line in lines))


def _statements(tree: ast.Module, changed: ChangedRange) -> Iterator[ast.stmt]:
    """The innermost statements at these lines; of a removal, the one that comes next."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and _header_end(node) >= changed.start:
            starts_within = node.lineno <= changed.end
            if starts_within and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Try):
                yield node


def _header_end(node: ast.stmt) -> int:
    """The last line of a statement, without the block below it."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return max(node.lineno, int(body[0].lineno) - 1)
    return node.end_lineno or node.lineno


def _is_simple(node: ast.stmt) -> bool:
    return not isinstance(node, Compound | ast.Return | ast.Raise | ast.Break | ast.Continue)


def _piece(node: ast.stmt) -> tuple[str, str]:
    """Code that does what the statement does, and an expression that shows it."""
    value = _value(node)
    if value is not None:
        return f"{TRIED} = {ast.unparse(value)}", TRIED
    shown: ast.expr | None = None
    match node:
        case ast.Assign(targets=[target, *_]):
            shown = target
        case ast.AugAssign() | ast.AnnAssign(value=ast.expr()):
            shown = node.target
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            shown = owner
        case _:
            return "", ""
    return ast.unparse(node), ast.unparse(shown)


def _value(node: ast.stmt) -> ast.expr | None:
    """What a statement decides or gives by, where it binds no name to it."""
    match node:
        case ast.Return(value=value):
            return value
        case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test):
            return test
        case ast.For(iter=iterated):
            return ast.Call(ast.Name("list"), [iterated], [])
        case _:
            return None
