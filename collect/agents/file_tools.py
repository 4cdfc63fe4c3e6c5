"""Tools on the files of the workspace: list, read, search, edit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from collect.agents.first_lines import FirstLines, bounded, first_lines
from collect.agents.tools import Arguments, ToolReply
from collect.records import ToolOutcome
from sandbox import Command, Sandbox

MAX_LISTED = 200
MAX_MATCHES = 100
MAX_READ_LINES = 400
MAX_LINE_CHARS = 400
LINE_END = re.compile(r"\r\n|\r|\n")
"""Python's and the debugger's, so that line numbers agree."""
SURROGATE = re.compile(r"[\ud800-\udfff]")
EDIT_REFUSED = (
    "Refused: file editing is disabled until debug_subagent has been called at least once. "
    "Ask it about the failing test first, then edit."
)


@dataclass
class EditGate:
    """Whether files may be edited yet (Debug2Fix, section 4.3.1)."""

    is_open: bool = True


class ListFilesArguments(Arguments):
    path: Annotated[str, Field(description="Folder, relative to the repository root.")] = "."
    pattern: Annotated[
        str | None, Field(description="Only names matching this glob, e.g. '{glob}'.")
    ] = None


@dataclass(frozen=True)
class ListFiles:
    """List the files below a folder."""

    sandbox: Sandbox
    name: str = "list_files"
    description: str = "List the files below a folder of the repository, recursively."
    arguments: type[Arguments] = ListFilesArguments

    def call(self, arguments: ListFilesArguments, call_id: str) -> ToolReply:
        prune = ["(", "-name", ".git", "-o", "-name", "__pycache__", ")", "-prune", "-o"]
        argv = ["find", _operand(arguments.path), *prune]
        argv += ["-type", "f"] + (["-name", arguments.pattern] if arguments.pattern else [])
        found = first_lines(self.sandbox, [*argv, "-print"], MAX_LISTED, "sort")
        return _listing(found, MAX_LISTED, "files", failed=found.exit_code != 0)


class ReadFileArguments(Arguments):
    path: Annotated[str, Field(description="File, relative to the repository root.")]
    start_line: Annotated[int, Field(ge=1, description="First line, counted from 1.")] = 1
    end_line: Annotated[int | None, Field(ge=1, description="Last line, inclusive.")] = None


@dataclass(frozen=True)
class ReadFile:
    """Show lines of a file with their numbers."""

    sandbox: Sandbox
    name: str = "read_file"
    description: str = (
        f"Read a text file with line numbers, at most {MAX_READ_LINES} lines at a time."
    )
    arguments: type[Arguments] = ReadFileArguments

    def call(self, arguments: ReadFileArguments, call_id: str) -> ToolReply:
        text = self.sandbox.read_file(arguments.path).decode("utf-8", "replace")
        lines = LINE_END.split(text)
        if not lines[-1]:
            lines.pop()
        first = arguments.start_line
        last = min(arguments.end_line or len(lines), len(lines), first + MAX_READ_LINES - 1)
        if first > len(lines):
            return ToolReply(
                f"Error: {arguments.path} has {len(lines)} lines, start_line is {first}.",
                ToolOutcome.ERROR,
            )
        shown = [f"{n:>5} {_clip(lines[n - 1])}" for n in range(first, last + 1)]
        if last < len(lines):
            shown.append(f"[{len(lines) - last} more lines, to {len(lines)}]")
        return ToolReply("\n".join(shown))


class GrepArguments(Arguments):
    pattern: Annotated[str, Field(description="Extended regular expression.")]
    path: Annotated[str, Field(description="File or folder to search.")] = "."
    include: Annotated[str | None, Field(description="Only files matching this glob.")] = None


@dataclass(frozen=True)
class Grep:
    """Search the files of the repository."""

    sandbox: Sandbox
    name: str = "grep"
    description: str = "Search files with a regular expression; gives file:line:text."
    arguments: type[Arguments] = GrepArguments

    def call(self, arguments: GrepArguments, call_id: str) -> ToolReply:
        argv = ["grep", "-rnIE", "--exclude-dir=.git", "--exclude-dir=__pycache__"]
        argv += [f"--include={arguments.include}"] if arguments.include else []
        argv += ["-e", arguments.pattern, "--", _operand(arguments.path)]
        found = first_lines(self.sandbox, argv, MAX_MATCHES)
        return _listing(found, MAX_MATCHES, "matches", failed=found.exit_code > 1)


class EditFileArguments(Arguments):
    path: Annotated[str, Field(description="File, relative to the repository root.")]
    old_string: Annotated[
        str,
        Field(description="Exact text to replace, unique in the file. Empty: create the file."),
    ]
    new_string: Annotated[str, Field(description="The text to put there.")]


@dataclass(frozen=True)
class EditFile:
    """Replace one piece of text in a file, or create a file."""

    sandbox: Sandbox
    gate: EditGate = field(default_factory=EditGate)
    name: str = "edit_file"
    description: str = "Replace one exact, unique piece of text in a file, or create a new file."
    arguments: type[Arguments] = EditFileArguments

    def call(self, arguments: EditFileArguments, call_id: str) -> ToolReply:
        if not self.gate.is_open:
            return ToolReply(EDIT_REFUSED, ToolOutcome.REFUSED)
        if SURROGATE.search(arguments.new_string):
            return ToolReply("Error: new_string holds half a character.", ToolOutcome.INVALID)
        if not arguments.old_string:
            return self._create(arguments)
        text = self.sandbox.read_file(arguments.path).decode("utf-8", "surrogateescape")
        old, new = _with_line_ends_of(text, arguments)
        found = text.count(old)
        if found != 1:
            problem = "does not occur" if not found else f"occurs {found} times"
            return ToolReply(
                f"Error: old_string {problem} in {arguments.path}; give text that occurs exactly "
                "once, with its indentation.",
                ToolOutcome.ERROR,
            )
        edited = text.replace(old, new)
        self.sandbox.write_file(arguments.path, edited.encode("utf-8", "surrogateescape"))
        return ToolReply(f"Edited {arguments.path}.")

    def _create(self, arguments: EditFileArguments) -> ToolReply:
        exists = self.sandbox.run(Command(["test", "-e", arguments.path])).exit_code == 0
        if exists:
            return ToolReply(
                f"Error: {arguments.path} exists; give the old_string to replace in it.",
                ToolOutcome.ERROR,
            )
        self.sandbox.write_file(arguments.path, arguments.new_string.encode())
        return ToolReply(f"Created {arguments.path}.")


def _with_line_ends_of(text: str, arguments: EditFileArguments) -> tuple[str, str]:
    """Old and new string, with the line ends of a file that has `\\r\\n`, which are not shown."""
    old, new = arguments.old_string, arguments.new_string
    if old in text or "\r\n" not in text:
        return old, new
    return LINE_END.sub("\r\n", old), LINE_END.sub("\r\n", new)


def _operand(path: str) -> str:
    """The path so that no program takes it for an option."""
    return path if path.startswith(("/", ".")) else f"./{path}"


def _clip(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]} [cut]"


def _listing(found: FirstLines, limit: int, what: str, failed: bool) -> ToolReply:
    lines = [_clip(line.removeprefix("./")) for line in found.lines]
    shown = [*found.messages, *bounded(lines, limit, what, found.total)]
    text = "\n".join(shown) or f"No {what}."
    return ToolReply(f"Error: {text}", ToolOutcome.ERROR) if failed else ToolReply(text)
