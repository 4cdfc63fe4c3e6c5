"""Which events of a plain trace begin an execution of a statement.

What a statement is, is taken from the debugger's own reading of the source. In which order lines
run is what the interpreter reported, with no look at the bytecode's flow.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox.debugger.probe.statements import Statement, statements

Event = dict[str, Any]
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
TURNING = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Functions that are a comprehension."""
INLINED = (ast.ListComp, ast.SetComp, ast.DictComp)
"""Comprehensions that CPython 3.12 and later run in the frame around them."""
NEXT = ("FOR_ITER", "END_FOR", "GET_ANEXT", "END_ASYNC_FOR", "JUMP_BACKWARD")
"""Instructions that go on to a comprehension's next item."""
ENDS = ("END_ASYNC_FOR", "WITH_EXCEPT_START")
"""Instructions that end a statement, which CPython 3.9 has on the last line of its body."""
ENDS_TURN = ("JUMP_BACKWARD", "JUMP_ABSOLUTE", "RETURN_VALUE", *ENDS)
"""Also those that end a comprehension's turn, on the line of an element that may be left out."""


@dataclass
class Frame:
    """What has run in one frame."""

    code: tuple[str, int]
    """Its function's name and first line."""
    depth: int
    """The number of functions around that."""
    under_way: dict[int, tuple[Statement, set[int]]] = field(default_factory=dict)
    """Statements that have begun and not ended, with their lines that have run."""
    begins: dict[int, int] = field(default_factory=dict)
    """The least offset of each statement."""
    last: Event | None = None


class Source:
    """What the source of a program says of its lines."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self.statements = statements(tree)
        self.loops = set[int]()
        self.inside = set[int]()
        """Lines that lie in a comprehension alone."""
        self.headers = dict[int, tuple[str, int]]()
        """Lines from a function's decorators to its body, with its name and first line."""
        self.comprehensions = [node for node in ast.walk(tree) if isinstance(node, INLINED)]
        for node in ast.walk(tree):
            if isinstance(node, LOOPS):
                self.loops.update(self.statements[node.lineno].lines)
            if isinstance(node, COMPREHENSIONS):
                self.inside.update(_lines_inside(node, text.splitlines()))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
                for line in range(first, max(node.lineno + 1, node.body[0].lineno)):
                    self.headers[line] = node.name, first

    def turns(self, event: Event) -> bool:
        """Whether the instruction of an event runs for each turn of an inlined comprehension."""
        place = event["place"]
        if not place or place[0] is None:
            return False
        begin, end = (place[0], place[2]), (place[1], place[3])
        if event["name"] in NEXT:
            return any(_contains(node, begin, end) for node in self.comprehensions)
        return any(_runs_each_turn(node, begin, end) for node in self.comprehensions)


def _lines_inside(node: Any, lines: list[str]) -> set[int]:
    """The lines of a comprehension with none of what is outside or runs once."""
    first = node.generators[0].iter
    closes = not lines[node.end_lineno - 1][node.end_col_offset :].strip(" )]},")
    every = set(range(node.lineno + 1, node.end_lineno + closes))
    return every - set(range(first.lineno, first.end_lineno + 1))


def _runs_each_turn(node: Any, begin: tuple[int, int], end: tuple[int, int]) -> bool:
    parts = [getattr(node, name) for name in ("elt", "key", "value") if hasattr(node, name)]
    for number, generator in enumerate(node.generators):
        parts += [generator.target, *generator.ifs, *([generator.iter] if number else [])]
    return any(_contains(part, begin, end) for part in parts)


def _contains(node: Any, begin: tuple[int, int], end: tuple[int, int]) -> bool:
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return first <= begin and end <= last


class Executions:
    """Reads a plain trace from its first event to its last."""

    def __init__(self, text: str, trace: dict[str, Any], inlines: bool) -> None:
        self.source = Source(text)
        self.inlines = inlines
        self.events: list[Event] = trace["events"]
        self.frames = [Frame(tuple(each["code"]), each["depth"]) for each in trace["frames"]]
        self.calls = Counter(frame.code for frame in self.frames)
        self.least = dict[int, int]()
        """By line: the depth of the outermost function that runs it, to which it belongs."""
        for event in self.events:
            line, depth = event["line"], self.frames[event["frame"]].depth
            self.least[line] = min(depth, self.least.get(line, depth))

    def hits(self) -> Iterator[Event]:
        """The events that begin an execution."""
        for event in self.events:
            frame = self.frames[event["frame"]]
            begins = self._begins(event, frame)
            frame.last = event
            if begins and frame.depth == self.least[event["line"]]:
                yield event

    def _begins(self, event: Event, frame: Frame) -> bool:
        line, offset = event["line"], event["offset"]
        self._end(event, frame)
        statement = self.source.statements.get(line) or Statement({line}, set(), {line})
        key = min(statement.lines)
        _, ran = frame.under_way.setdefault(key, (statement, set()))
        frame.begins[key] = min(offset, frame.begins.get(key, offset))
        in_turn = self.inlines and self.source.turns(event) and line not in self.source.inside
        ends = event["name"] in (ENDS_TURN if frame.code[0] in TURNING else ENDS)
        begins = line not in ran and not in_turn and not ends
        ran.add(line)
        return begins

    def _end(self, event: Event, frame: Frame) -> None:
        """End the statements that an event is no part of, and those that a loop begins again."""
        line, last = event["line"], frame.last
        for key, (statement, ran) in list(frame.under_way.items()):
            if line not in statement.lines and line not in statement.between:
                del frame.under_way[key]
            elif last is not None and self._is_again(event, last, statement, frame):
                ran.clear()

    def _is_again(self, event: Event, last: Event, statement: Statement, frame: Frame) -> bool:
        line, offset = event["line"], event["offset"]
        if self.inlines and self.source.turns(event):
            return False
        if line == last["line"]:
            return line in self.source.loops or frame.code[0] in TURNING
        if offset > last["offset"]:
            return False
        # Before 3.9 a `return` goes back to its own instructions from the `finally` that it runs.
        loops = frame.code[0] in TURNING or not statement.between
        return offset == frame.begins.get(min(statement.lines)) or (
            loops and line in statement.heads
        )
