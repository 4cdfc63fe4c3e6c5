"""Mistakes in values: boundaries, initial values, keys, indices, and the wrong variable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from collect.synthesis.mutations.base import Replacement
from collect.synthesis.mutations.reading import (
    Surroundings,
    called_name,
    calls,
    dotted,
    is_empty,
    is_none,
    is_read,
    only,
    self_attribute,
    targets,
    without,
)

MAX_VARIABLES = 3
"""Limit of other variables tried in one place, the latest bound first."""


class OffByOne:
    """One too many or too few in a range, a slice, an index or a comparison."""

    name = "off_by_one"
    category = "boundary"
    nodes = (cst.BinaryOperation, cst.Integer, cst.Call)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.BinaryOperation):
            yield from _without_one(node)
        elif isinstance(node, cst.Integer) and _is_boundary(around):
            yield from _neighbours(node)
        elif isinstance(node, cst.Call) and calls(node, "range") and node.args:
            yield from _shorter_range(node)


class WrongStart:
    """A wrong initial value or default: `total = 1` for `total = 0`, `True` for `False`."""

    name = "wrong_start"
    category = "data"
    nodes = (cst.Integer, cst.Name, cst.Call)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(around.parent, cst.Assign | cst.AnnAssign | cst.Param):
            return
        if isinstance(node, cst.Integer):
            yield from _neighbours(node)
        elif isinstance(node, cst.Name) and node.value in ("True", "False"):
            yield node.with_changes(value=str(node.value == "False"))
        elif isinstance(node, cst.Call) and calls(node, "float"):
            yield cst.Integer("0")


class WrongKey:
    """Another key of the same program, or the other end of a sequence."""

    name = "wrong_key"
    category = "data"
    nodes = (cst.SimpleString, cst.Index)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.SimpleString) and node.value in around.keys:
            at = around.keys.index(node.value)
            others = [key for key in around.keys[at + 1 :] + around.keys[:at] if key != node.value]
            yield from (node.with_changes(value=key) for key in others[:1])
        elif isinstance(node, cst.Index) and isinstance(node.value, cst.Integer):
            if node.value.value == "0":
                yield node.with_changes(value=cst.parse_expression("-1"))
            elif node.value.value == "1":
                yield node.with_changes(value=cst.Integer("0"))
        elif isinstance(node, cst.Index) and isinstance(node.value, cst.UnaryOperation):
            yield node.with_changes(value=cst.Integer("0"))


class WrongVariable:
    """Another variable of the same function, bound before."""

    name = "wrong_variable"
    category = "data"
    nodes = (cst.Name,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Name) or not is_read(node, around.parent):
            return
        if node.value in around.names:
            others = [name for name in reversed(around.names) if name != node.value]
            for name in others[:MAX_VARIABLES]:
                yield node.with_changes(value=name)


def _without_one(node: cst.BinaryOperation) -> Iterator[cst.CSTNode]:
    """`n` for `n + 1` and `n - 1`."""
    is_one = isinstance(node.right, cst.Integer) and node.right.value == "1"
    if is_one and isinstance(node.operator, cst.Add | cst.Subtract) and not node.lpar:
        yield node.left


def _neighbours(node: cst.Integer) -> Iterator[cst.CSTNode]:
    if node.value.isdecimal():
        yield node.with_changes(value=str(int(node.value) + 1))
        if int(node.value) > 0:
            yield node.with_changes(value=str(int(node.value) - 1))


def _shorter_range(node: cst.Call) -> Iterator[cst.CSTNode]:
    """`range(n - 1)` for `range(n)`, and `range(1, n)`."""
    if len(node.args) > 2 or any(arg.star or arg.keyword for arg in node.args):
        return
    stop = node.args[-1]
    if isinstance(stop.value, cst.Name | cst.Call):
        fewer = cst.BinaryOperation(stop.value, cst.Subtract(), cst.Integer("1"))
        yield node.with_changes(args=[*node.args[:-1], stop.with_changes(value=fewer)])
    if len(node.args) == 1:
        yield node.with_changes(args=[cst.Arg(cst.Integer("1")), stop])


def _is_boundary(around: Surroundings) -> bool:
    for parent in around.parents:
        if isinstance(parent, cst.Call):
            return calls(parent, "range") or calls(parent, "round")
        if isinstance(parent, cst.Slice | cst.Index | cst.ComparisonTarget):
            return True
        if not isinstance(parent, cst.BinaryOperation | cst.UnaryOperation | cst.Arg):
            return False
    return False


# Mistakes in defaults: a wrong one, or one that calls or objects share.


_NUMBERS = re.compile(r"(?:n|k|max|min|size|count|limit|depth|index|start|stop|width|length)s?$")
_TEXTS = re.compile(r"(?:sep|prefix|suffix|name|text|delimiter|separator|fill|indent|label|title)$")
_LITERALS = {'" "': '""', '","': '", "', '", "': '","', '"\\n"': '" "', '"-"': '"_"'}


class WrongDefault:
    """A wrong default of a parameter."""

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
    """Another fallback, or none, in `d.get(key, fallback)` and similar calls."""

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
    """A class attribute for a container that `__init__` creates for each object."""

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
    """`x` and `[]` in `if x is None: x = []` and in `x = x or []`."""
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
    """`x` in `self.x = []`."""
    assign = only(statement)
    if not isinstance(assign, cst.Assign) or not is_empty(assign.value):
        return ""
    mutable = not isinstance(assign.value, cst.SimpleString | cst.Tuple)
    return self_attribute(assign.targets[0].target) if mutable else ""


def _moved(
    owner: cst.ClassDef, at: int, method: cst.FunctionDef, index: int, name: str
) -> cst.ClassDef:
    """The class, with `__init__`'s container moved to the class body."""
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


# Mistakes in state: stale caches, missing resets, shared objects instead of copies.


_CLEARING = re.compile(r"(?:clear|cache_clear|invalidate\w*|_?reset\w*|_?clear\w*|expire|discard)$")
_KEYED = re.compile(r"cache|memo|seen|visited", re.IGNORECASE)
_MAKERS = ("__init__", "__new__", "__setstate__", "__post_init__")
_CONVERSIONS = ("list", "dict", "set")


class StaleCache:
    """An entry that should have been removed is kept."""

    name = "stale_cache"
    category = "state"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if around.scope.function is None or len(around.siblings) < 2:
            return
        small = only(node)
        if isinstance(small, cst.Del):
            if isinstance(small.target, cst.Subscript | cst.Attribute):
                yield cst.RemoveFromParent()
        elif isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            called = small.value.func
            if isinstance(called, cst.Attribute) and _CLEARING.match(called.attr.value):
                yield cst.RemoveFromParent()


class DroppedReset:
    """A variable or attribute that is not reset."""

    name = "dropped_reset"
    category = "state"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        assign = only(node)
        function = around.scope.function
        if function is None or len(around.siblings) < 2 or not isinstance(assign, cst.Assign):
            return
        if not _is_start(assign.value):
            return
        target = assign.targets[0].target
        if self_attribute(target):
            if function.name.value not in _MAKERS:
                yield cst.RemoveFromParent()
        elif isinstance(target, cst.Name) and target.value in around.names and _in_loop(around):
            yield cst.RemoveFromParent()


class ForgetfulKey:
    """A cache key without one of its parts."""

    name = "forgetful_key"
    category = "state"
    nodes = (cst.Tuple, cst.Subscript)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Subscript):
            if len(node.slice) > 1 and _KEYED.search(dotted(node.value)):
                for index in range(len(node.slice) - 1, -1, -1):
                    yield node.with_changes(slice=without(node.slice, index))
        elif isinstance(node, cst.Tuple) and len(node.elements) > 1 and _is_key(around):
            if any(isinstance(element, cst.StarredElement) for element in node.elements):
                return
            for index in range(len(node.elements) - 1, -1, -1):
                left = without(node.elements, index)
                yield left[0].value if len(left) == 1 else node.with_changes(elements=left)


class SharedObject:
    """The object itself instead of a copy: `x` for `x[:]`, `dict(x)`, `copy.copy(x)`, `[*x]`."""

    name = "shared_object"
    category = "state"
    nodes = (cst.Call, cst.Subscript, cst.List, cst.Dict)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        copied = _copied(node)
        read = not isinstance(around.parent, cst.AssignTarget | cst.Del | cst.Attribute | cst.Expr)
        if copied is not None and read:
            yield copied


class ShallowCopy:
    """A shallow copy instead of a deep one."""

    name = "shallow_copy"
    category = "state"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Call) and dotted(node.func) == "copy.deepcopy":
            assert isinstance(node.func, cst.Attribute)
            func = node.func.with_changes(attr=cst.Name("copy"))
            yield node.with_changes(func=func, args=node.args[:1])


def _is_start(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Name):
        return value.value in ("True", "False") or is_none(value)
    return isinstance(value, cst.Integer) or is_empty(value)


def _in_loop(around: Surroundings) -> bool:
    for parent in around.parents:
        if isinstance(parent, cst.For | cst.While):
            return True
        if isinstance(parent, cst.FunctionDef):
            return False
    return False


def _is_key(around: Surroundings) -> bool:
    parent = around.parent
    if isinstance(parent, cst.Assign):
        return dotted(parent.targets[0].target).endswith("key")
    if isinstance(parent, cst.Index):
        subscript = around.parents[2]
        return isinstance(subscript, cst.Subscript) and bool(_KEYED.search(dotted(subscript.value)))
    return False


def _copied(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The object that the expression copies."""
    if isinstance(node, cst.Call):
        return _copied_by_call(node)
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        part = node.slice[0].slice
        whole = isinstance(part, cst.Slice) and not (part.lower or part.upper or part.step)
        return node.value if whole else None
    if isinstance(node, cst.List) and len(node.elements) == 1:
        element = node.elements[0]
        return element.value if isinstance(element, cst.StarredElement) else None
    if isinstance(node, cst.Dict) and len(node.elements) == 1:
        starred = node.elements[0]
        return starred.value if isinstance(starred, cst.StarredDictElement) else None
    return None


def _copied_by_call(node: cst.Call) -> cst.BaseExpression | None:
    if not node.args:
        method = isinstance(node.func, cst.Attribute) and called_name(node) == "copy"
        return node.func.value if method and isinstance(node.func, cst.Attribute) else None
    first = node.args[0].value
    if dotted(node.func) in ("copy.copy", "copy.deepcopy", "deepcopy"):
        return first
    plain = len(node.args) == 1 and not node.args[0].star and not node.args[0].keyword
    if plain and calls(node, *_CONVERSIONS) and isinstance(first, cst.Name | cst.Attribute):
        return first
    return None
