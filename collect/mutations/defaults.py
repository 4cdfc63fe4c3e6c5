"""Mistakes in defaults: a wrong one, far from its use, or one that calls or objects share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import calls, is_empty, is_none, only, self_attribute, targets
from collect.mutations.surroundings import Surroundings

_NUMBERS = re.compile(r"(?:n|k|max|min|size|count|limit|depth|index|start|stop|width|length)s?$")
_TEXTS = re.compile(r"(?:sep|prefix|suffix|name|text|delimiter|separator|fill|indent|label|title)$")
_LITERALS = {'" "': '""', '","': '", "', '", "': '","', '"\\n"': '" "', '"-"': '"_"'}


class WrongDefault:
    """A parameter's default that its function does not mean."""

    name = "wrong_default"
    category = "default"
    nodes = (cst.Param,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Param) or node.default is None:
            return
        for text in _other_defaults(node.name.value, node.default, around):
            yield node.with_changes(default=cst.parse_expression(text))


class WrongFlag:
    """`True` for `False` in a call."""

    name = "wrong_flag"
    category = "default"
    nodes = (cst.Name,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Name) and isinstance(around.parent, cst.Arg):
            call = around.parents[1]
            constant = isinstance(call, cst.Call) and calls(call, "isinstance", "bool", "setattr")
            if node.value in ("True", "False") and not constant:
                yield node.with_changes(value=str(node.value == "False"))


class WrongFallback:
    """Another fallback, or none, in `d.get(key, fallback)` and the like."""

    name = "wrong_fallback"
    category = "default"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Call) or any(arg.keyword or arg.star for arg in node.args):
            return
        reads = isinstance(node.func, cst.Attribute) and node.func.attr.value == "get"
        if (reads and len(node.args) == 2) or (calls(node, "getattr") and len(node.args) == 3):
            yield from _other_fallbacks(node)


class MutableDefault:
    """`items=[]` for `items=None` and its guard."""

    name = "mutable_default"
    category = "default"
    nodes = (cst.FunctionDef,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.FunctionDef) or len(node.body.body) < 2:
            return
        for index, statement in enumerate(node.body.body):
            name, value = _guarded_default(statement)
            params = node.params.params
            at = [p for p, param in enumerate(params) if param.name.value == name]
            if value is not None and at and is_none(params[at[0]].default):
                changed = list(params)
                changed[at[0]] = changed[at[0]].with_changes(default=value)
                body = [*node.body.body[:index], *node.body.body[index + 1 :]]
                yield node.with_changes(
                    params=node.params.with_changes(params=changed),
                    body=node.body.with_changes(body=body),
                )


class SharedState:
    """A container of the class for one that `__init__` makes for each object."""

    name = "shared_state"
    category = "state"
    nodes = (cst.ClassDef,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.ClassDef) or not isinstance(node.body, cst.IndentedBlock):
            return
        for at, method in enumerate(node.body.body):
            if isinstance(method, cst.FunctionDef) and method.name.value == "__init__":
                for index, statement in enumerate(method.body.body):
                    name = _container(statement)
                    if name and len(method.body.body) > 1:
                        yield _moved(node, at, method, index, name)


def _other_defaults(name: str, default: cst.BaseExpression, around: Surroundings) -> Iterator[str]:
    text = around.code(default)
    if isinstance(default, cst.SimpleString):
        compared = [other for other in _compared_with(name, around) if other != text]
        yield from compared[:2]
        swapped = _LITERALS.get(text.replace("'", '"'))
        if not compared and swapped:
            yield swapped
    elif text in ("True", "False"):
        yield str(text == "False")
    elif text == "None" and _tested_for_none(name, around):
        if _NUMBERS.search(name):
            yield "0"
        elif _TEXTS.search(name):
            yield '""'
    elif isinstance(default, cst.Integer) and text.isdecimal():
        number = int(text)
        yield str(number // 10 if number >= 10 and number % 10 == 0 else number + 1)
    elif isinstance(default, cst.Float):
        yield "1.0" if float(text) != 1 else "0.0"


def _compared_with(name: str, around: Surroundings) -> Iterator[str]:
    """The string literals that the function compares a variable with."""
    for comparison in around.in_scope(cst.Comparison):
        if isinstance(comparison.left, cst.Name) and comparison.left.value == name:
            for target in comparison.comparisons:
                if isinstance(target.comparator, cst.SimpleString):
                    yield target.comparator.value


def _tested_for_none(name: str, around: Surroundings) -> bool:
    return any(
        isinstance(comparison.left, cst.Name)
        and comparison.left.value == name
        and is_none(comparison.comparisons[0].comparator)
        for comparison in around.in_scope(cst.Comparison)
    )


def _other_fallbacks(node: cst.Call) -> Iterator[Replacement]:
    last = node.args[-1]
    if isinstance(last.value, cst.Integer) and last.value.value in ("0", "1"):
        other: cst.BaseExpression = cst.Integer(str(1 - int(last.value.value)))
        yield node.with_changes(args=[*node.args[:-1], last.with_changes(value=other)])
    elif isinstance(last.value, cst.Name) and last.value.value in ("True", "False"):
        other = cst.Name(str(last.value.value == "False"))
        yield node.with_changes(args=[*node.args[:-1], last.with_changes(value=other)])
    elif isinstance(node.func, cst.Attribute) and not is_none(last.value):
        args = [*node.args[:-2], node.args[-2].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
        yield node.with_changes(args=args)


def _guarded_default(statement: cst.CSTNode) -> tuple[str, cst.BaseExpression | None]:
    """`x` and `[]` of `if x is None: x = []` and of `x = x or []`."""
    value: cst.BaseExpression | None = None
    assign = only(statement)
    if isinstance(statement, cst.If) and statement.orelse is None:
        test, block = statement.test, statement.body.body
        assign = only(block[0]) if len(block) == 1 else None
        if isinstance(test, cst.Comparison) and isinstance(assign, cst.Assign):
            about_none = isinstance(test.comparisons[0].operator, cst.Is)
            if about_none and test.left.deep_equals(assign.targets[0].target):
                value = assign.value
    elif isinstance(assign, cst.Assign) and isinstance(assign.value, cst.BooleanOperation):
        either = isinstance(assign.value.operator, cst.Or)
        if either and assign.value.left.deep_equals(assign.targets[0].target):
            value = assign.value.right
    name = next(targets(assign), None)
    mutable = value is not None and is_empty(value) and isinstance(value, cst.List | cst.Dict)
    return (name.value, value) if isinstance(name, cst.Name) and mutable else ("", None)


def _container(statement: cst.CSTNode) -> str:
    """`x` of `self.x = []`."""
    assign = only(statement)
    if not isinstance(assign, cst.Assign) or not is_empty(assign.value):
        return ""
    mutable = not isinstance(assign.value, cst.SimpleString | cst.Tuple)
    return self_attribute(assign.targets[0].target) if mutable else ""


def _moved(
    owner: cst.ClassDef, at: int, method: cst.FunctionDef, index: int, name: str
) -> cst.ClassDef:
    """The class with the container that `__init__` made made in its body."""
    statements = method.body.body
    assign = only(statements[index])
    assert isinstance(assign, cst.Assign)
    target = assign.targets[0].with_changes(target=cst.Name(name))
    shared = cst.SimpleStatementLine(
        [assign.with_changes(targets=[target])],
        leading_lines=method.leading_lines,
    )
    left: Sequence[cst.CSTNode] = [*statements[:index], *statements[index + 1 :]]
    shorter = method.with_changes(
        body=method.body.with_changes(body=left),
        leading_lines=[cst.EmptyLine(indent=False)],
    )
    body = [*owner.body.body[:at], shared, shorter, *owner.body.body[at + 1 :]]
    return owner.with_changes(body=owner.body.with_changes(body=body))
