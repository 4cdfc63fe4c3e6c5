"""Where templates live, and the way to render them."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from .context import Context
from .filters import FILTERS
from .nodes import Node, render_all
from .parser import Parser


class Environment:
    """Templates by name. Those named `.html`, with all they include, escape their values."""

    def __init__(
        self,
        templates: Mapping[str, str],
        filters: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.templates = templates
        self.filters = {**FILTERS, **(filters or {})}
        self._parsed: dict[object, Sequence[Node]] = {}

    def render(self, name: str, /, **variables: Any) -> str:
        """The text of a template. Raises TemplateError, or KeyError for an unknown name."""
        out: list[str] = []
        nodes = self._load(name, name.endswith(".html"))
        render_all(nodes, Context(variables), out)
        return "".join(out)

    def _load(self, name: str, escape: bool) -> Sequence[Node]:
        key = (name, escape)
        if key not in self._parsed:
            parser = Parser(self.templates[name], self.filters, escape, self._load)
            self._parsed[key] = parser.parse()
        return self._parsed[key]
