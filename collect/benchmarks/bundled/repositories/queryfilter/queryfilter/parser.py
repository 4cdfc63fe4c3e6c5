"""From tokens to a tree. `not` binds tighter than `and`, `and` tighter than `or`."""

from __future__ import annotations

from typing import Any

from .nodes import And, Compare, Everything, Has, Like, Not, OneOf, Or
from .tokens import QueryError, Token, tokenize

_COMPARISONS = {"=", "!=", "<", "<=", ">", ">="}


def parse(text: str) -> Any:
    parser = _Parser(text)
    if parser.sees("end"):
        return Everything()
    tree = parser.disjunction()
    parser.expect("end")
    return tree


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._next = 0

    def sees(self, kind: str) -> bool:
        return self._tokens[self._next].kind == kind

    def take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def accept(self, kind: str) -> bool:
        if self.sees(kind):
            self._next += 1
            return True
        return False

    def expect(self, kind: str) -> Token:
        if not self.sees(kind):
            token = self._tokens[self._next]
            found = "end of query" if token.kind == "end" else repr(token.value)
            raise QueryError("expected %s at %d, found %s" % (kind, token.position, found))
        return self.take()

    def disjunction(self) -> Any:
        tree = self.conjunction()
        while self.accept("or"):
            tree = Or(tree, self.conjunction())
        return tree

    def conjunction(self) -> Any:
        tree = self.negation()
        while self.accept("and"):
            tree = And(tree, self.negation())
        return tree

    def negation(self) -> Any:
        if self.accept("not"):
            return Not(self.negation())
        if self.accept("("):
            tree = self.disjunction()
            self.expect(")")
            return tree
        return self.condition()

    def condition(self) -> Any:
        field = self.expect("field").value
        inverted = self.accept("not")
        tree = self._comparison(field)
        return Not(tree) if inverted else tree

    def _comparison(self, field: str) -> Any:
        token = self.take()
        if token.kind in _COMPARISONS:
            return Compare(field, token.kind, self.expect("value").value)
        if token.kind == "like":
            return Like(field, self.expect("value").value)
        if token.kind == "has":
            return Has(field, self.expect("value").value)
        if token.kind == "between":
            low = self.expect("value").value
            self.expect("and")
            high = self.expect("value").value
            return And(Compare(field, ">=", low), Compare(field, "<=", high))
        if token.kind == "in":
            return self._one_of(field)
        raise QueryError("expected an operator at %d" % token.position)

    def _one_of(self, field: str) -> OneOf:
        self.expect("(")
        values = [self.expect("value").value]
        while self.accept(","):
            values.append(self.expect("value").value)
        self.expect(")")
        return OneOf(field, tuple(values))
