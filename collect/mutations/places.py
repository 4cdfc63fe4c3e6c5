"""Where each node of a syntax tree stands in its source, and what another would read like there."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

import libcst as cst
from libcst._nodes.internal import CodegenState

_LINE_END = re.compile(r"\r\n|\n|\r")
_UNRECORDED = (
    cst.BaseParenthesizableWhitespace,
    cst.Comma,
    cst.Comment,
    cst.Dot,
    cst.EmptyLine,
    cst.LeftParen,
    cst.Newline,
    cst.RightParen,
    cst.TrailingWhitespace,
)


class Place:
    """One node's place. Offsets are in characters of the source."""

    __slots__ = ("code_start", "end", "indents", "index", "last", "node", "parent", "start")

    def __init__(
        self, node: cst.CSTNode, parent: Place | None, start: int, indents: tuple[str, ...]
    ) -> None:
        self.node = node
        self.parent = parent
        self.start = start
        """Where its text begins, with the comments and parentheses that are its own."""
        self.code_start = start
        """Where its code begins."""
        self.end = start
        self.indents = indents
        self.index = 0
        self.last = 0
        """Index behind its last descendant."""

    def ancestors(self) -> Iterator[Place]:
        """From the parent up to the module."""
        place = self.parent
        while place is not None:
            yield place
            place = place.parent


class Places:
    """The places of all of a module's nodes, in the order of the text; commas, dots, parentheses
    and white space have none.

    One pass of libcst's code generation gives them all, for a third of the time that its metadata
    providers need: https://libcst.readthedocs.io/en/latest/metadata.html.
    """

    def __init__(self, module: cst.Module) -> None:
        recorder = _Recorder(module)
        module._codegen(recorder)
        self.source = "".join(recorder.tokens)
        self.all = recorder.places
        self._module = module
        self._line_starts = [0, *(end.end() for end in _LINE_END.finditer(self.source))]

    def line(self, offset: int) -> int:
        """The line of an offset, 1-based."""
        return bisect_right(self._line_starts, offset)

    def inside(self, place: Place) -> Iterator[Place]:
        """Its descendants."""
        return iter(self.all[place.index + 1 : place.last])

    def code(self, node: cst.CSTNode) -> str:
        """An expression's text."""
        return self._module.code_for_node(node)

    def text(self, place: Place, replacement: cst.CSTNode) -> str:
        """What the replacement reads like in the place."""
        state = CodegenState(self._module.default_indent, self._module.default_newline)
        state.indent_tokens.extend(place.indents)
        if isinstance(replacement, cst.If) and place.parent and _is_if(place.parent):
            replacement._codegen(state, is_elif=True)
        else:
            replacement._codegen(state)
        return "".join(state.tokens)


class _Recorder(CodegenState):
    """Notes the offsets of every node while the code is generated."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__(module.default_indent, module.default_newline)
        self.places: list[Place] = []
        self._offset = 0
        self._stack: list[Place | None] = []
        self._parent: Place | None = None
        self._indents: tuple[str, ...] = ()

    def increase_indent(self, value: str) -> None:
        super().increase_indent(value)
        self._indents = tuple(self.indent_tokens)

    def decrease_indent(self) -> None:
        super().decrease_indent()
        self._indents = tuple(self.indent_tokens)

    def add_indent_tokens(self) -> None:
        super().add_indent_tokens()
        self._offset += sum(map(len, self._indents))

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self._offset += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._stack.append(self._parent)
        if isinstance(node, _UNRECORDED):
            return
        place = Place(node, self._parent, self._offset, self._indents)
        place.index = len(self.places)
        self.places.append(place)
        self._parent = place

    def after_codegen(self, node: cst.CSTNode) -> None:
        place = self._parent
        if place is not None and place.node is node:
            place.end = self._offset
            place.last = len(self.places)
        self._parent = self._stack.pop()

    @contextmanager
    def record_syntactic_position(
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> Iterator[None]:
        if self._parent is not None and self._parent.node is node and start_node is None:
            self._parent.code_start = self._offset
        yield


def _is_if(place: Place) -> bool:
    return isinstance(place.node, cst.If)
