"""Which answers can be read off the source, so that no program need run to give them.

The rule. A value is dropped where

1. anybody would guess it: None, True, False, -1, 0, 1, 2, an empty text or container, unless the
   expression had other values at other stops of the same line, so that the asked visit decides;
2. it stands verbatim as a literal, however written, in the function that is asked about, in one of
   its defaults, at the module's or the class's own level, in the function of the test that runs,
   in the fixtures and the constants beside it (an argument that the test passes on, the expected
   result of an assertion);
   None, True and False do stand in most functions: at a later visit they are kept where they vary.
3. it is a function, a class or a module, which its name gives away.

A line's reachability is dropped where it is reached and no branch decides that. A root cause is
dropped where the whole run has no more than two statements of the program to choose from. An
exception raised in a function that is named is dropped where that function holds one `raise`, and
nothing else in it has raised. Other exceptions, and assertions, depend on the run whatever the
source says: no line of it tells which of them comes about, and what an assertion saw.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from collect.questions.comparing import Name, parse_value, same
from collect.questions.records import ExceptionAsk, ExceptionTruth, ReachAsk, ValueAsk, ValueTruth
from collect.questions.statements import Function, Module, Program
from collect.questions.tracing import Trace

GUESSED = ("None", "True", "False", "-1", "0", "1", "2", "''", "b''", "[]", "()", "{}", "set()")
CODE_TYPES = ("function", "method", "builtin_function_or_method", "type", "module", "ABCMeta")
FIXTURES = "conftest.py"
FEW_STATEMENTS = 2


def value_is_readable(
    ask: ValueAsk, truth: ValueTruth, varies: bool, program: Program, test: str
) -> bool:
    """Whether a value needs no run. `varies`: whether it had others at other stops there."""
    value = parse_value(truth.text)
    if truth.type in CODE_TYPES or isinstance(value, Name):
        return True
    if not varies and any(same(value, parse_value(guess)) for guess in GUESSED):
        return True
    if varies and ask.hit > 1 and isinstance(value, bool | None):
        return False
    return any(same(value, literal) for literal in _literals(ask, program, test))


def reach_is_readable(ask: ReachAsk, trace: Trace, program: Program) -> bool:
    """Whether no branch decides that a line is reached."""
    module = program.module(ask.place.file)
    statement = module.at(ask.place.line) if module is not None else None
    if module is None or statement is None:
        return True
    reached = trace.hits[ask.place.file, ask.place.line] > 0
    return reached and not statement.conditional


def exception_is_readable(ask: ExceptionAsk, truth: ExceptionTruth, program: Program) -> bool:
    """Whether the function that is named can raise by one statement alone, and does."""
    module = program.module(truth.origin.file)
    node = module.functions.get(ask.function) if module is not None else None
    raises = [part for part in ast.walk(node) if isinstance(part, ast.Raise)] if node else []
    return len(raises) == 1 and raises[0].lineno == truth.origin.line


def root_cause_is_readable(trace: Trace) -> bool:
    """Whether there is next to nothing to choose from."""
    return len({stop.statement.place for stop in trace.stops}) <= FEW_STATEMENTS


def _literals(ask: ValueAsk, program: Program, test: str) -> Iterator[object]:
    """Everything that is written out where one would look for the value."""
    module = program.module(ask.place.file)
    if module is not None:
        yield from _constants(module, ask.place.function)
    path, _, name = test.partition("::")
    for other, tests in program.tests.items():
        if other == path:
            yield from _constants(tests, name.partition("[")[0].replace("::", "."))
        elif other.endswith(FIXTURES):
            yield from _all(tests.tree)


def _constants(module: Module, function: str) -> Iterator[object]:
    """The literals of one function, and those outside all functions."""
    node = module.functions.get(function)
    if node is not None:
        yield from _all(node)
    helpers = [called for called in _called(node) if called in module.functions] if node else []
    for helper in helpers if _is_test(module) else []:
        yield from _all(module.functions[helper])
    for statement in _outside(module.tree.body):
        yield from _all(statement)


def _is_test(module: Module) -> bool:
    return module.path.rpartition("/")[2].startswith("test")


def _called(node: ast.AST) -> list[str]:
    """The names that a function calls or, for fixtures, takes."""
    calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    names = [call.id for call in calls if isinstance(call, ast.Name)]
    if isinstance(node, Function):
        names += [argument.arg for argument in node.args.args]
    return names


def _outside(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _outside(statement.body)
        elif not isinstance(statement, Function):
            yield statement


def _all(node: ast.AST) -> Iterator[object]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.UnaryOp):
            try:
                ast.literal_eval(part)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
            yield parse_value(ast.unparse(part))
