"""Builds nodes from tokens."""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping, Sequence

from .errors import TemplateSyntaxError
from .expressions import Expression, compile_expression
from .lexer import Token, tokenize
from .nodes import For, If, Include, Node, Output, Set, Text


class Parser:
    """Parses one template."""

    def __init__(
        self,
        source: str,
        filters: Mapping[str, Callable[..., Any]],
        escape: bool,
        load: Callable[[str, bool], Sequence[Node]],
    ) -> None:
        self.tokens = tokenize(source)
        self.filters = filters
        self.escape = escape
        self.load = load

    def parse(self) -> list[Node]:
        """All nodes. Raises TemplateSyntaxError."""
        nodes, _ = self._until(())
        return nodes

    def _until(self, ends: Sequence[str]) -> tuple[list[Node], str]:
        nodes: list[Node] = []
        line = 1
        while self.tokens:
            token = self.tokens.pop(0)
            line = token.line
            if token.kind == "text":
                nodes.append(Text(token.value))
            elif token.kind == "output":
                nodes.append(Output(self._expression(token.value, line), self.escape))
            elif token.value in ends:
                return nodes, token.value
            else:
                nodes.append(self._tag(token))
        if ends:
            raise TemplateSyntaxError(f"expected {ends[-1]}", line)
        return nodes, ""

    def _tag(self, token: Token) -> Node:
        word, _, rest = token.value.partition(" ")
        if word == "if":
            test = self._expression(rest, token.line)
            return If(test, *self._branches("endif"))
        if word == "for":
            name, items = self._match(r"(\w+) in (.+)", rest, token)
            return For(name, self._expression(items, token.line), *self._branches("endfor"))
        if word == "set":
            name, value = self._match(r"(\w+) = (.+)", rest, token)
            return Set(name, self._expression(value, token.line))
        if word == "include":
            (name,) = self._match(r"[\"'](.+)[\"']", rest, token)
            return Include(name, self.escape, self.load)
        raise TemplateSyntaxError(f"unknown tag {token.value!r}", token.line)

    def _branches(self, end: str) -> tuple[list[Node], list[Node]]:
        body, stop = self._until(("else", end))
        if stop == end:
            return body, []
        return body, self._until((end,))[0]

    def _expression(self, text: str, line: int) -> Expression:
        return compile_expression(text, line, self.filters)

    def _match(self, pattern: str, text: str, token: Token) -> Sequence[str]:
        match = re.fullmatch(pattern, text.strip())
        if match is None:
            raise TemplateSyntaxError(f"malformed tag {token.value!r}", token.line)
        return match.groups()
