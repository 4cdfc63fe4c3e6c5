"""Tools on the workspace: list, read, search and edit files; the main agent's shell."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from collect.agents.tools import Arguments, ToolReply
from collect.store.records import ToolOutcome
from sandbox import Command, Sandbox
from sandbox.base import SOURCE_LIMIT
from sandbox.errors import FileTooLarge, SandboxError
from sandbox.java.maven import DEBIAN_SETTINGS, maven_options
from sandbox.java.project_repository import SCRIPT, repository_in
from sandbox.shell import capture

REFUSED_BY_KERNEL = ("Read-only file system", "Permission denied")
READ_ONLY_VARIABLES = {
    "COVERAGE_FILE": "/tmp/.coverage",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/.hypothesis",
    "MYPY_CACHE_DIR": "/tmp/.mypy_cache",
    "PYTHONDONTWRITEBYTECODE": "1",
    "RUFF_CACHE_DIR": "/tmp/.ruff_cache",
    # pytest keeps its cache there. Its option for that warns if the cache is switched off.
    "TOX_ENV_DIR": "/tmp/.tox",
}
"""Where tests and linters write their caches if the workspace is read-only. Otherwise they report
that they can't write, and a harmless command would seem to be refused."""
ENDING = re.compile(r"\n?\[(?:exit code (?P<code>\d+)|killed after [\d.e+]+ s[^\[\]\n]*)\]$")
MAX_LINE_BYTES = 2_000
_ENDING = re.compile(r"!exit (\d+)")
MAX_MESSAGES = 20
# A mark distinguishes output lines from the line with their count.
_SCRIPT = r"""
limit=$1 width=$2 order=$3; shift 3
messages=$(mktemp "$0/messages-XXXXXX") || exit 125
{ "$@" 2>"$messages"; printf '\nexit %s\n' $? >>"$messages"; } |
    LC_ALL=C "$order" | cut -b "1-$width" | sed -n -e "1,${limit}s/^/:/p" -e '$='
sed 's/^/!/' "$messages"
rm -f "$messages"
"""


@dataclass(frozen=True)
class FirstLines:
    lines: Sequence[str]
    """The first ones, each cut after MAX_LINE_BYTES."""
    total: int
    """Number of all lines."""
    exit_code: int
    messages: Sequence[str] = ()
    """Its standard error."""


def first_lines(
    sandbox: Sandbox, argv: Sequence[str], limit: int, order: Literal["cat", "sort"] = "cat"
) -> FirstLines:
    """Run a command and keep its first `limit` lines, unordered or sorted.

    Raises SandboxDead, SandboxFileError.
    """
    ran = capture(sandbox, _SCRIPT, str(limit), str(MAX_LINE_BYTES), order, *argv)
    if ran.timed_out:
        seconds = sandbox.config.command_timeout
        return FirstLines((), 0, ran.exit_code, [f"it took more than {seconds:g} s"])
    lines, messages, total, exit_code = [], [], 0, ran.exit_code
    for line in ran.output.split("\n"):
        if line.startswith(":"):
            lines.append(line[1:].removesuffix("\r"))
        elif found := _ENDING.fullmatch(line):
            exit_code = int(found[1])
        elif line.isdecimal():
            total = int(line)
        elif line.removeprefix("!"):
            messages.append(line.removeprefix("!"))
    return FirstLines(lines, total, exit_code, bounded(messages, MAX_MESSAGES, "messages"))


def bounded(lines: Sequence[str], limit: int, what: str, total: int | None = None) -> list[str]:
    """Up to `limit` lines, plus one that says how many more there are."""
    more = (len(lines) if total is None else total) - limit
    return [*lines[:limit], *([f"[{more} more {what}; narrow the search]"] if more > 0 else [])]


MAX_LISTED = 200
MAX_MATCHES = 100
MAX_READ_LINES = 400
MAX_LINE_CHARS = 400
MAX_SHOWN_EDIT = 40
"""Lines that are shown after an edit."""
LINE_END = re.compile(r"\r\n|\r|\n")
"""The line ends of Python and the debugger, so that line numbers agree."""
SURROGATE = re.compile(r"[\ud800-\udfff]")
EDIT_REFUSED = (
    "Refused: file editing is disabled until debug_subagent has been called at least once. "
    "Ask it about the failing test first, then edit."
)


@dataclass
class EditGate:
    """Whether files may be edited yet (Debug2Fix, section 4.3.1)."""

    is_open: bool = True
    refusal: str = EDIT_REFUSED
    """The answer to an edit while it is closed."""


class ListFilesArguments(Arguments):
    path: Annotated[str, Field(description="Folder, relative to the repository root.")] = "."
    pattern: Annotated[
        str | None, Field(description="Only names matching this glob, e.g. '{glob}'.")
    ] = None


@dataclass(frozen=True)
class ListFiles:
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
    path: Annotated[str, Field(description="File, relative to the repository root, or below /tmp.")]
    start_line: Annotated[int, Field(ge=1, description="First line, counted from 1.")] = 1
    end_line: Annotated[int | None, Field(ge=1, description="Last line, inclusive.")] = None


@dataclass(frozen=True)
class ReadFile:
    sandbox: Sandbox
    name: str = "read_file"
    description: str = (
        f"Read a text file with line numbers, at most {MAX_READ_LINES} lines at a time."
    )
    arguments: type[Arguments] = ReadFileArguments

    def call(self, arguments: ReadFileArguments, call_id: str) -> ToolReply:
        text = _read(self.sandbox, arguments.path).decode("utf-8", "replace")
        first, end = arguments.start_line, arguments.end_line or sys.maxsize
        if end < first:
            error = f"Error: end_line {end} is before start_line {first}."
            return ToolReply(error, ToolOutcome.ERROR)
        last = min(end, first + MAX_READ_LINES - 1)
        shown, total = [], 0
        # Read line by line: a list of millions of lines takes hundreds of times the file's size.
        for total, ended in enumerate(io.StringIO(text, newline=None), 1):
            if first <= total <= last:
                line = ended.removesuffix("\n")
                shown.append(f"{total:>5} {_clip(line)}")
        if first > total:
            return ToolReply(
                f"Error: {arguments.path} has {total} lines, start_line is {first}.",
                ToolOutcome.ERROR,
            )
        if last < total:
            shown.append(f"[{total - last} more lines, to {total}]")
        return ToolReply("\n".join(shown))


class GrepArguments(Arguments):
    pattern: Annotated[str, Field(description="Extended regular expression.")]
    path: Annotated[str, Field(description="File or folder to search.")] = "."
    include: Annotated[str | None, Field(description="Only files matching this glob.")] = None


@dataclass(frozen=True)
class Grep:
    sandbox: Sandbox
    name: str = "grep"
    description: str = "Search files with a regular expression; gives file:line:text."
    arguments: type[Arguments] = GrepArguments

    def call(self, arguments: GrepArguments, call_id: str) -> ToolReply:
        argv = ["grep", "-rnHIE", "--exclude-dir=.git", "--exclude-dir=__pycache__"]
        argv += [f"--include={arguments.include}"] if arguments.include else []
        argv += ["-e", arguments.pattern, "--", _operand(arguments.path)]
        found = first_lines(self.sandbox, argv, MAX_MATCHES)
        return _listing(found, MAX_MATCHES, "matches", failed=found.exit_code > 1)


class EditFileArguments(Arguments):
    path: Annotated[str, Field(description="File, relative to the repository root.")]
    old_string: Annotated[
        str, Field(description="Exact text to replace, unique in the file. Empty: create the file.")
    ]
    new_string: Annotated[str, Field(description="The text to put there.")]


@dataclass(frozen=True)
class EditFile:
    sandbox: Sandbox
    gate: EditGate = field(default_factory=EditGate)
    name: str = "edit_file"
    description: str = "Replace one exact, unique piece of text in a file, or create a new file."
    arguments: type[Arguments] = EditFileArguments

    def call(self, arguments: EditFileArguments, call_id: str) -> ToolReply:
        if not self.gate.is_open:
            return ToolReply(self.gate.refusal, ToolOutcome.REFUSED)
        if SURROGATE.search(arguments.new_string):
            return ToolReply("Error: new_string holds half a character.", ToolOutcome.INVALID)
        if not arguments.old_string:
            if self.sandbox.run(Command(["test", "-e", arguments.path])).exit_code == 0:
                return ToolReply(
                    f"Error: {arguments.path} exists; give the old_string to replace in it.",
                    ToolOutcome.ERROR,
                )
            self.sandbox.write_file(arguments.path, arguments.new_string.encode())
            return ToolReply(f"Created {arguments.path}.")
        text = _read(self.sandbox, arguments.path).decode("utf-8", "surrogateescape")
        old, new = arguments.old_string, arguments.new_string
        if old not in text and "\r\n" in text:
            # The agent does not see `\r\n`.
            old, new = LINE_END.sub("\r\n", old), LINE_END.sub("\r\n", new)
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
        # The lines that it wrote, with one more on each side.
        first = text.count("\n", 0, text.index(old)) + 1
        lines = LINE_END.split(edited)
        if not lines[-1]:
            lines.pop()  # behind the last line's end
        last = min(first + len(LINE_END.findall(new)) + 1, len(lines), first + MAX_SHOWN_EDIT)
        numbers = range(max(first - 1, 1), last + 1)
        shown = "\n".join(f"{at:>5} {_clip(lines[at - 1])}" for at in numbers)
        return ToolReply(f"Edited {arguments.path}. It now reads:\n{shown}")


def _read(sandbox: Sandbox, path: str) -> bytes:
    try:
        return sandbox.read_file(path, SOURCE_LIMIT)
    except FileTooLarge as error:
        raise FileTooLarge(
            f"{error}; look at a part of it with `grep` or a shell command, such as `sed -n "
            "'100,200p' FILE` or `head -c 2000 FILE`"
        ) from error


def _operand(path: str) -> str:
    """The path in a form that no program takes for an option."""
    return path if path.startswith(("/", ".")) else f"./{path}"


def _clip(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]} [cut]"


def _listing(found: FirstLines, limit: int, what: str, failed: bool) -> ToolReply:
    lines = [_clip(line.removeprefix("./")) for line in found.lines]
    shown = [*found.messages, *bounded(lines, limit, what, found.total)]
    text = "\n".join(shown) or f"No {what}."
    return ToolReply(f"Error: {text}", ToolOutcome.ERROR) if failed else ToolReply(text)


class BashArguments(Arguments):
    command: Annotated[str, Field(description="The command line.")]
    timeout: Annotated[float | None, Field(gt=0, description="Seconds until it is killed.")] = None


@dataclass(frozen=True)
class Bash:
    """While the edit gate is closed, the kernel makes the workspace read-only for the command:
    reading and running tests works, and any edit fails. Background processes are killed at its end.
    """

    sandbox: Sandbox
    max_timeout: float
    gate: EditGate = field(default_factory=EditGate)
    name: str = "bash"
    description: str = (
        "Run a bash command in the repository root and get its output. Each call is a new shell; "
        "there is no network."
    )
    arguments: type[Arguments] = BashArguments

    def call(self, arguments: BashArguments, call_id: str) -> ToolReply:
        timeout = min(arguments.timeout or self.max_timeout, self.max_timeout)
        closed = not self.gate.is_open
        argv = ["bash", "-c", arguments.command]
        if closed:
            # If another user runs it, its build output must be writable for everyone.
            argv = ["sh", "-c", 'umask 0; exec "$@"', "sh", *argv]
        variables = READ_ONLY_VARIABLES if closed else {}
        result = self.sandbox.run(Command(argv, env=variables, timeout=timeout, read_only=closed))
        text = result.output
        if result.timed_out:
            more = (arguments.timeout or 0) > timeout
            text += f"\n[killed after {timeout:g} s{', the most a command may take' * more}]"
        elif result.exit_code:
            text += f"\n[exit code {result.exit_code}]"
        if closed and any(sign in result.output for sign in REFUSED_BY_KERNEL):
            return ToolReply(f"{text}\n{self.gate.refusal}".lstrip("\n"), ToolOutcome.REFUSED)
        failed = result.timed_out or result.exit_code
        outcome = ToolOutcome.ERROR if failed else ToolOutcome.OK
        return ToolReply(text.strip("\n") or "[no output]", outcome)


def read_failure(answer: str) -> tuple[str, int | None] | None:
    """The output and exit code in the shell's answer about a failed command. The code is None if it
    was killed at its timeout; all is None if it failed in another way.
    """
    ending = ENDING.search(answer)
    if ending is None:
        return None
    return answer[: ending.start()], int(ending["code"]) if ending["code"] else None


_LINKS = r"""
link() {
    [ -e "$1" ] && return
    made="$HOME/build/${1#./}"
    mkdir -p "$made" && chmod 0777 "$made" && ln -s "$made" "$1"
}
find . -name pom.xml -not -path '*/target/*' | while read -r file; do
    link "$(dirname "$file")/target"
done
find . -maxdepth 1 \( -name 'build.gradle*' -o -name 'settings.gradle*' \) | grep -q . || exit 0
link .gradle
# A module of Gradle may do without a build file of its own.
find . -path '*/src/*' -prune -o \( -name 'build.gradle*' -o -name src \) -print |
    while read -r file; do link "$(dirname "$file")/build"; done
"""
_SETTINGS = r"""
mkdir -p ~/.gradle/init.d && chmod 0777 ~/.gradle
echo 'org.gradle.daemon=false' >~/.gradle/gradle.properties
{
    echo "gradle.startParameter.offline = $1"
    [ -d /usr/share/maven-repo ] &&
        echo "allprojects { repositories { maven { url 'file:///usr/share/maven-repo' } } }"
} >~/.gradle/init.d/offline.gradle
[ -z "$2" ] || cp "$2" ~/.gradle/init.d
printf '%s\n' "$0" >~/.mavenrc
"""
# mvn sources ~/.mavenrc in its own script, so it can add arguments.
_MAVEN = """\
set -- {options} "$@"
MAVEN_OPTS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djansi.noreset=true $MAVEN_OPTS"
"""
_NO_FORK = "-DforkCount=0"
"""Debian's Surefire idles for about ten seconds at the end of a forked JVM."""


def prepare_java_workspace(sandbox: Sandbox) -> None:
    """Make a Java project's build tools usable from an agent's shell; call it once after the
    workspace is prepared. Raises SandboxError.

    Build output goes through links to a folder outside the workspace: so a project can be built and
    tested while the edit gate keeps the workspace read-only, and no class file counts as a change.
    """
    options = maven_options(sandbox)
    if DEBIAN_SETTINGS in options:
        options.append(_NO_FORK)
    maven = _MAVEN.format(options=shlex.join(options))
    configured = sandbox.config.java.gradle_options
    offline = "true" if configured is None or "--offline" in configured else "false"
    own = repository_in(sandbox.config)
    init_script = "" if own is None else str(own.folder / SCRIPT)
    for script in (_LINKS, _SETTINGS):
        result = sandbox.run(Command(["sh", "-c", script, maven, offline, init_script]))
        if result.exit_code:
            raise SandboxError(f"can't prepare a Java workspace: {result.output.strip()}")
