"""Mistakes in what is passed on: an option forgotten, a function taken for one like it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import called_name, calls, dotted, without
from collect.mutations.surroundings import Surroundings

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
            # "lambda:" for "lambda x=x:".
            space: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace("")
            yield node.with_changes(params=params, whitespace_after_lambda=space)
        else:
            yield node.with_changes(params=params)


def _is_option(arg: cst.Arg, around: Surroundings) -> bool:
    """Whether the call does without it: known to be optional, or handed on under its own name."""
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
