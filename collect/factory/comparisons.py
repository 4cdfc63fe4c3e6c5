"""What tests check: comparisons, with the way pytest and unittest print them when they fail, and
exceptions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TypeGuard

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
"""What unittest's methods assert."""
_RAISES = {"raises", "assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "assert_raises"}
_OPENING = re.compile(r"^(?:assert |\w+ differ: )")


def sides(statement: ast.AST | None) -> tuple[ast.expr, ast.expr] | None:
    """Left and right of the comparison that a statement asserts; None where it asserts none."""
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
    """Whether it asserts that two values are equal, or are the same."""
    if isinstance(statement, ast.Assert):
        test = statement.test
        return isinstance(test, ast.Compare) and [*map(type, test.ops)] in ([ast.Eq], [ast.Is])
    return sides(statement) is not None


def raising(statement: ast.AST | None) -> ast.Call | None:
    """The `raises(...)` that a statement opens or makes; None where it awaits no exception."""
    if isinstance(statement, ast.With):
        manager = statement.items[0].context_expr
    elif isinstance(statement, ast.Expr):
        manager = statement.value
    else:
        return None
    raises = isinstance(manager, ast.Call) and name_of(manager.func) in _RAISES
    return manager if raises and isinstance(manager, ast.Call) and manager.args else None


def assignments(source: str, before: int) -> dict[str, ast.expr]:
    """What the variables of a test were given last, by the statements that end above a line."""
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
    """Whether a value is written down rather than computed, through variables of the test."""
    if isinstance(node, ast.Name) and node.id in given:
        return is_constant(given[node.id], {})
    if is_method_of_constant(node):
        return all(is_constant(argument, given) for argument in node.args)
    return not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node))


def is_method_of_constant(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it is a call such as `"".join(lines)`, which is nothing of the program's."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return isinstance(node.func.value, ast.Constant | ast.JoinedStr)


def is_written(node: ast.expr, given: Mapping[str, ast.expr]) -> bool:
    """Whether a value is what a test expects, rather than what it gets: a constant, an object made
    of constants, or a variable that holds one or comes from outside."""
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
    """Whether the right side of a comparison is what is tested: the left one is expected."""
    both = sides(statement)
    return both is not None and is_written(both[0], given) and not is_written(both[1], given)


def computed_both(statement: ast.AST | None, given: Mapping[str, ast.expr]) -> bool:
    """Whether both sides of a comparison are computed, so that neither is what is expected."""
    both = sides(statement)
    return both is not None and not any(is_written(side, given) for side in both)


def printed_values(message: str) -> tuple[str, str]:
    """Left and right value of the first line that says `assert x == y`, or unittest's `x != y`;
    empty where none does."""
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
    """The last name of what is called; empty where it has none."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
