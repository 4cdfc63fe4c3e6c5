"""The requests that inspect or change a stopped program."""

from __future__ import annotations

import ast
import sys
import types
from collections import deque
from itertools import islice
from typing import Any, Callable, Dict, List, Set, Tuple

from .breakpoints import BreakpointTable
from .contents import Field, instance_attributes, properties_of, size_of
from .describing import Describer
from .evaluation import IDLE, Evaluator
from .frames import FrameAt, assign_locals, delete_locals, frame_locals
from .interpreter import import_standard
from .link import Link
from .tracer import Tracer
from .values import render
from .window import Bounds
from .wire import Interrupted, Json, Refusal

KEY = Bounds(chars=80, depth=3, items=20, lines=1)
"""For a key that serves as an item's name."""


def fields_of(value: Any, start: int, count: int) -> Tuple[List[Field], int]:
    """`count` items by key or index, otherwise attributes, from the `start`-th on; and their total
    number. Properties are named, not run.

    Uses `type(value)`, since `isinstance` would run a `__class__` of the program's.
    """
    size = size_of(value)
    if size is None:
        own = [item for item in instance_attributes(value) if not item[0].startswith("__")]
        own += properties_of(type(value))
        return own[start : start + count], len(own)
    found = items_of(value, start, start + count)
    more = properties_of(type(value))
    last = max(start - size, 0)
    return (found + more[last:])[:count], size + len(more)


def items_of(value: Any, start: int, end: int) -> List[Field]:
    """Some items of a built-in container, without running a subclass's methods."""
    kind = type(value)
    if issubclass(kind, dict):
        chosen = islice(dict.items(value), start, end)
        return [(f"[{render(key, KEY)[0]}]", item) for key, item in chosen]
    for base in (list, tuple, deque):
        if issubclass(kind, base):
            names = getattr(kind, "_fields", None)
            chosen = islice(base.__iter__(value), start, end)
            return [
                (names[index] if type(names) is tuple else f"[{index}]", item)
                for index, item in enumerate(chosen, start)
            ]
    base_set = set if issubclass(kind, set) else frozenset
    chosen = islice(base_set.__iter__(value), start, end)
    return [(f"{{{index}}}", item) for index, item in enumerate(chosen, start)]


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


class Actions:
    """Carries out one request at a time, on the frames of one stop."""

    def __init__(
        self,
        link: Link,
        table: BreakpointTable,
        tracer: Tracer,
        evaluator: Evaluator,
        describer: Describer,
    ) -> None:
        self.link = link
        self.table = table
        self.tracer = tracer
        self.evaluator = evaluator
        self.describer = describer
        self.frames: List[FrameAt] = []
        self.handlers: Dict[str, Callable[[Json], Json]] = {
            "locals": self._locals,
            "stack": self._stack,
            "threads": self._threads,
            "evaluate": self._evaluate,
            "fields": self._fields,
            "run_code": self._run_code,
            "set_breakpoint": self._set_breakpoint,
            "remove_breakpoint": self._remove_breakpoint,
            "list_breakpoints": self._list_breakpoints,
        }

    def handle(self, action: str, arguments: Json) -> Json:
        """The fields of the answer, even if the request fails."""
        try:
            return self.handlers[action](arguments)
        except Refusal as refusal:
            return {"error": {"kind": "bad_request", "message": str(refusal)}}
        except Interrupted:
            self.evaluator.phase = IDLE
            message = "it did not end within {:g} s and was interrupted".format(
                self.link.request["timeout"]
            )
            return {"error": {"kind": "timeout", "message": message}}
        except BaseException:
            self.evaluator.phase = IDLE
            message = import_standard("traceback").format_exc()
            return {"error": {"kind": "internal", "message": message}}

    def _frame(self, arguments: Json) -> types.FrameType:
        index = arguments.get("frame", 0)
        if not self.frames:
            raise Refusal("the program has no frame to look at here")
        if not 0 <= index < len(self.frames):
            message = "there is no frame {}; the stack has frames 0 to {}"
            raise Refusal(message.format(index, len(self.frames) - 1))
        return self.frames[index].frame

    def _locals(self, arguments: Json) -> Json:
        frame = self._frame(arguments)
        items = [
            (name, value)
            for name, value in frame_locals(frame).items()
            if name.isidentifier() and not (name.startswith("__") and name.endswith("__"))
        ]
        if frame.f_locals is frame.f_globals:
            # By `type`, since `isinstance` would run a `__class__` of the program's.
            items = [item for item in items if not issubclass(type(item[1]), types.ModuleType)]
        start = arguments.get("start", 0)
        return self.describer.page(items[start:], start, len(items))

    def _stack(self, arguments: Json) -> Json:
        return self.describer.stack(self.frames, arguments.get("start", 0))

    def _threads(self, arguments: Json) -> Json:
        return self.describer.threads(self.frames)

    def _evaluate(self, arguments: Json) -> Json:
        expression = arguments["expression"].strip()
        value, error = self.evaluator.evaluate(expression, self._frame(arguments))
        if error:
            return error
        shown, next_start = self.describer.value(expression, value, arguments.get("start", 0))
        return {"values": [shown], **({} if next_start is None else {"next_start": next_start})}

    def _fields(self, arguments: Json) -> Json:
        expression = arguments["expression"].strip()
        value, error = self.evaluator.evaluate(expression, self._frame(arguments))
        if error:
            return error
        start, count = arguments.get("start", 0), self.describer.limits["max_values"]
        found, error = self.evaluator.guarded(lambda: fields_of(value, start, count))
        return error or self.describer.page(found[0], start, found[1])

    def _run_code(self, arguments: Json) -> Json:
        frame, stdout = self._frame(arguments), self.link.stdout
        # The code's output belongs to the answer, even if the program captures its own output.
        printed, sys.stdout = sys.stdout, stdout
        try:
            notes, error = self.evaluator.guarded(lambda: run_code(arguments["code"], frame))
            return error or {"notes": notes}
        finally:
            if sys.stdout is stdout:
                sys.stdout = printed

    def _set_breakpoint(self, arguments: Json) -> Json:
        point, notes = self.table.add(arguments)
        self.tracer.refresh()
        return {"breakpoints": [self.table.describe(point)], "notes": notes}

    def _remove_breakpoint(self, arguments: Json) -> Json:
        self.table.remove(arguments["number"])
        self.tracer.refresh()
        return {}

    def _list_breakpoints(self, arguments: Json) -> Json:
        """Empty, since every answer includes the changed breakpoints."""
        return {}
