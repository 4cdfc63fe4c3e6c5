"""Mistakes in calls: swapped arguments, a missing call, the wrong function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

import libcst as cst

from collect.synthesis.mutations.base import Replacement
from collect.synthesis.mutations.reading import (
    Surroundings,
    called_name,
    calls,
    dotted,
    is_read,
    self_attribute,
    without,
)

_CLEANING = {"strip", "lstrip", "rstrip", "lower", "upper", "copy", "title", "casefold"}
_WRAPPING = {"sorted", "abs", "round", "reversed", "list", "tuple", "int", "str", "float"}
_OPPOSITES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "popleft": "pop",
    "appendleft": "append",
    "keys": "values",
    "values": "keys",
    "lower": "upper",
    "upper": "lower",
    "startswith": "endswith",
    "endswith": "startswith",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
    "find": "rfind",
    "extend": "append",
    "ceil": "floor",
    "floor": "ceil",
    "lstrip": "rstrip",
    "rstrip": "lstrip",
}


class SwappedArguments:
    """Two neighbouring arguments swapped."""

    name = "swapped_arguments"
    category = "call"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Call):
            return
        for index, (first, second) in enumerate(zip(node.args, node.args[1:], strict=False)):
            named = first.keyword or second.keyword or first.star or second.star
            if named or first.value.deep_equals(second.value):
                continue
            args = list(node.args)
            args[index] = first.with_changes(value=second.value)
            args[index + 1] = second.with_changes(value=first.value)
            yield node.with_changes(args=args)


class DroppedCall:
    """`x` for `x.strip()` or `sorted(x)`."""

    name = "dropped_call"
    category = "call"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Call) or isinstance(around.parent, cst.Expr):
            return
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _CLEANING:
            yield node.func.value
        elif isinstance(node.func, cst.Name) and node.func.value in _WRAPPING:
            plain = node.args and not node.args[0].star
            if plain and not isinstance(node.args[0].value, cst.GeneratorExp):
                yield node.args[0].value


class MissingDeduplication:
    """`list(x)` for `set(x)`."""

    name = "missing_deduplication"
    category = "data"
    nodes = (cst.Call, cst.SetComp)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.args:
            if node.func.value == "set":
                yield node.with_changes(func=cst.Name("list"))
        elif isinstance(node, cst.SetComp):
            yield cst.ListComp(
                node.elt,
                node.for_in,
                lbracket=cst.LeftSquareBracket(node.lbrace.whitespace_after),
                rbracket=cst.RightSquareBracket(node.rbrace.whitespace_before),
                lpar=node.lpar,
                rpar=node.rpar,
            )


class WrongFunction:
    """A function's opposite: `max` for `min`, `endswith` for `startswith`."""

    name = "wrong_function"
    category = "call"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Call):
            return
        if isinstance(node.func, cst.Name) and node.func.value in _OPPOSITES:
            yield node.with_changes(func=cst.Name(_OPPOSITES[node.func.value]))
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value in _OPPOSITES:
            other = cst.Name(_OPPOSITES[node.func.attr.value])
            yield node.with_changes(func=node.func.with_changes(attr=other))


# Mistakes in what is passed on: a dropped option, a similar function.


_OPTIONAL = {"key", "reverse", "default", "start", "strict", "fillvalue", "flags", "step"}
_OPTIONAL |= {"maxsplit", "sort_keys", "separators", "ensure_ascii", "recursive", "initial"}
_CONFUSED = {
    "search": "match",
    "fullmatch": "match",
    "rsplit": "split",
    "partition": "rpartition",
    "rpartition": "partition",
    "rfind": "find",
    "rindex": "index",
    "union": "intersection",
    "intersection": "union",
    "issubset": "issuperset",
    "issuperset": "issubset",
    "symmetric_difference": "difference",
    "ljust": "rjust",
    "rjust": "ljust",
    "combinations": "permutations",
    "permutations": "combinations",
    "nlargest": "nsmallest",
    "nsmallest": "nlargest",
    "isoweekday": "weekday",
    "weekday": "isoweekday",
    "successors": "predecessors",
    "predecessors": "successors",
    "in_edges": "out_edges",
    "out_edges": "in_edges",
    "in_degree": "out_degree",
    "out_degree": "in_degree",
    "dirname": "basename",
    "takewhile": "filterfalse",
    "isdigit": "isalnum",
    "isalpha": "isalnum",
    "isalnum": "isalpha",
    "insort_left": "insort_right",
    "heappushpop": "heapreplace",
    "heapreplace": "heappushpop",
    "extendleft": "extend",
    "removeprefix": "lstrip",
    "removesuffix": "rstrip",
    "splitlines": "split",
    "zip_longest": "zip",
    "trunc": "floor",
}


class DroppedOption:
    """A keyword argument that is not passed on."""

    name = "dropped_option"
    category = "call"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Call):
            return
        for index, arg in enumerate(node.args):
            if arg.keyword is None or not _is_option(arg, around):
                continue
            yield node.with_changes(args=without(node.args, index))


class ConfusedFunction:
    """A function that does nearly the same: `match` for `search`, `split` for `rsplit`."""

    name = "confused_function"
    category = "call"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Call):
            return
        other = _CONFUSED.get(called_name(node))
        if other is None:
            return
        if isinstance(node.func, cst.Attribute) and called_name(node) != "zip_longest":
            yield node.with_changes(func=node.func.with_changes(attr=cst.Name(other)))
        elif calls(node, "zip_longest"):
            keywords = [index for index, arg in enumerate(node.args) if arg.keyword is not None]
            args = without(node.args, keywords[0]) if keywords else node.args
            yield node.with_changes(func=cst.Name(other), args=args)


class LateBinding:
    """A closure that reads the loop's variable when it is called, too late."""

    name = "late_binding"
    category = "iteration"
    nodes = (cst.Lambda, cst.FunctionDef)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Lambda | cst.FunctionDef):
            return
        loops = (cst.For, cst.While, cst.CompFor, cst.ListComp, cst.SetComp, cst.DictComp)
        if not any(isinstance(parent, loops) for parent in around.parents):
            return
        own = [param for param in node.params.params if not _binds_itself(param)]
        if len(own) == len(node.params.params):
            return
        own = [param.with_changes(comma=cst.MaybeSentinel.DEFAULT) for param in own]
        params = node.params.with_changes(params=own)
        if isinstance(node, cst.Lambda) and not own:
            # Write "lambda:" for "lambda x=x:".
            space: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace("")
            yield node.with_changes(params=params, whitespace_after_lambda=space)
        else:
            yield node.with_changes(params=params)


def _is_option(arg: cst.Arg, around: Surroundings) -> bool:
    """Whether the call works without it: a known optional argument, or one passed on under its own
    name."""
    assert arg.keyword is not None
    name = arg.keyword.value
    if name in _OPTIONAL:
        return True
    function = around.scope.function
    if function is None or dotted(arg.value).rpartition(".")[2].lstrip("_") != name:
        return False
    params = (*function.params.params, *function.params.kwonly_params)
    defaulted = any(param.name.value == name and param.default is not None for param in params)
    return defaulted or isinstance(arg.value, cst.Attribute)


def _binds_itself(param: cst.Param) -> bool:
    return isinstance(param.default, cst.Name) and param.default.value == param.name.value


# Mistakes in results: swapped values, a wrong unit, a value that is not returned.


_FACTORS = {
    "1000": "1024",
    "1024": "1000",
    "60": "3600",
    "3600": "60",
    "24": "60",
    "365": "360",
    "1000000": "1000",
    "1000000.0": "1000.0",
    "1e6": "1e3",
    "1e3": "1e6",
    "1e9": "1e6",
    "1_000_000": "1_000",
    "86400": "3600",
    "180": "360",
    "360": "180",
    "100": "1000",
    "100.0": "1000.0",
    "255": "256",
    "256": "255",
}
_SCALING = cst.Multiply | cst.Divide | cst.FloorDivide | cst.Modulo


class SwappedResults:
    """Two of a function's return values, or of the unpacked variables, swapped."""

    name = "swapped_results"
    category = "data"
    nodes = (cst.Tuple,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        returned = isinstance(around.parent, cst.Return | cst.Yield)
        if not isinstance(node, cst.Tuple) or not (returned or _is_taken_apart(around)):
            return
        for index, (first, second) in enumerate(
            zip(node.elements, node.elements[1:], strict=False)
        ):
            starred = isinstance(first, cst.StarredElement) or isinstance(
                second, cst.StarredElement
            )
            alike = type(first.value) is type(second.value)
            if starred or not alike or first.value.deep_equals(second.value):
                continue
            elements = list(node.elements)
            elements[index] = first.with_changes(value=second.value)
            elements[index + 1] = second.with_changes(value=first.value)
            yield node.with_changes(elements=elements)


class DroppedRecursiveResult:
    """A recursive call whose result is not returned."""

    name = "dropped_recursive_result"
    category = "flow"
    nodes = (cst.Return,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        function = around.scope.function
        if not isinstance(node, cst.Return) or not isinstance(node.value, cst.Call):
            return
        called = node.value.func
        name = self_attribute(called) if around.scope.owner else dotted(called)
        if function is not None and function.name.value == name:
            yield cst.Expr(node.value)


class WrongUnit:
    """Another factor: 1024 for 1000, 3600 for 60."""

    name = "wrong_unit"
    category = "unit"
    nodes = (cst.Integer, cst.Float, cst.Call)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Call):
            func = node.func
            total = isinstance(func, cst.Attribute) and func.attr.value == "total_seconds"
            if isinstance(func, cst.Attribute) and total and not node.args:
                yield func.with_changes(attr=cst.Name("seconds"))
            return
        parent = around.parent
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, _SCALING):
            other = _FACTORS.get(around.code(node))
            if other is not None:
                yield cst.parse_expression(other)


class WrongLength:
    """The length minus one."""

    name = "wrong_length"
    category = "boundary"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not calls(node, "len") or not isinstance(node, cst.Call):
            return
        parent = around.parent
        fewer = cst.BinaryOperation(node, cst.Subtract(), cst.Integer("1"))
        function = around.scope.function
        if isinstance(parent, cst.Return) and function and function.name.value == "__len__":
            return
        if isinstance(parent, cst.Assign | cst.Return):
            yield fewer
        elif isinstance(parent, cst.ComparisonTarget):
            whole = around.parents[1]
            if isinstance(whole, cst.Comparison) and isinstance(whole.left, cst.Name):
                yield fewer


def _is_taken_apart(around: Surroundings) -> bool:
    """Whether it is the target of an unpacking assignment, as in `a, b = f()`."""
    if not isinstance(around.parent, cst.AssignTarget):
        return False
    assign = around.parents[1]
    return isinstance(assign, cst.Assign) and isinstance(assign.value, cst.Call | cst.Name)


# Mistakes in names: a variable, attribute or key replaced by a similar one.


MAX_NAMES = 2
"""Limit of other names tried in one place, the most similar first."""
_OPPOSITE_NAMES = (
    {"start", "end"},
    {"start", "stop"},
    {"left", "right"},
    {"first", "last"},
    {"low", "high"},
    {"lo", "hi"},
    {"min", "max"},
    {"minimum", "maximum"},
    {"lower", "upper"},
    {"old", "new"},
    {"width", "height"},
    {"row", "column"},
    {"row", "col"},
    {"rows", "cols"},
    {"source", "target"},
    {"src", "dst"},
    {"head", "tail"},
    {"key", "value"},
    {"keys", "values"},
    {"prev", "next"},
    {"previous", "current"},
    {"parent", "child"},
    {"prefix", "suffix"},
    {"before", "after"},
    {"succ", "pred"},
    {"open", "close"},
    {"hits", "misses"},
    {"begin", "end"},
    {"input", "output"},
    {"true", "false"},
    {"year", "month"},
    {"month", "day"},
    {"hour", "minute"},
    {"minute", "second"},
)


class ConfusedVariable:
    """A variable replaced by one with a similar name."""

    name = "confused_variable"
    category = "name"
    nodes = (cst.Name,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Name) or not is_read(node, around.parent):
            return
        if node.value in around.names:
            for name in alike(node.value, around.names):
                yield node.with_changes(value=name)


class ConfusedAttribute:
    """An attribute replaced by a similar one of the same object."""

    name = "confused_attribute"
    category = "name"
    nodes = (cst.Attribute,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        name = self_attribute(node)
        if not isinstance(node, cst.Attribute) or name not in around.scope.attributes:
            return
        written = isinstance(around.parent, cst.AssignTarget | cst.AugAssign | cst.Attribute)
        called = isinstance(around.parent, cst.Call) and around.parent.func is node
        if written or called:
            return
        for other in alike(name, around.scope.attributes):
            yield node.with_changes(attr=cst.Name(other))


class ConfusedKey:
    """A key replaced by another one of the same mapping."""

    name = "confused_key"
    category = "name"
    nodes = (cst.SimpleString,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.SimpleString) or not isinstance(around.parent, cst.Index):
            return
        subscript = around.parents[2]
        if isinstance(subscript, cst.Subscript) and not _is_target(around.parents[3]):
            others = dict.fromkeys(_keys_of(subscript.value, around))
            near = [key for key in others if key != node.value]
            near.sort(key=lambda key: -_likeness(key, node.value))
            yield from (node.with_changes(value=key) for key in near[:MAX_NAMES])


def alike(name: str, others: Iterable[str]) -> list[str]:
    """Names that are easily confused with this one, the most similar first."""
    scored = [(_likeness(name, other), other) for other in others if other != name]
    scored = [(score, other) for score, other in scored if score >= 0.6]
    scored.sort(key=lambda pair: -pair[0])
    return [other for _, other in scored[:MAX_NAMES]]


def _likeness(one: str, other: str) -> float:
    """Similarity from 0 to 1."""
    words, other_words = _words(one), _words(other)
    if len(words) == len(other_words):
        differing = [{a, b} for a, b in zip(words, other_words, strict=True) if a != b]
        if len(differing) == 1 and differing[0] in _OPPOSITE_NAMES:
            return 1.0
        if len(differing) == 1 and len(words) > 1:
            return 0.9
    if len(one) <= 2 and len(other) <= 2:
        # Short neighbouring names: i and j, x and y, a and b, x1 and x2.
        return 0.9 if abs(ord(one[0]) - ord(other[0])) <= 1 or one[0] == other[0] else 0.0
    if one + "s" == other or other + "s" == one:
        return 0.8
    return SequenceMatcher(None, one, other).ratio()


def _words(name: str) -> list[str]:
    return [word for word in name.lower().split("_") if word]


def _is_target(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.AssignTarget | cst.Del)


def _keys_of(mapping: cst.BaseExpression, around: Surroundings) -> Iterator[str]:
    """The string keys used with the mapping in the function, or else in the class."""
    for subscript in (*around.in_scope(cst.Subscript), *around.in_owner(cst.Subscript)):
        if subscript.value.deep_equals(mapping) and len(subscript.slice) == 1:
            index = subscript.slice[0].slice
            if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
                yield index.value.value
