"""Java source as the oracle reads it, by tree-sitter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from tree_sitter import Node

from collect.java_tree import declarators, line_of, parse, text_of, walk, words
from collect.models.oracle.java_expressions import JavaExpressions
from collect.models.oracle.java_mutations import mutations
from collect.models.oracle.reading import FunctionRange, Mutation

TYPES = words(
    "class_declaration interface_declaration enum_declaration record_declaration "
    "annotation_type_declaration"
)
METHODS = {
    "method_declaration": "",
    "constructor_declaration": "<init>",
    "compact_constructor_declaration": "<init>",
    "static_initializer": "<clinit>",
}
"""By the kind of node: the debugger's name of the function, empty for the node's own."""
INITIALISED = {"field_declaration", "constant_declaration", "enum_constant"}
LAMBDA = "<lambda>"
"""How the debugger calls the body of a lambda, after the function that it stands in."""
STOPPABLE = words(
    "expression_statement if_statement while_statement for_statement enhanced_for_statement "
    "return_statement throw_statement yield_statement assert_statement break_statement "
    "continue_statement synchronized_statement try_with_resources_statement "
    "explicit_constructor_invocation"
)
"""Nodes whose first line holds code, apart from those that `_is_stop` looks at."""


class JavaSource:
    """One Java file. Errors in it are read around."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._expressions = JavaExpressions(root)

    @classmethod
    def read(cls, data: bytes) -> JavaSource | None:
        """The file; None where it holds no type that could be read."""
        root = parse(data)
        return cls(root) if any(child.type in TYPES for child in root.children) else None

    @property
    def functions(self) -> Sequence[FunctionRange]:
        """Methods, constructors as `Class.<init>`, and initialisers of fields and classes."""
        return list(self._nodes)

    @cached_property
    def _nodes(self) -> dict[FunctionRange, Node]:
        return {_range(name, node): node for name, node in _functions(self._root, "")}

    def stops(self, function: FunctionRange | None) -> list[int]:
        """Lines of its statements and of its lambdas, those of inner classes left out."""
        if function is None:
            return []
        node = self._nodes[function]
        return sorted({line_of(stop) for stop in _stops(node)})

    def probes(self, line: int, function: str = "") -> list[str]:
        """Pure expressions of what stands at a line, larger ones before their parts."""
        at_line = self._at_line(line)
        bodies = [node for node in at_line if _is_lambda(node)]
        statements = [node for node in at_line if not _is_lambda(node)]
        inside = function.endswith(LAMBDA) and bodies
        return self._expressions.probes(bodies if inside else statements)

    def assigned(self, line: int) -> list[str]:
        """What the statements at a line assign to."""
        return self._expressions.assigned(self._at_line(line))

    def mutations(self, function: FunctionRange) -> Iterator[Mutation]:
        """The file with one small thing changed, so that it still compiles."""
        return mutations(self._root, self._nodes[function])

    def _at_line(self, line: int) -> list[Node]:
        return [node for node in walk(self._root) if _is_stop(node) and line_of(node) == line]


def _functions(node: Node, prefix: str) -> Iterator[tuple[str, Node]]:
    anonymous = 0
    for child in node.named_children:
        if child.type in METHODS and _has_code(child):
            name = f"{prefix}{METHODS[child.type] or _name(child)}"
            yield name, child
            yield from _functions(child, prefix)
        elif child.type in TYPES:
            yield from _functions(child, f"{prefix}{_name(child)}.")
        elif child.type == "class_body" and node.type == "object_creation_expression":
            anonymous += 1
            yield from _functions(child, f"{prefix}{anonymous}.")
        elif child.type in INITIALISED and _has_code(child):
            yield f"{prefix}{_initialiser(child)}", child
            yield from _functions(child, prefix)
        elif child.type == "block" and node.type == "class_body":
            yield f"{prefix}<init>", child
            yield from _functions(child, prefix)
        else:
            yield from _functions(child, prefix)


def _has_code(node: Node) -> bool:
    if node.type == "static_initializer":
        return True
    if node.type == "enum_constant":
        return node.child_by_field_name("arguments") is not None
    if node.type in INITIALISED:
        return bool(_values(node))
    return node.child_by_field_name("body") is not None


def _initialiser(node: Node) -> str:
    modifiers = next((child for child in node.children if child.type == "modifiers"), None)
    static = modifiers is not None and any(child.type == "static" for child in modifiers.children)
    return "<init>" if node.type == "field_declaration" and not static else "<clinit>"


def _range(name: str, node: Node) -> FunctionRange:
    named = node.child_by_field_name("name") or node
    return FunctionRange(name, line_of(node), line_of(named), node.end_point.row + 1)


def _stops(function: Node) -> Iterator[Node]:
    pending = [function]
    while pending:
        node = pending.pop()
        if _is_stop(node):
            yield node
        pending += [child for child in node.named_children if child.type != "class_body"]


def _is_stop(node: Node) -> bool:
    parent = node.parent
    if node.type == "local_variable_declaration":
        in_header = parent is not None and parent.type == "for_statement"
        return not in_header and bool(_values(node))
    if node.type == "switch_expression":
        return parent is not None and parent.type in ("block", "switch_block_statement_group")
    if node.type in STOPPABLE or (node.type in INITIALISED and _has_code(node)):
        return True
    return _is_lambda(node)


def _is_lambda(node: Node) -> bool:
    """Whether it is an expression that a lambda gives."""
    parent = node.parent
    is_body = parent is not None and parent.type == "lambda_expression"
    return is_body and node.type != "block" and node == _body(parent)


def _values(declaration: Node) -> list[Node]:
    values = [each.child_by_field_name("value") for each in declarators(declaration)]
    return [value for value in values if value is not None]


def _body(node: Node | None) -> Node | None:
    return node.child_by_field_name("body") if node is not None else None


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    return text_of(name) if name is not None else ""
