"""Source code as the oracle sees it: where to stop, and which expressions to look at.

Functions have the names that the language's debugger shows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from tokenize import TokenError

from collect.code import java_tree, syntax
from collect.code.java_tree import JavaSource
from collect.code.patches import ChangedRange, apply_patch, changed_ranges, parse, render
from collect.code.syntax import FunctionRange, PythonSource

SourceFile = PythonSource | JavaSource


@dataclass(frozen=True)
class Place:
    path: str
    line: int
    function: str
    """Qualified name; empty at module level."""


def read_source(path: str, data: bytes) -> SourceFile:
    """What a file holds: nothing if it can't be parsed, or is in another language."""
    read = JavaSource.read if path.endswith(".java") else PythonSource.read
    known = path.endswith((".java", ".py"))
    return (read(data) if known else None) or PythonSource(ast.Module([], []), "")


def find_test(files: Mapping[str, bytes], test: str) -> tuple[str, str]:
    """The path of a test's file, empty if it is not among these, and the name of its function:
    of `path::Class::name[parameters]` or `package.Class$Inner#name`."""
    where, _, name = test.partition("[")[0].replace("#", "::").partition("::")
    ending = f"/{where.partition('$')[0].replace('.', '/')}.java"
    java = (path for path in files if f"/{path}".endswith(ending))
    return where if where in files else next(java, ""), name.rpartition("::")[2]


Change = tuple[ChangedRange, ChangedRange]
"""Lines of a file, and what becomes of them in the changed file."""


def code_changes(files: Mapping[str, bytes], patch: str) -> list[Change]:
    """The changes of a patch that change the program: without those of comments, blank lines, white
    space and docstrings, unless there are no others. Changes of files that are not given are
    returned as they are. Raises PatchError."""
    changes, known = changed_ranges(patch), (each for each in parse(patch) if each.source in files)
    fixed = apply_patch(files, "".join(map(render, known)))
    found = [
        narrowed
        for before, after in changes
        for narrowed in _narrowed(
            (before, after),
            _code_lines(before.path, files.get(before.path)),
            _code_lines(after.path, fixed.get(after.path)),
        )
    ]
    return found or changes


def changed_code(files: Mapping[str, bytes], patch: str) -> list[ChangedRange]:
    """The lines of the program that a patch changes. Raises PatchError."""
    return [before for before, _ in code_changes(files, patch)]


@lru_cache(64)
def _code_lines(path: str, data: bytes | None) -> Mapping[int, str] | None:
    """The code of a file by line; None if it can't be read."""
    if data is None:
        return None
    try:
        if path.endswith(".java"):
            return java_tree.code_lines(data)
        return syntax.code_lines(data.decode()) if path.endswith(".py") else None
    except (SyntaxError, TokenError, UnicodeDecodeError):
        return None


def _narrowed(
    change: Change, old: Mapping[int, str] | None, new: Mapping[int, str] | None
) -> Iterator[Change]:
    """The parts of a change in which the code differs."""
    if old is None or new is None:
        yield change
        return
    before, after = change
    removed, added = _code_in(before, old), _code_in(after, new)
    texts = [old[line] for line in removed], [new[line] for line in added]
    if " ".join(texts[0]) == " ".join(texts[1]):
        return
    for kind, start, end, new_start, new_end in SequenceMatcher(
        None, *texts, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            yield _part(before, removed, start, end), _part(after, added, new_start, new_end)


def _code_in(changed: ChangedRange, code: Mapping[int, str]) -> list[int]:
    lines = () if changed.insertion else range(changed.start, changed.end + 1)
    return [line for line in lines if line in code]


def _part(changed: ChangedRange, lines: Sequence[int], start: int, end: int) -> ChangedRange:
    """The lines from one index to another; if there are none, an insertion between their
    neighbours."""
    if start < end:
        return ChangedRange(changed.path, lines[start], lines[end - 1])
    if changed.insertion:
        return changed
    before = lines[start - 1] if start else max(changed.start - 1, 1)
    after = lines[start] if start < len(lines) else changed.end + 1
    return ChangedRange(changed.path, before, after, insertion=True)


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
        source = read_source(changed.path, files[changed.path])
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
