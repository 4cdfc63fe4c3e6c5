"""Which variables of a Java file are visible where, and their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tree_sitter import Node

from collect.code.java_tree import declarators, declared_name, has_modifier, text_of, walk, words

METHODS = words("method_declaration constructor_declaration compact_constructor_declaration")
CLASSES = words("class_declaration enum_declaration record_declaration interface_declaration")
INTEGRAL = words("int long short byte char Integer Long Short Byte")
NUMBERS = INTEGRAL | words("double float Double Float")
IMMUTABLE = words("String BigDecimal BigInteger LocalDate LocalDateTime LocalTime Duration Instant")
_LOOPS = {"for_statement": "init", "enhanced_for_statement": ""}


class Variables:
    """The variables of one file."""

    def __init__(self, root: Node) -> None:
        self._final = {
            text_of(name)
            for node in walk(root)
            if node.type == "field_declaration" and has_modifier(node, "final")
            for name in map(declared_name, declarators(node))
            if name is not None
        }
        self._fields = {node.id: dict(_fields(node)) for node in walk(root) if node.type in CLASSES}

    def at(self, node: Node) -> dict[str, str]:
        """Local variables and parameters that are certainly declared before a node, by name, with
        their declared type."""
        found: dict[str, str] = {}
        child, around = node, node.parent
        while around is not None and around.type not in CLASSES:
            for declared in _declared_before(around, child):
                for name, kind in _named(declared):
                    found.setdefault(name, kind)
            child, around = around, around.parent
        return found

    def fields(self, node: Node) -> Mapping[str, str]:
        """The fields of the class around a node, by name."""
        around = class_of(node)
        return self._fields.get(around.id, {}) if around is not None else {}

    def type_of(self, name: Node) -> str:
        """The type of the variable that an expression names; empty if it names none."""
        text = text_of(name)
        if name.type == "field_access" and text.startswith("this."):
            return self.fields(name).get(text.removeprefix("this."), "")
        if name.type != "identifier":
            return ""
        return self.at(name).get(text) or self.fields(name).get(text, "")

    def is_field(self, target: Node) -> bool:
        """Whether an expression names a field of its own class."""
        text = text_of(target)
        if target.type == "field_access":
            return text.startswith("this.")
        named = target.type == "identifier" and text in self.fields(target)
        return named and text not in self.at(target)

    def is_final(self, target: Node) -> bool:
        """Whether an expression names a final field, which must be assigned."""
        name = text_of(target).removeprefix("this.")
        return self.is_field(target) and name in self._final


def class_of(node: Node) -> Node | None:
    """The named class around a node."""
    around = node.parent
    while around is not None and around.type not in CLASSES:
        around = around.parent
    return around


def method_of(node: Node) -> Node | None:
    """The method or constructor around a node, in its own class."""
    around = node.parent
    while around is not None and around.type not in CLASSES | METHODS:
        around = around.parent
    return around if around is not None and around.type in METHODS else None


def _fields(node: Node) -> Iterator[tuple[str, str]]:
    body = node.child_by_field_name("body")
    members = list(body.named_children) if body is not None else []
    members += [
        part
        for each in members
        if each.type == "enum_body_declarations"
        for part in each.named_children
    ]
    for member in members:
        if member.type == "field_declaration":
            yield from _named(member)
    parameters = node.child_by_field_name("parameters")
    if parameters is not None:
        for parameter in parameters.named_children:
            yield from _named(parameter)


def _named(declared: Node) -> Iterator[tuple[str, str]]:
    kind = declared.child_by_field_name("type")
    if kind is None:
        return
    own = declared.child_by_field_name("name")
    for name in [own, *map(declared_name, declarators(declared))]:
        if name is not None:
            yield text_of(name), text_of(kind)


def _declared_before(around: Node, child: Node) -> Iterator[Node]:
    """Declarations in a node that are visible in one of its children."""
    if around.type in METHODS or around.type == "lambda_expression":
        parameters = around.child_by_field_name("parameters")
        yield from parameters.named_children if parameters is not None else ()
    elif around.type in _LOOPS:
        init = around.child_by_field_name("init")
        if around.type == "enhanced_for_statement" and child == around.child_by_field_name("body"):
            yield around
        elif init is not None and init.end_byte <= child.start_byte:
            yield init
    elif around.type in ("block", "constructor_body", "switch_block_statement_group"):
        for sibling in around.named_children:
            if sibling.end_byte > child.start_byte:
                break
            if sibling.type == "local_variable_declaration" and _has_value(sibling):
                yield sibling


def _has_value(declaration: Node) -> bool:
    return all(each.child_by_field_name("value") is not None for each in declarators(declaration))
