"""Parses Python source, one thread at a time; what readers of any language find.

CPython before 3.11.8 and 3.12.2 raises SystemError ("AST constructor recursion depth mismatch") if
several threads parse at once: https://github.com/python/cpython/issues/106905.
"""

from __future__ import annotations

import ast
import builtins
import threading
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO

from sandbox.text import source_lines

_LOCK = threading.Lock()
LONGEST = 1_000_000
"""Characters or bytes. A tree can take some hundred bytes for each."""


def parse(source: str | bytes) -> ast.Module:
    """`ast.parse`. Raises SyntaxError, ValueError, RecursionError, MemoryError."""
    _refuse_long(source)
    with _LOCK:
        return ast.parse(source)


def expression(source: str) -> ast.expr | None:
    """The tree of a single expression, or None if the text is none."""
    try:
        _refuse_long(source)
        with _LOCK:
            return ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def source_of(node: ast.AST) -> str:
    """`ast.unparse`; empty if the tree is too deep for it, or has a number of too many digits."""
    try:
        return ast.unparse(node)
    except (ValueError, RecursionError):
        return ""


def split_outside(text: str, separators: str, brackets: str = "([{)]}") -> tuple[list[str], bool]:
    """The pieces of a text at separators that are outside quotes and brackets, and whether these
    are all closed. The first half of `brackets` opens what the second closes."""
    pieces, quote, depth, start, escaped = list[str](), "", 0, 0, False
    opening, closing = brackets[: len(brackets) // 2], brackets[len(brackets) // 2 :]
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote and not escaped else quote
            escaped = character == "\\" and not escaped
        elif character in "\"'":
            quote = character
        elif character in opening:
            depth += 1
        elif character in closing:
            depth -= 1
        elif character in separators and depth <= 0:
            pieces.append(text[start:index])
            start = index + 1
    return [*pieces, text[start:]], not quote and depth <= 0


def literal(source: str) -> object:
    """`ast.literal_eval` of a text. Raises SyntaxError, ValueError, TypeError, MemoryError,
    RecursionError."""
    _refuse_long(source)
    with _LOCK:
        return ast.literal_eval(source)


def code_lines(text: str) -> Mapping[int, str]:
    """The tokens of each line that has any, with the depth of its block: without comments, blank
    lines, white space and texts that nothing uses. Raises SyntaxError, tokenize.TokenError."""
    lines, depth = defaultdict[int, list[str]](list), 0
    statement: list[tokenize.TokenInfo] = []
    with _LOCK:
        tokens = list(tokenize.generate_tokens(StringIO(text).readline))
    for token in tokens:
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.NEWLINE:
            if any(each.type != tokenize.STRING for each in statement):
                lines[statement[0].start[0]].append(f"{depth}:")
                for each in statement:
                    for row, part in enumerate(each.string.split("\n"), each.start[0]):
                        lines[row].append(part)
            statement = []
        elif token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER):
            statement.append(token)
    return {row: " ".join(parts) for row, parts in lines.items()}


def _refuse_long(source: str | bytes) -> None:
    if len(source) > LONGEST:
        raise ValueError(f"it is longer than the {LONGEST} characters that are read as Python")


@dataclass(frozen=True)
class FunctionRange:
    name: str
    """Qualified name, as shown by the debugger."""
    first: int
    """First line, including decorators or annotations."""
    line: int
    """First line without them."""
    last: int


@dataclass(frozen=True)
class Mutation:
    line: int
    text: str
    """The whole changed file."""
    differs: str = ""
    """An expression, true in a program that is paused at the line if the change makes it compute
    another value there. Empty if an expression can't tell."""


# What the oracle reads in Python source.

PURE_CALLS = {"len", "min", "max", "sum", "abs", "sorted", "isinstance", "int", "str", "float"}
LOOKED_AT = (ast.Name, ast.Attribute, ast.Subscript, ast.Compare, ast.BoolOp, ast.BinOp)
HAS_EFFECTS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda, ast.comprehension)
OWN_SCOPE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.Div: "//",
    ast.FloorDiv: "/",
    ast.Mod: "//",
}


class PythonSource:
    def __init__(self, tree: ast.Module, text: str) -> None:
        self._tree = tree
        self._text = text

    @classmethod
    def read(cls, data: bytes) -> PythonSource | None:
        try:
            return cls(parse(data), data.decode("utf-8", "replace"))
        except (SyntaxError, ValueError):
            return None

    @property
    def functions(self) -> Sequence[FunctionRange]:
        return list(self._nodes)

    @cached_property
    def _nodes(self) -> dict[FunctionRange, Function]:
        found = {}
        for name, node in named_functions(self._tree):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[FunctionRange(name, first, node.lineno, node.end_lineno or node.lineno)] = node
        return found

    def stops(self, function: FunctionRange | None) -> list[int]:
        scope = self._tree if function is None else self._nodes[function]
        lines = []
        pending: list[ast.AST] = list(scope.body)
        while pending:
            node = pending.pop()
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, ast.stmt) and not docstring:
                lines.append(node.lineno)
            if not isinstance(node, Function | ast.ClassDef):
                pending += ast.iter_child_nodes(node)
        return sorted(lines)

    def probes(self, line: int, function: str = "") -> list[str]:
        """Pure expressions of the statement at a line, larger ones before their parts, without
        the names of modules, classes and functions."""
        found: dict[str, None] = {}
        for statement in self._at_line(line):
            for header in _headers(statement):
                called = [part.func for part in ast.walk(header) if isinstance(part, ast.Call)]
                for node in _same_scope(header):
                    if isinstance(node, LOOKED_AT) and node not in called and is_pure(node):
                        found[ast.unparse(node)] = None
        return [expression for expression in found if expression not in self._code_names]

    @cached_property
    def _code_names(self) -> set[str]:
        """Names that the file imports, or that it defines as functions and classes."""
        nodes = list(ast.walk(self._tree))
        imported = [a for n in nodes if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names]
        defined = {node.name for node in nodes if isinstance(node, Function | ast.ClassDef)}
        return defined | {each.asname or each.name.partition(".")[0] for each in imported}

    def assigned(self, line: int) -> list[str]:
        targets: list[ast.expr] = []
        for statement in self._at_line(line):
            if isinstance(statement, ast.Assign):
                targets += statement.targets
            elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
                targets.append(statement.target)
        return [ast.unparse(target) for target in targets]

    def mutations(self, function: FunctionRange) -> Iterator[Mutation]:
        lines = source_lines(self._text, keepends=True)
        may_not_run = set(_may_not_run(self._nodes[function]))
        for node in ast.walk(self._nodes[function]):
            for number, start, end, new, differs in _edits(node, lines):
                line = lines[number - 1].encode()
                changed = f"{line[:start].decode()}{new}{line[end:].decode()}"
                rest = [*lines[: number - 1], changed, *lines[number:]]
                yield Mutation(number, "".join(rest), "" if node in may_not_run else differs)

    def _at_line(self, line: int) -> list[ast.stmt]:
        nodes = ast.walk(self._tree)
        return [node for node in nodes if isinstance(node, ast.stmt) and node.lineno == line]


def named_functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The functions in a tree, with the qualified names that the debugger shows."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if isinstance(child, Function):
                yield name, child
            yield from named_functions(child, f"{name}.")
        else:
            yield from named_functions(child, prefix)


_Edit = tuple[int, int, int, str, str]
"""A line, from which byte to which, the new text, and `Mutation.differs`."""


def _edits(node: ast.AST, lines: Sequence[str]) -> Iterator[_Edit]:
    """At most one small change of a node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            yield from _operator_edits(node, left, COMPARISONS[type(op)], right, lines)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            yield from _operator_edits(node, left, ARITHMETIC[type(op)], right, lines)
        case ast.BoolOp(op=op, values=[left, right]):
            other = "or" if isinstance(op, ast.And) else "and"
            yield from _operator_edits(node, left, other, right, lines)
        case ast.If(test=part):
            yield from _whole_edits(part, "not ({})", "True", lines)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield from _whole_edits(node, str(value + 1), "True", lines)
        case ast.Return(value=ast.expr() as part) | ast.Assign(targets=[_], value=part):
            differs = f"({ast.unparse(part)}) is not None" if is_pure(part) else ""
            yield from _whole_edits(part, "None", differs, lines)


def _whole_edits(part: ast.expr, new: str, differs: str, lines: Sequence[str]) -> Iterator[_Edit]:
    start, end = part.col_offset, part.end_col_offset or part.col_offset
    if part.lineno == part.end_lineno:
        old = lines[part.lineno - 1].encode()[start:end].decode()
        yield part.lineno, start, end, new.format(old), differs


def _operator_edits(
    node: ast.expr, left: ast.expr, operator: str, right: ast.expr, lines: Sequence[str]
) -> Iterator[_Edit]:
    start, end = left.end_col_offset or 0, right.col_offset
    between = lines[right.lineno - 1].encode()[start:end]
    if left.end_lineno == right.lineno and b"(" not in between and b")" not in between:
        new = f"({ast.unparse(left)}) {operator} ({ast.unparse(right)})"
        differs = f"({ast.unparse(node)}) != ({new})" if is_pure(node) else ""
        yield right.lineno, start, end, f" {operator} ", differs


def _may_not_run(function: ast.AST) -> Iterator[ast.AST]:
    """Parts that may not be evaluated with their statement, or only in an inner scope."""
    for node in ast.walk(function):
        match node:
            case ast.BoolOp(values=[_, *parts]):
                pass
            case ast.IfExp(body=body, orelse=orelse):
                parts = [body, orelse]
            case _:
                parts = [node] if isinstance(node, OWN_SCOPE) else []
        for part in parts:
            yield from ast.walk(part)


def _headers(statement: ast.stmt) -> Sequence[ast.AST]:
    """The expressions that a statement evaluates first."""
    match statement:
        case ast.If() | ast.While() | ast.Assert():
            return [statement.test]
        case ast.For():
            return [statement.iter]
        case ast.With():
            return [item.context_expr for item in statement.items]
        case ast.Return() | ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr():
            return [statement.value] if statement.value is not None else []
    return []


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """The node and its parts, larger ones first, without inner scopes, whose names differ."""
    level = [node]
    while level:
        yield from level
        level = [
            child
            for parent in level
            if not isinstance(parent, OWN_SCOPE)
            for child in ast.iter_child_nodes(parent)
        ]


def is_pure(node: ast.AST) -> bool:
    """Whether an expression has no side effects and is worth evaluating."""
    for part in ast.walk(node):
        if isinstance(part, HAS_EFFECTS):
            return False
        if isinstance(part, ast.Call) and ast.unparse(part.func) not in PURE_CALLS:
            return False
        if isinstance(part, ast.Name) and hasattr(builtins, part.id) and part is node:
            return False
    return True
