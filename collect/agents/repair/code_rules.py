"""What interact_code may do in InspectCoder's ablations (its section 4.3)."""

from __future__ import annotations

import ast

from collect.syntax import parse

NO_PRINTS = "values can't be inspected here: print calls and bare expressions were left out"
NO_CHANGES = (
    "the running program can't be modified here: interact_code may only print variables and "
    "expressions, not assign, delete, import or define anything, nor call methods for their effect"
)
CHANGES = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.NamedExpr,
    ast.Delete,
    ast.Global,
    ast.Nonlocal,
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)


def only_modification(code: str) -> tuple[str | None, str]:
    """Without breakpoint inspection: statements that only show something are left out."""
    tree = _parsed(code)
    if tree is None:
        return code, ""
    shown = _Silenced()
    tree = shown.visit(tree)
    if not shown.removed:
        return code, ""
    kept = [node for node in tree.body if not isinstance(node, ast.Pass)]
    return (ast.unparse(tree) if kept else None), NO_PRINTS


def only_inspection(code: str) -> tuple[str | None, str]:
    """Without runtime modification: nothing but expressions that show something."""
    tree = _parsed(code)
    if tree is None:
        return code, ""
    effects = any(isinstance(node, ast.Expr) and _is_effect(node.value) for node in ast.walk(tree))
    if effects or any(isinstance(node, CHANGES) for node in ast.walk(tree)):
        return None, NO_CHANGES
    return code, ""


class _Silenced(ast.NodeTransformer):
    """Replaces statements that show something by nothing."""

    def __init__(self) -> None:
        self.removed = False

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        if _prints(node.value) or not isinstance(node.value, ast.Call | ast.Await | ast.Yield):
            self.removed = True
            return ast.copy_location(ast.Pass(), node)
        return node


def _is_effect(value: ast.expr) -> bool:
    """Whether a statement of an expression alone is there for what it does."""
    return isinstance(value, ast.Call) and not _prints(value)


def _prints(value: ast.expr) -> bool:
    names = ("print", "pprint", "display")
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in names
    )


def _parsed(code: str) -> ast.Module | None:
    """None: it is run as it is, for the error to be told."""
    try:
        return parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
