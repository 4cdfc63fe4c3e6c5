"""Reads Python source for the oracle, with `ast`."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from functools import cached_property

from collect.code.reading import FunctionRange, Mutation
from collect.code.syntax import parse
from sandbox.text import source_lines

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
    """One Python file."""

    def __init__(self, tree: ast.Module, text: str) -> None:
        self._tree = tree
        self._text = text

    @classmethod
    def read(cls, data: bytes) -> PythonSource | None:
        """The file, or None if it is not valid Python."""
        try:
            return cls(parse(data), data.decode("utf-8", "replace"))
        except (SyntaxError, ValueError):
            return None

    @property
    def functions(self) -> Sequence[FunctionRange]:
        """Every function with its qualified name."""
        return list(self._nodes)

    @cached_property
    def _nodes(self) -> dict[FunctionRange, Function]:
        return {_range(name, node): node for name, node in _functions(self._tree, "")}

    def stops(self, function: FunctionRange | None) -> list[int]:
        """Lines of its statements, without inner functions and the docstring."""
        scope = self._tree if function is None else self._nodes[function]
        return sorted(statement.lineno for statement in _statements(scope))

    def probes(self, line: int, function: str = "") -> list[str]:
        """Pure expressions of the statement at a line, larger ones before their parts."""
        found: dict[str, None] = {}
        for header in self._headers(line):
            for node in _same_scope(header):
                if isinstance(node, LOOKED_AT) and is_pure(node) and not _is_callee(node, header):
                    found[ast.unparse(node)] = None
        return list(found)

    def assigned(self, line: int) -> list[str]:
        """Assignment targets of the statement at a line."""
        names: list[str] = []
        for statement in self._at_line(line):
            targets: list[ast.expr] = []
            if isinstance(statement, ast.Assign):
                targets = statement.targets
            elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
                targets = [statement.target]
            names += [ast.unparse(target) for target in targets]
        return names

    def mutations(self, function: FunctionRange) -> Iterator[Mutation]:
        """The file with one comparison or arithmetic operator changed."""
        lines = source_lines(self._text, keepends=True)
        for node in ast.walk(self._nodes[function]):
            swap = _swap(node)
            if swap is None or swap[0].end_lineno != swap[2].lineno:
                continue
            left, replacement, right = swap
            line = lines[right.lineno - 1].encode()
            between = line[left.end_col_offset : right.col_offset].decode()
            if "(" in between or ")" in between:
                continue
            head, tail = line[: left.end_col_offset].decode(), line[right.col_offset :].decode()
            changed = f"{head} {replacement} {tail}"
            rest = [*lines[: right.lineno - 1], changed, *lines[right.lineno :]]
            yield Mutation(right.lineno, "".join(rest))

    def _at_line(self, line: int) -> list[ast.stmt]:
        nodes = ast.walk(self._tree)
        return [node for node in nodes if isinstance(node, ast.stmt) and node.lineno == line]

    def _headers(self, line: int) -> list[ast.AST]:
        headers: list[ast.AST] = []
        for statement in self._at_line(line):
            match statement:
                case ast.If() | ast.While():
                    headers.append(statement.test)
                case ast.For():
                    headers.append(statement.iter)
                case ast.With():
                    headers += [item.context_expr for item in statement.items]
                case ast.Return() | ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr():
                    if statement.value is not None:
                        headers.append(statement.value)
                case ast.Assert():
                    headers.append(statement.test)
                case _:
                    pass
        return headers


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if isinstance(child, Function):
                yield name, child
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


def _range(name: str, node: Function) -> FunctionRange:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return FunctionRange(name, first, node.lineno, node.end_lineno or node.lineno)


def _statements(scope: ast.Module | Function) -> Iterator[ast.stmt]:
    pending: list[ast.AST] = list(scope.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt) and not _is_docstring(node):
            yield node
        if not isinstance(node, Function | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


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


def _is_callee(node: ast.AST, header: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) and part.func is node for part in ast.walk(header))


def _swap(node: ast.AST) -> tuple[ast.expr, str, ast.expr] | None:
    """The left side, another operator, and the right side."""
    replacement: str | None = None
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        replacement = COMPARISONS.get(type(node.ops[0]))
        left, right = node.left, node.comparators[0]
    elif isinstance(node, ast.BinOp):
        replacement = ARITHMETIC.get(type(node.op))
        left, right = node.left, node.right
    return None if replacement is None else (left, replacement, right)
