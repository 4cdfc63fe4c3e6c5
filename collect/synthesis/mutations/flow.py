"""Mistakes in loops: a reset inside, an exhausted iterator, a wrong end, a wrong order."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.synthesis.mutations.base import Replacement
from collect.synthesis.mutations.reading import (
    Place,
    Surroundings,
    called_name,
    calls,
    is_empty,
    lines_above,
    mentions,
    only,
    targets,
    without,
)

_CONSUMERS = ("sum", "min", "max", "any", "all", "sorted", "list", "tuple", "set", "dict", "zip")


class ResetInLoop:
    """An accumulator that is reset in each iteration."""

    name = "reset_in_loop"
    category = "iteration"
    nodes = (cst.IndentedBlock,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.IndentedBlock):
            return
        for index, (start, loop) in enumerate(zip(node.body, node.body[1:], strict=False)):
            if not isinstance(loop, cst.For | cst.While) or not _gathers(start, loop):
                continue
            block = loop.body
            if isinstance(block, cst.IndentedBlock):
                first = start.with_changes(leading_lines=[])
                inner = block.with_changes(body=[first, *block.body])
                longer = loop.with_changes(body=inner, leading_lines=lines_above(start))
                yield node.with_changes(body=[*node.body[:index], longer, *node.body[index + 2 :]])


class UsedUpIterator:
    """A generator, which can be read only once, for a list that is read twice."""

    name = "used_up_iterator"
    category = "iteration"
    nodes = (cst.Call, cst.ListComp)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        target = next(targets(around.parent), None)
        if around.scope.function is None or not isinstance(target, cst.Name):
            return
        if not _iterated_twice(target.value, around):
            return
        if isinstance(node, cst.ListComp):
            before, after = node.lbracket.whitespace_after, node.rbracket.whitespace_before
            yield _generator(node, before, after)
        elif isinstance(node, cst.Call) and calls(node, "list", "tuple") and len(node.args) == 1:
            made = node.args[0].value
            if isinstance(made, cst.GeneratorExp):
                after = node.args[0].whitespace_after_arg
                yield _generator(made, node.whitespace_before_args, after)
            elif calls(made, "map", "filter", "zip", "reversed", "enumerate", "iter"):
                yield made


class WrongSliceEnd:
    """A slice end or `len` count that is off by one."""

    name = "wrong_slice_end"
    category = "boundary"
    nodes = (cst.Slice,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Slice) or node.step is not None:
            return
        for side in ("upper", "lower"):
            bound = node.upper if side == "upper" else node.lower
            if isinstance(bound, cst.Name | cst.Attribute | cst.Call):
                one = cst.BinaryOperation(bound, cst.Subtract(), cst.Integer("1"))
                more = cst.BinaryOperation(bound, cst.Add(), cst.Integer("1"))
                yield node.with_changes(**{side: one if side == "upper" else more})


class NestedYield:
    """`yield x` for `yield from x`."""

    name = "nested_yield"
    category = "iteration"
    nodes = (cst.Yield,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Yield) and isinstance(node.value, cst.From):
            yield node.with_changes(value=node.value.item)


def _generator(
    made: cst.ListComp | cst.GeneratorExp,
    before: cst.BaseParenthesizableWhitespace,
    after: cst.BaseParenthesizableWhitespace,
) -> cst.GeneratorExp:
    """The comprehension as a generator, with the same layout."""
    left, right = cst.LeftParen(before), cst.RightParen(after)
    return cst.GeneratorExp(made.elt, made.for_in, [left], [right])


def _gathers(start: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Whether the loop adds to the variable that the statement before it initialises."""
    assign = only(start)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return False
    target = assign.targets[0].target
    if not isinstance(target, cst.Name):
        return False
    if not (is_empty(assign.value) or isinstance(assign.value, cst.Integer | cst.Float)):
        return False
    if isinstance(loop, cst.While) and mentions(loop.test, target.value):
        return False
    return mentions(loop.body, target.value)


def _iterated_twice(name: str, around: Surroundings) -> bool:
    """Whether the function iterates over a variable more than once, and uses it in no other way: a
    generator has no length and no items."""
    reads = 0
    for place in around.places.inside(around.scope.place):
        parent = place.parent.node if place.parent else place.node
        named = isinstance(place.node, cst.Name) and place.node.value == name
        if not named or isinstance(parent, cst.AssignTarget):
            continue
        goes_through = isinstance(parent, cst.For | cst.CompFor | cst.StarredElement)
        passed = isinstance(parent, cst.Arg) and _takes_iterators(place)
        if not goes_through and not passed:
            return False
        reads += 1
    return reads > 1


def _takes_iterators(argument: Place) -> bool:
    call = argument.parent.parent if argument.parent else None
    return call is not None and calls(call.node, *_CONSUMERS)


# Mistakes in order: statements, branches and mappings swapped.


class SwappedStatements:
    """Two neighbouring statements swapped, if one reads what the other writes."""

    name = "swapped_statements"
    category = "order"
    nodes = (cst.IndentedBlock,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.IndentedBlock) or around.scope.function is None:
            return
        known = _parameters(around)
        for index, (first, second) in enumerate(zip(node.body, node.body[1:], strict=False)):
            if _depends(first, second, known, around):
                second_first = [
                    second.with_changes(leading_lines=lines_above(first)),
                    first.with_changes(leading_lines=lines_above(second)),
                ]
                yield node.with_changes(
                    body=[*node.body[:index], *second_first, *node.body[index + 2 :]]
                )
            known |= {name.value for name in targets(only(first)) if isinstance(name, cst.Name)}


class SwappedBranches:
    """The special case after the general one, which hides it."""

    name = "swapped_branches"
    category = "order"
    nodes = (cst.If,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.If) or not isinstance(node.orelse, cst.If):
            return
        other = node.orelse
        if _subject(node.test) and _subject(node.test) == _subject(other.test):
            yield node.with_changes(
                test=other.test,
                body=other.body,
                orelse=other.with_changes(test=node.test, body=node.body),
            )


class SwappedMerge:
    """Two mappings merged in the wrong order, so that the other one's values win."""

    name = "swapped_merge"
    category = "order"
    nodes = (cst.Dict,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Dict):
            return
        for index, (first, second) in enumerate(
            zip(node.elements, node.elements[1:], strict=False)
        ):
            if isinstance(first, cst.StarredDictElement) or isinstance(
                second, cst.StarredDictElement
            ):
                elements = list(node.elements)
                elements[index] = second.with_changes(comma=first.comma)
                elements[index + 1] = first.with_changes(comma=second.comma)
                yield node.with_changes(elements=elements)


def _parameters(around: Surroundings) -> set[str]:
    function = around.scope.function
    return set() if function is None else {param.name.value for param in function.params.params}


def _depends(
    first: cst.CSTNode, second: cst.CSTNode, known: set[str], around: Surroundings
) -> bool:
    """Whether the second statement reads what the first one reassigns, so that it could read the
    old value instead.

    `known` are the variables that surely have an old value.
    """
    writes, reads = only(first), only(second)
    if not isinstance(writes, cst.Assign | cst.AugAssign):
        return False
    if not isinstance(reads, cst.Assign | cst.AugAssign | cst.Expr):
        return False
    if isinstance(reads, cst.Expr) and not _passes_on(reads.value):
        return False
    function = around.scope.function
    made = function is not None and function.name.value == "__init__"
    for target in targets(writes):
        if isinstance(target, cst.Name):
            old = isinstance(writes, cst.AugAssign) or target.value in known
            if old and _reads(reads, target):
                return True
        elif isinstance(target, cst.Attribute) and not made and _reads(reads, target):
            return True
    return False


def _passes_on(value: cst.BaseExpression) -> bool:
    """Whether it is a call that may take the written variable. A method of that variable does not
    count: there is no old value to call it on."""
    return isinstance(value, cst.Call) and bool(value.args)


def _reads(statement: cst.BaseSmallStatement, target: cst.BaseExpression) -> bool:
    if isinstance(statement, cst.Assign | cst.AugAssign):
        return _contains(statement.value, target)
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        return any(_contains(arg, target) for arg in statement.value.args)
    return False


def _contains(node: cst.CSTNode, wanted: cst.CSTNode) -> bool:
    if type(node) is type(wanted) and node.deep_equals(wanted):
        return True
    return any(_contains(child, wanted) for child in node.children)


def _subject(test: cst.BaseExpression) -> str:
    """The subject of a test, if another test of the same subject may also be true; else empty."""
    if calls(test, "isinstance", "issubclass") and isinstance(test, cst.Call):
        return f"isinstance {_text(test.args[0].value)}" if test.args else ""
    if isinstance(test, cst.Call) and called_name(test) in ("startswith", "endswith"):
        return _text(test.func)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        ordered = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual
        if isinstance(test.comparisons[0].operator, ordered):
            return f"compared {_text(test.left)}"
    return ""


def _text(node: cst.BaseExpression) -> str:
    return cst.Module([]).code_for_node(node)


# Mistakes in control flow: a missing branch or statement, an early return or end.


_UPDATING = {"add", "append", "sort", "update", "extend", "discard", "remove", "pop", "reverse"}


class DroppedBranch:
    """A missing `else` or `elif`."""

    name = "dropped_branch"
    category = "flow"
    nodes = (cst.If,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.If) and isinstance(node.orelse, cst.Else):
            yield node.with_changes(orelse=None)
        elif isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
            yield node.with_changes(orelse=node.orelse.orelse)


class DroppedGuard:
    """A missing `if` without `else`."""

    name = "dropped_guard"
    category = "flow"
    nodes = (cst.If,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.If) and node.orelse is None and len(around.siblings) > 1:
            yield cst.RemoveFromParent()


class DroppedStatement:
    """A missing update: `seen.add(x)`, `rows.sort()`, `count += 1`."""

    name = "dropped_statement"
    category = "flow"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if _is_update(node) and len(around.siblings) > 1:
            yield cst.RemoveFromParent()


class EarlyReturn:
    """A return moved from after a loop to inside it."""

    name = "early_return"
    category = "flow"
    nodes = (cst.For,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        after = around.next_sibling()
        if not isinstance(node, cst.For) or not isinstance(node.body, cst.IndentedBlock):
            return
        if after is not None and isinstance(only(after), cst.Return):
            inner = [*node.body.body, after.with_changes(leading_lines=[])]
            yield node.with_changes(body=node.body.with_changes(body=inner))


class WrongLoopControl:
    """`break` for `continue`, or the other way round; removed if other statements come before
    it."""

    name = "wrong_loop_control"
    category = "flow"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.SimpleStatementLine):
            return
        small = only(node)
        if isinstance(small, cst.Continue):
            yield node.with_changes(body=[cst.Break()])
        elif isinstance(small, cst.Break) and _ends_for(around):
            alone = len(around.siblings) == 1
            yield node.with_changes(body=[cst.Continue()]) if alone else cst.RemoveFromParent()


def _ends_for(around: Surroundings) -> bool:
    """Whether the loop also ends without this `break`."""
    loops = (parent for parent in around.parents if isinstance(parent, cst.For | cst.While))
    return isinstance(next(loops, None), cst.For)


def _is_update(statement: cst.CSTNode) -> bool:
    small = only(statement)
    if isinstance(small, cst.AugAssign):
        return True
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        return False
    called = small.value.func
    return isinstance(called, cst.Attribute) and called.attr.value in _UPDATING


# Mistakes in error handling: the wrong error caught, one swallowed, missing cleanup.


_CONFUSED = {
    "KeyError": "IndexError",
    "IndexError": "KeyError",
    "LookupError": "KeyError",
    "ValueError": "TypeError",
    "TypeError": "ValueError",
    "AttributeError": "KeyError",
    "OSError": "FileNotFoundError",
    "ArithmeticError": "ZeroDivisionError",
    "ZeroDivisionError": "OverflowError",
    "OverflowError": "ValueError",
    "UnicodeError": "UnicodeDecodeError",
    "UnicodeDecodeError": "UnicodeEncodeError",
    "Exception": "ValueError",
    "StopIteration": "IndexError",
}


class WrongException:
    """A handler for another error, or for too few errors."""

    name = "wrong_exception"
    category = "exception"
    nodes = (cst.ExceptHandler,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.ExceptHandler):
            return
        caught = node.type
        if isinstance(caught, cst.Name) and caught.value in _CONFUSED:
            yield node.with_changes(type=cst.Name(_CONFUSED[caught.value]))
        elif isinstance(caught, cst.Tuple) and len(caught.elements) > 1:
            for index in (0, len(caught.elements) - 1):
                left = without(caught.elements, index)
                if len(left) == 1:
                    space = cst.SimpleWhitespace(" ")
                    yield node.with_changes(type=left[0].value, whitespace_after_except=space)
                else:
                    yield node.with_changes(type=caught.with_changes(elements=left))


class SwallowedException:
    """An error that is caught and not raised again."""

    name = "swallowed_exception"
    category = "exception"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(only(node), cst.Raise) or not isinstance(node, cst.SimpleStatementLine):
            return
        if len(around.parents) > 1 and isinstance(around.parents[1], cst.ExceptHandler):
            # Only the last statement decides how the handler ends.
            if len(around.siblings) > 1:
                yield cst.RemoveFromParent()
            else:
                yield node.with_changes(body=[cst.Pass()])


class SkippedCleanup:
    """The body of `finally`, run only if nothing was raised."""

    name = "skipped_cleanup"
    category = "exception"
    nodes = (cst.Try,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Try) or node.finalbody is None:
            return
        if node.handlers:
            yield node.with_changes(finalbody=None)
            return
        tried, cleanup = node.body, node.finalbody.body
        if isinstance(only(tried.body[-1]), cst.Return):
            return
        if isinstance(tried, cst.IndentedBlock) and isinstance(cleanup, cst.IndentedBlock):
            yield cst.FlattenSentinel([*tried.body, *cleanup.body])


class MissingSuper:
    """A method that does not call the one it overrides."""

    name = "missing_super"
    category = "inheritance"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        small = only(node)
        if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
            return
        called = small.value.func
        if not isinstance(called, cst.Attribute) or len(around.siblings) < 2:
            return
        if calls(called.value, "super"):
            yield cst.RemoveFromParent()
