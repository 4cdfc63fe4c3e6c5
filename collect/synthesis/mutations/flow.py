"""Mistakes in the order of things: in loops, statements, branches, and error handling."""

from __future__ import annotations

from itertools import pairwise

import libcst as cst

from collect.synthesis.mutations.base import Replacements, kind
from collect.synthesis.mutations.reading import (
    Surroundings,
    both_ways,
    called_name,
    calls,
    is_empty,
    mentions,
    minus_one,
    one_way,
    only,
    targets,
    without,
)

_CONSUMERS = ("sum", "min", "max", "any", "all", "sorted", "list", "tuple", "set", "dict", "zip")


@kind("iteration")
def reset_in_loop(node: cst.IndentedBlock, around: Surroundings) -> Replacements:
    """An accumulator that is reset in each iteration."""
    for index, (start, loop) in enumerate(pairwise(node.body)):
        if not isinstance(loop, cst.For | cst.While) or not _gathers(start, loop):
            continue
        block = loop.body
        if isinstance(block, cst.IndentedBlock):
            inner = block.with_changes(body=[start.with_changes(leading_lines=[]), *block.body])
            longer = loop.with_changes(body=inner, leading_lines=_lines_above(start))
            yield node.with_changes(body=[*node.body[:index], longer, *node.body[index + 2 :]])


@kind("iteration")
def used_up_iterator(node: cst.Call | cst.ListComp, around: Surroundings) -> Replacements:
    """A generator, which can be read only once, for a list that is read twice."""
    target = next(targets(around.parent), None)
    if around.scope.function is None or not isinstance(target, cst.Name):
        return
    if not _iterated_twice(target.value, around):
        return
    match node:
        case cst.ListComp(elt, for_in):
            left = cst.LeftParen(node.lbracket.whitespace_after)
            right = cst.RightParen(node.rbracket.whitespace_before)
            yield cst.GeneratorExp(elt, for_in, [left], [right])
        case cst.Call(cst.Name("list" | "tuple"), [arg]):
            if isinstance(arg.value, cst.GeneratorExp):
                left = cst.LeftParen(node.whitespace_before_args)
                right = cst.RightParen(arg.whitespace_after_arg)
                yield cst.GeneratorExp(arg.value.elt, arg.value.for_in, [left], [right])
            elif calls(arg.value, "map", "filter", "zip", "reversed", "enumerate", "iter"):
                yield arg.value


@kind("boundary")
def wrong_slice_end(node: cst.Slice, around: Surroundings) -> Replacements:
    """A slice bound that is off by one."""
    counts = cst.Name | cst.Attribute | cst.Call
    if node.step is not None:
        return
    if isinstance(node.upper, counts):
        yield node.with_changes(upper=minus_one(node.upper))
    if isinstance(node.lower, counts):
        more = cst.BinaryOperation(node.lower, cst.Add(), cst.Integer("1"))
        yield node.with_changes(lower=more)


@kind("iteration")
def nested_yield(node: cst.Yield, around: Surroundings) -> Replacements:
    """`yield x` for `yield from x`."""
    if isinstance(node.value, cst.From):
        yield node.with_changes(value=node.value.item)


def _lines_above(statement: cst.CSTNode) -> list[cst.EmptyLine]:
    """The comments and empty lines above a statement."""
    return list(getattr(statement, "leading_lines", ()))


def _gathers(start: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Whether the loop adds to the variable that the statement before it initialises."""
    match only(start):
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
            if not is_empty(value) and not isinstance(value, cst.Integer | cst.Float):
                return False
            tested = isinstance(loop, cst.While) and mentions(loop.test, name)
            return not tested and mentions(loop.body, name)
    return False


def _iterated_twice(name: str, around: Surroundings) -> bool:
    """Whether the function iterates over a variable more than once, and uses it in no other way: a
    generator has no length and no items."""
    reads = 0
    for place in around.places.inside(around.scope.place):
        if not isinstance(place.node, cst.Name) or place.node.value != name:
            continue
        match [each.node for each in place.ancestors()]:
            case [cst.AssignTarget(), *_]:
                pass
            case [cst.For() | cst.CompFor() | cst.StarredElement(), *_]:
                reads += 1
            case [cst.Arg(), call, *_] if calls(call, *_CONSUMERS):
                reads += 1
            case _:
                return False
    return reads > 1


# Mistakes in order: statements, branches and mappings swapped.


@kind("order")
def swapped_statements(node: cst.IndentedBlock, around: Surroundings) -> Replacements:
    """Two neighbouring statements swapped, if one reads what the other writes."""
    function = around.scope.function
    if function is None:
        return
    known = {param.name.value for param in function.params.params}
    for index, (first, second) in enumerate(pairwise(node.body)):
        if _depends(first, second, known, function):
            second_first = [
                second.with_changes(leading_lines=_lines_above(first)),
                first.with_changes(leading_lines=_lines_above(second)),
            ]
            yield node.with_changes(
                body=[*node.body[:index], *second_first, *node.body[index + 2 :]]
            )
        known |= {name.value for name in targets(only(first)) if isinstance(name, cst.Name)}


@kind("order")
def swapped_branches(node: cst.If, around: Surroundings) -> Replacements:
    """The special case after the general one, which hides it."""
    other = node.orelse
    if not isinstance(other, cst.If):
        return
    special, general = _subject(node.test), _subject(other.test)
    if special is not None and general is not None and special.deep_equals(general):
        later = other.with_changes(test=node.test, body=node.body)
        yield node.with_changes(test=other.test, body=other.body, orelse=later)


@kind("order")
def swapped_merge(node: cst.Dict, around: Surroundings) -> Replacements:
    """Two mappings merged in the wrong order, so that the other one's values win."""
    for index, (first, second) in enumerate(pairwise(node.elements)):
        if cst.StarredDictElement in (type(first), type(second)):
            swapped = [
                second.with_changes(comma=first.comma),
                first.with_changes(comma=second.comma),
            ]
            elements = [*node.elements[:index], *swapped, *node.elements[index + 2 :]]
            yield node.with_changes(elements=elements)


def _depends(
    first: cst.CSTNode, second: cst.CSTNode, known: set[str], function: cst.FunctionDef
) -> bool:
    """Whether the second statement reads what the first one reassigns, so that it could read the
    old value instead.

    `known` are the variables that surely have an old value.
    """
    writes = only(first)
    match only(second):
        case cst.Assign(value=value) | cst.AugAssign(value=value):
            reads: list[cst.CSTNode] = [value]
        case cst.Expr(cst.Call(args=args)):
            # A method of the variable does not count: there is no old value to call it on.
            reads = [arg.value for arg in args]
        case _:
            return False
    if not isinstance(writes, cst.Assign | cst.AugAssign):
        return False
    for target in targets(writes):
        if isinstance(target, cst.Name):
            has_old = isinstance(writes, cst.AugAssign) or target.value in known
        else:
            has_old = isinstance(target, cst.Attribute) and function.name.value != "__init__"
        if has_old and any(_contains(read, target) for read in reads):
            return True
    return False


def _contains(node: cst.CSTNode, wanted: cst.CSTNode) -> bool:
    if type(node) is type(wanted) and node.deep_equals(wanted):
        return True
    return any(_contains(child, wanted) for child in node.children)


def _subject(test: cst.BaseExpression) -> cst.BaseExpression | None:
    """The subject of a test, if another test of the same subject may also be true."""
    ordered = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual
    match test:
        case cst.Call(cst.Name("isinstance" | "issubclass"), [_, *_]):
            return test.with_changes(args=test.args[:1])
        case cst.Call(func) if called_name(test) in ("startswith", "endswith"):
            return func
        case cst.Comparison(left, [cst.ComparisonTarget(operator)]):
            return left if isinstance(operator, ordered) else None
    return None


# Mistakes in control flow: a missing branch or statement, an early return or end.

_UPDATING = {"add", "append", "sort", "update", "extend", "discard", "remove", "pop", "reverse"}


@kind("flow")
def dropped_branch(node: cst.If, around: Surroundings) -> Replacements:
    """A missing `else` or `elif`."""
    if isinstance(node.orelse, cst.If):
        yield node.with_changes(orelse=node.orelse.orelse)
    elif node.orelse is not None:
        yield node.with_changes(orelse=None)


@kind("flow")
def dropped_guard(node: cst.If, around: Surroundings) -> Replacements:
    """A missing `if` without `else`."""
    if node.orelse is None and len(around.siblings) > 1:
        yield cst.RemoveFromParent()


@kind("flow")
def dropped_statement(node: cst.SimpleStatementLine, around: Surroundings) -> Replacements:
    """A missing update: `seen.add(x)`, `rows.sort()`, `count += 1`."""
    if len(around.siblings) < 2:
        return
    match only(node):
        case cst.AugAssign():
            yield cst.RemoveFromParent()
        case cst.Expr(cst.Call(cst.Attribute(attr=cst.Name(name)))) if name in _UPDATING:
            yield cst.RemoveFromParent()


@kind("flow")
def early_return(node: cst.For, around: Surroundings) -> Replacements:
    """A return moved from after a loop to inside it."""
    for statement, after in pairwise(around.siblings):
        found = statement is node and isinstance(only(after), cst.Return)
        if found and isinstance(node.body, cst.IndentedBlock):
            inner = [*node.body.body, after.with_changes(leading_lines=[])]
            yield node.with_changes(body=node.body.with_changes(body=inner))


@kind("flow")
def wrong_loop_control(node: cst.SimpleStatementLine, around: Surroundings) -> Replacements:
    """`break` for `continue`, or the other way round; removed if other statements come before
    it."""
    match only(node):
        case cst.Continue():
            yield node.with_changes(body=[cst.Break()])
        # A `for` also ends without its `break`.
        case cst.Break() if isinstance(around.nearest(cst.For, cst.While), cst.For):
            alone = len(around.siblings) == 1
            yield node.with_changes(body=[cst.Continue()]) if alone else cst.RemoveFromParent()


# Mistakes in error handling: the wrong error caught, one swallowed, missing cleanup.

_CONFUSED = both_ways("KeyError IndexError, ValueError TypeError") | one_way(
    "LookupError KeyError, AttributeError KeyError, OSError FileNotFoundError,"
    "ArithmeticError ZeroDivisionError, ZeroDivisionError OverflowError, OverflowError ValueError,"
    "UnicodeError UnicodeDecodeError, UnicodeDecodeError UnicodeEncodeError, Exception ValueError,"
    "StopIteration IndexError"
)


@kind("exception")
def wrong_exception(node: cst.ExceptHandler, around: Surroundings) -> Replacements:
    """A handler for another error, or for too few errors."""
    match node.type:
        case cst.Name(name) if name in _CONFUSED:
            yield node.with_changes(type=cst.Name(_CONFUSED[name]))
        case cst.Tuple([_, _, *_] as elements) as caught:
            for index in (0, len(elements) - 1):
                left = without(elements, index)
                if len(left) == 1:
                    space = cst.SimpleWhitespace(" ")
                    yield node.with_changes(type=left[0].value, whitespace_after_except=space)
                else:
                    yield node.with_changes(type=caught.with_changes(elements=left))


@kind("exception")
def swallowed_exception(node: cst.SimpleStatementLine, around: Surroundings) -> Replacements:
    """An error that is caught and not raised again."""
    match around.parents:
        case [_, cst.ExceptHandler(), *_] if isinstance(only(node), cst.Raise):
            # Only the last statement decides how the handler ends.
            alone = len(around.siblings) < 2
            yield node.with_changes(body=[cst.Pass()]) if alone else cst.RemoveFromParent()


@kind("exception")
def skipped_cleanup(node: cst.Try, around: Surroundings) -> Replacements:
    """The body of `finally`, run only if nothing was raised."""
    match node:
        case cst.Try(handlers=[_, *_], finalbody=cst.Finally()):
            yield node.with_changes(finalbody=None)
        case cst.Try(
            cst.IndentedBlock([*_, last] as tried),
            finalbody=cst.Finally(cst.IndentedBlock(cleanup)),
        ) if not isinstance(only(last), cst.Return):
            yield cst.FlattenSentinel([*tried, *cleanup])


@kind("inheritance")
def missing_super(node: cst.SimpleStatementLine, around: Surroundings) -> Replacements:
    """A method that does not call the one it overrides."""
    match only(node):
        case cst.Expr(cst.Call(cst.Attribute(cst.Call(cst.Name("super"))))):
            if len(around.siblings) > 1:
                yield cst.RemoveFromParent()
