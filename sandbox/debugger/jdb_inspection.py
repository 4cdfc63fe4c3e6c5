"""Looking at a program paused in jdb: what its `where`, `locals`, `print` and `dump` show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.debugger import jdb_parsing
from sandbox.debugger.channel import Json
from sandbox.debugger.java_sources import JavaSources
from sandbox.debugger.jdb_parsing import StackFrame
from sandbox.debugger.records import ErrorKind
from sandbox.debugger.sources import SourceLines
from sandbox.debugger.terminal_session import Refused, TerminalConnection, Unanswered

UNCAUGHT = "uncaught java.lang.Throwable"
ASSIGNMENT = re.compile(r"[\w.\[\]]+\s*=(?!=)")
NO_LOCALS = "the classes hold no names of local variables: compile them with -g"


class JdbInspector:
    """Stack, locals and values through jdb's prompt."""

    def __init__(
        self, connection: TerminalConnection, sources: JavaSources, lines: SourceLines
    ) -> None:
        self._connection = connection
        self._sources = sources
        self._lines = lines

    def frames(self, shown: list[StackFrame]) -> list[tuple[StackFrame, str]]:
        """Those of the program's own classes, each with its file."""
        found = [(frame, self._sources.file_of(frame.function, frame.file)) for frame in shown]
        return [(frame, path) for frame, path in found if path is not None]

    def stack(self, arguments: Json) -> Json:
        limit, start = self._connection.limits.max_frames, arguments.get("start", 0)
        shown = self._described(jdb_parsing.stack(self._connection.inspect("where").text))
        return {"frames": shown[start : start + limit], **_more(start + limit, len(shown))}

    def threads(self, arguments: Json) -> Json:
        listed = self._connection.inspect("threads").text
        current = jdb_parsing.THREAD_PROMPT.search(listed)
        known = jdb_parsing.threads(listed)
        doing = {name: state for _, _, name, state in known}
        stacks = jdb_parsing.stacks(self._connection.inspect("where all").text)
        limit = self._connection.limits.max_frames
        found = [
            {
                "name": name,
                "current": current is not None and current["thread"] == name,
                "doing": doing.get(name, ""),
                "frames": self._described(frames)[:limit],
            }
            for name, frames in stacks
        ]
        return {"threads": sorted(found, key=lambda thread: not thread["current"])}

    def locals(self, arguments: Json) -> Json:
        with self._at_frame(arguments["frame"]):
            text = jdb_parsing.without_prompt(self._connection.inspect("locals").text)
        if "not available" in text:
            return {"values": [], "notes": [NO_LOCALS]}
        return self._values(jdb_parsing.variables(text), arguments.get("start", 0))

    def fields(self, arguments: Json) -> Json:
        expression = _one_line(arguments["expression"])
        with self._at_frame(arguments["frame"]):
            text = self._invoking(f"dump {expression}")
        found = jdb_parsing.fields(text)
        if not found:
            raise Refused(f"{expression} is no object: {text.strip()}", ErrorKind.EVALUATION)
        return self._values(found, arguments.get("start", 0))

    def evaluate(self, arguments: Json) -> Json:
        expression, start = _one_line(arguments["expression"]), arguments.get("start", 0)
        with self._at_frame(arguments["frame"]):
            text = self._invoking(f"print {expression}")
        whole = text.partition(f" {expression} = ")[2].rstrip("\n")
        end = start + self._connection.limits.value_chars
        value = {
            "name": expression,
            # `print` shows what any object's toString() gives as it shows a String.
            "type": "" if whole.startswith('"') else jdb_parsing.value_type(whole),
            "text": whole[start:end],
            "truncated": len(whole) > end,
        }
        return {"values": [value], **_more(end, len(whole))}

    def run_code(self, arguments: Json) -> Json:
        """Assignments and calls, one a line: jdb runs nothing else."""
        with self._at_frame(arguments["frame"]):
            for statement in re.split(r";\s*(?:\n|$)|\n", arguments["code"].strip()):
                if not statement.strip():
                    continue
                line = _one_line(statement)
                self._invoking(f"{'set' if ASSIGNMENT.match(line) else 'print'} {line}")
        return {}

    def _invoking(self, command: str) -> str:
        """The reply to a command that may call the program's methods. An exception that escapes
        them must not stop the program inside the call. Raises Refused, and Unanswered where the
        call does not return."""
        self._connection.inspect(f"ignore {UNCAUGHT}")
        reply = self._connection.ask(command)
        if self._connection.interrupted:
            raise Unanswered(reply)  # the thread stays inside the call, whatever is typed
        text = jdb_parsing.without_prompt(reply.text)
        later = self._connection.inspect(f"catch {UNCAUGHT}").text
        failure = jdb_parsing.failure(text) or jdb_parsing.failure(later)
        if failure is not None or " = " not in text:
            message = failure or text.strip() or "jdb gives no value"
            raise Refused(message, ErrorKind.EVALUATION)
        return text

    def _described(self, shown: list[StackFrame]) -> list[Json]:
        return [
            {
                "index": index,
                "file": self._sources.relative(path),
                "line": frame.line,
                "function": frame.function,
                "source": self._lines.line(path, frame.line),
            }
            for index, (frame, path) in enumerate(self.frames(shown))
        ]

    def _values(self, rows: list[tuple[str, str]], start: int) -> Json:
        limits = self._connection.limits
        values = [
            {
                "name": name,
                "type": jdb_parsing.value_type(text),
                "text": text[: limits.value_chars],
                "truncated": len(text) > limits.value_chars,
            }
            for name, text in rows[start : start + limits.max_values]
        ]
        return {"values": values, **_more(start + limits.max_values, len(rows))}

    @contextmanager
    def _at_frame(self, index: int) -> Iterator[None]:
        """Make a frame of the program the one that jdb looks at, and go back."""
        frames = self.frames(jdb_parsing.stack(self._connection.inspect("where").text))
        if not 0 <= index < len(frames) and (index or frames):
            raise Refused(f"there is no frame {index}; give 0 to {len(frames) - 1}")
        up = frames[index][0].up if frames else 0
        if not up:
            yield
            return
        self._connection.inspect(f"up {up}")
        try:
            yield
        except Refused:
            self._connection.ask(f"down {up}")
            raise
        self._connection.ask(f"down {up}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _more(end: int, size: int) -> Json:
    return {"next_start": end} if size > end else {}
