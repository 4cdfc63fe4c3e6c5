"""The Java sources of a launch: files by class, classes by line, methods by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from sandbox.base import Sandbox
from sandbox.debugger.java_places import JavaFile
from sandbox.debugger.sources import SourceLines
from sandbox.debugger.terminal_session import Refused
from sandbox.errors import SandboxFileError
from sandbox.shell import capture

MAX_PARSED = 5_000
"""Files in which a method is looked for that none mentions."""
SEARCH_TIMEOUT = 60.0


class JavaSources:
    """Finds what a name means among the source roots."""

    def __init__(self, sandbox: Sandbox, lines: SourceLines, roots: Sequence[str]) -> None:
        self._sandbox = sandbox
        self._lines = lines
        self._roots = [root.rstrip("/") for root in roots]
        self._parsed: dict[str, JavaFile] = {}
        self._files: list[str] | None = None

    def file_of(self, function: str, file: str = "") -> str | None:
        """The absolute path of the file that holds a class's method; None for a library's.

        `file` is the file's name, where it is known: else it is taken to be the outer class's.
        """
        owner = function.rpartition(".")[0].partition("$")[0]
        package, _, simple = owner.rpartition(".")
        name = "/".join([*package.split("."), file or f"{simple}.java"]).lstrip("/")
        paths = (f"{root}/{name}" for root in self._roots)
        return next((path for path in paths if self._lines.lines(path)), None)

    def relative(self, path: str) -> str:
        return path.removeprefix(self._sandbox.workspace + "/")

    def text(self, file: str, line: int) -> str:
        """A line of a file relative to the workspace, without its indentation."""
        return self._lines.line(f"{self._sandbox.workspace}/{file}", line)

    def followed(self, file: str, line: int, text: str) -> int:
        """Where a line has gone that had a text when a breakpoint was set on it."""
        lines = [found.strip() for found in self._lines.lines(self._find_file(file))]
        if not text or lines[line - 1 : line] == [text] or text not in lines:
            return line
        same = [number for number, found in enumerate(lines, 1) if found == text]
        return min(same, key=lambda number: abs(number - line))

    def find_line(self, file: str, line: int) -> tuple[str, int, str]:
        """The file relative to the workspace, the line that holds code, and its class. Raises
        Refused with the nearest names."""
        path = self._find_file(file)
        parsed = self._parse(path)
        moved = parsed.code_line(line)
        owner = parsed.class_at(moved)
        if owner is None or line < 1:
            raise Refused(f"line {line} of {self.relative(path)} lies in no class")
        return self.relative(path), moved, owner

    def find_method(self, name: str) -> tuple[str, str, int]:
        """The method as jdb has it, its file, and 0 for its line. Raises Refused."""
        file, _, wanted = name.rpartition(":") if ".java:" in name else ("", "", name)
        wanted, bracket, arguments = wanted.strip().partition("(")
        paths = [self._find_file(file)] if file else self._mentioning(wanted.rpartition(".")[2])
        methods = {method: path for path in paths for method in self._parse(path).methods()}
        ending = wanted.replace("$", ".")
        found = [m for m in methods if f".{m.replace('$', '.')}".endswith(f".{ending}")]
        if len(found) == 1:
            return found[0] + bracket + arguments, self.relative(methods[found[0]]), 0
        if found:
            raise Refused(f"{name} is ambiguous: {', '.join(found[:8])}")
        simple = {method.rpartition(".")[2]: method for method in methods}
        near = difflib.get_close_matches(wanted.rpartition(".")[2], list(simple), 5, 0.5)
        nearest = f"; nearest: {', '.join(simple[one] for one in near)}" if near else ""
        raise Refused(f"there is no method {name}{nearest}")

    def _find_file(self, file: str) -> str:
        direct = f"{self._sandbox.workspace}/{file}"
        if self._lines.lines(direct):
            return direct
        ending = f"/{file.lstrip('./')}"
        matches = [path for path in self._all() if path.endswith(ending)]
        if len(matches) == 1:
            return matches[0]
        names = [self.relative(path) for path in matches or self._all()]
        if matches:
            raise Refused(f"{file} is ambiguous: {', '.join(names[:8])}")
        near = difflib.get_close_matches(file, names, 5, 0.3)
        raise Refused(
            f"there is no file {file}" + (f"; nearest: {', '.join(near)}" if near else "")
        )

    def _all(self) -> list[str]:
        if self._files is None:
            found = self._listed('find "$@" -name "*.java" -type f', *self._roots)
            self._files = sorted(found)
        return self._files

    def _mentioning(self, word: str) -> list[str]:
        """The files to look for a method in: those that hold its name, or else all."""
        word = word if word != "<init>" else "class"
        found = self._listed('grep -rlw --include="*.java" -- "$@"', word, *self._roots)
        return found or self._all()[:MAX_PARSED]

    def _listed(self, script: str, *arguments: str) -> list[str]:
        """The sources that a script names. Raises Refused where not all can be had."""
        try:
            found = capture(self._sandbox, script, *arguments, timeout=SEARCH_TIMEOUT)
        except SandboxFileError as error:
            raise Refused(f"the sources can't be listed: {error}") from error
        if found.timed_out:
            raise Refused(f"listing the sources took more than {SEARCH_TIMEOUT:g} s")
        return [line for line in found.output.splitlines() if line.endswith(".java")]

    def _parse(self, path: str) -> JavaFile:
        if path not in self._parsed:
            self._parsed[path] = JavaFile("\n".join(self._lines.lines(path)))
        return self._parsed[path]
