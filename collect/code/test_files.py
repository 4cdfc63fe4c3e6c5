"""Identifies a bug's test files."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterable


class TestFiles:
    """The test files of one bug, from its tests' names and pytest's naming rules.

    Every concurrent rollout has one, so it holds only the names.
    """

    __test__ = False
    __slots__ = ("_names",)

    def __init__(self, tests: Iterable[str] = ()) -> None:
        """`tests`: pytest's node ids, or `package.Class#method` in Java."""
        files = (test.partition("::")[0].partition("#")[0] for test in tests)
        self._names = tuple(map(sys.intern, dict.fromkeys(files)))

    def __contains__(self, path: str) -> bool:
        stem, extension = posixpath.splitext(posixpath.basename(path))
        if extension == ".java":
            own = stem.partition("$")[0]
            return any(own == name.rpartition(".")[2] for name in self._names)
        is_named = stem == "conftest" or stem.startswith("test_") or stem.endswith("_test")
        return is_named or any(path == name or path.endswith(f"/{name}") for name in self._names)
