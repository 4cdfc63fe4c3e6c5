"""The lines of source around a stop, read from the sandbox."""

from __future__ import annotations

from collections.abc import Collection

from sandbox.base import SOURCE_LIMIT, Sandbox
from sandbox.debugger.probe.source import decode_source
from sandbox.errors import SandboxFileError
from sandbox.text import source_lines


class SourceLines:
    """Source files of one session, as they were when first shown."""

    def __init__(self, sandbox: Sandbox, context: int) -> None:
        self._sandbox = sandbox
        self._context = context
        self._files: dict[str, list[str]] = {}

    def lines(self, path: str) -> list[str]:
        """A file's lines; empty where it lies outside the workspace or can't be read."""
        if path not in self._files:
            self._files[path] = self._read(path)
        return self._files[path]

    def line(self, path: str, number: int) -> str:
        lines = self.lines(path)
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def around(self, path: str, line: int, breakpoints: Collection[int]) -> list[str]:
        """Numbered lines: `->` marks the current one, `*` a breakpoint."""
        lines = self.lines(path)
        shown = range(max(line - self._context, 1), min(line + self._context, len(lines)) + 1)
        return [
            f"{'->' if number == line else '':2} {'*' if number in breakpoints else '':1} "
            f"{number:5}  {lines[number - 1][:200]}".rstrip()
            for number in shown
        ]

    def _read(self, path: str) -> list[str]:
        if not path.startswith(self._sandbox.workspace + "/"):
            return []
        try:
            data = self._sandbox.read_file(path, SOURCE_LIMIT)
        except SandboxFileError:
            return []
        is_python = path.endswith(".py")
        return source_lines(decode_source(data) if is_python else data.decode("utf-8", "replace"))
