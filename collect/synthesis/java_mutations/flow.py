"""Mutations of conditions, statements and branches: wrong, missing, or in another order."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from collect.code.java_tree import called_name, text_of, walk, words
from collect.synthesis.java_mutations.base import Edit, JavaKind, field_of, removed, replaced
from collect.synthesis.java_mutations.variables import Variables

_BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OPPOSITES = {"==": "!=", "!=": "=="}
_BOOLEANS = {"&&": "||", "||": "&&"}
_TRUTHS = words("method_invocation identifier field_access instanceof_expression")


def _off_by_one_bound(node: Node, variables: Variables) -> Iterator[Edit]:
    operator = field_of(node, "operator")
    if operator is not None and text_of(operator) in _BOUNDS:
        yield replaced(operator, _BOUNDS[text_of(operator)])


def _negated_condition(node: Node, variables: Variables) -> Iterator[Edit]:
    condition = _condition(node)
    if condition is None:
        return
    operator = field_of(condition, "operator")
    if condition.type == "unary_expression" and operator is not None and text_of(operator) == "!":
        operand = field_of(condition, "operand")
        if operand is not None and operand.type in _TRUTHS - {"instanceof_expression"}:
            yield replaced(condition, text_of(operand))
    elif condition.type == "binary_expression" and operator is not None:
        if text_of(operator) in _OPPOSITES:
            yield replaced(operator, _OPPOSITES[text_of(operator)])
    elif condition.type == "instanceof_expression":
        yield replaced(condition, f"!({text_of(condition)})")
    elif condition.type in _TRUTHS:
        yield replaced(condition, f"!{text_of(condition)}")


def _condition(node: Node) -> Node | None:
    """The condition of an if, a loop or a ternary, without parentheses."""
    condition = field_of(node, "condition")
    if condition is not None and condition.type == "parenthesized_expression":
        inner = condition.named_children
        return inner[0] if len(inner) == 1 else None
    return condition


def _wrong_boolean_operator(node: Node, variables: Variables) -> Iterator[Edit]:
    operator = field_of(node, "operator")
    if operator is not None and text_of(operator) in _BOOLEANS and not _binds(node):
        yield replaced(operator, _BOOLEANS[text_of(operator)])


def _dropped_condition(node: Node, variables: Variables) -> Iterator[Edit]:
    left, operator, right = (field_of(node, name) for name in ("left", "operator", "right"))
    if left is None or operator is None or right is None:
        return
    if text_of(operator) in _BOOLEANS and not _binds(node):
        yield Edit(left.end_byte, right.end_byte, "")
        yield Edit(left.start_byte, right.start_byte, "")


def _binds(node: Node) -> bool:
    """Whether a pattern in it binds a variable that other parts use."""
    return any(
        part.type == "instanceof_expression" and field_of(part, "name") is not None
        for part in walk(node)
    )


def _reference_equality(node: Node, variables: Variables) -> Iterator[Edit]:
    receiver, arguments = field_of(node, "object"), field_of(node, "arguments")
    if called_name(node) != "equals" or receiver is None or arguments is None:
        return
    given = [text_of(argument) for argument in arguments.named_children]
    both = given if text_of(receiver) == "Objects" else [text_of(receiver), *given]
    if len(both) != 2:
        return
    negated = node.parent if node.parent and node.parent.type == "unary_expression" else None
    if negated is not None:
        yield replaced(negated, f"{both[0]} != {both[1]}")
    else:
        yield replaced(node, f"{both[0]} == {both[1]}")


def _reversed_comparison(node: Node, variables: Variables) -> Iterator[Edit]:
    receiver, arguments = field_of(node, "object"), field_of(node, "arguments")
    if receiver is None or arguments is None:
        return
    given = arguments.named_children
    if called_name(node) == "compareTo" and len(given) == 1 and given[0].type in _TRUTHS:
        yield replaced(node, f"{text_of(given[0])}.compareTo({text_of(receiver)})")
    elif called_name(node) == "compare" and len(given) == 2:
        swapped = f"{text_of(given[1])}, {text_of(given[0])}"
        yield Edit(given[0].start_byte, given[1].end_byte, swapped)


def _lossy_comparison(node: Node, variables: Variables) -> Iterator[Edit]:
    """Compare by a difference cast to int: it overflows, and loses fractions."""
    receiver, arguments = field_of(node, "object"), field_of(node, "arguments")
    if receiver is None or arguments is None or called_name(node) != "compare":
        return
    given = arguments.named_children
    if len(given) == 2 and text_of(receiver) in ("Long", "Double"):
        yield replaced(node, f"(int) ({text_of(given[0])} - {text_of(given[1])})")


_BINARY = frozenset({"binary_expression"})
_CALL = frozenset({"method_invocation"})
CONDITIONS_KINDS = (
    JavaKind("off_by_one_bound", "boundary", _BINARY, _off_by_one_bound),
    JavaKind(
        "negated_condition",
        "condition",
        words("if_statement while_statement ternary_expression"),
        _negated_condition,
    ),
    JavaKind("wrong_boolean_operator", "condition", _BINARY, _wrong_boolean_operator),
    JavaKind("dropped_condition", "absence", _BINARY, _dropped_condition),
    JavaKind("reference_equality", "data", _CALL, _reference_equality),
    JavaKind("reversed_comparison", "order", _CALL, _reversed_comparison),
    JavaKind("lossy_comparison", "unit", _CALL, _lossy_comparison),
)


_LEAVING = words("return_statement continue_statement break_statement throw_statement")
_BLOCKS = words("block constructor_body switch_block_statement_group")
_LOOPS = words("for_statement enhanced_for_statement while_statement do_statement")
_CHANGING = words("assignment_expression update_expression method_invocation")


def _only_statement(body: Node | None) -> Node | None:
    """The single statement of a branch, with or without a block."""
    if body is None or body.type != "block":
        return body
    inner = [child for child in body.named_children if not child.type.endswith("comment")]
    return inner[0] if len(inner) == 1 else None


def _dropped_guard(node: Node, variables: Variables) -> Iterator[Edit]:
    """A special case is not handled, or wrong input is accepted."""
    inside = node.parent is not None and node.parent.type in _BLOCKS
    leaves = _only_statement(field_of(node, "consequence"))
    if not inside or leaves is None or field_of(node, "alternative") is not None:
        return
    if leaves.type in _LEAVING:
        yield removed(node)


def _dropped_branch(node: Node, variables: Variables) -> Iterator[Edit]:
    """An `else` is missing, or the first of several cases."""
    body, other = field_of(node, "consequence"), field_of(node, "alternative")
    if body is None or other is None:
        return
    yield Edit(body.end_byte, other.end_byte, "")
    if other.type == "if_statement":
        yield Edit(node.start_byte, other.start_byte, "")


def _unconditional(node: Node, variables: Variables) -> Iterator[Edit]:
    """A conditional statement runs always."""
    body = _only_statement(field_of(node, "consequence"))
    inside = node.parent is not None and node.parent.type in _BLOCKS
    if not inside or body is None or field_of(node, "alternative") is not None:
        return
    if body.type == "expression_statement":
        yield replaced(node, text_of(body))


def _swapped_branches(node: Node, variables: Variables) -> Iterator[Edit]:
    one, other = field_of(node, "consequence"), field_of(node, "alternative")
    if one is None or other is None or other.type == "if_statement":
        return
    if one.start_point.row == one.end_point.row or node.type == "ternary_expression":
        yield Edit(one.start_byte, other.end_byte, _exchanged(node, one, other))


def _exchanged(node: Node, one: Node, other: Node) -> str:
    data = node.text or b""
    between = data[one.end_byte - node.start_byte : other.start_byte - node.start_byte]
    return text_of(other) + between.decode() + text_of(one)


def _wrong_loop_control(node: Node, variables: Variables) -> Iterator[Edit]:
    if node.type == "continue_statement" and not node.named_children:
        yield replaced(node, "break;")
    elif node.type == "break_statement" and not node.named_children and _in_loop(node):
        yield replaced(node, "continue;")


def _in_loop(node: Node) -> bool:
    around = node.parent
    while around is not None and around.type not in _LOOPS:
        if around.type.startswith("switch") or around.type.endswith("_declaration"):
            return False
        around = around.parent
    return around is not None


def _missing_break(node: Node, variables: Variables) -> Iterator[Edit]:
    """A case falls through into the next one."""
    if node.named_children or node.parent is None:
        return
    group = node.parent.parent if node.parent.type == "block" else node.parent
    if group is not None and group.type == "switch_block_statement_group":
        following = group.next_named_sibling
        if following is not None and following.type == "switch_block_statement_group":
            yield removed(node)


def _early_return(node: Node, variables: Variables) -> Iterator[Edit]:
    """A loop ends after its first iteration, because the return moved inside."""
    following = node.next_named_sibling
    body = field_of(node, "body")
    if following is None or following.type != "return_statement" or body is None:
        return
    if body.type != "block" or not body.named_children or not following.named_children:
        return
    last = body.named_children[-1]
    if last.type in _LEAVING or any(part.type in _LEAVING for part in walk(last)):
        return
    margin = " " * last.start_point.column
    yield Edit(last.end_byte, last.end_byte, f"\n{margin}{text_of(following)}")


def _skipped_cleanup(node: Node, variables: Variables) -> Iterator[Edit]:
    """The body of `finally` runs only without an error, or not at all."""
    before = node.prev_sibling
    if before is not None and before.type == "catch_clause":
        yield Edit(before.end_byte, node.end_byte, "")


def _swapped_statements(node: Node, variables: Variables) -> Iterator[Edit]:
    """Two steps run in the wrong order."""
    following = node.next_named_sibling
    if following is None or following.type != "expression_statement":
        return
    if node.parent is None or node.parent.type not in _BLOCKS:
        return
    one, other = node.named_children[0], following.named_children[0]
    if not {one.type, other.type} <= _CHANGING or not _names(one) & _names(other):
        return
    whole = node.parent
    data = whole.text or b""
    between = data[node.end_byte - whole.start_byte : following.start_byte - whole.start_byte]
    text = text_of(following) + between.decode() + text_of(node)
    yield Edit(node.start_byte, following.end_byte, text)


def _names(node: Node) -> set[str]:
    return {text_of(part) for part in walk(node) if part.type == "identifier"}


_IF = frozenset({"if_statement"})
FLOW_KINDS = (
    JavaKind("dropped_guard", "absence", _IF, _dropped_guard),
    JavaKind("dropped_branch", "absence", _IF, _dropped_branch),
    JavaKind("unconditional", "absence", _IF, _unconditional),
    JavaKind(
        "swapped_branches", "order", words("if_statement ternary_expression"), _swapped_branches
    ),
    JavaKind(
        "wrong_loop_control",
        "iteration",
        words("break_statement continue_statement"),
        _wrong_loop_control,
    ),
    JavaKind("missing_break", "flow", frozenset({"break_statement"}), _missing_break),
    JavaKind(
        "early_return", "iteration", words("for_statement enhanced_for_statement"), _early_return
    ),
    JavaKind("skipped_cleanup", "exception", frozenset({"finally_clause"}), _skipped_cleanup),
    JavaKind(
        "swapped_statements", "order", frozenset({"expression_statement"}), _swapped_statements
    ),
)
