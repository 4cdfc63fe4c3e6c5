"""Extracts code from a model's reply."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from collect.code.syntax import parse
from sandbox.text import source_lines

FUTURE = "__future__"
MAX_QUOTED = 100
"""Characters of a line that is no Python."""
FENCE = re.compile(r"^[ \t]*(`{3,})[^\n`]*$", re.MULTILINE)


def fenced_blocks(text: str) -> list[str]:
    """The contents of the fenced blocks, in order; an unclosed one extends to the end.

    A closing fence may directly follow the code.
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


def program_of(reply: str, previous: str = "") -> tuple[str | None, str | None]:
    """The program in a reply, or what is wrong with the reply.

    It is the last fenced block that defines what the previous version does, else the longest valid
    Python block; a reply without blocks may itself be the program.
    """
    blocks = [block for block in fenced_blocks(reply) if block.strip()]
    candidates = blocks or [reply]
    usable = [code for code in candidates if not syntax_problem(code) and _does_something(code)]
    if usable:
        wanted = _defined(previous)
        whole = [code for code in usable if wanted <= _defined(code)] if wanted else []
        code = whole[-1] if whole else max(reversed(usable), key=len)
        return code.strip("\n") + "\n", None
    if not blocks:
        return (
            None,
            "The reply with the patch had no fenced code block with the whole program in it.",
        )
    problem = syntax_problem(blocks[-1]) or "it defines nothing"
    return None, f"The code block in the reply with the patch was not usable: {problem}."


def syntax_problem(code: str) -> str | None:
    """Why a text is not valid Python, or None if it is."""
    try:
        parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line, text = getattr(error, "lineno", None), getattr(error, "text", None) or ""
        quoted = f": {text.strip()[:MAX_QUOTED]}" if text.strip() else ""
        if line:
            return f"{getattr(error, 'msg', error)} (line {line}{quoted})"
        # CPython's MemoryError on a line that is too complex has no message.
        return str(error) or "it is too complex to be read as Python"
    return None


def with_imports_of(previous: str, code: str) -> str:
    """A program plus the imports of its previous version that it uses but lacks: models omit
    unchanged imports.
    """
    try:
        present, nodes = set(_imports(code)), list(ast.walk(parse(code)))
        missing = [line for line in _imports(previous) if line not in present]
    except SyntaxError:
        return code
    used = {node.id for node in nodes if isinstance(node, ast.Name)} - _defined(code) | {"*"}
    # The name that a single import binds is the first part of its last word.
    added = [
        f"{line}\n"
        for line in sorted(missing, key=lambda line: FUTURE not in line)
        if FUTURE in line or line.rpartition(" ")[2].partition(".")[0] in used
    ]
    lines, end = source_lines(code, keepends=True), 0
    for node in parse(code).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not (isinstance(node, ast.ImportFrom) and node.module == FUTURE):
            break
        end = node.end_lineno or end
    return "".join([*lines[:end], *added, *lines[end:]])


def _imports(code: str) -> Iterator[str]:
    for node in parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield ast.unparse(
                    ast.Import([alias])
                    if isinstance(node, ast.Import)
                    else ast.ImportFrom(node.module, [alias], node.level)
                )


def _defined(code: str) -> set[str]:
    """The top-level functions and classes; empty if it does not parse."""
    if not code or syntax_problem(code):
        return set()
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in parse(code).body if isinstance(node, kinds)}


def _does_something(code: str) -> bool:
    """Whether it is a real program: a one-word answer can be valid Python too."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.For | ast.While
    body = parse(code).body
    calls = any(isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) for n in body)
    return calls or any(isinstance(node, kinds) for node in ast.walk(parse(code)))
