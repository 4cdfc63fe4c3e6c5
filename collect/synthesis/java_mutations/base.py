"""A kind of Java mutation, the text edits that it makes, and the variables that it can name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from collect.code.java_tree import (
    declarators,
    declared_in,
    field_text,
    fields,
    has_modifier,
    text_of,
    walk,
    words,
)
from collect.synthesis.mutations.base import MutationKind

METHODS = words("method_declaration constructor_declaration compact_constructor_declaration")
CLASSES = words("class_declaration enum_declaration record_declaration interface_declaration")
BLOCKS = words("block constructor_body switch_block_statement_group")


@dataclass(frozen=True)
class Edit:
    """Replaces some bytes of a file with another text."""

    start: int
    end: int
    text: str = ""


Edits = Iterator[Edit]


def kind(category: str, nodes: str) -> Callable[[Callable[[Node, Variables], Edits]], MutationKind]:
    """Make a function a kind of its own name, for these types of node."""
    return lambda find: MutationKind(find.__name__, category, tuple(nodes.split()), find)


def arguments_of(call: Node) -> list[Node]:
    return [argument for given in fields(call, "arguments") for argument in given.named_children]


def parameters_of(method: Node) -> Iterator[str]:
    """The names of a method's parameters."""
    for node in (part for each in fields(method, "parameters") for part in walk(each)):
        if node.type in ("formal_parameter", "variable_declarator"):
            yield field_text(node, "name")


def around(node: Node, types: frozenset[str]) -> Node | None:
    """The innermost node of one of these types around a node."""
    found = node.parent
    while found is not None and found.type not in types:
        found = found.parent
    return found


def method_of(node: Node) -> Node | None:
    """The method or constructor around a node, in its own class."""
    found = around(node, CLASSES | METHODS)
    return found if found is not None and found.type in METHODS else None


def is_in(node: Node, types: frozenset[str]) -> bool:
    """Whether the node's parent is of one of these types."""
    return node.parent is not None and node.parent.type in types


def replaced(node: Node, text: str) -> Edit:
    return Edit(node.start_byte, node.end_byte, text)


def swapped(one: Node, other: Node) -> Edit:
    """Swap two children of a node, the first one first."""
    assert one.parent is not None
    data, start = one.parent.text or b"", one.parent.start_byte
    between = data[one.end_byte - start : other.start_byte - start].decode()
    return Edit(one.start_byte, other.end_byte, text_of(other) + between + text_of(one))


def removed(statement: Node) -> Edit:
    """Remove a statement, with the lines that contain nothing else."""
    root = statement
    while root.parent is not None:
        root = root.parent
    source = root.text or b""
    start, end = statement.start_byte, statement.end_byte
    before = source.rfind(b"\n", 0, start) + 1
    after = source.find(b"\n", end)
    after = len(source) if after < 0 else after + 1
    alone = not source[before:start].strip() and not source[end:after].strip()
    return Edit(before, after) if alone else Edit(start, end)


class Variables:
    """Which variables of one file are visible where, and their types."""

    def __init__(self, root: Node) -> None:
        self._final = {
            name
            for node in walk(root)
            if node.type == "field_declaration" and has_modifier(node, "final")
            for name, _ in declared_in(node)
        }
        self._fields = {
            node.id: dict(_members(node)) for node in walk(root) if node.type in CLASSES
        }

    def at(self, node: Node) -> dict[str, str]:
        """Local variables and parameters that are certainly declared before a node, by name, with
        their declared type."""
        found: dict[str, str] = {}
        child, outer = node, node.parent
        while outer is not None and outer.type not in CLASSES:
            for declared in _declared_before(outer, child):
                for name, its_type in declared_in(declared):
                    found.setdefault(name, its_type)
            child, outer = outer, outer.parent
        return found

    def fields(self, node: Node) -> Mapping[str, str]:
        """The fields of the class around a node, by name."""
        owner = around(node, CLASSES)
        return self._fields[owner.id] if owner is not None else {}

    def type_of(self, name: Node) -> str:
        """The type of the variable that an expression names; empty if it names none."""
        local = self.at(name).get(text_of(name), "") if name.type == "identifier" else ""
        return local or self.fields(name).get(self.field_of(name), "")

    def field_of(self, target: Node) -> str:
        """The field of its own class that an expression names; empty if it names none."""
        text = text_of(target)
        if target.type == "field_access":
            return text.removeprefix("this.") if text.startswith("this.") else ""
        named = target.type == "identifier" and text in self.fields(target)
        return text if named and text not in self.at(target) else ""

    def is_final(self, target: Node) -> bool:
        """Whether an expression names a final field, which must be assigned."""
        return self.field_of(target) in self._final


def _members(node: Node) -> Iterator[tuple[str, str]]:
    """The fields of a class, an enum or a record."""
    parts = (*fields(node, "body"), *fields(node, "parameters"))
    pending = [member for part in parts for member in part.named_children]
    for member in pending:
        if member.type == "enum_body_declarations":
            pending += member.named_children
        elif member.type.endswith(("field_declaration", "_parameter")):
            yield from declared_in(member)


def _declared_before(outer: Node, child: Node) -> Iterator[Node]:
    """Declarations in a node that are visible in one of its children."""
    if outer.type in METHODS or outer.type == "lambda_expression":
        for parameters in fields(outer, "parameters"):
            yield from parameters.named_children
    elif outer.type == "enhanced_for_statement" and child == outer.child_by_field_name("body"):
        yield outer
    elif outer.type == "for_statement":
        yield from (init for init in fields(outer, "init") if init.end_byte <= child.start_byte)
    elif outer.type in BLOCKS:
        for sibling in outer.named_children:
            if sibling.end_byte > child.start_byte:
                break
            if sibling.type == "local_variable_declaration" and all(
                fields(each, "value") for each in declarators(sibling)
            ):
                yield sibling
