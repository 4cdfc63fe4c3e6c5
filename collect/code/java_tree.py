"""Java syntax trees, with tree-sitter."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import tree_sitter_java
from tree_sitter import Language, Node, Parser

from collect.code.syntax import FunctionRange, Mutation


def words(text: str) -> frozenset[str]:
    """A set of names, from a text with blanks between them."""
    return frozenset(text.split())


LANGUAGE = Language(tree_sitter_java.language())
INTEGER = "decimal_integer_literal"
LITERALS = words(f"{INTEGER} decimal_floating_point_literal hex_integer_literal")


def parse(source: bytes) -> Node:
    """The root; unparsable code becomes nodes of type ERROR."""
    return Parser(LANGUAGE).parse(source).root_node


def walk(node: Node) -> Iterator[Node]:
    """A node and its named descendants, in text order."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.named_children)


def code_lines(source: bytes) -> Mapping[int, str]:
    """The tokens of each line that has any, without comments and white space."""
    lines = defaultdict[int, list[str]](list)
    pending = [parse(source)]
    while pending:
        node = pending.pop()
        if node.child_count:
            pending += reversed(node.children)
        elif not node.type.endswith("comment"):
            for row, part in enumerate(text_of(node).split("\n"), line_of(node)):
                lines[row].append(part)
    return {row: " ".join(parts) for row, parts in lines.items()}


def line_of(node: Node) -> int:
    """The line where a node starts, from 1."""
    return node.start_point.row + 1


def text_of(node: Node | None) -> str:
    return ((node.text if node else None) or b"").decode("utf-8", "replace")


def fields(node: Node | None, *names: str) -> list[Node]:
    """A node's children by their field names in the grammar; empty if it lacks one of them."""
    found = [node.child_by_field_name(name) if node is not None else None for name in names]
    there = [each for each in found if each is not None]
    return there if len(there) == len(names) else []


def field_text(node: Node, name: str) -> str:
    """The text of a node's child; empty if it has none of this field name."""
    return text_of(node.child_by_field_name(name))


def called_name(call: Node) -> str:
    return field_text(call, "name")


def has_modifier(declaration: Node, word: str) -> bool:
    """Whether a declaration says `final`, `abstract` or the like."""
    modifiers = [child for child in declaration.children if child.type == "modifiers"]
    return any(word in text_of(each).split() for each in modifiers)


def declarators(node: Node) -> list[Node]:
    return node.children_by_field_name("declarator")


def declared_in(node: Node) -> Iterator[tuple[str, str]]:
    """The variables, fields or parameters that a node declares, with their type."""
    for its_type in fields(node, "type"):
        for declared in (node, *declarators(node)):
            yield from ((text_of(name), text_of(its_type)) for name in fields(declared, "name"))


def declared_types(root: Node) -> dict[str, str]:
    """Types of variables and fields by name, without generics; no names with several types."""
    types = defaultdict[str, set[str]](set)
    for node in walk(root):
        for name, kind in declared_in(node) if node.type != "method_declaration" else ():
            types[name].add(kind.partition("<")[0])
    return {name: kinds.pop() for name, kinds in types.items() if len(kinds) == 1}


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
LABELS = {"method_invocation": "name", "field_access": "field", "resource": "name"}
"""Fields that hold a name rather than a value."""
_EXCHANGED = {"<": "<=", ">": ">=", "==": "!=", "&&": "||", "+": "-"}
SWAPPED = _EXCHANGED | {b: a for a, b in _EXCHANGED.items()} | {"*": "+", "/": "*", "%": "/"}
FLIPPED = {"true": "false", "false": "true"}
LOOPS = words("while_statement do_statement for_statement")
NUMBERS = words("int long double float short byte char Integer Long Double")
GIVE_NUMBERS = words("size length indexOf abs intValue")
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
        self._types = declared_types(root)

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
        found = {}
        for name, node in _functions(self._root, ""):
            line = line_of(node.child_by_field_name("name") or node)
            found[FunctionRange(name, line_of(node), line, node.end_point.row + 1)] = node
        return found

    def stops(self, function: FunctionRange | None) -> list[int]:
        found = set()
        pending = [] if function is None else [self._nodes[function]]
        while pending:
            node = pending.pop()
            if _is_stop(node):
                found.add(line_of(node))
            pending += [child for child in node.named_children if child.type != "class_body"]
        return sorted(found)

    def probes(self, line: int, function: str = "") -> list[str]:
        """Pure expressions at a line, larger ones before their parts."""
        at_line = self._at_line(line)
        bodies = [node for node in at_line if _is_lambda(node)]
        if not function.endswith(LAMBDA) or not bodies:
            bodies = [node for node in at_line if not _is_lambda(node)]
        found: dict[str, None] = {}
        for statement in bodies:
            # Names that the statement declares have no value before it.
            parts = [each for node in walk(statement) for each in declarators(node)]
            parts += [statement] if statement.type == "enhanced_for_statement" else []
            declared = {field_text(each, "name") for each in parts}
            for header in _headers(statement):
                for node in _same_scope(header):
                    if self._is_worth_it(node, declared):
                        found[_one_line(node)] = None
        return list(found)

    def assigned(self, line: int) -> list[str]:
        """Assignment targets at a line that can be read without effect."""
        targets: list[Node] = []
        for statement in self._at_line(line):
            if statement.type == "local_variable_declaration":
                targets += [n for each in declarators(statement) for n in fields(each, "name")]
            elif statement.type == "expression_statement":
                expression = statement.named_children[0]
                if expression.type == "assignment_expression":
                    targets += fields(expression, "left")
                elif expression.type == "update_expression":
                    targets += expression.named_children[:1]
        return [_one_line(target) for target in targets if self._is_pure(target)]

    def mutations(self, function: FunctionRange) -> Iterator[Mutation]:
        source = self._root.text or b""
        for node in walk(self._nodes[function]):
            operator = node.child_by_field_name("operator")
            changed, text, differs = node, "", "true"
            if operator is not None and self._can_swap(node):
                changed, text = operator, SWAPPED[text_of(operator)]
                differs = self._differs(node, text)
            elif node.type == INTEGER and text_of(node) in set("0123456789"):
                # A switch may already have the next label.
                is_label = _parent_type(node) == "switch_label"
                text = "" if is_label else str(int(text_of(node)) + 1)
            elif node.type in FLIPPED:
                around = node.parent
                if around is not None and around.type == "parenthesized_expression":
                    around = around.parent
                # An endless loop makes later code unreachable.
                in_loop = around is not None and around.type in LOOPS
                text = "" if in_loop else FLIPPED[node.type]
            elif node.type == "expression_statement" and _parent_type(node) != "switch_rule":
                # A one-line call whose result is unused can be deleted.
                called = node.named_children[0].type == "method_invocation"
                text = ";" if called and node.start_point.row == node.end_point.row else ""
                differs = ""
            if text:
                new = source[: changed.start_byte] + text.encode() + source[changed.end_byte :]
                differs = "" if _may_not_run(node) else differs
                yield Mutation(line_of(changed), new.decode("utf-8", "replace"), differs)

    def _differs(self, node: Node, operator: str) -> str:
        if not self._is_pure(node):
            return ""
        left, right = map(_one_line, fields(node, "left", "right"))
        return f"({_one_line(node)}) != (({left}) {operator} ({right}))"

    def _at_line(self, line: int) -> list[Node]:
        return [node for node in walk(self._root) if _is_stop(node) and line_of(node) == line]

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
        receiver, called = call.child_by_field_name("object"), called_name(call)
        if receiver is None:
            return False
        if text_of(receiver) == "Math":
            return True
        kind = self._types.get(text_of(receiver).removeprefix("this."), "")
        if receiver.type == "string_literal":
            kind = "String"
        # A linked map may reorder itself on reads.
        reorders = kind == "Map" and called == "get"
        return kind in READABLE and called in READING and not reorders

    def _can_swap(self, node: Node) -> bool:
        if node.type != "binary_expression":
            return False
        left, operator, right = fields(node, "left", "operator", "right")
        sign = text_of(operator)
        if left.end_point.row != right.start_point.row or sign not in SWAPPED:
            return False
        if sign in ("&&", "||"):
            # A pattern variable may be bound on one side only.
            return all(part.type != "instanceof_expression" for part in walk(node))
        return sign != "+" or (self._is_number(left) and self._is_number(right))

    def _is_number(self, node: Node) -> bool:
        """Whether it is certainly a number: strings can be added but not subtracted."""
        if node.type == "identifier":
            return self._types.get(text_of(node)) in NUMBERS
        if node.type in ("parenthesized_expression", "binary_expression"):
            return all(map(self._is_number, node.named_children))
        if node.type == "method_invocation":
            return called_name(node) in GIVE_NUMBERS
        return node.type in LITERALS


def _functions(node: Node, prefix: str) -> Iterator[tuple[str, Node]]:
    anonymous = 0
    for child in node.named_children:
        inner = prefix
        named = field_text(child, "name")
        if child.type in TYPES:
            inner = f"{prefix}{named}."
        elif child.type == "class_body" and node.type == "object_creation_expression":
            anonymous += 1
            inner = f"{prefix}{anonymous}."
        elif child.type in METHODS and _has_code(child):
            yield f"{prefix}{METHODS[child.type] or named}", child
        elif child.type in INITIALISED and _has_code(child):
            own = child.type == "field_declaration" and not has_modifier(child, "static")
            yield f"{prefix}{'<init>' if own else '<clinit>'}", child
        elif child.type == "block" and node.type == "class_body":
            yield f"{prefix}<init>", child
        yield from _functions(child, inner)


def _has_code(node: Node) -> bool:
    if node.type in ("field_declaration", "constant_declaration"):
        return _has_values(node)
    part = "arguments" if node.type == "enum_constant" else "body"
    return node.type == "static_initializer" or node.child_by_field_name(part) is not None


def _has_values(declaration: Node) -> bool:
    return any(fields(each, "value") for each in declarators(declaration))


def _is_stop(node: Node) -> bool:
    if node.type == "local_variable_declaration":
        return _parent_type(node) != "for_statement" and _has_values(node)
    if node.type == "switch_expression":
        return _parent_type(node) in ("block", "switch_block_statement_group")
    initialises = node.type in INITIALISED and _has_code(node)
    return node.type in STOPPABLE or initialises or _is_lambda(node)


def _is_lambda(node: Node) -> bool:
    parent = node.parent
    if parent is None or parent.type != "lambda_expression" or node.type == "block":
        return False
    return node == parent.child_by_field_name("body")


def _may_not_run(node: Node) -> bool:
    """Whether its statement may be executed without it, or in another scope."""
    while node.parent is not None and not _is_stop(node):
        around = node.parent
        operator = field_text(around, "operator")
        guarded = around.type == "ternary_expression" or operator in ("&&", "||")
        if around.type == "lambda_expression" or (guarded and node != around.named_children[0]):
            return True
        node = around
    return False


def _parent_type(node: Node) -> str:
    return node.parent.type if node.parent is not None else ""


def _headers(statement: Node) -> Iterator[Node]:
    """The expressions that a statement evaluates first; for an assignment, its right side."""
    values = [statement]
    if statement.type.endswith("_declaration"):
        values = [value for each in declarators(statement) for value in fields(each, "value")]
    elif statement.type in HEADERS:
        values = [value for name in HEADERS[statement.type] for value in fields(statement, name)]
    elif statement.type.endswith("_statement"):
        values = statement.named_children[:1]
    for value in values:
        is_assignment = value.type == "assignment_expression"
        yield from fields(value, "right") if is_assignment else [value]


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
    if parent.type in LABELS:
        return node == parent.child_by_field_name(LABELS[parent.type])
    return parent.type in ("variable_declarator", "method_reference", "labeled_statement")


def _is_type(node: Node) -> bool:
    """Whether it is a class by Java's naming convention, or a stream of `System`."""
    text = text_of(node)
    if node.type == "identifier":
        return text[:1].isupper() and not re.fullmatch(r"[A-Z][A-Z0-9_]*", text)
    return node.type == "field_access" and text in ("System.out", "System.err", "System.in")


def _one_line(node: Node) -> str:
    """The expression on one line. Line breaks occur only between tokens: Java strings hold none."""
    text = text_of(node)
    return re.sub(r"\s+", " ", text) if "\n" in text else text
