"""Mutations of modules that are no examples: those of Python's own library."""

from __future__ import annotations

import ast
import heapq
import inspect
import json.decoder
import random
import statistics
import textwrap
import warnings
from functools import cache
from types import ModuleType

import pytest

from collect.synthesis.mutations.base import Mutation
from collect.synthesis.mutations.finding import find_project_mutations

MODULES = (heapq, json.decoder, statistics, textwrap)


@cache
def mutations(module: ModuleType) -> list[Mutation]:
    return find_project_mutations(inspect.getsource(module), f"{module.__name__}.py")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_only_the_span_changes_and_the_rest_compiles(module: ModuleType) -> None:
    found = mutations(module)
    source = inspect.getsource(module)
    assert len(found) > 50
    for mutation in random.Random(1).sample(found, 25):
        broken = mutation.apply()
        assert broken != source
        assert broken[: mutation.start] == source[: mutation.start]
        assert broken[mutation.start + len(mutation.text) :] == source[mutation.end :]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            compile(broken, mutation.path, "exec")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_each_knows_the_function_around_it(module: ModuleType) -> None:
    spans = {"": (1, inspect.getsource(module).rstrip().count("\n") + 1)}
    _add_spans(ast.parse(inspect.getsource(module)), "", spans)
    for mutation in mutations(module):
        first, last = mutation.scope_lines
        assert spans[mutation.scope] == (first, last)
        assert first <= mutation.line <= last + 1


def test_all_kinds_but_rare_ones_are_found() -> None:
    kinds = {mutation.kind for module in MODULES for mutation in mutations(module)}
    assert len(kinds) >= 35


def test_line_ends_and_a_missing_last_one_stay() -> None:
    source = "def f(a):\r\n    b = a + 1\r\n    b += a\r\n    return b\r\n\r\nx = f(2)"
    for mutation in find_project_mutations(source):
        broken = mutation.apply()
        assert broken.replace("\r\n", "").count("\n") == 0
        assert not broken.endswith("\n")


def _add_spans(node: ast.AST, outer: str, spans: dict[str, tuple[int, int]]) -> None:
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{outer}.{child.name}" if outer else child.name
            spans[name] = (child.lineno, child.end_lineno or child.lineno)
        _add_spans(child, name, spans)
