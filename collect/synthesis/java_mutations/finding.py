"""Find all mutations of a Java program."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from collect.code.java_tree import called_name, parse, text_of, words
from collect.errors import ConfigError
from collect.synthesis.java_mutations.base import Edit, JavaKind
from collect.synthesis.java_mutations.flow import CONDITIONS_KINDS, FLOW_KINDS
from collect.synthesis.java_mutations.numbers import NUMBERS_KINDS
from collect.synthesis.java_mutations.state import NAMES_KINDS, STATE_KINDS
from collect.synthesis.java_mutations.variables import CLASSES, METHODS, Variables
from collect.synthesis.mutations.base import Mutation

JAVA_KINDS: tuple[JavaKind, ...] = (
    *CONDITIONS_KINDS,
    *NUMBERS_KINDS,
    *STATE_KINDS,
    *FLOW_KINDS,
    *NAMES_KINDS,
)


_ALWAYS = words(
    "annotation marker_annotation import_declaration package_declaration throw_statement "
    "assert_statement line_comment block_comment annotation_type_declaration module_declaration"
)
_METHODS = words("hashCode main")
_LOGGING = re.compile(r"(?:^|[._])(?:log|logger|System\.(?:out|err))\.", re.IGNORECASE)
_CONSTANTS = words("serialVersionUID")


def find_java_mutations(code: str, path: str = "") -> list[Mutation]:
    """Every mutation of a file, in text order. Raises ConfigError if it can't be parsed as Java.
    `path` is only recorded."""
    root = parse(code.encode())
    if root.has_error:
        raise ConfigError(f"{path or 'the file to break'} is not Java that can be parsed")
    return _Finder(code, root, path).found()


def scope_name(node: Node) -> str:
    """The qualified name of a method or class node, or of the one around a node: `Cart.total`,
    `Cart.<init>`."""
    names: list[str] = []
    around: Node | None = node
    while around is not None:
        if around.type in CLASSES or around.type == "method_declaration":
            name = around.child_by_field_name("name")
            names.append(text_of(name) if name is not None else "")
        elif around.type in METHODS:
            names.append("<init>")
        around = around.parent
    return ".".join(reversed(names))


class _Finder:
    """At every node, asks the mutation kinds for its type."""

    def __init__(self, code: str, root: Node, path: str) -> None:
        self._code = code
        self._root = root
        self._path = path
        self._variables = Variables(root)
        self._ascii = code.isascii()
        self._bytes = code.encode()
        self._by_type: dict[str, list[JavaKind]] = {}
        for kind in JAVA_KINDS:
            for name in kind.nodes:
                self._by_type.setdefault(name, []).append(kind)

    def found(self) -> list[Mutation]:
        mutations = [
            self._mutation(kind, node, scope, edit)
            for node, scope in self._visited(self._root, None)
            for kind in self._by_type.get(node.type, ())
            for edit in kind.find(node, self._variables)
        ]
        return sorted(mutations, key=lambda mutation: (mutation.start, mutation.end))

    def _visited(self, node: Node, scope: Node | None) -> Iterator[tuple[Node, Node | None]]:
        """The nodes inside classes, each with its innermost method or class."""
        pending = [(node, scope)]
        while pending:
            node, scope = pending.pop()
            if _left_alone(node):
                continue
            if scope is not None:
                yield node, scope
            inner = node if node.type in CLASSES | METHODS else scope
            pending += [(child, inner) for child in reversed(node.named_children)]

    def _mutation(self, kind: JavaKind, node: Node, scope: Node | None, edit: Edit) -> Mutation:
        scope = scope or self._root
        return Mutation(
            kind=kind.name,
            category=kind.category,
            line=node.start_point.row + 1,
            start=self._characters(edit.start),
            end=self._characters(edit.end),
            text=edit.text,
            scope=scope_name(scope),
            scope_lines=(scope.start_point.row + 1, scope.end_point.row + 1),
            path=self._path,
            source=self._code,
        )

    def _characters(self, position: int) -> int:
        return position if self._ascii else len(self._bytes[:position].decode())


def _left_alone(node: Node) -> bool:
    """Nodes to skip: a change there is no mistake, or only visible to people."""
    if node.type in _ALWAYS:
        return True
    if node.type == "expression_statement":
        return _left_alone(node.named_children[0])
    if node.type == "method_declaration":
        name = node.child_by_field_name("name")
        return name is not None and text_of(name) in _METHODS
    if node.type == "method_invocation":
        receiver = node.child_by_field_name("object")
        named = "" if receiver is None else f"{text_of(receiver)}."
        return bool(_LOGGING.search(named)) or called_name(node) in ("println", "printStackTrace")
    if node.type == "field_declaration":
        return any(name in text_of(node) for name in _CONSTANTS)
    return False
