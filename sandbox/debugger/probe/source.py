"""Source files: their text, functions and executable lines."""

from __future__ import annotations

import ast
import re
import types
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from .interpreter import body_lines, entry_offset, line_at
from .own import read_file


class Function(NamedTuple):
    """One function of a source file."""

    qualified: str
    first_line: int
    """The first decorator's line, as in `co_firstlineno`."""
    def_line: int
    body_line: int
    """The first statement after the docstring."""

    @property
    def name(self) -> str:
        return self.qualified.rpartition(".")[2]


class SourceFile:
    """The functions and the executable lines of one file, according to this interpreter's
    compiler."""

    def __init__(self, path: str) -> None:
        data = read_file(path)
        tree = ast.parse(data, path)
        self.functions: List[Function] = []
        self._collect(tree, "")
        self.owners: Dict[int, Set[Tuple[str, int]]] = {}
        self.entry_lines: Dict[Tuple[str, int], int] = {}
        code = compile(tree, path, "exec", dont_inherit=True)
        headers = {
            line
            for function in self.functions
            for line in range(function.first_line, max(function.def_line + 1, function.body_line))
        }
        self._own(code, set(), headers)

    def _collect(self, node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = prefix + child.name
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                body = child.body[1:] if ast.get_docstring(child) is not None else child.body
                line = (body or child.body)[0].lineno
                self.functions.append(Function(name, first, child.lineno, line))
                name += "."
            elif isinstance(child, ast.ClassDef):
                name = prefix + child.name + "."
            self._collect(child, name)

    def _own(self, code: types.CodeType, taken: Set[int], headers: Set[int]) -> None:
        """Assign each line to the outermost code object that runs it, function headers to none."""
        own = {line for line in body_lines(code) if line not in headers} - taken
        for line in own:
            self.owners.setdefault(line, set()).add((code.co_name, code.co_firstlineno))
        self.entry_lines[code.co_name, code.co_firstlineno] = line_at(code, entry_offset(code))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._own(constant, taken | own, headers)

    def function_at(self, line: int) -> Optional[Function]:
        """The function whose header (decorators, signature, docstring) contains a line."""
        for function in self.functions:
            if function.first_line <= line < max(function.def_line + 1, function.body_line):
                return function
        return None


COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
BLANK = re.compile(rb"[ \t\f]*(?:#|$)")


def decode_source(data: bytes) -> str:
    """The text of a source file, by its BOM or its coding cookie (PEP 263).

    `tokenize.detect_encoding` refuses some files that CPython runs.
    """
    encoding = "utf-8-sig"
    for line in data.splitlines()[:2]:
        found = COOKIE.match(line)
        if found is not None and not data.startswith(b"\xef\xbb\xbf"):
            encoding = found.group(1).decode("ascii")
        if found is not None or not BLANK.match(line):
            break
    try:
        return data.decode(encoding, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")
