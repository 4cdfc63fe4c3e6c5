"""Java source that tells which of its statements and methods run, line for line as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from collect.java_tree import line_of, parse, text_of, walk, words
from collect.mutations.java.variables import CLASSES, METHODS

TRACE = "stepinto_trace.Trace"
_BLOCKS = words("block constructor_body switch_block_statement_group")
_BODIES = ("body", "consequence", "alternative")
_BRANCHING = words("if_statement for_statement enhanced_for_statement while_statement do_statement")
_NO_STATEMENTS = words("switch_label line_comment block_comment explicit_constructor_invocation")
_DECLARATIONS = words("local_variable_declaration yield_statement") | CLASSES


@dataclass(frozen=True)
class Instrumented:
    """A file, and what its numbers stand for."""

    source: bytes
    statements: Mapping[int, int]
    """The line of each statement."""
    methods: Mapping[int, str]
    """Each method's key: see `method_key`."""
    next_number: int
    """The first one that is free."""


def instrument(source: bytes, first: int) -> Instrumented:
    """A file whose statements and methods have the numbers from `first` on."""
    writer = _Writer(source, first)
    writer.visit(parse(source))
    return Instrumented(writer.result(), writer.statements, writer.methods, writer.number)


def method_key(method: Node) -> str:
    """What tells a method from all others of its file, wherever it stands."""
    parts: list[str] = []
    around: Node | None = method
    while around is not None:
        if around.type in CLASSES | METHODS:
            name, given = (around.child_by_field_name(each) for each in ("name", "parameters"))
            shown = [text_of(each) for each in (name, given) if each is not None]
            parts.append("".join(shown))
        around = around.parent
    return ".".join(reversed(parts))


def methods_at(source: bytes, lines: tuple[int, int]) -> list[str]:
    """The keys of the methods that begin at the first of these lines and end at the last."""
    return [
        method_key(node)
        for node in walk(parse(source))
        if node.type in METHODS and (line_of(node), node.end_point.row + 1) == lines
    ]


@dataclass
class _Writer:
    """Collects what to put in where."""

    source: bytes
    number: int
    statements: dict[int, int] = field(default_factory=dict)
    methods: dict[int, str] = field(default_factory=dict)
    opening: list[tuple[int, str]] = field(default_factory=list)
    closing: list[tuple[int, str]] = field(default_factory=list)

    def visit(self, root: Node) -> None:
        for node in walk(root):
            if node.type in METHODS:
                self._method(node)
            if node.type in _BLOCKS:
                self._block(node)
            if node.type in _BRANCHING:
                self._branches(node)

    def _method(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is None:
            return
        first = next(iter(body.named_children), None)
        calls_other = first is not None and first.type == "explicit_constructor_invocation"
        place = first.end_byte if first is not None and calls_other else body.start_byte + 1
        self.methods[self.number] = method_key(node)
        self._put(place, "enter")

    def _block(self, node: Node) -> None:
        for child in node.named_children:
            if child.type not in _NO_STATEMENTS:
                self.statements[self.number] = line_of(child)
                self._put(child.start_byte, "at")

    def _branches(self, node: Node) -> None:
        """A branch or loop without braces gets some."""
        for name in _BODIES:
            body = node.child_by_field_name(name)
            if body is not None and body.type not in _BLOCKS | _DECLARATIONS:
                self.statements[self.number] = line_of(body)
                self.opening.append((body.start_byte, "{"))
                self._put(body.start_byte, "at")
                self.closing.append((body.end_byte, "}"))

    def _put(self, place: int, what: str) -> None:
        self.opening.append((place, f" {TRACE}.{what}({self.number}); "))
        self.number += 1

    def result(self) -> bytes:
        # At one place, what ends there comes first, the innermost before what is around it.
        ends = [(place, 0, -order, text) for order, (place, text) in enumerate(self.closing)]
        starts = [(place, 1, order, text) for order, (place, text) in enumerate(self.opening)]
        parts: list[bytes] = []
        position = 0
        for place, _, _, text in sorted([*ends, *starts]):
            parts += [self.source[position:place], text.encode()]
            position = place
        return b"".join([*parts, self.source[position:]])
