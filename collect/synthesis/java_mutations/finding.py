"""Find all mutations of a Java program."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from collect.code.java_tree import called_name, parse, text_of, words
from collect.errors import ConfigError
from collect.synthesis.java_mutations import expressions, statements
from collect.synthesis.java_mutations.base import CLASSES, METHODS, Variables, field_text
from collect.synthesis.mutations.base import Mutation, MutationKind, kinds_in

JAVA_KINDS = kinds_in(expressions, statements)
_ALWAYS = words(
    "annotation marker_annotation import_declaration package_declaration throw_statement "
    "assert_statement line_comment block_comment annotation_type_declaration module_declaration"
)
_LOGGING = re.compile(r"(?:^|[._])(?:log|logger|System\.(?:out|err))\.", re.IGNORECASE)


def find_java_mutations(code: str, path: str = "") -> list[Mutation]:
    """Every mutation of a file, in text order. Raises ConfigError if it can't be parsed as Java.
    `path` is only recorded."""
    data = code.encode()
    root = parse(data)
    if root.has_error:
        raise ConfigError(f"{path or 'the file to break'} is not Java that can be parsed")
    variables = Variables(root)
    by_type: dict[str, list[MutationKind]] = {}
    for kind in JAVA_KINDS:
        for name in kind.nodes:
            by_type.setdefault(name, []).append(kind)

    def characters(position: int) -> int:
        return position if len(data) == len(code) else len(data[:position].decode())

    mutations = [
        Mutation(
            kind=kind.name,
            category=kind.category,
            line=node.start_point.row + 1,
            start=characters(edit.start),
            end=characters(edit.end),
            text=edit.text,
            scope=scope_name(scope),
            scope_lines=(scope.start_point.row + 1, scope.end_point.row + 1),
            path=path,
            source=code,
        )
        for node, scope in _visited(root)
        for kind in by_type.get(node.type, ())
        for edit in kind.find(node, variables)
    ]
    return sorted(mutations, key=lambda mutation: (mutation.start, mutation.end))


def _visited(root: Node) -> Iterator[tuple[Node, Node]]:
    """The nodes inside classes, each with its innermost method or class."""
    pending: list[tuple[Node, Node | None]] = [(root, None)]
    while pending:
        node, scope = pending.pop()
        if _left_alone(node):
            continue
        if scope is not None:
            yield node, scope
        inner = node if node.type in CLASSES | METHODS else scope
        pending += [(child, inner) for child in reversed(node.named_children)]


def scope_name(node: Node) -> str:
    """The qualified name of a method or class: `Cart.total`, `Cart.<init>`."""
    parts: list[str] = []
    around: Node | None = node
    while around is not None:
        if around.type in CLASSES or around.type == "method_declaration":
            parts.append(field_text(around, "name"))
        elif around.type in METHODS:
            parts.append("<init>")
        around = around.parent
    return ".".join(reversed(parts))


def _left_alone(node: Node) -> bool:
    """Nodes to skip: a change there is no mistake, or only visible to people."""
    if node.type == "expression_statement":
        node = node.named_children[0]
    if node.type == "method_declaration":
        return field_text(node, "name") in ("hashCode", "main")
    if node.type == "method_invocation":
        receiver = field_text(node, "object") + "."
        return called_name(node) in ("println", "printStackTrace") or bool(
            _LOGGING.search(receiver)
        )
    if node.type == "field_declaration":
        return "serialVersionUID" in text_of(node)
    return node.type in _ALWAYS
