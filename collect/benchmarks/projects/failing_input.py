"""A short program that shows a bug, made of its failing test: the statements that the failing one
needs, with values of the run in place of the test's variables."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from collect.code.syntax import literal

MAX_LINES = 30
MAX_SNIPPET = 1500
EQUAL = {"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assert_equal"}
EQUAL |= {"assertTupleEqual", "assertSetEqual", "assertSequenceEqual", "assertMultiLineEqual"}
EQUAL |= {"assert_equals", "check_equal", "eq", "eq_"}
"""Methods and functions that compare their first two arguments."""
_TRANSPARENT = {"raises", "warns", "subTest", "assertRaises", "assertRaisesRegex", "assertWarns"}
"""Context managers without which a test does the same up to its failure."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class Scene:
    """The innermost frame of a traceback that is in a test's file and called other functions of the
    workspace; the outermost of a test's file if none did."""

    path: str
    line: int
    values: Mapping[str, str] = field(default_factory=dict)
    """Source of the values of the variables that hold only built-in types; of parameters, the
    values when the function was called."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The class of each variable."""
    definitions: Mapping[str, str] = field(default_factory=dict)
    """Source of the tests' own functions and classes that the code reads, by the name there."""
    imports: Sequence[str] = ()
    """The import statements that `values` need."""


# Values in place of variables.


def with_values(
    function: ast.FunctionDef, failing: ast.stmt | None, scene: Scene | None
) -> tuple[ast.FunctionDef, ast.stmt | None]:
    """The function without decorators, and its failing statement; with the run's values in place of
    variables that hold constants, and other variables called after their class."""
    values: dict[str, ast.expr] = {}
    renamed: dict[str, str] = {}
    if scene is not None:
        names, inner = _variables(function, failing, scene.values)
        read = names_in(function)
        fixed = {name for name, replaceable in names.items() if not replaceable} | inner
        values = {name: tree for name, tree in _trees(scene).items() if name not in fixed}
        taken = {*dir(builtins), *(read - names.keys())}
        for name, is_constant in names.items():
            if not is_constant:
                renamed[name] = _name_for(scene.types.get(name, ""), taken)
                taken.add(renamed[name])
    bare = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(bare, ast.FunctionDef), bare
    bare.decorator_list.clear()
    try:
        changed = ast.parse(ast.unparse(_Replacing(values, renamed).visit(bare))).body[0]
    except (SyntaxError, ValueError):  # A quote inside an f-string, before Python 3.12.
        return function, failing
    assert isinstance(changed, ast.FunctionDef), changed
    after = [node for node in ast.walk(changed) if isinstance(node, ast.stmt)]
    before = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    return changed, None if failing is None else after[before.index(failing)]


def _trees(scene: Scene) -> dict[str, ast.expr]:
    """What stands for names of the test, and for the attributes and methods of its object."""
    methods = [name for name in scene.definitions if name.startswith("self.")]
    texts = {name: name.removeprefix("self.") for name in methods} | dict(scene.values)
    return {name: ast.parse(text, mode="eval").body for name, text in texts.items()}


def definitions(scene: Scene) -> dict[str, str]:
    """The code of the tests' own functions and classes, by name; without methods that need the
    test's object."""
    found = {}
    values = {name: tree for name, tree in _trees(scene).items() if name.startswith("self.")}
    for name, source in scene.definitions.items():
        node = ast.parse(source).body[0]
        if name.startswith("self.") and isinstance(node, ast.FunctionDef):
            _Replacing(values, {}).visit(node)
            node.decorator_list.clear()
            arguments = node.args.args
            if arguments and arguments[0].arg == "self":
                del arguments[0]
            if "self" in names_in(node):
                continue
        found[name.removeprefix("self.")] = ast.unparse(node)
    return found


def _variables(
    function: ast.FunctionDef, failing: ast.stmt | None, values: Mapping[str, str]
) -> tuple[dict[str, bool], set[str]]:
    """The function's variables, in order, and those of its lambdas, inner functions and classes.

    A value of the run can replace a variable if it is bound once, to a constant or to what comes
    from a parameter that is no value, such as a fixture.
    """
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    found = {each.arg: True for each in parameters if each.arg not in ("self", "cls")}
    fixtures = found.keys() - values.keys()
    constant: set[ast.AST] = set()
    inner: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and (_is_atom(node.value) or names_in(node) & fixtures):
            constant.update(target for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.For) and any(part is failing for part in ast.walk(node)):
            constant.update(ast.walk(node.target))
        elif isinstance(node, ast.Lambda | ast.FunctionDef) and node is not function:
            inner.update(each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg))
        elif isinstance(node, ast.comprehension | ast.ClassDef):
            inner.update(part.id for part in ast.walk(node) if _is_bound(part))
    for node in ast.walk(function):
        if _is_bound(node):
            found[node.id] = node.id not in found and node in constant
    return {name: each for name, each in found.items() if name not in inner}, inner


def _is_bound(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _is_atom(node: ast.expr) -> bool:
    """Whether it is a literal that can't change later."""
    mutable = ast.List | ast.Dict | ast.Set
    return is_literal(node) and not any(isinstance(part, mutable) for part in ast.walk(node))


def is_literal(node: ast.expr) -> bool:
    try:
        literal(ast.unparse(node))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _name_for(kind: str, taken: set[str]) -> str:
    """A variable's name: its class in lower case, or `result` for built-in types."""
    plain = not kind.isidentifier() or hasattr(builtins, kind) or kind == "NoneType"
    name = "result" if plain else _CAPITAL.sub("_", kind.strip("_")).lower()
    number = 2
    new = name
    while new in taken:
        new, number = f"{name}_{number}", number + 1
    return new


@dataclass
class _Replacing(ast.NodeTransformer):
    values: Mapping[str, ast.expr]
    renamed: Mapping[str, str]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self.values:
            return self.values[node.id]
        return ast.Name(self.renamed.get(node.id, node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and (value := self.values.get(ast.unparse(node))):
            return value
        return ast.Attribute(self.visit(node.value), node.attr, node.ctx)


# The statements that the failing one needs.


def snippet(
    function: ast.FunctionDef,
    failing: ast.stmt,
    last: str,
    imports: Sequence[str],
    defined: Mapping[str, str],
    *,
    whole: bool,
) -> str:
    """The program, with the imports and definitions that it needs, and `last` in place of the
    failing statement. Empty if it is too long, or needs more, such as fixtures."""
    before, end = _run_up(function.body, failing, ast.parse(last).body)
    needed = set().union(*map(names_in, end))
    own = set().union(*map(_bound, before))
    kept: list[str] = []
    for node in reversed(before):
        effect = _without_check(node)
        if effect is None:
            continue
        read = names_in(effect)
        if isinstance(effect, ast.Assign) and ast.unparse(effect.value) in last:
            continue
        bound = _bound(effect)
        if whole or bound & needed or (read & needed & own and _has_effect(effect)):
            if isinstance(effect, ast.Assign) and isinstance(effect.targets[0], ast.Name):
                needed -= bound
            needed |= read
            kept.append(ast.unparse(effect))
    code = "\n".join([*reversed(kept), *map(ast.unparse, end)])
    left = dict(defined)
    while names := sorted(unbound(ast.parse(code)) & left.keys()):
        code = "\n\n".join([*map(left.pop, names), code])
    used = _imports(code, imports)
    if used is None or len(code) > MAX_SNIPPET or code.count("\n") >= MAX_LINES:
        return ""
    return "\n".join([*used, "", code] if used else [code])


def names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _run_up(
    block: Sequence[ast.stmt], failing: ast.stmt, last: list[ast.stmt]
) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements that run before one in a block, of a loop only those of the last round; and
    what replaces it, with the context managers around it."""
    for index, node in enumerate(block):
        if node is failing:
            return [*block[:index]], last
        if any(part is failing for part in ast.walk(node)):
            parts = (getattr(node, name, ()) for name in ("body", "orelse", "finalbody"))
            inside = (part for part in parts if any(failing in ast.walk(each) for each in part))
            before, end = _run_up(next(inside, ()), failing, last)
            if isinstance(node, ast.With) and not all(map(_is_transparent, node.items)):
                effects = filter(None, map(_without_check, before))
                manager = ast.With(node.items, [*effects, *end])
                return [*block[:index]], [ast.copy_location(manager, node)]
            return [*block[:index], *before], end
    return [], last


def _is_transparent(item: ast.withitem) -> bool:
    call = item.context_expr
    function = call.func if isinstance(call, ast.Call) else call
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _TRANSPARENT and item.optional_vars is None


def _without_check(node: ast.stmt) -> ast.stmt | None:
    """The statement; of a check, the expression that it evaluates, if it may have an effect."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return None  # a docstring
    if isinstance(node, ast.With) and all(map(_is_transparent, node.items)):
        return None
    if not is_check(node):
        return node
    checked = node.test if isinstance(node, ast.Assert) else getattr(node, "value", node)
    parts = [part for part in ast.iter_child_nodes(checked) if isinstance(part, ast.expr)]
    for part in (checked, *parts) if isinstance(node, ast.Assert) else parts[1:]:
        if isinstance(part, ast.Attribute | ast.Subscript | ast.Call):
            return ast.Expr(part)
    return None


def is_check(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = ast.unparse(node.value.func).rpartition(".")[2]
        return name.startswith("assert") or name in EQUAL
    return isinstance(node, ast.Assert)


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {part.id for part in ast.walk(node) if _is_bound(part)}


def _has_effect(node: ast.stmt) -> bool:
    """Whether it may change an object that it reads."""
    return any(
        isinstance(part, ast.Call | ast.Attribute | ast.Subscript) for part in ast.walk(node)
    )


def _imports(code: str, imports: Sequence[str]) -> list[str] | None:
    """The imports that the code needs; None if it needs names that none of them provides."""
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
            compile(code, "<snippet>", "exec")
    except SyntaxError:
        return None
    tree = ast.parse(code)
    if any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree)):
        return None  # of the tests' own package
    needed = unbound(tree)
    used: list[str] = []
    for line in imports:
        statement = ast.parse(line).body[0]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            given = [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
            pairs = zip(given, statement.names, strict=True)
            statement.names = [alias for name, alias in pairs if name in needed]
            if statement.names:
                used.append(ast.unparse(statement))
                needed.difference_update(given)
    return None if needed else used


def unbound(tree: ast.Module) -> set[str]:
    """Names that are read before the code itself assigns them."""
    needed: set[str] = set()
    bound = set(dir(builtins))
    for statement in tree.body:
        table = symtable.symtable(ast.unparse(statement), "<snippet>", "exec")
        symbols = table.get_symbols()
        written = {name.get_name() for name in symbols if name.is_assigned() or name.is_imported()}
        # An assignment reads the old values before it writes the new ones.
        first = isinstance(statement, ast.Assign | ast.AugAssign)
        needed |= set(_read(table)) - bound - (set() if first else written)
        bound |= written
    return needed


def _read(table: symtable.SymbolTable) -> Iterator[str]:
    """The module's variables that it reads, also in its functions and classes."""
    outermost = table.get_type() == "module"
    symbols = (name for name in table.get_symbols() if outermost or name.is_global())
    yield from (name.get_name() for name in symbols if name.is_referenced())
    for inner in table.get_children():
        yield from _read(inner)
