"""Expressions: paths, literals, filters, comparisons."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from .context import Context
from .errors import TemplateSyntaxError

Expression = Callable[[Context], Any]
COMPARISONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt}
PIECE = re.compile(r"'[^']*'|\"[^\"]*\"|==|!=|[<>|:,]|[\w.-]+|\S")


@dataclass
class ExpressionParser:
    """Reads one expression from left to right."""

    pieces: list[str]
    line: int
    filters: Mapping[str, Callable[..., Any]]

    def parse(self) -> Expression:
        """The whole expression. Raises TemplateSyntaxError."""
        if self._accept("not"):
            inner = self.parse()
            return lambda context: not inner(context)
        left = self._filtered()
        if not self.pieces:
            return left
        symbol = self.pieces.pop(0)
        if symbol not in COMPARISONS or not self.pieces:
            raise TemplateSyntaxError(f"unexpected {symbol!r}", self.line)
        right = self.parse()
        return lambda context: COMPARISONS[symbol](left(context), right(context))

    def _filtered(self) -> Expression:
        value = self._atom()
        while self._accept("|"):
            name = self.pieces.pop(0) if self.pieces else ""
            if name not in self.filters:
                raise TemplateSyntaxError(f"no filter {name!r}", self.line)
            arguments = []
            if self._accept(":"):
                arguments.append(self._atom())
                while self._accept(","):
                    arguments.append(self._atom())
            value = apply(self.filters[name], value, arguments)
        return value

    def _atom(self) -> Expression:
        if not self.pieces:
            raise TemplateSyntaxError("expression ends too early", self.line)
        piece, line = self.pieces.pop(0), self.line
        if piece[0] in "'\"" and len(piece) > 1:
            return lambda context: piece[1:-1]
        if re.fullmatch(r"-?\d+", piece):
            return lambda context: int(piece)
        if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", piece):
            raise TemplateSyntaxError(f"unexpected {piece!r}", line)
        return lambda context: context.resolve(piece, line)

    def _accept(self, piece: str) -> bool:
        if self.pieces and self.pieces[0] == piece:
            self.pieces.pop(0)
            return True
        return False


def apply(filter: Callable[..., Any], value: Expression, arguments: list[Expression]) -> Expression:
    """An expression that passes a value and arguments through a filter."""
    return lambda context: filter(value(context), *[each(context) for each in arguments])


def compile_expression(
    text: str, line: int, filters: Mapping[str, Callable[..., Any]]
) -> Expression:
    """A function from a context to the value of an expression."""
    return ExpressionParser(PIECE.findall(text), line, filters).parse()
