"""Reading typed values out of a merged tree."""

from __future__ import annotations

from typing import Any, Dict, List

from .errors import UnknownKey
from .interpolate import Interpolator
from .tree import MISSING, Tree, ensure_section, lookup, parent_path
from .values import convert


class Settings:
    """Typed access by dotted path."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._interpolator = Interpolator(tree)

    def get(self, path: str, kind: str = "str", default: Any = MISSING) -> Any:
        """The value at `path` as a `kind`; `default`, as it is, where nobody set it."""
        if default is not MISSING and lookup(self._tree, path, None) is None:
            return default
        return convert(self._interpolator.value(path), kind, path)

    def section(self, path: str) -> Dict[str, str]:
        """The texts of all keys directly in a section."""
        node = lookup(self._tree, path)
        if not isinstance(node, dict):
            raise UnknownKey("%s is a value, not a section" % path)
        keys = [key for key, value in node.items() if not isinstance(value, dict)]
        return {key: self.get("%s.%s" % (path, key)) for key in keys}

    def subsections(self, path: str) -> List[str]:
        node = lookup(self._tree, path)
        return [key for key, value in node.items() if isinstance(value, dict)]

    def override(self, path: str, text: str) -> None:
        """Set one value by hand, as a command line does."""
        parent = parent_path(path)
        section = ensure_section(self._tree, parent) if parent else self._tree
        section[path.rpartition(".")[2]] = text
