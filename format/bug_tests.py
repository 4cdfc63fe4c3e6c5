"""Which files are the tests of a bug."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from functools import lru_cache


class TestFiles:
    """The test files of one bug, told by its tests' names and by pytest's naming."""

    __test__ = False

    def __init__(self, tests: Iterable[str] = ()) -> None:
        """`tests`: pytest's node ids, or `package.Class#method` in Java."""
        names = [test.partition("::")[0].partition("#")[0] for test in tests]
        self._paths = frozenset(name for name in names if "/" in name or name.endswith(".py"))
        self._classes = frozenset(name.rpartition(".")[2] for name in names) - self._paths

    def __contains__(self, path: str) -> bool:
        name = posixpath.basename(path)
        stem, extension = posixpath.splitext(name)
        if extension == ".java":
            return stem.partition("$")[0] in self._classes
        is_named = name == "conftest.py" or stem.startswith("test_") or stem.endswith("_test")
        return is_named or any(path == each or path.endswith(f"/{each}") for each in self._paths)


@lru_cache(maxsize=4_096)
def files_of(tests: tuple[str, ...]) -> TestFiles:
    """The same object for the rollouts of one bug."""
    return TestFiles(tests)
