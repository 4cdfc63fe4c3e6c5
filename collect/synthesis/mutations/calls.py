"""Mistakes in calls, results and names: swapped, missing, or a similar one in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import pairwise

import libcst as cst

from collect.synthesis.mutations.base import Replacements, kind
from collect.synthesis.mutations.reading import (
    Surroundings,
    both_ways,
    calls,
    dotted,
    exchanged,
    is_read,
    minus_one,
    one_way,
    self_attribute,
    without,
)

_CLEANING = {"strip", "lstrip", "rstrip", "lower", "upper", "copy", "title", "casefold"}
_WRAPPING = {"sorted", "abs", "round", "reversed", "list", "tuple", "int", "str", "float"}
_OPPOSITES = one_way("popleft pop, appendleft append, find rfind, extend append") | both_ways(
    "min max, any all, keys values, lower upper, startswith endswith, bisect_left bisect_right,"
    "ceil floor, lstrip rstrip"
)


@kind("call")
def swapped_arguments(node: cst.Call, around: Surroundings) -> Replacements:
    """Two neighbouring arguments swapped."""
    for index, (first, second) in enumerate(pairwise(node.args)):
        named = first.keyword or second.keyword or first.star or second.star
        if not named and not first.value.deep_equals(second.value):
            yield node.with_changes(args=exchanged(node.args, index))


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
            yield cst.ListComp(
                node.elt,
                node.for_in,
                lbracket=cst.LeftSquareBracket(node.lbrace.whitespace_after),
                rbracket=cst.RightSquareBracket(node.rbrace.whitespace_before),
                lpar=node.lpar,
                rpar=node.rpar,
            )


@kind("call")
def wrong_function(node: cst.Call, around: Surroundings) -> Replacements:
    """A function's opposite: `max` for `min`, `endswith` for `startswith`."""
    match node.func:
        case cst.Name(name) if name in _OPPOSITES:
            yield node.with_changes(func=cst.Name(_OPPOSITES[name]))
        case cst.Attribute(attr=cst.Name(name)) as method if name in _OPPOSITES:
            other = method.with_changes(attr=cst.Name(_OPPOSITES[name]))
            yield node.with_changes(func=other)


# Mistakes in what is passed on: a dropped option, a similar function.

_OPTIONAL = {"key", "reverse", "default", "start", "strict", "fillvalue", "flags", "step"}
_OPTIONAL |= {"maxsplit", "sort_keys", "separators", "ensure_ascii", "recursive", "initial"}
_CONFUSED = both_ways(
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
def dropped_option(node: cst.Call, around: Surroundings) -> Replacements:
    """A keyword argument that is not passed on."""
    for index, arg in enumerate(node.args):
        if arg.keyword is not None and _is_option(arg.keyword.value, arg.value, around):
            yield node.with_changes(args=without(node.args, index))


@kind("call")
def confused_function(node: cst.Call, around: Surroundings) -> Replacements:
    """A function that does nearly the same: `match` for `search`, `split` for `rsplit`."""
    match node.func:
        case cst.Attribute(attr=cst.Name(name)) as method if name in _CONFUSED:
            other = method.with_changes(attr=cst.Name(_CONFUSED[name]))
            yield node.with_changes(func=other)
        case cst.Name("zip_longest"):
            keyword = next((at for at, arg in enumerate(node.args) if arg.keyword), None)
            args = node.args if keyword is None else without(node.args, keyword)
            yield node.with_changes(func=cst.Name("zip"), args=args)


@kind("iteration")
def late_binding(node: cst.Lambda | cst.FunctionDef, around: Surroundings) -> Replacements:
    """A closure that reads the loop's variable when it is called, too late."""
    loops = (cst.For, cst.While, cst.CompFor, cst.ListComp, cst.SetComp, cst.DictComp)
    if around.nearest(*loops) is None:
        return
    own = [param for param in node.params.params if not _binds_itself(param)]
    if len(own) == len(node.params.params):
        return
    own = [param.with_changes(comma=cst.MaybeSentinel.DEFAULT) for param in own]
    changed = node.with_changes(params=node.params.with_changes(params=own))
    if isinstance(changed, cst.Lambda) and not own:
        # Write "lambda:" for "lambda x=x:".
        changed = changed.with_changes(whitespace_after_lambda=cst.SimpleWhitespace(""))
    yield changed


def _is_option(name: str, value: cst.BaseExpression, around: Surroundings) -> bool:
    """Whether the call works without it: a known optional argument, or one passed on under its own
    name."""
    if name in _OPTIONAL:
        return True
    function = around.scope.function
    if function is None or dotted(value).rpartition(".")[2].lstrip("_") != name:
        return False
    params = (*function.params.params, *function.params.kwonly_params)
    defaulted = any(param.name.value == name and param.default is not None for param in params)
    return defaulted or isinstance(value, cst.Attribute)


def _binds_itself(param: cst.Param) -> bool:
    return isinstance(param.default, cst.Name) and param.default.value == param.name.value


# Mistakes in results: swapped values, a wrong unit, a value that is not returned.

_FACTORS = both_ways("1000 1024, 60 3600, 360 180, 256 255, 1e6 1e3") | one_way(
    "24 60, 365 360, 1000000 1000, 1000000.0 1000.0, 1e9 1e6, 1_000_000 1_000, 86400 3600,"
    "100 1000, 100.0 1000.0"
)
_SCALING = cst.Multiply | cst.Divide | cst.FloorDivide | cst.Modulo


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


@kind("flow")
def dropped_recursive_result(node: cst.Return, around: Surroundings) -> Replacements:
    """A recursive call whose result is not returned."""
    function = around.scope.function
    if function is not None and isinstance(node.value, cst.Call):
        called = node.value.func
        name = self_attribute(called) if around.scope.owner else dotted(called)
        if function.name.value == name:
            yield cst.Expr(node.value)


@kind("unit")
def wrong_unit(node: cst.Integer | cst.Float | cst.Call, around: Surroundings) -> Replacements:
    """Another factor: 1024 for 1000, 3600 for 60."""
    match node:
        case cst.Call(cst.Attribute(attr=cst.Name("total_seconds")) as method, []):
            yield method.with_changes(attr=cst.Name("seconds"))
        case cst.Integer(text) | cst.Float(text) if text in _FACTORS:
            whole = around.parent
            if isinstance(whole, cst.BinaryOperation) and isinstance(whole.operator, _SCALING):
                yield cst.parse_expression(_FACTORS[text])


@kind("boundary")
def wrong_length(node: cst.Call, around: Surroundings) -> Replacements:
    """The length minus one."""
    function = around.scope.function
    if not calls(node, "len"):
        return
    match around.parents:
        case [cst.Return(), *_] if function and function.name.value == "__len__":
            pass
        case [cst.Assign() | cst.Return(), *_]:
            yield minus_one(node)
        case [cst.ComparisonTarget(), cst.Comparison(cst.Name()), *_]:
            yield minus_one(node)


# Mistakes in names: a variable, attribute or key replaced by a similar one.

MAX_NAMES = 2
"""Limit of other names tried in one place, the most similar first."""
_OPPOSITE_NAMES = """
    start end, start stop, left right, first last, low high, lo hi, min max, minimum maximum,
    lower upper, old new, width height, row column, row col, rows cols, source target, src dst,
    head tail, key value, keys values, prev next, previous current, parent child, prefix suffix,
    before after, succ pred, open close, hits misses, begin end, input output, true false,
    year month, month day, hour minute, minute second
"""
_OPPOSITE_WORDS = [set(pair.split()) for pair in _OPPOSITE_NAMES.split(",")]


@kind("name")
def confused_variable(node: cst.Name, around: Surroundings) -> Replacements:
    """A variable replaced by one with a similar name."""
    if is_read(node, around.parent) and node.value in around.names:
        for name in _alike(node.value, around.names):
            yield node.with_changes(value=name)


@kind("name")
def confused_attribute(node: cst.Attribute, around: Surroundings) -> Replacements:
    """An attribute replaced by a similar one of the same object."""
    name, parent = self_attribute(node), around.parent
    written = isinstance(parent, cst.AssignTarget | cst.AugAssign | cst.Attribute)
    called = isinstance(parent, cst.Call) and parent.func is node
    if name in around.scope.attributes and not written and not called:
        for other in _alike(name, around.scope.attributes):
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
            near.sort(key=lambda key: -_likeness(key, node.value))
            yield from (node.with_changes(value=key) for key in near[:MAX_NAMES])


def _alike(name: str, others: Iterable[str]) -> list[str]:
    """Names that are easily confused with this one, the most similar first."""
    scored = [(_likeness(name, other), other) for other in others if other != name]
    scored.sort(key=lambda pair: -pair[0])
    return [other for score, other in scored[:MAX_NAMES] if score >= 0.6]


def _likeness(one: str, other: str) -> float:
    """Similarity from 0 to 1."""
    words, other_words = ([w for w in name.lower().split("_") if w] for name in (one, other))
    if len(words) == len(other_words):
        differing = [{a, b} for a, b in zip(words, other_words, strict=True) if a != b]
        if len(differing) == 1 and differing[0] in _OPPOSITE_WORDS:
            return 1.0
        if len(differing) == 1 and len(words) > 1:
            return 0.9
    if len(one) <= 2 and len(other) <= 2:
        # Short neighbouring names: i and j, x and y, a and b, x1 and x2.
        return 0.9 if abs(ord(one[0]) - ord(other[0])) <= 1 or one[0] == other[0] else 0.0
    if one + "s" == other or other + "s" == one:
        return 0.8
    return SequenceMatcher(None, one, other).ratio()


def _keys_of(mapping: cst.BaseExpression, around: Surroundings) -> Iterator[str]:
    """The string keys used with the mapping in the function, or else in the class."""
    for subscript in (*around.in_scope(cst.Subscript), *around.in_owner(cst.Subscript)):
        match subscript.slice:
            case [cst.SubscriptElement(cst.Index(cst.SimpleString(key)))]:
                if subscript.value.deep_equals(mapping):
                    yield key
