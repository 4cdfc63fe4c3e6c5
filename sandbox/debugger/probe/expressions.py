"""Compile the host's expressions so that they mean in a frame what they would mean in its code.

In a function an expression becomes an inner function of its own, with the frame's variables as free
variables: so comprehensions and lambdas see them, and the globals stay the program's own.
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
import types
from functools import lru_cache
from typing import Any, Dict, NamedTuple

from .interpreter import (
    defining_class,
    frame_locals,
    inlined,
    qualified_name,
    traceback_frames,
)
from .wire import Json, Refusal
from .workspace import Workspace

NO_VALUE_HERE = "local variable {!r} has no value here"
WITHOUT_VALUE = re.compile(r"free variable '(\w+)'")
"""CPython's words for that, of a variable around the function that runs."""
OPTIMIZED = 1
"""Flag of a function's code, unlike a class body's: it looks names up in variables of its own."""
AWAITS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
ASYNC = 0x80 | 0x200
"""Flags of the code of coroutines and asynchronous generators."""
EXPRESSION = "<expression>"
SEE_ALL = ("locals", "vars", "dir", "eval", "exec", "sys", "inspect")
"""Names by which an expression may reach variables that it does not name."""
RAISED = "__exception__"
CLASS = "__class__"


def is_async(code: types.CodeType) -> bool:
    return bool(code.co_flags & ASYNC)


class Names(Dict[str, Any]):
    """A namespace for `eval` in which it is an error to read a variable that has no value now, as
    it is for the program, even if a global or a built-in has its name."""

    def __init__(self, names: Json, unassigned: frozenset[str]) -> None:
        super().__init__(names)
        self._unassigned = unassigned

    def __missing__(self, name: str) -> Any:
        if name in self._unassigned:
            raise UnboundLocalError(NO_VALUE_HERE.format(name))
        raise KeyError(name)


@lru_cache(maxsize=1000)
def own_names(code: types.CodeType) -> frozenset[str]:
    """The variables that code has, and those of functions around it that it uses: names that mean
    no global. Other code than functions looks up its own in globals too."""
    if not code.co_flags & OPTIMIZED:
        return frozenset(code.co_freevars)
    return frozenset((*code.co_varnames, *code.co_cellvars, *code.co_freevars)) - inlined(code)


def compiled(
    expression: str, frame: types.FrameType, variables: Json, workspace: Workspace
) -> types.CodeType:
    """An expression's code, for `value_in` a frame with these variables. Raises SyntaxError."""
    code = frame.f_code
    names: frozenset[str] = frozenset()
    is_function = bool(code.co_flags & OPTIMIZED)
    if is_function:
        names = own_names(code).union(variables)
    elif RAISED in variables and frame.f_locals is frame.f_globals:
        names = frozenset((RAISED,))
    text, receiver = expression.strip(), None
    if ("super" in text or CLASS in text) and class_of_method(frame, variables) is not None:
        names |= {CLASS}
        receiver = code.co_varnames[0]
    place = Place(
        names=names,
        private=private_class(frame, workspace) if "__" in text else "",
        receiver=receiver,
        may_await=is_async(code),
        is_class=not is_function and frame.f_locals is not frame.f_globals,
    )
    return compiled_for(text, place)


def assigned_in(expression: str) -> list[str]:
    """The variables that an expression assigns with `:=`, which the program does not see."""
    nodes = ast.walk(ast.parse(expression, EXPRESSION, "eval")) if ":=" in expression else ()
    return [node.target.id for node in nodes if isinstance(node, ast.NamedExpr)]


class Place(NamedTuple):
    """What an expression's meaning depends on."""

    names: frozenset[str]
    """The variables; empty for those of a module or of a class body, which are looked up by name.
    """
    private: str
    """The class whose private names it can use."""
    receiver: str | None
    """The variable that `super()` means."""
    may_await: bool
    is_class: bool
    """Whether it is for a class body."""


@lru_cache(maxsize=1000)
def compiled_for(text: str, place: Place) -> types.CodeType:
    try:
        tree: Any = ast.parse(text, EXPRESSION, "eval")
        compile(tree, EXPRESSION, "eval", AWAITS if place.may_await else 0, dont_inherit=True)
    except SyntaxError as error:
        try:
            compile(text, EXPRESSION, "exec", dont_inherit=True)
        except SyntaxError:
            raise error from None
        raise SyntaxError("a statement, not an expression: it did not run") from None
    PrivateNames(place.private).visit(tree)
    if place.receiver is not None:
        tree = WithReceiver(place.receiver).visit(tree)
    if place.is_class and sys.version_info >= (3, 12):
        tree = NotInlined().visit(tree)
    ast.fix_missing_locations(tree)
    if place.names:
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names = place.names if read.intersection(SEE_ALL) else place.names.intersection(read)
        return inner_function(tree.body, names, place.may_await and awaits(tree))
    code: types.CodeType = compile(tree, EXPRESSION, "eval", dont_inherit=True)
    return code


def awaits(tree: ast.AST) -> bool:
    nodes = [*ast.walk(tree)]
    return any(isinstance(node, ast.Await) or getattr(node, "is_async", 0) for node in nodes)


def inner_function(body: ast.expr, names: frozenset[str], asynchronous: bool) -> types.CodeType:
    """The code of a function that returns an expression, with all names as free variables."""
    usable = (name for name in names if name.isidentifier() and not keyword.iskeyword(name))
    listed = sorted(usable) or ["_stepinto_none"]
    head = "async def" if asynchronous else "def"
    text = f"def outer({', '.join(listed)}):\n {head} inner():\n  nonlocal {', '.join(listed)}\n  0"
    module: Any = ast.parse(text, EXPRESSION)
    inner = module.body[0].body[0]
    inner.body[-1] = ast.copy_location(ast.Return(body), body)
    code = compile(module, EXPRESSION, "exec", dont_inherit=True)
    for name in ("outer", "inner"):
        codes = [item for item in code.co_consts if isinstance(item, types.CodeType)]
        code = next(item for item in codes if item.co_name == name)
    return code


def value_in(code: types.CodeType, frame: types.FrameType, variables: Json) -> object:
    """The value of an expression's code in a frame with these variables; may be a coroutine."""
    if not code.co_flags & OPTIMIZED:
        return _value_outside(code, frame, variables)
    if CLASS in code.co_freevars and CLASS not in variables:
        variables = {**variables, CLASS: class_of_method(frame, variables)}
    cells = [
        types.CellType(variables[name]) if name in variables else types.CellType()
        for name in code.co_freevars
    ]
    function = types.FunctionType(code, frame.f_globals, EXPRESSION, None, tuple(cells))
    try:
        return function()
    except NameError as error:
        name = without_value(error, EXPRESSION)
        if name is None:
            raise
        raise UnboundLocalError(NO_VALUE_HERE.format(name)) from None


def _value_outside(code: types.CodeType, frame: types.FrameType, variables: Json) -> object:
    """That of code for a module, or for a class body: there functions within see only globals, and
    the variables of functions around."""
    names, around = frame.f_globals, around_body(frame)
    if around:
        names = {**names, **around}
    unassigned = own_names(frame.f_code).difference(variables, around)
    value = eval(code, names, Names(variables, unassigned))
    return dict(value) if type(value) is Names else value  # of `locals()`


def around_body(frame: types.FrameType) -> Json:
    """The variables that a class body uses of the function around it, which runs the body: the
    frame of a body has no values of these."""
    caller, free = frame.f_back, frame.f_code.co_freevars
    if not free or caller is None or frame.f_code not in caller.f_code.co_consts:
        return {}
    return {name: value for name, value in frame_locals(caller).items() if name in free}


def without_value(error: NameError, filename: str) -> str | None:
    """The variable without a value that code of ours has read, if that is the error."""
    own = traceback_frames(error)[0].frame.f_code.co_filename == filename
    found = WITHOUT_VALUE.search(str(error)) if own and type(error) is NameError else None
    return None if found is None else found[1]


def private_class(frame: types.FrameType, workspace: Workspace) -> str:
    """The class around a frame's code, whose name private names get; empty if there is none."""
    code = frame.f_code
    qualified = getattr(code, "co_qualname", None)
    if qualified is None:
        known = written_class(code, workspace)
        if known is not None:
            return known
        qualified = qualified_name(frame)
    if frame.f_locals is not frame.f_globals and "__qualname__" in frame.f_locals:
        qualified += ".body"
    methods = [part for part in qualified.split(".<locals>.") if "." in part]
    return str(methods[-1].split(".")[-2]) if methods else ""


def written_class(code: types.CodeType, workspace: Workspace) -> str | None:
    """The class around code according to its file; None if that is not known."""
    try:
        classes = workspace.source(workspace.canonical(code.co_filename)).classes
    except Refusal:
        return None
    return classes.get((code.co_name, code.co_firstlineno))


def class_of_method(frame: types.FrameType, variables: Json) -> type | None:
    """What `__class__` means in a method, also in one that does not use it."""
    code = frame.f_code
    if not code.co_argcount or code.co_varnames[0] not in variables:
        return None
    known = variables.get(CLASS)
    return (
        known if isinstance(known, type) else defining_class(code, variables[code.co_varnames[0]])
    )


class PrivateNames(ast.NodeVisitor):
    """Changes names such as `__size` to `_Cart__size`, as in a class."""

    FIELDS = ("attr", "id", "arg", "name", "asname", "rest")

    def __init__(self, owner: str) -> None:
        self.owner = owner.lstrip("_")

    def visit(self, node: ast.AST) -> None:
        if not self.owner:
            return
        for field in self.FIELDS:
            name = getattr(node, field, None)
            if isinstance(name, str):
                setattr(node, field, self._changed(name))
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [self._changed(name) for name in node.names]
        if not isinstance(node, ast.ClassDef):
            self.generic_visit(node)
            return
        for outside in (*node.bases, *node.keywords, *node.decorator_list):
            self.visit(outside)

    def _changed(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__") and "." not in name
        return f"_{self.owner}{name}" if private else name


class WithReceiver(ast.NodeTransformer):
    """Gives `super()` the arguments that CPython takes from the method around it."""

    def __init__(self, receiver: str) -> None:
        self.receiver = receiver

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            names = [ast.Name(name, ast.Load()) for name in (CLASS, self.receiver)]
            node.args = [ast.copy_location(name, node) for name in names]
        return node

    def visit(self, node: ast.AST) -> Any:
        is_scope = isinstance(node, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef))
        return node if is_scope else super().visit(node)


class NotInlined(ast.NodeTransformer):
    """Keeps comprehensions functions of their own, as they are in a class body: CPython 3.12 and
    later would have them see the names of the body."""

    def _called(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        first = node.generators[0]
        items, first.iter = first.iter, ast.Name("_stepinto_items", ast.Load())
        arguments: Any = ast.parse("lambda _stepinto_items: 0", mode="eval").body
        arguments.body = node
        return ast.Call(arguments, [items], [])

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)):
            return self._called(node)
        return node if isinstance(node, ast.Lambda) else self.generic_visit(node)
