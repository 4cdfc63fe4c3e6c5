"""A bug's symptom: which test fails and how, without where the fault is."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard

from collect.benchmarks.pytest_run import section_of

# Comparisons and exceptions that tests check, and how pytest and unittest print their failures.


EQUAL = {"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assert_equal"}
EQUAL |= {"assertTupleEqual", "assertSetEqual", "assertSequenceEqual", "assertMultiLineEqual"}
EQUAL |= {"assert_equals", "check_equal", "eq", "eq_"}
"""Methods and functions that compare their first two arguments."""
CONDITIONS = dict.fromkeys(EQUAL, "{0} == {1}") | {
    "assertTrue": "{0}",
    "assertFalse": "not {0}",
    "assertIn": "{0} in {1}",
    "assertNotIn": "{0} not in {1}",
    "assertIs": "{0} is {1}",
    "assertIsNot": "{0} is not {1}",
    "assertIsNone": "{0} is None",
    "assertIsNotNone": "{0} is not None",
    "assertIsInstance": "isinstance({0}, {1})",
    "assertNotEqual": "{0} != {1}",
    "assertLess": "{0} < {1}",
    "assertLessEqual": "{0} <= {1}",
    "assertGreater": "{0} > {1}",
    "assertGreaterEqual": "{0} >= {1}",
}
"""The operators that unittest's methods check."""
_RAISES = {"raises", "assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "assert_raises"}
_OPENING = re.compile(r"^(?:assert |\w+ differ: )")


def sides(statement: ast.AST | None) -> tuple[ast.expr, ast.expr] | None:
    """Left and right side of the comparison that a statement asserts; None if it asserts none."""
    if isinstance(statement, ast.Assert):
        test = statement.test
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test = test.operand
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return test.left, test.comparators[0]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if name_of(call.func) in EQUAL and len(call.args) >= 2:
            return call.args[0], call.args[1]
    return None


def is_equality(statement: ast.AST | None) -> bool:
    """Whether it asserts that two values are equal or identical."""
    if isinstance(statement, ast.Assert):
        test = statement.test
        return isinstance(test, ast.Compare) and [*map(type, test.ops)] in ([ast.Eq], [ast.Is])
    return sides(statement) is not None


def raising(statement: ast.AST | None) -> ast.Call | None:
    """The `raises(...)` call of a statement; None if it expects no exception."""
    if isinstance(statement, ast.With):
        manager = statement.items[0].context_expr
    elif isinstance(statement, ast.Expr):
        manager = statement.value
    else:
        return None
    raises = isinstance(manager, ast.Call) and name_of(manager.func) in _RAISES
    return manager if raises and isinstance(manager, ast.Call) and manager.args else None


def assignments(source: str, before: int) -> dict[str, ast.expr]:
    """The values last assigned to a test's variables, by statements that end above a line."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return {}
    found: dict[str, ast.expr] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and (node.end_lineno or 0) < before:
            parts = [part for target in node.targets for part in ast.walk(target)]
            found |= {part.id: node.value for part in parts if isinstance(part, ast.Name)}
    return found


def is_constant(node: ast.expr, given: Mapping[str, ast.expr]) -> bool:
    """Whether a value is a constant, also through variables of the test."""
    if isinstance(node, ast.Name) and node.id in given:
        return is_constant(given[node.id], {})
    if is_method_of_constant(node):
        return all(is_constant(argument, given) for argument in node.args)
    return not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node))


def is_method_of_constant(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it is a call such as `"".join(lines)`, which does not involve the program."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return isinstance(node.func.value, ast.Constant | ast.JoinedStr)


def is_written(node: ast.expr, given: Mapping[str, ast.expr]) -> bool:
    """Whether a value is what a test expects rather than gets: a constant, an object made of
    constants, or a variable that holds one or comes from outside."""
    if isinstance(node, ast.Name):
        return node.id not in given or is_written(given[node.id], {})
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id[:1].isupper()
    if isinstance(node, ast.Call):
        made = is_method_of_constant(node) or name_of(node.func)[:1].isupper()
        return made and all(is_written(argument, given) for argument in node.args)
    children = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return all(is_written(child, given) for child in children)


def computed_right(statement: ast.AST | None, given: Mapping[str, ast.expr]) -> bool:
    """Whether the right side of a comparison is under test, and the left one is expected."""
    both = sides(statement)
    return both is not None and is_written(both[0], given) and not is_written(both[1], given)


def computed_both(statement: ast.AST | None, given: Mapping[str, ast.expr]) -> bool:
    """Whether both sides of a comparison are computed, so that neither is the expected value."""
    both = sides(statement)
    return both is not None and not any(is_written(side, given) for side in both)


def printed_values(message: str) -> tuple[str, str]:
    """Left and right value of the first line that says `assert x == y` or unittest's `x != y`;
    empty if there is none."""
    for line in message.split("\n"):
        text = _OPENING.sub("", line.strip())
        try:
            compared = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            continue
        if isinstance(compared, ast.Compare) and type(compared.ops[0]) in (
            ast.Eq,
            ast.NotEq,
            ast.Is,
        ):
            left = ast.get_source_segment(text, compared.left) or ""
            right = ast.get_source_segment(text, compared.comparators[-1]) or ""
            return (left, right) if len(compared.ops) == 1 else ("", "")
    return "", ""


def name_of(function: ast.expr) -> str:
    """The last name of the called expression; empty if it has none."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


_FRAME = re.compile(r"^(\S+\.py):(\d+): in (\S+)\n((?: {4}.*(?:\n|\Z))*)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_IDENTIFIER = re.compile(
    r"[A-Za-z]+_\w*|_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|\w+(?=\()|(?<=\.)\w+"
)
_OF_TESTS = re.compile(r"(?:^|\.)(?:tests?|testing|conftest|test_\w+|\w+_test|\w*helpers?)(?:\.|$)")
"""Matches module names of test code."""
_KNOWN = {*dir(builtins), *keyword.kwlist, "self", "cls"}


@dataclass(frozen=True)
class Symptom:
    """How a bug shows."""

    project: str
    tests: tuple[str, ...]
    """Node ids of the failing tests."""
    source: str
    """Source of the first failing test's function; empty if it can't be found."""
    imports: tuple[str, ...]
    """The import statements of the test's module."""
    exception: str
    """The class of the first failing test's exception, without its module."""
    message: str
    """The exception's message, as pytest shows it."""
    statement: str
    """The test's statement that fails; empty if the test fails outside its own statements."""
    line: int = 0
    """First line of that statement in `source`, 1-based; 0 if there is none."""
    expected_exception: str = ""
    """The exception that the test expects that statement to raise, as written there."""
    helpers: frozenset[str] = frozenset()
    """Names of the tests' own functions and classes, and of the standard library."""
    hidden: frozenset[str] = frozenset()
    """Names in the traceback that the test does not show: no report may contain them."""


def read_symptom(
    project: str,
    tests: Sequence[str],
    *,
    files: Mapping[str, bytes],
    exception: str,
    message: str,
    output: str,
) -> Symptom:
    """Read the symptom from pytest's output with `--tb=short`.

    `files` is the project's tree. `exception` and `message` belong to the first test's failure; the
    message may start with the exception's name.
    """
    path, *names = tests[0].partition("[")[0].split("::")
    frames = list(_frames(section_of(tests[0], output)))
    # An inherited test may be in another file.
    inside = next((frame for frame in frames if frame.function == names[-1]), None)
    module = files.get(inside.path if inside else path, b"").decode(errors="replace")
    tree = _parsed(module)
    function = _function(tree, names, inside)
    source = _segment(module, function)
    imports = tuple(_imports(module, tree))
    outside = [frame for frame in frames if inside is None or frame.path != inside.path]
    around = _around(function, inside)
    failing = around[0] if around else None
    shown = {*_WORD.findall(source), *_WORD.findall("\n".join(imports)), exception}
    return Symptom(
        project=project,
        tests=tuple(tests),
        source=source,
        imports=imports,
        exception=exception,
        message=re.sub(rf"^(?:\w+\.)*{re.escape(exception)}(?:: |\n|$)", "", message),
        statement=_segment(module, failing),
        line=failing.lineno - function.lineno + 1 if failing and function else 0,
        expected_exception=_expected_exception(module, around),
        helpers=frozenset(_helpers(tree)),
        hidden=frozenset(name for frame in outside for name in frame.names()) - shown - _KNOWN,
    )


@dataclass(frozen=True)
class _Frame:
    """One line of a traceback."""

    path: str
    line: int
    function: str
    code: str

    def names(self) -> Iterator[str]:
        """Names of the file, its folder and the function, and what looks like a name in the
        code."""
        yield from (part for part in re.split(r"[/\\]|\.py$", self.path)[-3:] if part)
        yield self.function
        yield from _IDENTIFIER.findall(self.code)


def _frames(report: str) -> Iterator[_Frame]:
    for found in _FRAME.finditer(report):
        yield _Frame(found[1], int(found[2]), found[3], found[4])


def _parsed(module: str) -> ast.Module:
    try:
        return ast.parse(module)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _imports(module: str, tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
            yield ast.get_source_segment(module, node) or ""


def _function(
    tree: ast.Module, names: Sequence[str], inside: _Frame | None
) -> ast.FunctionDef | None:
    """The test's function: the one that a frame is in, or else the one with the test's name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != names[-1]:
            continue
        if inside is None or node.lineno <= inside.line <= (node.end_lineno or 0):
            return node
    return None


def _segment(module: str, node: ast.AST | None) -> str:
    """The node's source, dedented."""
    if node is None:
        return ""
    return textwrap.dedent(ast.get_source_segment(module, node, padded=True) or "")


def _around(function: ast.FunctionDef | None, inside: _Frame | None) -> list[ast.stmt]:
    """The test's statements around the first traceback line, the innermost first."""
    if function is None or inside is None:
        return []
    around = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and node.lineno <= inside.line <= (node.end_lineno or 0)
    ]
    around.remove(function)
    return sorted(around, key=lambda node: (node.end_lineno or 0) - node.lineno)


def _expected_exception(module: str, around: Sequence[ast.stmt]) -> str:
    manager = next((found for found in map(raising, around) if found is not None), None)
    return "" if manager is None else ast.get_source_segment(module, manager.args[0]) or ""


def _helpers(tree: ast.Module) -> Iterator[str]:
    """Names that the test's module defines, or imports from other test modules or the standard
    library."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and _is_of_tests(node):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            names = [alias for alias in node.names if _is_foreign(alias.name)]
            yield from (alias.asname or alias.name for alias in names)


def _is_of_tests(statement: ast.ImportFrom) -> bool:
    if statement.module is None:
        return statement.level == 1
    return _is_foreign(statement.module)


def _is_foreign(module: str) -> bool:
    """Whether a module's name shows that it is not the project's own code."""
    standard = module.partition(".")[0] in sys.stdlib_module_names
    return standard or _OF_TESTS.search(module) is not None


# What a failing test claims: which call goes wrong, what it expects, and what it gets.


MAX_CHARACTERS = 200
"""Limit for a value, an expression or a message in a report."""
_BUILT_IN = {name for kind in (str, bytes, list, dict, set) for name in dir(kind)}
"""Methods of built-in types, which are no clue about the program."""
_BUILT_IN |= {*dir(builtins), "raises"}
_NOT_RAISED = re.compile(r"DID NOT RAISE|not raised(?: by \S+)?\s*$")


class Outcome(StrEnum):
    """How the program fails the test."""

    WRONG_VALUE = "wrong_value"
    UNMET = "unmet"
    """A condition does not hold."""
    NO_ERROR = "no_error"
    ERROR = "error"
    WRONG_ERROR = "wrong_error"
    """Another exception than expected."""


@dataclass(frozen=True)
class Claim:
    """The contents of a report. Any text may be empty."""

    outcome: Outcome
    call: str
    """The expression or statement that goes wrong."""
    function: str
    """The name of the called function."""
    expected: str = ""
    """A value; for NO_ERROR and WRONG_ERROR, the exception."""
    actual: str = ""
    condition: str = ""
    """For UNMET: the condition that does not hold."""
    message: str = ""
    """For ERROR and WRONG_ERROR: the exception's message."""


def read_claim(symptom: Symptom) -> Claim:
    """The first failing test's claim, without anything that only the traceback shows."""
    statement = _parsed_statement(symptom.statement)
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


def _parsed_statement(source: str) -> ast.stmt | None:
    try:
        return ast.parse(source).body[0]
    except (SyntaxError, IndexError):
        return None


def _code(source: str, node: ast.AST | None) -> str:
    """The node's source on one line; empty if it is long or consists of variables only."""
    if node is None or isinstance(node, ast.For | ast.While | ast.If | ast.Try):
        return ""
    if not any(isinstance(part, ast.Call | ast.Attribute) for part in ast.walk(node)):
        return ""
    made = not hasattr(node, "lineno")
    text = ast.unparse(node) if made else ast.get_source_segment(source, node) or ""
    text = ast.unparse(node) if "\n" in text else text
    return text if len(text) <= MAX_CHARACTERS and "\n" not in text else ""


def _subject(statement: ast.AST | None, given: Mapping[str, ast.expr]) -> ast.expr | None:
    """The expression that a statement checks or evaluates; for a comparison, the side under
    test."""
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
    """The condition of an assertion, as an expression."""
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
    """The program's function or method behind an expression, also through the variable that holds
    its result."""
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
    """The first name of a called expression, such as `match` in `match.set_data`."""
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
    """The text; empty if it is long, or has a name or an address that no user would see."""
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    inner = {word for word in words if word.startswith("_")} | set(re.findall(r"(\w+)\(", text))
    unseen = words & symptom.hidden or inner - set(re.findall(r"\w+", symptom.source))
    long = len(text) > MAX_CHARACTERS or "\n" in text
    return "" if long or unseen or re.search(r"\b0x[0-9a-f]|\.\.\.", text) else text.strip()
