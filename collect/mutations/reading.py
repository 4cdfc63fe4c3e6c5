"""What the kinds read off nodes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst


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
