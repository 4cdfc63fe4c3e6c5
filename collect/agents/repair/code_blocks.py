"""Code read out of a model's reply."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

FENCE = re.compile(r"^[ \t]*(`{3,})[^\n`]*$", re.MULTILINE)


def fenced_blocks(text: str) -> list[str]:
    """The contents of the fenced blocks, in order; one that is never closed runs to the end.

    A closing fence may stand right after the last word of the code.
    """
    blocks, start, fence = [], -1, ""
    for mark in FENCE.finditer(text):
        if start < 0:
            start, fence = mark.end() + 1, mark[1]
        elif len(mark[1]) >= len(fence):
            blocks.append(text[start : mark.start()].rstrip("\n"))
            start = -1
    if start >= 0:
        blocks.append(text[start:].partition(fence)[0].rstrip("\n"))
    return blocks


def program_of(reply: str) -> tuple[str | None, str | None]:
    """The program in a reply, and else what is wrong with the reply.

    It is the last fenced block that is valid Python; a reply without any block may itself be one.
    """
    blocks = [block for block in fenced_blocks(reply) if block.strip()]
    candidates = blocks or [reply]
    for code in reversed(candidates):
        if syntax_problem(code) is None and _does_something(code):
            return code.strip("\n") + "\n", None
    if not blocks:
        return None, "The reply had no fenced code block with the whole repaired program in it."
    problem = syntax_problem(blocks[-1]) or "it defines nothing"
    return None, f"The code block of the reply was not usable: {problem}."


def syntax_problem(code: str) -> str | None:
    """Why a text is not Python; None where it is."""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        return f"{getattr(error, 'msg', error)} (line {line})" if line else str(error)
    return None


def with_imports_of(previous: str, code: str) -> str:
    """A program with the imports at the top of its previous version that it lacks, for models
    leave them out where they did not change."""
    try:
        present = set(_imports(code))
        missing = [line for line in _imports(previous) if line not in present]
    except SyntaxError:
        return code
    futures = [f"{line}\n" for line in missing if "__future__" in line]
    others = [f"{line}\n" for line in missing if "__future__" not in line]
    return _inserted(_inserted(code, others, _is_future), futures, lambda node: False)


def _inserted(code: str, added: list[str], goes_on: Callable[[ast.stmt], bool]) -> str:
    """A program with lines added after its docstring and the statements that go on with it."""
    lines, end = code.splitlines(keepends=True), 0
    for node in ast.parse(code).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not goes_on(node):
            break
        end = node.end_lineno or end
    return "".join([*lines[:end], *added, *lines[end:]])


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _imports(code: str) -> Iterator[str]:
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield ast.unparse(
                    ast.Import([alias])
                    if isinstance(node, ast.Import)
                    else ast.ImportFrom(node.module, [alias], node.level)
                )


def _does_something(code: str) -> bool:
    """Whether it is a program: an answer in prose can happen to be one word of valid Python."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.For | ast.While
    body = ast.parse(code).body
    calls = any(isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) for n in body)
    return calls or any(isinstance(node, kinds) for node in ast.walk(ast.parse(code)))
