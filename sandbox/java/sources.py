"""A workspace's Java sources: found by path or by text, outlined, and with their parents."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase

from sandbox.base import SOURCE_LIMIT, Sandbox
from sandbox.errors import SandboxFileError
from sandbox.java.outline import JavaClass, Method, Outline, outline
from sandbox.java.scan import Scan
from sandbox.shell import capture

MAX_PARENTS = 10
MAX_CANDIDATES = 20
SEARCH_TIMEOUT = 30.0
TEST_CASES = ("TestCase", "junit.framework.TestCase")

_SEARCH = 'find . -name "*.java" ! -path "*/target/*" -exec grep -lE -e "$1" {} + | head -n "$2"'


class Sources:
    """The sources of one workspace, each read at most once."""

    def __init__(self, sandbox: Sandbox, scan: Scan) -> None:
        self._sandbox = sandbox
        self._scan = scan
        self._outlines: dict[str, Outline] = {}

    @property
    def paths(self) -> list[str]:
        """Of all sources, relative to the workspace."""
        return self._scan.sources

    def files(self, path: str) -> Iterator[str]:
        """Sources whose path ends so; a `*` stands for any text."""
        wanted = posixpath.normpath(path.removeprefix(f"{self._sandbox.workspace}/")).lstrip("/")
        for source in self._scan.sources:
            if source == wanted or fnmatchcase(f"/{source}", f"*/{wanted}"):
                yield source

    def grep(self, pattern: str) -> list[str]:
        """Some sources with a line that matches an extended regular expression."""
        found = capture(
            self._sandbox,
            _SEARCH,
            pattern,
            str(MAX_CANDIDATES),
            cwd=self._sandbox.workspace,
            timeout=SEARCH_TIMEOUT,
        )
        files = [posixpath.normpath(line) for line in found.output.splitlines()]
        return [file for file in files if self._scan.has(file)]

    def outline(self, file: str) -> Outline:
        """The classes and methods of a source."""
        if file not in self._outlines:
            self._outlines[file] = outline(self.text(file))
        return self._outlines[file]

    def text(self, file: str) -> str:
        """A source, decoded as UTF-8 with replacement; empty where it can't be read."""
        try:
            return self._sandbox.read_file(file, SOURCE_LIMIT).decode("utf-8", "replace")
        except SandboxFileError:
            # A link, or gone since the look at the workspace.
            return ""

    def tests(self, file: str, chosen: JavaClass) -> Iterator[Method]:
        """The test methods of a class, inherited ones included."""
        family = list(self.family(file, chosen))
        old = family[-1][1].parent in TEST_CASES
        for _, each in family:
            for method in each.methods:
                if method.test or (old and method.name.startswith("test")):
                    yield method

    def family(self, file: str, chosen: JavaClass) -> Iterator[tuple[str, JavaClass]]:
        """A class and its parents, as far as the workspace has their sources."""
        for _ in range(MAX_PARENTS):
            yield file, chosen
            simple = (chosen.parent or "").rpartition(".")[2]
            if not simple:
                return
            parents = (
                (path, each)
                for path in [file, *self.files(f"{simple}.java")]
                for each in self.outline(path).classes
                if each.simple_name == simple and each is not chosen
            )
            following = next(parents, None)
            if following is None:
                return
            file, chosen = following
