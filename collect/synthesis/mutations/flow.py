"""Mistakes in the order of things, in calls and in names: swapped, missing, or a similar one in
their place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import libcst as cst

from collect.synthesis.mutations.base import (
    MAKERS,
    MAX_NAMES,
    Replacements,
    Surroundings,
    alike,
    both_ways,
    called_name,
    calls,
    dotted,
    exchanged,
    is_empty,
    is_read,
    kind,
    likeness,
    mentions,
    minus_one,
    one_way,
    only,
    self_attribute,
    spliced,
    targets,
    without,
)


@kind("iteration")
def reset_in_loop(node: cst.IndentedBlock, around: Surroundings) -> Replacements:
    """An accumulator that is reset in each iteration."""
    for index, (start, loop) in enumerate(pairwise(node.body)):
        if not isinstance(loop, cst.For | cst.While) or not _gathers(start, loop):
            continue
        block = loop.body
        if isinstance(block, cst.IndentedBlock):
            inner = block.with_changes(body=[start.with_changes(leading_lines=[]), *block.body])
            above = list(getattr(start, "leading_lines", ()))
            longer = loop.with_changes(body=inner, leading_lines=above)
            yield node.with_changes(body=spliced(node.body, index, 2, longer))


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


def _gathers(start: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Whether the loop adds to the variable that the statement before it initialises."""
    match only(start):
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
            if not is_empty(value) and not isinstance(value, cst.Integer | cst.Float):
                return False
            tested = isinstance(loop, cst.While) and mentions(loop.test, name)
            return not tested and mentions(loop.body, name)
    return False


@kind("order")
def swapped_merge(node: cst.Dict, around: Surroundings) -> Replacements:
    """Two mappings merged in the wrong order, so that the other one's values win."""
    for index, (first, second) in enumerate(pairwise(node.elements)):
        if cst.StarredDictElement in (type(first), type(second)):
            left = second.with_changes(comma=first.comma)
            right = first.with_changes(comma=second.comma)
            yield node.with_changes(elements=spliced(node.elements, index, 2, left, right))


# Mistakes in control flow: a missing branch or statement, an early end, a swallowed error.

_UPDATING = {"add", "append", "sort", "update", "extend", "discard", "remove", "pop", "reverse"}


@kind("flow")
def dropped_branch(node: cst.If, around: Surroundings) -> Replacements:
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


@kind("exception")
def swallowed_exception(node: cst.SimpleStatementLine, around: Surroundings) -> Replacements:
    """An error that is caught and not raised again."""
    match around.parents:
        case [_, cst.ExceptHandler(), *_] if isinstance(only(node), cst.Raise):
            # Only the last statement decides how the handler ends.
            alone = len(around.siblings) < 2
            yield node.with_changes(body=[cst.Pass()]) if alone else cst.RemoveFromParent()


# Mistakes in calls and results: swapped values, a missing call, the wrong or a similar function.

_OWNERS = {"self", "cls"}
_CLEANING = {"strip", "lstrip", "rstrip", "lower", "upper", "copy", "title", "casefold"}
_WRAPPING = {"sorted", "abs", "round", "reversed", "list", "tuple", "int", "str", "float"}
_OPPOSITES = one_way("popleft pop, appendleft append, find rfind, extend append") | both_ways(
    "min max, any all, keys values, lower upper, startswith endswith, bisect_left bisect_right,"
    "ceil floor, lstrip rstrip"
)


@kind("call")
def swapped_arguments(node: cst.Call, around: Surroundings) -> Replacements:
    for index, (first, second) in enumerate(pairwise(node.args)):
        named = first.keyword or second.keyword or first.star or second.star
        if named or first.value.deep_equals(second.value):
            continue
        if not around.in_project or _may_be_confused(node, first.value, second.value):
            yield node.with_changes(args=exchanged(node.args, index))


def _may_be_confused(call: cst.Call, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether both arguments are variables, or both literals, for example."""
    known = calls(
        call, "isinstance", "issubclass", "map", "filter", "getattr", "hasattr", "setattr"
    )
    return not known and type(one) is type(other) and not {dotted(one), dotted(other)} & _OWNERS


@kind("call")
def dropped_call(node: cst.Call, around: Surroundings) -> Replacements:
    """`x` for `x.strip()` or `sorted(x)`."""
    if isinstance(around.parent, cst.Expr):
        return
    match node:
        case cst.Call(cst.Attribute(value, cst.Name(name))) if name in _CLEANING:
            yield value
        case cst.Call(cst.Name(name), [cst.Arg(value, star=""), *_]) if name in _WRAPPING:
            if not isinstance(value, cst.GeneratorExp):
                yield value


@kind("data")
def missing_deduplication(node: cst.Call | cst.SetComp, around: Surroundings) -> Replacements:
    """`list(x)` for `set(x)`."""
    match node:
        case cst.Call(cst.Name("set"), [_, *_]):
            yield node.with_changes(func=cst.Name("list"))
        case cst.SetComp():
            left = cst.LeftSquareBracket(node.lbrace.whitespace_after)
            right = cst.RightSquareBracket(node.rbrace.whitespace_before)
            yield cst.ListComp(node.elt, node.for_in, left, right, node.lpar, node.rpar)


@kind("call")
def wrong_function(node: cst.Call, around: Surroundings) -> Replacements:
    """A function's opposite: `max` for `min`, `endswith` for `startswith`. In projects without keys
    and values, which mostly differ in type."""
    if around.in_project and called_name(node) in ("keys", "values"):
        return
    if other := _OPPOSITES.get(called_name(node)):
        method = isinstance(node.func, cst.Attribute)
        func = node.func.with_changes(attr=cst.Name(other)) if method else cst.Name(other)
        yield node.with_changes(func=func)


_SIMILAR = both_ways(
    "partition rpartition, union intersection, issubset issuperset, ljust rjust,"
    "combinations permutations, nlargest nsmallest, isoweekday weekday, successors predecessors,"
    "in_edges out_edges, in_degree out_degree, isalpha isalnum, heappushpop heapreplace"
) | one_way(
    "search match, fullmatch match, rsplit split, rfind find, rindex index,"
    "symmetric_difference difference, dirname basename, takewhile filterfalse, isdigit isalnum,"
    "insort_left insort_right, extendleft extend, removeprefix lstrip, removesuffix rstrip,"
    "splitlines split, trunc floor"
)


@kind("call")
def confused_function(node: cst.Call, around: Surroundings) -> Replacements:
    """A function that does nearly the same: `match` for `search`, `split` for `rsplit`."""
    match node.func:
        case cst.Attribute(attr=cst.Name(name)) as method if name in _SIMILAR:
            other = method.with_changes(attr=cst.Name(_SIMILAR[name]))
            yield node.with_changes(func=other)
        case cst.Name("zip_longest"):
            keyword = next((at for at, arg in enumerate(node.args) if arg.keyword), None)
            args = node.args if keyword is None else without(node.args, keyword)
            yield node.with_changes(func=cst.Name("zip"), args=args)


@kind("data")
def swapped_results(node: cst.Tuple, around: Surroundings) -> Replacements:
    """Two of a function's return values, or of the unpacked variables, swapped."""
    match around.parents:
        case [cst.Return() | cst.Yield(), *_]:
            pass
        case [cst.AssignTarget(), cst.Assign(value=cst.Call() | cst.Name()), *_]:
            pass
        case _:
            return
    for index, (first, second) in enumerate(pairwise(node.elements)):
        starred = cst.StarredElement in (type(first), type(second))
        alike = type(first.value) is type(second.value)
        if alike and not starred and not first.value.deep_equals(second.value):
            yield node.with_changes(elements=exchanged(node.elements, index))


# Mistakes in names: a variable, attribute or key replaced by a similar one.


@kind("name")
def confused_variable(node: cst.Name, around: Surroundings) -> Replacements:
    """A variable replaced by one with a similar name."""
    if is_read(node, around.parent) and node.value in around.names:
        for name in alike(node.value, around.names):
            yield node.with_changes(value=name)


@kind("name")
def confused_attribute(node: cst.Attribute, around: Surroundings) -> Replacements:
    """An attribute replaced by a similar one of the same object."""
    name, parent = self_attribute(node), around.parent
    written = isinstance(parent, cst.AssignTarget | cst.AugAssign | cst.Attribute)
    called = isinstance(parent, cst.Call) and parent.func is node
    if name in around.scope.attributes and not written and not called:
        for other in alike(name, around.scope.attributes):
            yield node.with_changes(attr=cst.Name(other))


@kind("name")
def confused_key(node: cst.SimpleString, around: Surroundings) -> Replacements:
    """A key replaced by another one of the same mapping."""
    match around.parents:
        case [cst.Index(), _, cst.Subscript(mapping), used_in, *_] if not isinstance(
            used_in, cst.AssignTarget | cst.Del
        ):
            others = dict.fromkeys(_keys_of(mapping, around))
            near = [key for key in others if key != node.value]
            near.sort(key=lambda key: -likeness(key, node.value))
            yield from (node.with_changes(value=key) for key in near[:MAX_NAMES])


def _keys_of(mapping: cst.BaseExpression, around: Surroundings) -> Iterator[str]:
    """The string keys used with the mapping in the function, or else in the class."""
    for subscript in (*around.in_scope(cst.Subscript), *around.in_owner(cst.Subscript)):
        match subscript.slice:
            case [cst.SubscriptElement(cst.Index(cst.SimpleString(key)))]:
                if subscript.value.deep_equals(mapping):
                    yield key


# Mistakes whose result reads like correct code: something is left out, or comes in another order or
# later.


@kind("state")
def dropped_update(node: cst.SimpleStatementLine, around: Surroundings) -> Replacements:
    """State that is not kept up to date, or a value that is not normalised: `self.x = f(y)`,
    `table[key] = value`, `self.notify()`, `key = fold(key)` left out."""
    function = around.scope.function
    if function is None or len(around.siblings) < 2:
        return
    match only(node):
        case cst.Assign([cst.AssignTarget(cst.Attribute())]):
            # Without it, a new object has no such attribute, and fails at once.
            updates = function.name.value not in MAKERS
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
            updates = name in around.names and mentions(value, name)
        case cst.Assign([cst.AssignTarget(cst.Subscript())]) | cst.Expr(cst.Call()):
            updates = True
        case _:
            updates = False
    if updates:
        yield cst.RemoveFromParent()


@kind("inheritance")
def dropped_override(
    node: cst.FunctionDef | cst.SimpleStatementLine, around: Surroundings
) -> Replacements:
    """A method or class attribute that is inherited instead. It likely has a base's version: its
    name is Python's own, it calls `super()`, or another class of the module defines it, too."""
    if isinstance(node, cst.FunctionDef):
        name = node.name.value
    else:
        name = dotted(next(targets(only(node)), node))
    block = around.place.parent
    owner = block.parent.node if block is not None and block.parent is not None else None
    if not isinstance(owner, cst.ClassDef) or len(around.siblings) < 2 or name in MAKERS:
        return
    special = bool(re.fullmatch(r"__\w+__", name)) or mentions(node, "super")
    if name and (special or (owner.bases and _defined_elsewhere(name, owner, around))):
        yield cst.RemoveFromParent()


@kind("iteration")
def lazy_result(node: cst.Call | cst.ListComp, around: Surroundings) -> Replacements:
    """An iterator, which can be read only once, kept or returned for a list."""
    match around.parents:
        case [cst.Return(), *_] | [cst.Assign([cst.AssignTarget(cst.Attribute())]), *_]:
            pass
        case _:
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


def _defined_elsewhere(name: str, owner: cst.ClassDef, around: Surroundings) -> bool:
    for place in around.places.all:
        match place.node:
            case cst.ClassDef(body=cst.IndentedBlock(body)) as other if other is not owner:
                for each in body:
                    if isinstance(each, cst.FunctionDef) and each.name.value == name:
                        return True
                    if name in map(dotted, targets(only(each))):
                        return True
    return False
