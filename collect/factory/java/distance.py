"""How far a Java test's failure lies from the fault."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from collect.factory.candidates import Candidate
from collect.factory.java.failures import Failure
from collect.mutations import Mutation


def read_distance(lines: Sequence[str]) -> Mapping[str, int | None]:
    """What `Trace` wrote of the failing test, by the names of `Difficulty`; empty where it wrote
    nothing: the fault is in no method, or the test did not end."""
    if not lines:
        return {}
    calls, entries, depth = map(int, lines[0].split("\t"))
    if not entries:
        return {}
    known = {"calls_to_failure": calls, "entries": entries}
    return {**known, "call_depth": depth if depth >= 0 else None}


def shows(failure: Failure, candidate: Candidate) -> bool | None:
    """Whether a stack trace has a faulty method; None where that can't be told."""
    methods = [part for part in candidate.parts if _is_in_method(part)]
    found = any(
        _is_in(part, frame.method, frame.file, frame.line)
        for part in methods
        for frame in failure.frames
    )
    return found if found or (failure.whole and methods) else None


def _is_in_method(part: Mutation) -> bool:
    """Classes are written with a capital, methods are not."""
    return not part.scope.rpartition(".")[2][:1].isupper()


def _is_in(part: Mutation, method: str, file: str, line: int) -> bool:
    first, last = part.scope_lines
    longer = max(0, part.text.count("\n") - part.source[part.start : part.end].count("\n"))
    same_file = posixpath.join("/", part.path).endswith(f"/{file}")
    same_method = part.scope.rpartition(".")[2] == method
    return same_file and same_method and first <= line <= last + longer
