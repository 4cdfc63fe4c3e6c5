"""References: `${section.key}`, and `${.key}` for a key of the same section."""

from __future__ import annotations

import re
from typing import Tuple

from .errors import ConfigError, ReferenceLoop
from .tree import Tree, lookup, parent_path

_REFERENCE = re.compile(r"\$\{([^}]*)\}")


class Interpolator:
    """Resolves the references in one tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def value(self, path: str) -> str:
        """The value at `path` with everything it refers to filled in."""
        return self._value(path, ())

    def _value(self, path: str, trail: Tuple[str, ...]) -> str:
        if path in trail:
            raise ReferenceLoop(" -> ".join(trail + (path,)))
        raw = lookup(self._tree, path)
        if isinstance(raw, dict):
            raise ConfigError("%s is a section, not a value" % path)
        return self._expand(raw, trail + (path,))

    def _expand(self, raw: str, trail: Tuple[str, ...]) -> str:
        section = parent_path(trail[-1])

        def fill(match) -> str:
            return self._value(absolute(match.group(1).strip(), section), trail)

        return _REFERENCE.sub(fill, raw)


def absolute(reference: str, section: str) -> str:
    """The full path of a reference that stands in `section`. Each further dot goes one up."""
    if not reference.startswith("."):
        return reference
    name = reference.lstrip(".")
    for _ in range(len(reference) - len(name) - 1):
        section = parent_path(section)
    return "%s.%s" % (section, name) if section else name
