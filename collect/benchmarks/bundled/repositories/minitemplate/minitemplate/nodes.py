"""The parts of a parsed template; each renders itself into a list of strings."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape as escape_html
from typing import Callable, Sequence

from .context import Context
from .expressions import Expression


class Node:
    """Anything that can be rendered."""

    def render(self, context: Context, out: list[str]) -> None:
        """Append the text of this node."""
        raise NotImplementedError


@dataclass
class Text(Node):
    """Text as it stands."""

    text: str

    def render(self, context: Context, out: list[str]) -> None:
        out.append(self.text)


@dataclass
class Output(Node):
    """The value of an expression."""

    value: Expression
    escape: bool

    def render(self, context: Context, out: list[str]) -> None:
        text = str(self.value(context))
        out.append(escape_html(text) if self.escape else text)


@dataclass
class Set(Node):
    """A variable from here to the end of the scope."""

    name: str
    value: Expression

    def render(self, context: Context, out: list[str]) -> None:
        context.set(self.name, self.value(context))


@dataclass
class If(Node):
    """Two branches."""

    test: Expression
    body: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)

    def render(self, context: Context, out: list[str]) -> None:
        render_all(self.body if self.test(context) else self.otherwise, context, out)


@dataclass
class For(Node):
    """A body for each item, in a scope of its own; `otherwise` where there is none."""

    name: str
    items: Expression
    body: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)

    def render(self, context: Context, out: list[str]) -> None:
        items = list(self.items(context))
        if not items:
            render_all(self.otherwise, context, out)
            return
        context.push()
        for index, item in enumerate(items):
            context.set(self.name, item)
            context.set("loop", {"number": index + 1, "last": index + 1 == len(items)})
            render_all(self.body, context, out)
        context.pop()


@dataclass
class Include(Node):
    """Another template, with the variables of this one."""

    name: str
    escape: bool
    load: Callable[[str, bool], Sequence[Node]]

    def render(self, context: Context, out: list[str]) -> None:
        context.push()
        render_all(self.load(self.name, self.escape), context, out)
        context.pop()


def render_all(nodes: Sequence[Node], context: Context, out: list[str]) -> None:
    """Render one node after the other."""
    for node in nodes:
        node.render(context, out)
