"""What the kinds read off nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import libcst as cst

Item = TypeVar("Item", bound=cst.CSTNode)

_NO_READERS = (
    cst.AssignTarget
    | cst.AugAssign
    | cst.AnnAssign
    | cst.Param
    | cst.NamedExpr
    | cst.NameItem
    | cst.FunctionDef
    | cst.Element
    | cst.AsName
    # Another variable in an attribute's place is mostly of another type, and seen at once.
    | cst.Attribute
)


def only(statement: cst.CSTNode | None) -> cst.BaseSmallStatement | None:
    """The one small statement of a line."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None


def calls(node: cst.CSTNode, *names: str) -> bool:
    """Whether it is a call of a function of one of these names, as `len(x)`."""
    return (
        isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in names
    )


def called_name(node: cst.Call) -> str:
    """The function's or method's name, without what it is of."""
    if isinstance(node.func, cst.Attribute):
        return node.func.attr.value
    return node.func.value if isinstance(node.func, cst.Name) else ""


def dotted(node: cst.CSTNode) -> str:
    """`a.b.c` of a name or of attributes of one; else empty."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr.value}" if left else ""
    return ""


def self_attribute(node: cst.CSTNode) -> str:
    """`x` of `self.x`; else empty."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
        return node.attr.value if node.value.value in ("self", "cls") else ""
    return ""


def is_none(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def is_empty(node: cst.CSTNode) -> bool:
    """Whether it makes an empty container or text."""
    if isinstance(node, cst.List | cst.Dict | cst.Tuple):
        return not node.elements
    if isinstance(node, cst.Call):
        return not node.args and calls(node, "set", "dict", "list", "deque", "Counter")
    return isinstance(node, cst.SimpleString) and node.raw_value == ""


def targets(statement: cst.CSTNode | None) -> Iterator[cst.BaseExpression]:
    """What an assignment assigns to, tuples taken apart."""
    if isinstance(statement, cst.Assign):
        for target in statement.targets:
            yield from _parts(target.target)
    elif isinstance(statement, cst.AugAssign) or (
        isinstance(statement, cst.AnnAssign) and statement.value is not None
    ):
        yield statement.target


def _parts(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _parts(element.value)
    else:
        yield target


def is_read(node: cst.Name, parent: cst.CSTNode) -> bool:
    """Whether the name stands for its value: not assigned to, called, or an attribute's name."""
    if isinstance(parent, cst.Call):
        return parent.func is not node
    if isinstance(parent, cst.Arg):
        return parent.value is node
    if isinstance(parent, cst.CompFor | cst.For):
        return parent.iter is node
    return not isinstance(parent, _NO_READERS)


def lines_above(statement: cst.CSTNode) -> list[cst.EmptyLine]:
    """The comments and empty lines above a statement."""
    return list(getattr(statement, "leading_lines", ()))


def mentions(node: cst.CSTNode, name: str) -> bool:
    """Whether a variable is read or written anywhere in it."""
    if isinstance(node, cst.Name):
        return node.value == name
    return any(mentions(child, name) for child in node.children)


def without(items: Sequence[Item], index: int) -> list[Item]:
    """A list's items or a call's arguments without one; the comma at the end stays as it is."""
    left = [*items[:index], *items[index + 1 :]]
    if left and index == len(left):
        left[-1] = left[-1].with_changes(comma=_comma(items[index]))
    return left


def _comma(item: cst.CSTNode) -> cst.Comma | cst.MaybeSentinel:
    assert isinstance(item, cst.Arg | cst.BaseElement | cst.SubscriptElement), item
    return item.comma
