"""A mutation, the kinds of mistake that make it, and what they read of a program: its syntax nodes,
their positions in the source, and the scopes around them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from types import ModuleType
from typing import Any, TypeVar, get_args, get_type_hints

import libcst as cst
from libcst._nodes.internal import CodegenState
from libcst.metadata import (
    CodePosition,
    MetadataWrapper,
    PositionProvider,
    WhitespaceInclusivePositionProvider,
)

Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]
"""What can replace a node: another node, nothing, or several statements."""
Replacements = Iterator[Replacement]


@dataclass(frozen=True)
class Mutation:
    """One edit of one program: replaces the text of one span."""

    kind: str
    category: str
    line: int
    """First line of the edited statement, or edited part, in the original program, 1-based. Code
    that runs this line reaches the edit, also if a branch or loop starts there."""
    start: int
    """Start of the replaced text, in characters."""
    end: int
    text: str
    scope: str = ""
    """Qualified name of the enclosing function or class, such as `LRUCache.get`; empty at module
    level."""
    scope_lines: tuple[int, int] = (1, 1)
    """First line, with `def` or `class`, and last line of the scope, 1-based."""
    path: str = ""
    """The program's path as passed to `find_project_mutations`."""
    source: str = field(default="", repr=False)

    def apply(self) -> str:
        """The broken program."""
        return self.source[: self.start] + self.text + self.source[self.end :]


def apply_all(mutations: Sequence[Mutation]) -> str:
    """The program with several edits, which are in text order and do not touch."""
    code = mutations[0].source
    for mutation in reversed(mutations):
        code = code[: mutation.start] + mutation.text + code[mutation.end :]
    return code


@dataclass(frozen=True)
class MutationKind:
    """A kind of mistake that programmers and models make."""

    name: str
    """Unique, in lower case with underscores."""
    category: str
    """Its family, one of `finding.CATEGORY_WEIGHTS`."""
    nodes: tuple[Any, ...]
    """The types of node that it handles; their names for Java."""
    find: Callable[[Any, Any], Iterator[Any]]
    """Finds changes of one node, the most likely first; none if the kind does not apply."""


def kind(category: str) -> Callable[[Callable[..., Replacements]], MutationKind]:
    """Make a function a kind of its own name. The type of its parameter `node` tells which nodes it
    handles."""

    def made(find: Callable[..., Replacements]) -> MutationKind:
        handled = get_type_hints(find)["node"]
        return MutationKind(find.__name__, category, get_args(handled) or (handled,), find)

    return made


def kinds_in(*modules: ModuleType) -> list[MutationKind]:
    """The kinds that modules define, in order."""
    members = [member for module in modules for member in vars(module).values()]
    return [member for member in members if isinstance(member, MutationKind)]


# Syntax nodes.

Node = TypeVar("Node", bound=cst.CSTNode)
Valued = TypeVar("Valued", cst.Arg, cst.BaseElement)

MAKERS = ("__init__", "__new__", "__setstate__", "__post_init__")
"""Methods that make a new object."""
_WRITERS = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.Param, cst.NamedExpr, cst.AsName)
# Another variable in place of an attribute mostly has another type, and fails at once.
_NO_READERS = (*_WRITERS, cst.NameItem, cst.FunctionDef, cst.Element, cst.Attribute)


def only(statement: cst.CSTNode | None) -> cst.BaseSmallStatement | None:
    """The line's statement, if it is a single small one."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None


def calls(node: cst.CSTNode, *names: str) -> bool:
    """Whether it calls a function with one of these names, such as `len(x)`."""
    return (
        isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in names
    )


def called_name(node: cst.Call) -> str:
    """The function's or method's name, without its object."""
    if isinstance(node.func, cst.Attribute):
        return node.func.attr.value
    return node.func.value if isinstance(node.func, cst.Name) else ""


def dotted(node: cst.CSTNode) -> str:
    """`a.b.c` for a name or its attributes; else empty."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr.value}" if left else ""
    return ""


def self_attribute(node: cst.CSTNode) -> str:
    """`x` for `self.x`; else empty."""
    match node:
        case cst.Attribute(cst.Name("self" | "cls"), cst.Name(name)):
            return name
    return ""


def is_none(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def is_empty(node: cst.CSTNode) -> bool:
    """Whether it creates an empty container or string."""
    match node:
        case cst.List([]) | cst.Dict([]) | cst.Tuple([]):
            return True
        case cst.Call(cst.Name("set" | "dict" | "list" | "deque" | "Counter"), []):
            return True
    return isinstance(node, cst.SimpleString) and node.raw_value == ""


def targets(statement: cst.CSTNode | None) -> Iterator[cst.BaseExpression]:
    """The targets of an assignment, with tuples unpacked."""
    if isinstance(statement, cst.Assign):
        for target in statement.targets:
            yield from unpacked(target.target)
    elif isinstance(statement, cst.AugAssign) or (
        isinstance(statement, cst.AnnAssign) and statement.value is not None
    ):
        yield statement.target


def unpacked(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts of a tuple or list that is assigned to, at any depth."""
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from unpacked(element.value)
    else:
        yield target


def is_read(node: cst.Name, parent: cst.CSTNode) -> bool:
    """Whether the name is read: not assigned to, called, or the name of an attribute."""
    if isinstance(parent, cst.Call):
        return parent.func is not node
    if isinstance(parent, cst.Arg):
        return parent.value is node
    if isinstance(parent, cst.CompFor | cst.For):
        return parent.iter is node
    return not isinstance(parent, _NO_READERS)


def mentions(node: cst.CSTNode, *names: str) -> bool:
    """Whether one of these names is in the code."""
    if isinstance(node, cst.Name):
        return node.value in names
    return any(mentions(child, *names) for child in node.children)


def minus_one(value: cst.BaseExpression) -> cst.BinaryOperation:
    return cst.BinaryOperation(value, cst.Subtract(), cst.Integer("1"))


def one_way(text: str) -> dict[str, str]:
    """A mapping, from text such as `search match, rfind find`."""
    return dict(pair.split() for pair in text.split(","))


def both_ways(text: str) -> dict[str, str]:
    pairs = one_way(text)
    return pairs | {other: one for one, other in pairs.items()}


def spliced(items: Sequence[cst.CSTNode], at: int, count: int, *new: cst.CSTNode) -> list[Any]:
    """The items, with others in place of `count` of them."""
    return [*items[:at], *new, *items[at + count :]]


def without(items: Sequence[Node], index: int) -> list[Node]:
    """A list's items or a call's arguments without one; the final comma stays as it is."""
    left: list[Node] = spliced(items, index, 1)
    if left and index == len(left):
        last = items[index]
        assert isinstance(
            last, cst.Arg | cst.BaseElement | cst.BaseDictElement | cst.SubscriptElement
        ), last
        left[-1] = left[-1].with_changes(comma=last.comma)
    return left


def exchanged(items: Sequence[Valued], index: int) -> list[Valued]:
    """The items with the values at `index` and after it swapped, but not their commas."""
    changed = list(items)
    first, second = items[index], items[index + 1]
    changed[index] = first.with_changes(value=second.value)
    changed[index + 1] = second.with_changes(value=first.value)
    return changed


# Names that are alike.

MAX_NAMES = 2
"""Limit of other names tried in one place, the most similar first."""
_OPPOSITE_NAMES = """
    start end, start stop, left right, first last, low high, lo hi, min max, minimum maximum,
    lower upper, old new, width height, row column, row col, rows cols, source target, src dst,
    head tail, key value, keys values, prev next, previous current, parent child, prefix suffix,
    before after, succ pred, open close, hits misses, begin end, input output, true false,
    year month, month day, hour minute, minute second
"""
_OPPOSITE_WORDS = [set(pair.split()) for pair in _OPPOSITE_NAMES.split(",")]


def alike(name: str, others: Iterable[str]) -> list[str]:
    """Names that are easily confused with this one, the most similar first."""
    scored = [(likeness(name, other), other) for other in others if other != name]
    scored.sort(key=lambda pair: -pair[0])
    return [other for score, other in scored[:MAX_NAMES] if score >= 0.6]


def likeness(one: str, other: str) -> float:
    """Similarity from 0 to 1."""
    words, other_words = ([w for w in name.lower().split("_") if w] for name in (one, other))
    if len(words) == len(other_words):
        differing = [{a, b} for a, b in zip(words, other_words, strict=True) if a != b]
        if len(differing) == 1 and differing[0] in _OPPOSITE_WORDS:
            return 1.0
        if len(differing) == 1 and len(words) > 1:
            return 0.9
    if len(one) <= 2 and len(other) <= 2:
        # Short neighbouring names: i and j, x and y, a and b, x1 and x2.
        return 0.9 if abs(ord(one[0]) - ord(other[0])) <= 1 or one[0] == other[0] else 0.0
    if one + "s" == other or other + "s" == one:
        return 0.8
    return SequenceMatcher(None, one, other).ratio()


# Positions of syntax nodes in the source, and the text of a replacement.

_LINE_END = re.compile(r"\r\n|\n|\r")
_SPACES = (cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Newline)
_UNRECORDED = (*_SPACES, cst.Comma, cst.Comment, cst.Dot, cst.LeftParen, cst.RightParen)


@dataclass(slots=True, eq=False)
class Place:
    """A node's position. Offsets are in characters."""

    node: cst.CSTNode
    parent: Place | None
    indents: tuple[str, ...]
    index: int
    start: int
    """Start of its text, including its own comments and parentheses."""
    code_start: int
    end: int
    last: int = 0
    """Index after its last descendant."""

    def ancestors(self) -> Iterator[Place]:
        """From the parent up to the module."""
        place = self.parent
        while place is not None:
            yield place
            place = place.parent


class Places:
    """Positions of all nodes of a module in text order, except commas, dots, parentheses and white
    space."""

    def __init__(self, module: cst.Module) -> None:
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self._whole = wrapper.resolve(WhitespaceInclusivePositionProvider)
        self._code = wrapper.resolve(PositionProvider)
        self.source, self.all = module.code, list[Place]()
        self._module = module
        self._line_starts = [0, *(end.end() for end in _LINE_END.finditer(self.source))]
        self._add(module, None, ())

    def _add(self, node: cst.CSTNode, parent: Place | None, indents: tuple[str, ...]) -> None:
        whole, code = self._whole[node], self._code[node]
        start, code_start, end = map(self._offset, (whole.start, code.start, whole.end))
        place = Place(node, parent, indents, len(self.all), start, code_start, end)
        self.all.append(place)
        if isinstance(node, cst.IndentedBlock):
            own = self._module.default_indent if node.indent is None else node.indent
            indents = (*indents, own)
        for child in node.children:
            if not isinstance(child, _UNRECORDED):
                self._add(child, place, indents)
        place.last = len(self.all)

    def _offset(self, position: CodePosition) -> int:
        if position.line > len(self._line_starts):  # libcst ends the last line always.
            return len(self.source)
        return self._line_starts[position.line - 1] + position.column

    def line(self, offset: int) -> int:
        """The line of an offset, 1-based."""
        return bisect_right(self._line_starts, offset)

    def inside(self, place: Place) -> Iterator[Place]:
        return iter(self.all[place.index + 1 : place.last])

    def lines(self, place: Place) -> tuple[int, int]:
        """First and last line of a block's code, without trailing comments."""
        inside = reversed(self.all[place.index : place.last])
        last = next((at for at in inside if isinstance(at.node, cst.BaseSmallStatement)), place)
        return self.line(place.code_start), self.line(last.end)

    def text(self, place: Place, replacement: cst.CSTNode) -> str:
        state = CodegenState(self._module.default_indent, self._module.default_newline)
        state.indent_tokens.extend(place.indents)
        inside_if = place.parent is not None and isinstance(place.parent.node, cst.If)
        if isinstance(replacement, cst.If) and inside_if:
            replacement._codegen(state, is_elif=True)
        else:
            replacement._codegen(state)
        return "".join(state.tokens)


# The context of a mutation.


@dataclass(frozen=True)
class Scope:
    """A function, a class or the module."""

    name: str
    """Qualified name; empty for the module."""
    place: Place
    lines: tuple[int, int]
    """First line, with `def` or `class`, and last line with code."""
    owner: cst.ClassDef | None = None
    """The class that the scope is, or whose method it is."""
    attributes: tuple[str, ...] = ()
    """Names that the owner assigns on `self`, in order."""
    bound: tuple[tuple[str, int], ...] = ()
    """The function's own variables with the lines that bind them; empty in a class."""

    @property
    def function(self) -> cst.FunctionDef | None:
        return self.place.node if isinstance(self.place.node, cst.FunctionDef) else None

    def opened(self, place: Place, places: Places) -> Scope:
        """The scope of a function or class inside this one."""
        node = place.node
        assert isinstance(node, cst.FunctionDef | cst.ClassDef)
        lines = places.lines(place)
        name = f"{self.name}.{node.name.value}".removeprefix(".")
        if isinstance(node, cst.FunctionDef):
            bound = tuple(_bound(place, places))
            return Scope(name, place, lines, self.owner, self.attributes, bound)
        assigned = [self_attribute(t) for each in places.inside(place) for t in targets(each.node)]
        return Scope(name, place, lines, node, tuple(dict.fromkeys(filter(None, assigned))))


def _bound(function: Place, places: Places) -> Iterator[tuple[str, int]]:
    """Parameters and assigned variables with their lines, without those of nested functions."""
    index = function.index + 1
    while index < function.last:
        place = places.all[index]
        node, line = place.node, places.line(place.code_start)
        if isinstance(node, cst.FunctionDef | cst.Lambda):
            index = place.last
            continue
        if isinstance(node, cst.Param) and node.name.value not in ("self", "cls"):
            yield node.name.value, line
        elif isinstance(node, cst.AssignTarget | cst.For):
            for part in unpacked(node.target):
                if isinstance(part, cst.Name):
                    yield part.value, line
        index += 1


@dataclass(frozen=True)
class Surroundings:
    """The context of one node."""

    place: Place
    scope: Scope
    keys: tuple[str, ...]
    """Source of the string literals that the program uses as keys."""
    places: Places = field(repr=False)
    in_project: bool
    """Whether the program is a module of a project, rather than a small one in a single file."""

    @cached_property
    def parents(self) -> tuple[cst.CSTNode, ...]:
        """From the node's parent up to the module."""
        return tuple(place.node for place in self.place.ancestors())

    @property
    def parent(self) -> cst.CSTNode:
        return self.place.parent.node if self.place.parent else self.place.node

    def nearest(self, *types: type[cst.CSTNode]) -> cst.CSTNode | None:
        """The innermost parent of one of these types."""
        return next((parent for parent in self.parents if isinstance(parent, types)), None)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Variables of the enclosing function that are bound on an earlier line, in order."""
        line = self.places.line(self.place.code_start)
        return tuple(dict.fromkeys(name for name, bound in self.scope.bound if bound < line))

    @cached_property
    def siblings(self) -> Sequence[cst.BaseStatement]:
        """The statements in the same indented block as the node, which is a statement."""
        parent = self.parent
        if not isinstance(parent, cst.IndentedBlock):
            return ()
        return [part for part in parent.body if isinstance(part, cst.BaseStatement)]

    def in_scope(self, kind: type[Node]) -> Iterator[Node]:
        """Nodes of a type in the enclosing function, class or module."""
        return self._inside(self.scope.place, kind)

    def in_owner(self, kind: type[Node]) -> Iterator[Node]:
        """Nodes of a type in the enclosing class; none if there is no class."""
        owners = (place for place in self.place.ancestors() if place.node is self.scope.owner)
        return self._inside(next(owners, self.place), kind)

    def _inside(self, place: Place, kind: type[Node]) -> Iterator[Node]:
        inside = (each.node for each in self.places.inside(place))
        return (node for node in inside if isinstance(node, kind))
