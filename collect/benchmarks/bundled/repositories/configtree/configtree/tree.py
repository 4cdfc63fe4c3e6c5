"""Nested sections as dicts, and dotted paths into them."""

from __future__ import annotations

from typing import Any, Dict, List

from .errors import UnknownKey

Tree = Dict[str, Any]
MISSING = object()


def split_path(path: str) -> List[str]:
    """`"a.b.c"` as `["a", "b", "c"]`."""
    return [part.strip() for part in path.split(".")]


def ensure_section(tree: Tree, path: str) -> Tree:
    """The section at `path`, made where it doesn't exist."""
    node = tree
    for part in split_path(path):
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise UnknownKey("%s is a value, not a section" % path)
    return node


def lookup(tree: Tree, path: str, default: Any = MISSING) -> Any:
    """The value or section at `path`."""
    node: Any = tree
    for part in split_path(path):
        if not isinstance(node, dict) or part not in node:
            if default is MISSING:
                raise UnknownKey("no %s in the configuration" % path)
            return default
        node = node[part]
    return node


def parent_path(path: str) -> str:
    """The section that `path` is in, `""` at the top."""
    return path.rpartition(".")[0]
