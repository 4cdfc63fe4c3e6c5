"""Mistakes in conditions, arithmetic and values: a wrong operator, a missing part, a wrong start or
default, and state kept or shared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import libcst as cst

from collect.synthesis.mutations.base import (
    MAKERS,
    Replacements,
    Surroundings,
    calls,
    dotted,
    is_empty,
    is_none,
    is_read,
    kind,
    minus_one,
    only,
    self_attribute,
    without,
)

_COMPARISONS: dict[type[cst.BaseCompOp], tuple[type[cst.BaseCompOp], ...]] = {
    cst.LessThan: (cst.LessThanEqual, cst.GreaterThan),
    cst.LessThanEqual: (cst.LessThan, cst.GreaterThanEqual),
    cst.GreaterThan: (cst.GreaterThanEqual, cst.LessThan),
    cst.GreaterThanEqual: (cst.GreaterThan, cst.LessThanEqual),
    cst.Equal: (cst.NotEqual,),
    cst.NotEqual: (cst.Equal,),
    cst.In: (cst.NotIn,),
    cst.NotIn: (cst.In,),
    cst.Is: (cst.IsNot,),
    cst.IsNot: (cst.Is,),
}
_ORDERED = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


@kind("condition")
def wrong_comparison(node: cst.ComparisonTarget, around: Surroundings) -> Replacements:
    for other in _COMPARISONS.get(type(node.operator), ()):
        yield node.with_changes(operator=other())


@kind("boundary")
def wrong_boundary(node: cst.ComparisonTarget, around: Surroundings) -> Replacements:
    if isinstance(node.operator, _ORDERED):
        yield node.with_changes(operator=_COMPARISONS[type(node.operator)][0]())


@kind("condition")
def inverted_test(node: cst.ComparisonTarget, around: Surroundings) -> Replacements:
    if not isinstance(node.operator, _ORDERED):
        yield node.with_changes(operator=_COMPARISONS[type(node.operator)][0]())


@kind("condition")
def wrong_boolean_operator(node: cst.And | cst.Or, around: Surroundings) -> Replacements:
    other = cst.Or if isinstance(node, cst.And) else cst.And
    yield other(node.whitespace_before, node.whitespace_after)


@kind("condition")
def negated_condition(node: cst.If | cst.IfExp | cst.CompIf, around: Surroundings) -> Replacements:
    match node.test:
        case cst.UnaryOperation(cst.Not(), expression):
            yield node.with_changes(test=expression)
        case test if not isinstance(test, cst.Comparison):
            yield node.with_changes(test=_negated(test))


@kind("condition")
def dropped_condition(
    node: cst.BooleanOperation | cst.CompFor, around: Surroundings
) -> Replacements:
    """`a` for `a and b`, and a comprehension without its `if`."""
    if isinstance(node, cst.BooleanOperation):
        yield _in_place_of(node, node.left)
        if isinstance(node.right, cst.Comparison):
            yield _in_place_of(node, node.right)
    elif node.ifs:
        yield node.with_changes(ifs=node.ifs[:-1])


def _negated(expression: cst.BaseExpression) -> cst.UnaryOperation:
    """The expression after `not`, in parentheses if it needs them."""
    if isinstance(expression, cst.BooleanOperation | cst.IfExp) and not expression.lpar:
        expression = expression.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(cst.Not(), expression)


def _in_place_of(whole: cst.BaseExpression, part: cst.BaseExpression) -> cst.BaseExpression:
    """A part with the whole's parentheses, which a line break may need."""
    if not whole.lpar:
        return part
    return part.with_changes(lpar=[*whole.lpar, *part.lpar], rpar=[*part.rpar, *whole.rpar])


# Mistakes with absent values and cases: `None` confused with empty, a missing case.


@kind("absence")
def empty_taken_for_none(node: cst.Comparison, around: Surroundings) -> Replacements:
    """`not x` for `x is None`, and `x` for `x is not None`, where only the truth value matters."""
    parent = around.parent
    if isinstance(parent, cst.If | cst.IfExp | cst.While | cst.CompIf):
        if parent.test is not node:
            return
    elif not isinstance(parent, cst.UnaryOperation | cst.BooleanOperation):
        return
    if _about_none(node, cst.Is):
        yield _in_place_of(node, _negated(node.left))
    elif _about_none(node, cst.IsNot):
        yield _in_place_of(node, node.left)


@kind("absence")
def missing_case(node: cst.Tuple | cst.Set | cst.List, around: Surroundings) -> Replacements:
    """One alternative fewer in `isinstance(x, (A, B))`, `x in (a, b)` and `x.startswith((a,
    b))`."""
    if len(node.elements) < 2 or not _lists_cases(around):
        return
    for index in (len(node.elements) - 1, 0):
        left = without(node.elements, index)
        if isinstance(around.parent, cst.Arg) and len(left) == 1:
            yield left[0].value
            continue
        if isinstance(node, cst.Tuple) and len(left) == 1:
            left = [left[0].with_changes(comma=cst.Comma())]
        yield node.with_changes(elements=left)


def _about_none(node: cst.Comparison, operator: type[cst.BaseCompOp]) -> bool:
    first = node.comparisons[0]
    about = len(node.comparisons) == 1 and isinstance(first.operator, operator)
    return about and is_none(first.comparator)


def _lists_cases(around: Surroundings) -> bool:
    match around.parents:
        case [cst.ComparisonTarget(cst.In() | cst.NotIn()), *_]:
            return True
        case [cst.Arg(), cst.Call(cst.Name("isinstance" | "issubclass")), *_]:
            return True
        case [cst.Arg(), cst.Call(cst.Attribute(attr=cst.Name("startswith" | "endswith"))), *_]:
            return True
    return False


# Mistakes in arithmetic and assignments.

_Operators = Mapping[type[cst.CSTNode], Callable[..., cst.CSTNode]]
_ARITHMETIC: _Operators = {
    cst.Add: cst.Subtract,
    cst.Subtract: cst.Add,
    cst.Multiply: cst.Add,
    cst.Modulo: cst.FloorDivide,
    cst.Power: cst.Multiply,
    cst.LeftShift: cst.RightShift,
    cst.RightShift: cst.LeftShift,
    cst.BitAnd: cst.BitOr,
    cst.BitOr: cst.BitAnd,
    cst.AddAssign: cst.SubtractAssign,
    cst.SubtractAssign: cst.AddAssign,
    cst.MultiplyAssign: cst.AddAssign,
}
_DIVISION: _Operators = {
    cst.Divide: cst.FloorDivide,
    cst.FloorDivide: cst.Divide,
    cst.DivideAssign: cst.FloorDivideAssign,
    cst.FloorDivideAssign: cst.DivideAssign,
}


@kind("arithmetic")
def wrong_arithmetic_operator(
    node: cst.BaseBinaryOp | cst.BaseAugOp, around: Surroundings
) -> Replacements:
    """`-` for `+`, `//` for `%` ..."""
    # Strings can be concatenated, but have no other such operator.
    texts = cst.SimpleString | cst.FormattedString | cst.List
    whole = around.parent
    if isinstance(whole, cst.BinaryOperation):
        sides = (whole.left, whole.right)
        if any(isinstance(side, texts) for side in sides):
            return
        if around.in_project and isinstance(node, cst.Add) and not any(map(_is_number, sides)):
            return
    yield from _other_operator(node, _ARITHMETIC)


_COUNTS = re.compile(
    r"(?:^|_)(?:[ijkmnxyzt]|id?x|pos|position|start|stop|end|offset|count|size|width|height|depth|len"
    r"|length|total|sum|level|index|step|delta|cost|weight|year|month|day|hour|min|minute|second|"
    r"score|value|rank|degree|distance|dist|low|high|lo|hi|left|right|num|number)s?\d?$"
)


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return not isinstance(node.operator, cst.Add | cst.Modulo)
    if isinstance(node, cst.Call):
        return calls(node, "len", "int", "sum", "abs", "round", "max", "min", "float", "ord")
    return isinstance(node, cst.BaseNumber) or bool(_COUNTS.search(dotted(node)))


@kind("arithmetic")
def wrong_division(node: cst.BaseBinaryOp | cst.BaseAugOp, around: Surroundings) -> Replacements:
    yield from _other_operator(node, _DIVISION)


def _other_operator(node: Any, others: _Operators) -> Replacements:
    if other := others.get(type(node)):
        before, after = node.whitespace_before, node.whitespace_after
        yield other(whitespace_before=before, whitespace_after=after)


@kind("data")
def lost_update(node: cst.AugAssign, around: Surroundings) -> Replacements:
    """`x = y` for `x += y`."""
    yield cst.Assign([cst.AssignTarget(node.target)], node.value)


# Mistakes in values: boundaries, initial values, keys and variables.

MAX_VARIABLES = 3
"""Limit of other variables tried in one place, the latest bound first."""
_FLIPPED = {"True": "False", "False": "True"}


@kind("boundary")
def off_by_one(
    node: cst.BinaryOperation | cst.Integer | cst.Call, around: Surroundings
) -> Replacements:
    """One too many or too few in a range, a slice, an index or a comparison."""
    match node:
        case cst.BinaryOperation(left, cst.Add() | cst.Subtract(), cst.Integer("1"), lpar=[]):
            yield left
        case cst.Integer() if _is_boundary(around):
            # Nobody writes `rows[:-0]`.
            positive = around.in_project and isinstance(around.parent, cst.UnaryOperation)
            yield from _neighbours(node, least=1 if positive else 0)
        case cst.Call(cst.Name("range"), [*first, stop]) if len(first) < 2 and _plain(node):
            if isinstance(stop.value, cst.Name | cst.Call):
                shorter = stop.with_changes(value=minus_one(stop.value))
                yield node.with_changes(args=[*first, shorter])
            if not first:
                yield node.with_changes(args=[cst.Arg(cst.Integer("1")), stop])


@kind("data")
def wrong_start(node: cst.Integer | cst.Name | cst.Call, around: Surroundings) -> Replacements:
    """A wrong initial value or default: `total = 1` for `total = 0`, `True` for `False`."""
    if not isinstance(around.parent, cst.Assign | cst.AnnAssign | cst.Param):
        return
    match node:
        case cst.Integer():
            yield from _neighbours(node)
        case cst.Name("True" | "False" as value):
            yield node.with_changes(value=_FLIPPED[value])
        case cst.Call(cst.Name("float")):
            yield cst.Integer("0")


@kind("data")
def wrong_key(node: cst.SimpleString | cst.Index, around: Surroundings) -> Replacements:
    """Another key of the same program, or the other end of a sequence."""
    match node:
        case cst.SimpleString(value) if value in around.keys and len(around.keys) > 1:
            following = (around.keys.index(value) + 1) % len(around.keys)
            yield node.with_changes(value=around.keys[following])
        case cst.Index(cst.Integer("0")):
            yield node.with_changes(value=cst.parse_expression("-1"))
        case cst.Index(cst.Integer("1") | cst.UnaryOperation()):
            yield node.with_changes(value=cst.Integer("0"))


@kind("data")
def wrong_variable(node: cst.Name, around: Surroundings) -> Replacements:
    """Another variable of the same function, bound before."""
    if is_read(node, around.parent) and node.value in around.names:
        others = [name for name in reversed(around.names) if name != node.value]
        for name in others[:MAX_VARIABLES]:
            yield node.with_changes(value=name)


def _neighbours(node: cst.Integer, least: int = 0) -> Iterator[cst.CSTNode]:
    if node.value.isdecimal():
        yield node.with_changes(value=str(int(node.value) + 1))
        if int(node.value) > least:
            yield node.with_changes(value=str(int(node.value) - 1))


def _plain(call: cst.Call) -> bool:
    """Whether all arguments are positional."""
    return not any(arg.star or arg.keyword for arg in call.args)


def _is_boundary(around: Surroundings) -> bool:
    for parent in around.parents:
        if isinstance(parent, cst.Call):
            return calls(parent, "range", "round")
        if not isinstance(parent, cst.BinaryOperation | cst.UnaryOperation | cst.Arg):
            return isinstance(parent, cst.Slice | cst.Index | cst.ComparisonTarget)
    return False


# Mistakes in defaults.

_NUMBERS = re.compile(r"(?:n|k|max|min|size|count|limit|depth|index|start|stop|width|length)s?$")
_TEXTS = re.compile(r"(?:sep|prefix|suffix|name|text|delimiter|separator|fill|indent|label|title)$")
_LITERALS = {'" "': '""', '","': '", "', '", "': '","', '"\\n"': '" "', '"-"': '"_"'}


@kind("default")
def wrong_default(node: cst.Param, around: Surroundings) -> Replacements:
    for text in _other_defaults(node, around):
        yield node.with_changes(default=cst.parse_expression(text))


@kind("default")
def wrong_flag(node: cst.Name, around: Surroundings) -> Replacements:
    """`True` for `False` in a call."""
    passed = isinstance(around.parent, cst.Arg) and node.value in _FLIPPED
    if passed and not calls(around.parents[1], "isinstance", "bool", "setattr"):
        yield node.with_changes(value=_FLIPPED[node.value])


def _other_defaults(param: cst.Param, around: Surroundings) -> Iterator[str]:
    name = param.name.value
    compared = [
        target.comparator
        for comparison in around.in_scope(cst.Comparison)
        if isinstance(comparison.left, cst.Name) and comparison.left.value == name
        for target in comparison.comparisons
    ]
    match param.default:
        case cst.SimpleString(text):
            texts = [each.value for each in compared if isinstance(each, cst.SimpleString)]
            others = [other for other in texts if other != text]
            yield from others[:2]
            swapped = _LITERALS.get(text.replace("'", '"'))
            if not others and swapped:
                yield swapped
        case cst.Name("True" | "False" as flag):
            yield _FLIPPED[flag]
        case cst.Name("None") if any(map(is_none, compared)):
            if _NUMBERS.search(name):
                yield "0"
            elif _TEXTS.search(name):
                yield '""'
        case cst.Integer(text) if text.isdecimal():
            number = int(text)
            yield str(number // 10 if number >= 10 and number % 10 == 0 else number + 1)
        case cst.Float(text):
            yield "1.0" if float(text) != 1 else "0.0"


# Mistakes in state: stale caches, missing resets, shared objects instead of copies.

_CLEARING = re.compile(r"(?:clear|cache_clear|invalidate\w*|_?reset\w*|_?clear\w*|expire|discard)$")
_COPIES = ("copy.copy", "copy.deepcopy", "deepcopy")


@kind("state")
def stale_cache(node: cst.SimpleStatementLine, around: Surroundings) -> Replacements:
    """An entry that should have been removed is kept."""
    if around.scope.function is None or len(around.siblings) < 2:
        return
    match only(node):
        case cst.Del(cst.Subscript() | cst.Attribute()):
            yield cst.RemoveFromParent()
        case cst.Expr(cst.Call(cst.Attribute(attr=cst.Name(name)))) if _CLEARING.match(name):
            yield cst.RemoveFromParent()


@kind("state")
def dropped_reset(node: cst.SimpleStatementLine, around: Surroundings) -> Replacements:
    """A variable or attribute that is not reset."""
    function, assign = around.scope.function, only(node)
    if function is None or len(around.siblings) < 2 or not isinstance(assign, cst.Assign):
        return
    match assign.value:
        case cst.Name("True" | "False" | "None") | cst.Integer():
            pass
        case value if not is_empty(value):
            return
    target = assign.targets[0].target
    if self_attribute(target):
        resets = function.name.value not in MAKERS
    else:
        loop = around.nearest(cst.For, cst.While, cst.FunctionDef)
        known = isinstance(target, cst.Name) and target.value in around.names
        resets = known and isinstance(loop, cst.For | cst.While)
    if resets:
        yield cst.RemoveFromParent()


@kind("state")
def shared_object(
    node: cst.Call | cst.Subscript | cst.List | cst.Dict, around: Surroundings
) -> Replacements:
    """The object itself instead of a copy: `x` for `x[:]`, `dict(x)`, `copy.copy(x)`, `[*x]`."""
    if isinstance(around.parent, cst.AssignTarget | cst.Del | cst.Attribute | cst.Expr):
        return
    match node:
        case cst.Call(cst.Attribute(copied, cst.Name("copy")), []):
            yield copied
        case cst.Call(func, [cst.Arg(copied), *_]) if dotted(func) in _COPIES:
            yield copied
        case cst.Call(
            cst.Name("list" | "dict" | "set"),
            [cst.Arg(cst.Name() | cst.Attribute() as copied, None, star="")],
        ):
            yield copied
        case cst.Subscript(copied, [cst.SubscriptElement(cst.Slice(None, None, None))]):
            yield copied
        case cst.List([cst.StarredElement(copied)]) | cst.Dict([cst.StarredDictElement(copied)]):
            yield copied
