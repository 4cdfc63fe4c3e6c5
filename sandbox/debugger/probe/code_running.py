"""Run the host's statements in a frame of the program, where their assignments take effect."""

from __future__ import annotations

import ast
import sys
import types
from typing import Any, Callable, Dict, List, Set

from .frames import assign_locals, delete_locals, frame_locals

WRAPPER = """\
def variables({known}):
    if False:
        {names} = None
    def _stepinto_code():
        {statement}
    return _stepinto_code
"""
NO_VARIABLE = "_stepinto_none"


def run_code(code: str, frame: types.FrameType) -> List[str]:
    """Run statements in a frame; returns notes about them.

    The code becomes an inner function of one that has the frame's variables, so all that it defines
    (functions, lambdas, comprehensions, classes) sees them, and its globals are the program's own.
    Afterwards its changes are copied to the frame, even if it raises.
    """
    tree = ast.parse(code, "<code>", "exec")
    if frame.f_locals is frame.f_globals:
        exec(compile(tree, "<code>", "exec"), frame.f_globals)
        return []
    tree = Fitted().visit(tree)
    declared = {
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    }
    before = {
        name: value
        for name, value in frame_locals(frame).items()
        if name.isidentifier() and name not in declared
    }
    inner = inner_function(tree, before, frame.f_globals)
    try:
        inner()
    finally:
        notes = take_back(frame, before, inner)
    return notes


class Fitted(ast.NodeTransformer):
    """Rewrites statements to fit into the inner function, where the frame's variables are
    nonlocal."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return node
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
            raise SyntaxError(f"'{type(node).__name__.lower()[:6]}' outside function")
        if isinstance(node, ast.Nonlocal):
            return ast.copy_location(ast.Pass(), node)
        if isinstance(node, ast.AnnAssign):  # a nonlocal variable can't be annotated
            bare: Any = ast.Pass()
            if node.value is not None:
                bare = ast.Assign(targets=[node.target], value=node.value)
            return ast.copy_location(bare, node)
        return self.generic_visit(node)


def inner_function(
    tree: ast.Module, known: Dict[str, Any], namespace: Dict[str, Any]
) -> Callable[[], object]:
    """The code as a function whose free variables are the known ones, and the names that it
    binds."""
    bound = names_bound(wrapped(tree, [*known], [*known], "pass"))
    names = [*known, *sorted(bound - set(known))]
    found: Dict[str, Any] = {}
    exec(wrapped(tree, [*known], names, "nonlocal {names}"), namespace, found)
    inner: Callable[[], object] = found["variables"](**known)
    return inner


def wrapped(tree: ast.Module, known: List[str], names: List[str], statement: str) -> types.CodeType:
    """The code as an inner function, after one statement."""
    listed = ", ".join(names) or NO_VARIABLE
    text = WRAPPER.format(
        known=", ".join(known), names=listed, statement=statement.format(names=listed)
    )
    module = ast.parse(text)
    outer: Any = module.body[0]
    function = next(node for node in outer.body if isinstance(node, ast.FunctionDef))
    function.body += tree.body
    return compile(module, "<code>", "exec")


def names_bound(code: types.CodeType) -> Set[str]:
    """Names that the code assigns, imports, defines or deletes, according to the compiler."""
    for name in ("variables", "_stepinto_code"):
        inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
        code = next(item for item in inner if item.co_name == name)
    return {name for name in (*code.co_varnames, *code.co_cellvars) if name.isidentifier()}


def take_back(frame: types.FrameType, before: Dict[str, Any], inner: Any) -> List[str]:
    """Copy the code's changes of variables to the frame."""
    missing = object()
    changed, deleted = {}, []
    for name, cell in zip(  # noqa: B905  # 3.8 has no strict
        inner.__code__.co_freevars, inner.__closure__ or ()
    ):
        try:
            value = cell.cell_contents
        except ValueError:  # deleted, or never assigned
            value = missing
        if value is missing and name in before:
            deleted.append(name)
        elif value is not before.get(name, missing):
            changed[name] = value
    assign_locals(frame, changed)
    if not deleted or delete_locals(frame, deleted):
        return []
    version = "{}.{}".format(*sys.version_info)
    listed = ", ".join(deleted)
    return [f"CPython {version} can't delete variables of a running frame: {listed} stay"]
