"""Looking at a program paused in pdb, by expressions that print data.

pdb evaluates them in the program's own frame, with its own `repr`: an object whose `__repr__`
does harm does it here too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sandbox.debugger import pdb_parsing
from sandbox.debugger.channel import Json
from sandbox.debugger.pdb_parsing import StackFrame
from sandbox.debugger.records import ErrorKind
from sandbox.debugger.terminal_session import Refused, TerminalConnection

VALUE = "(lambda v: (type(v).__name__, repr(v)[{first}:{end}], len(repr(v))))({value})"
LOCALS = (
    "(len(locals()), [(str(k), type(v).__name__, repr(v)[:{end}], len(repr(v))) "
    "for k, v in sorted(locals().items()) if k.isidentifier() and k[:2] != '__'][{start}:{stop}])"
)
NAMES = "[k for k in sorted(locals()) if k.isidentifier() and k[:2] != '__'][{start}:{stop}]"
FIELDS = (
    "(lambda o: [(str(k) if hasattr(o, '__dict__') else '[' + repr(k) + ']', type(v).__name__, "
    "repr(v)[:{end}], len(repr(v))) for k, v in "
    "(list(o.items()) if isinstance(o, dict) else list(enumerate(o)) "
    "if isinstance(o, (list, tuple, set, frozenset)) else sorted(vars(o).items()))"
    "[{start}:{stop}]])({value})"
)
THREADS = (
    "[(t.name, t is m.current_thread(), [tuple(f)[:4] for f in b.extract_stack(c.get(t.ident))]) "
    "for m, b, c in [(__import__('threading'), __import__('traceback'), "
    "__import__('sys')._current_frames())] for t in m.enumerate()]"
)
# From 3.13 on `exec` by itself would work on a copy of the frame's variables.
RUN = "!exec({code}, globals(), __import__('sys')._getframe().f_locals)"
INSTALLED = re.compile(r"/(?:site|dist)-packages/")
DEBUGGER_FILES = re.compile(r"/(?:pdb|bdb|cmd)\.py$|^<string>$")


class PdbInspector:
    """Stack, locals and values through pdb's prompt."""

    def __init__(self, connection: TerminalConnection) -> None:
        self._connection = connection
        self._frames: list[tuple[int, StackFrame]] | None = None
        self.own_stop = True
        """Whether pdb's current frame is one of the program's own."""

    def moved(self, own_stop: bool) -> None:
        """The program ran on: what was known of its stack no longer holds."""
        self._frames, self.own_stop = None, own_stop

    def mine(self, file: str) -> bool:
        root = self._connection.sandbox.workspace + "/"
        return file.startswith(root) and not INSTALLED.search(file)

    def relative(self, file: str) -> str:
        return file.removeprefix(self._connection.sandbox.workspace + "/")

    def frames(self) -> list[tuple[int, StackFrame]]:
        """The program's frames, innermost first, each with how often `up` leads to it."""
        if self._frames is None:
            shown = pdb_parsing.stack(self._connection.inspect("where").text)
            found = [(up, frame) for up, frame in enumerate(shown) if self.mine(frame.file)]
            others = [
                (up, frame)
                for up, frame in enumerate(shown)
                if not DEBUGGER_FILES.search(frame.file)
            ]
            self._frames = found or others
        return self._frames

    def stack(self, arguments: Json) -> Json:
        limit, start = self._connection.limits.max_frames, arguments.get("start", 0)
        frames = self.frames()
        shown = [
            {
                "index": index,
                "file": self.relative(frame.file),
                "line": frame.line,
                "function": frame.function,
                "source": frame.source,
            }
            for index, (_, frame) in enumerate(frames)
        ]
        return {"frames": shown[start : start + limit], **_more(start + limit, len(shown))}

    def locals(self, arguments: Json) -> Json:
        limits, start = self._connection.limits, arguments.get("start", 0)
        stop = start + limits.max_values + 1
        with self._at_frame(arguments["frame"]):
            try:
                query = LOCALS.format(end=limits.value_chars, start=start, stop=stop)
                _, rows = self._data(query)
            except Refused as refused:
                if refused.kind is not ErrorKind.EVALUATION:
                    raise
                rows = self._one_by_one(NAMES.format(start=start, stop=stop))
        return self._values(rows, start)

    def fields(self, arguments: Json) -> Json:
        limits, start = self._connection.limits, arguments.get("start", 0)
        query = FIELDS.format(
            end=limits.value_chars,
            start=start,
            stop=start + limits.max_values + 1,
            value=merged(arguments["expression"]),
        )
        with self._at_frame(arguments["frame"]):
            return self._values(self._data(query), start)

    def evaluate(self, arguments: Json) -> Json:
        expression, start = arguments["expression"], arguments.get("start", 0)
        end = start + self._connection.limits.value_chars
        query = VALUE.format(first=start, end=end, value=merged(expression))
        with self._at_frame(arguments["frame"]):
            kind, text, size = self._data(query)
        value = {"name": expression, "type": kind, "text": text, "truncated": size > end}
        return {"values": [value], **_more(end, size)}

    def threads(self, arguments: Json) -> Json:
        limit = self._connection.limits.max_frames
        found = []
        for name, current, frames in self._data(THREADS):
            mine = [frame for frame in frames[::-1] if self.mine(frame[0])]
            found.append(
                {
                    "name": name,
                    "current": current,
                    "doing": "",
                    "frames": [
                        {
                            "index": index,
                            "file": self.relative(file),
                            "line": line,
                            "function": function,
                            "source": source or "",
                        }
                        for index, (file, line, function, source) in enumerate(mine[:limit])
                    ],
                }
            )
        return {"threads": sorted(found, key=lambda thread: not thread["current"])}

    def run_code(self, arguments: Json) -> Json:
        with self._at_frame(arguments["frame"]):
            reply = self._connection.inspect(RUN.format(code=literal(arguments["code"])))
        text = pdb_parsing.without_prompt(reply.text)
        printed, problem = _split_complaint(text)
        answer = self._connection.program_output(reply, printed)
        if problem:
            answer["error"] = {"kind": ErrorKind.EVALUATION, "message": problem}
        return answer

    def _one_by_one(self, names_query: str) -> list[tuple[str, str, str, int]]:
        """Locals asked for singly, where the representation of one of them raises."""
        rows = []
        end = self._connection.limits.value_chars
        for name in self._data(names_query):
            try:
                kind, text, size = self._data(VALUE.format(first=0, end=end, value=name))
            except Refused as refused:
                kind, text, size = "?", f"<repr raised {refused}>", 0
            rows.append((name, kind, text, size))
        return rows

    def _values(self, rows: list[tuple[str, str, str, int]], start: int) -> Json:
        limit = self._connection.limits.max_values
        values = [
            {"name": name, "type": kind, "text": text, "truncated": size > len(text)}
            for name, kind, text, size in rows[:limit]
        ]
        return {"values": values, **_more(start + limit, start + len(rows))}

    def _data(self, query: str) -> Any:
        """What an expression gives, printed as a literal. Raises Refused where it raised."""
        text = pdb_parsing.without_prompt(self._connection.inspect(f"p {query}").text)
        for line in reversed(text.splitlines()):
            if line.startswith(("(", "[")) and not line.startswith("(Pdb)"):
                try:
                    return ast.literal_eval(line)
                except (ValueError, SyntaxError, MemoryError, RecursionError):
                    continue  # another thread may have printed it
        _, problem = _split_complaint(text)
        message = problem or f"pdb's reply holds no value: {text[-300:]!r}"
        raise Refused(message, ErrorKind.EVALUATION)

    @contextmanager
    def _at_frame(self, index: int) -> Iterator[None]:
        """Make a frame of the program the one that pdb looks at, and go back."""
        if index == 0 and self.own_stop:
            yield
            return
        frames = self.frames()
        if not 0 <= index < len(frames):
            raise Refused(f"there is no frame {index}; give 0 to {len(frames) - 1}")
        steps = frames[index][0]
        if not steps:
            yield
            return
        self._connection.inspect(f"up {steps}")
        try:
            yield
        except Refused:
            self._connection.ask(f"down {steps}")
            raise
        self._connection.ask(f"down {steps}")


def literal(code: str) -> str:
    """Code as a string literal that pdb passes on whole: `;;` would end its command."""
    return ascii(code).replace(";;", ";\\x3b")


def merged(expression: str) -> str:
    """An expression over the frame's variables, its comprehensions and lambdas included: in pdb
    itself they don't see locals before 3.12."""
    return f"eval({literal(expression.strip())}, {{**globals(), **locals()}})"


def _split_complaint(text: str) -> tuple[str, str]:
    """What was printed, and the error that pdb reports below it."""
    printed, found, problem = text.rpartition("*** ")
    return (printed, problem.strip()) if found else (text, "")


def _more(end: int, size: int) -> Json:
    return {"next_start": end} if size > end else {}
