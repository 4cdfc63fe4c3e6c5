"""Source code as the oracle sees it: where to stop, and which expressions to look at.

Functions have the names that the language's debugger shows.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collect.code.java_tree import JavaSource
from collect.code.patches import ChangedRange
from collect.code.syntax import FunctionRange, PythonSource

SourceFile = PythonSource | JavaSource


@dataclass(frozen=True)
class Place:
    path: str
    line: int
    function: str
    """Qualified name; empty at module level."""


NOTHING: SourceFile = PythonSource(ast.Module([], []), "")
"""Stands in for a file that can't be parsed."""


def read_source(path: str, data: bytes) -> SourceFile | None:
    if path.endswith(".py"):
        return PythonSource.read(data)
    return JavaSource.read(data) if path.endswith(".java") else None


def function_at(source: SourceFile, line: int) -> FunctionRange | None:
    """The innermost function around a line, including decorators and signature."""
    around = [found for found in source.functions if found.first <= line <= found.last]
    return max(around, key=lambda found: found.line, default=None)


def place_of(files: Mapping[str, bytes], ranges: Sequence[ChangedRange]) -> Place:
    """Where to stop for a change: at its first range that is in a function."""
    return places_of(files, ranges)[0]


def places_of(files: Mapping[str, bytes], ranges: Sequence[ChangedRange]) -> list[Place]:
    """Where to stop for a change, once per changed function; at least one place."""
    places = []
    inside: dict[tuple[str, str], Place] = {}
    for changed in ranges:
        source = read_source(changed.path, files[changed.path]) or NOTHING
        place = place_to_stop(source, changed)
        places.append(place)
        if place.function:
            inside.setdefault((place.path, place.function), place)
    return list(inside.values()) or places[:1]


def line_at_fault(ranges: Sequence[ChangedRange], place: Place) -> int:
    """The changed line for a place: its own, or a default value's, say, where nothing can stop."""
    changed = [each for each in ranges if each.path == place.path]
    nearest = min(changed, key=lambda each: abs(each.start - place.line))
    is_stop = nearest.insertion or nearest.start <= place.line <= nearest.end
    return place.line if is_stop else nearest.start


def place_to_stop(source: SourceFile, changed: ChangedRange) -> Place:
    """A statement in a range of lines, or else next to it, where the debugger can stop; for an
    insertion the statement before which something is missing."""
    start, end = changed.start, changed.end
    found = function_at(source, end) or function_at(source, start)
    name = found.name if found else ""
    lines = source.stops(found)
    if inside := [line for line in lines if start <= line <= end]:
        return Place(changed.path, inside[-1] if changed.insertion else inside[0], name)
    before = [line for line in lines if line < start]
    return Place(changed.path, before[-1] if before else (lines[0] if lines else start), name)
