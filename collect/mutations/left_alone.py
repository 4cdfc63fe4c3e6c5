"""What no mutation looks into: a change there is no mistake, or is seen at once."""

from __future__ import annotations

import re

import libcst as cst

from collect.mutations.reading import called_name, dotted

_ALWAYS = (cst.Annotation, cst.Import, cst.ImportFrom, cst.Decorator, cst.Raise)
_CONDITIONS = {"TYPE_CHECKING", "__name__", "version_info", "platform", "__debug__", "DEBUG"}
_FUNCTIONS = {"__repr__", "__dir__", "__sizeof__", "__init_subclass__", "__class_getitem__"}
_DECORATORS = {"overload", "abstractmethod", "deprecated", "abstractproperty"}
_BASES = {"Protocol", "TypedDict"}
_CALLS = {"warn", "warn_explicit", "TypeVar", "ParamSpec", "NewType", "getLogger", "cast"}
_LOGGERS = re.compile(r"(?:^|\.|_)(?:log|logger|logging)\.", re.IGNORECASE)
_CONSTANTS = re.compile(r"__\w+__$|_?version|_?VERSION|_?T$")


def in_programs(node: cst.CSTNode) -> bool:
    """Of a program in one file."""
    return isinstance(node, _ALWAYS) or _is_docstring(node)


def in_projects(node: cst.CSTNode) -> bool:
    """Of a project's modules: as well what only type checkers, people or other platforms see."""
    if in_programs(node) or isinstance(node, cst.Assert):
        return True
    if isinstance(node, cst.BaseCompoundStatement):
        return _unreached(node)
    if isinstance(node, cst.Call):
        return called_name(node) in _CALLS or bool(_LOGGERS.search(dotted(node.func)))
    return _assigns_constant(node)


def _is_docstring(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString)


def _unreached(node: cst.BaseCompoundStatement) -> bool:
    """By tests on this platform, or by tests at all."""
    if isinstance(node, cst.If):
        return not _CONDITIONS.isdisjoint(_names(node.test))
    if isinstance(node, cst.FunctionDef):
        return node.name.value in _FUNCTIONS or _decorated(node, _DECORATORS)
    if isinstance(node, cst.ClassDef):
        return any(dotted(base.value).rpartition(".")[2] in _BASES for base in node.bases)
    return isinstance(node, cst.Try) and _imports(node)


def _names(test: cst.CSTNode) -> set[str]:
    if isinstance(test, cst.Name):
        return {test.value}
    if isinstance(test, cst.Attribute):
        return {test.attr.value}
    return set().union(*map(_names, test.children)) if test.children else set()


def _decorated(function: cst.FunctionDef, names: set[str]) -> bool:
    for decorator in function.decorators:
        called = decorator.decorator
        name = dotted(called.func if isinstance(called, cst.Call) else called)
        if name.rpartition(".")[2] in names:
            return True
    return False


def _imports(node: cst.Try) -> bool:
    first = node.body.body[0] if node.body.body else None
    return isinstance(first, cst.SimpleStatementLine) and isinstance(
        first.body[0], cst.Import | cst.ImportFrom
    )


def _assigns_constant(node: cst.CSTNode) -> bool:
    """`__all__`, `__version__`, type variables, and what tells versions of Python apart."""
    target: cst.CSTNode | None = None
    if isinstance(node, cst.Assign):
        compared = isinstance(node.value, cst.Comparison | cst.BooleanOperation)
        if compared and "version_info" in _names(node.value):
            return True
        target = node.targets[0].target
    elif isinstance(node, cst.AnnAssign):
        target = node.target
    return isinstance(target, cst.Name) and bool(_CONSTANTS.match(target.value))
