"""Reads Java source for the oracle, with tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from tree_sitter import Node

from collect.code.java_tree import (
    INTEGER,
    LITERALS,
    called_name,
    declarators,
    declared_name,
    declared_types,
    line_of,
    parse,
    text_of,
    walk,
    words,
)
from collect.code.reading import FunctionRange, Mutation

# What the oracle looks at inside a Java statement.


LOOKED_AT = words(
    "identifier field_access array_access binary_expression unary_expression instanceof_expression "
    "ternary_expression method_invocation"
)
PURE = words(
    "parenthesized_expression cast_expression argument_list this true false null_literal "
    "character_literal string_literal string_fragment escape_sequence type_identifier "
    "scoped_type_identifier integral_type floating_point_type boolean_type"
)
READABLE = words(
    "String StringBuilder List ArrayList LinkedList Map HashMap TreeMap Set HashSet TreeSet Deque "
    "ArrayDeque Queue Collection BigDecimal LocalDate"
)
"""JDK types whose reading methods change nothing, as named in declarations."""
READING = words(
    "size length isEmpty charAt contains containsKey containsValue get equals indexOf lastIndexOf "
    "startsWith endsWith substring peek peekFirst peekLast compareTo signum"
)
HEADERS = {
    "for_statement": ("init", "condition"),
    "if_statement": ("condition",),
    "while_statement": ("condition",),
    "switch_expression": ("condition",),
    "enhanced_for_statement": ("value",),
    "enum_constant": ("arguments",),
}
"""Fields that hold a statement's expressions, if they are not at its start."""
OWN_SCOPE = {"lambda_expression", "class_body", "block", "switch_block"}
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")
WHITE = re.compile(r"\s+")


class JavaExpressions:
    """The expressions of one file."""

    def __init__(self, root: Node) -> None:
        self._types = declared_types(root)

    def probes(self, statements: Iterable[Node]) -> list[str]:
        """Pure expressions in statements, larger ones before their parts."""
        found: dict[str, None] = {}
        for statement in statements:
            declared = _declared_in(statement)
            for header in _headers(statement):
                for node in _same_scope(header):
                    if self._is_worth_it(node, declared):
                        found[_one_line(node)] = None
        return list(found)

    def assigned(self, statements: Iterable[Node]) -> list[str]:
        """Assignment targets that can be read without effect."""
        targets: list[Node] = []
        for statement in statements:
            if statement.type == "local_variable_declaration":
                targets += [name for name in map(declared_name, declarators(statement)) if name]
            elif statement.type == "expression_statement":
                targets += _targets(statement.named_children[0])
        return [_one_line(target) for target in targets if self._is_pure(target)]

    def _is_worth_it(self, node: Node, declared: set[str]) -> bool:
        names = {text_of(part) for part in walk(node) if part.type == "identifier"}
        if node.type not in LOOKED_AT or names & declared or _is_type(node):
            return False
        return not _is_label(node) and self._is_pure(node)

    def _is_pure(self, node: Node) -> bool:
        return all(
            part.type in PURE | LOOKED_AT | LITERALS
            and (part.type != "method_invocation" or self._only_reads(part))
            for part in walk(node)
        )

    def _only_reads(self, call: Node) -> bool:
        receiver = call.child_by_field_name("object")
        if receiver is None:
            return False
        if text_of(receiver) == "Math":
            return True
        if receiver.type == "string_literal":
            return called_name(call) in READING
        name = text_of(receiver).removeprefix("this.")
        # A linked map may reorder itself on reads.
        reorders = self._types.get(name) == "Map" and called_name(call) == "get"
        return self._types.get(name) in READABLE and called_name(call) in READING and not reorders


def _headers(statement: Node) -> list[Node]:
    """The expressions that a statement evaluates first; for an assignment, its right side."""
    if statement.type.endswith("_declaration"):
        values = [each.child_by_field_name("value") for each in declarators(statement)]
    elif statement.type in HEADERS:
        values = [statement.child_by_field_name(name) for name in HEADERS[statement.type]]
    elif statement.type.endswith("_statement"):
        values = [*statement.named_children[:1]]
    else:
        values = [statement]
    return [_assigned_value(value) for value in values if value is not None]


def _assigned_value(expression: Node) -> Node:
    value = expression.child_by_field_name("right")
    is_assignment = expression.type == "assignment_expression"
    return value if is_assignment and value is not None else expression


def _declared_in(statement: Node) -> set[str]:
    """Names that a statement declares: they have no value before it."""
    names = [declared_name(each) for node in walk(statement) for each in declarators(node)]
    header = statement.type in ("for_statement", "enhanced_for_statement")
    own = statement.child_by_field_name("name") if header else None
    return {text_of(name) for name in [own, *names] if name is not None}


def _same_scope(node: Node) -> Iterator[Node]:
    """The node and its parts, larger ones first, without inner scopes, whose names differ."""
    level = [node]
    while level:
        yield from level
        level = [
            child
            for parent in level
            for child in parent.named_children
            if child.type not in OWN_SCOPE
        ]


def _is_label(node: Node) -> bool:
    """Whether an identifier names a method, another object's field or an assignment target."""
    parent = node.parent
    if parent is None or node.type != "identifier":
        return False
    if parent.type == "method_invocation":
        return node == parent.child_by_field_name("name")
    if parent.type == "field_access":
        return node == parent.child_by_field_name("field")
    if parent.type == "resource":
        return node == parent.child_by_field_name("name")
    return parent.type in ("variable_declarator", "method_reference", "labeled_statement")


def _is_type(node: Node) -> bool:
    """Whether it is a class by Java's naming convention, or a stream of `System`."""
    text = text_of(node)
    if node.type == "identifier":
        return text[:1].isupper() and not CONSTANT.fullmatch(text)
    return node.type == "field_access" and text in ("System.out", "System.err", "System.in")


def _targets(expression: Node) -> list[Node]:
    if expression.type == "assignment_expression":
        left = expression.child_by_field_name("left")
        return [left] if left is not None else []
    return expression.named_children[:1] if expression.type == "update_expression" else []


def _one_line(node: Node) -> str:
    """The expression on one line. Line breaks occur only between tokens: Java strings hold none."""
    text = text_of(node)
    return WHITE.sub(" ", text) if "\n" in text else text


# Java source with one small change, for wrong candidate patches.


SWAPPED = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "&&": "||",
    "||": "&&",
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "%": "/",
}
FLIPPED = {"true": "false", "false": "true"}
LOOPS = words("while_statement do_statement for_statement")
NUMBERS = words("int long double float short byte char Integer Long Double")
GIVE_NUMBERS = words("size length indexOf abs intValue")
SMALL_NUMBERS = set("0123456789")


def mutations(root: Node, function: Node) -> Iterator[Mutation]:
    """The file of `root` with one change in a function, such that it still compiles."""
    source = root.text or b""
    types = declared_types(root)
    for node in walk(function):
        operator = node.child_by_field_name("operator")
        if operator is not None and _can_swap(node, types):
            yield _replaced(source, operator, SWAPPED[text_of(operator)])
        elif node.type == INTEGER and _is_free(node):
            yield _replaced(source, node, str(int(text_of(node)) + 1))
        elif node.type in FLIPPED and not _is_loops_condition(node):
            yield _replaced(source, node, FLIPPED[node.type])
        elif _is_lone_call(node):
            yield _replaced(source, node, ";")


def _replaced(source: bytes, node: Node, text: str) -> Mutation:
    changed = source[: node.start_byte] + text.encode() + source[node.end_byte :]
    return Mutation(line_of(node), changed.decode("utf-8", "replace"))


def _is_free(literal: Node) -> bool:
    """Whether another small number is allowed there: a switch may already have that label."""
    is_label = literal.parent is not None and literal.parent.type == "switch_label"
    return text_of(literal) in SMALL_NUMBERS and not is_label


def _is_loops_condition(literal: Node) -> bool:
    """Whether the literal is a loop's condition: an endless loop makes later code unreachable."""
    around = literal.parent
    if around is not None and around.type == "parenthesized_expression":
        around = around.parent
    return around is not None and around.type in LOOPS


def _is_lone_call(statement: Node) -> bool:
    """Whether it is a one-line call whose result is unused, so that it can be deleted."""
    if statement.type != "expression_statement" or statement.parent is None:
        return False
    called = statement.named_children[0].type == "method_invocation"
    one_line = statement.start_point.row == statement.end_point.row
    return called and one_line and statement.parent.type != "switch_rule"


def _can_swap(node: Node, types: Mapping[str, str]) -> bool:
    left, operator, right = (
        node.child_by_field_name(name) for name in ("left", "operator", "right")
    )
    if node.type != "binary_expression" or left is None or operator is None or right is None:
        return False
    if left.end_point.row != right.start_point.row or text_of(operator) not in SWAPPED:
        return False
    if text_of(operator) in ("&&", "||"):
        # A pattern variable may be bound on one side only.
        return all(part.type != "instanceof_expression" for part in walk(node))
    both = (left, right)
    return text_of(operator) != "+" or all(_is_number(side, types) for side in both)


def _is_number(node: Node, types: Mapping[str, str]) -> bool:
    """Whether it is certainly a number: strings can be added but not subtracted."""
    if node.type == "identifier":
        return types.get(text_of(node)) in NUMBERS
    if node.type in ("parenthesized_expression", "binary_expression"):
        return all(_is_number(part, types) for part in node.named_children)
    if node.type == "method_invocation":
        return called_name(node) in GIVE_NUMBERS
    return node.type in LITERALS


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
"""Maps node types to the debugger's function name; empty for the node's own name."""
INITIALISED = {"field_declaration", "constant_declaration", "enum_constant"}
LAMBDA = "<lambda>"
"""The debugger's name for a lambda's body, after the name of its function."""
STOPPABLE = words(
    "expression_statement if_statement while_statement for_statement enhanced_for_statement "
    "return_statement throw_statement yield_statement assert_statement break_statement "
    "continue_statement synchronized_statement try_with_resources_statement "
    "explicit_constructor_invocation"
)
"""Nodes whose first line holds code, except those that `_is_stop` handles."""


class JavaSource:
    """One Java file. Syntax errors are skipped."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._expressions = JavaExpressions(root)

    @classmethod
    def read(cls, data: bytes) -> JavaSource | None:
        """The file, or None if no type in it can be read."""
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
        """Lines of its statements and lambdas, without inner classes."""
        if function is None:
            return []
        node = self._nodes[function]
        return sorted({line_of(stop) for stop in _stops(node)})

    def probes(self, line: int, function: str = "") -> list[str]:
        """Pure expressions at a line, larger ones before their parts."""
        at_line = self._at_line(line)
        bodies = [node for node in at_line if _is_lambda(node)]
        statements = [node for node in at_line if not _is_lambda(node)]
        inside = function.endswith(LAMBDA) and bodies
        return self._expressions.probes(bodies if inside else statements)

    def assigned(self, line: int) -> list[str]:
        """Assignment targets at a line."""
        return self._expressions.assigned(self._at_line(line))

    def mutations(self, function: FunctionRange) -> Iterator[Mutation]:
        """The file with one small change, such that it still compiles."""
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
    """Whether it is the expression body of a lambda."""
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
