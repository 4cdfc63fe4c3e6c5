"""Twins: copies of tests that show whether a test run in pytest's process can be trusted.

Code under test can change what pytest does there. So if all tests pass, more tests run after them
in the same process, under random names: a copy of each test that decides on the bug, with a failing
statement added at its end; an unchanged copy of one of them; and a test that only fails. Code that
makes tests pass would have to tell these apart.

A twin may also disagree for a legitimate reason: the test depends on its module's name, or can't
run twice. A run with the gold patch finds those tests (`collect.scoring`).
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import dirname, join
from string import ascii_lowercase
from typing import TypeAlias

from collect.benchmarks.base import TestStatus
from collect.code.syntax import parse

MAX_TWINS = 10
"""Limit of failing twins."""
CANARY = "a test that must fail"
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_CHANCE = random.SystemRandom()


@dataclass(frozen=True)
class Twin:
    """A test to run after the others."""

    test: str
    """Its node id."""
    of: str
    """The test that it copies, or CANARY."""
    fails_with: str | None
    """What its failure message must contain; None if it must pass."""


@dataclass(frozen=True)
class Twins:
    """The twins of one run."""

    deciding: tuple[str, ...]
    """Tests that must all have passed before the twins run."""
    files: Mapping[str, str]
    """Sources by path relative to the workspace, at paths that don't exist yet."""
    twins: tuple[Twin, ...]

    def order(self) -> dict[str, object]:
        """The twins as sent to the launcher."""
        tests = [twin.test for twin in self.twins]
        return {"deciding": self.deciding, "files": dict(self.files), "tests": tests}

    def are_needed(self, statuses: Mapping[str, TestStatus]) -> bool:
        """Whether these statuses mean that the twins have run, or should have."""
        passed = all(statuses[test] is TestStatus.PASSED for test in self.deciding)
        return passed and TestStatus.FAILED not in statuses.values()

    def disagreeing(self, reports: Iterable[Mapping[str, object]]) -> dict[str, str]:
        """Each copied test whose twin gave a wrong result, with that result."""
        phases: dict[str, list[Mapping[str, object]]] = {}
        for report in reports:
            phases.setdefault(str(report["nodeid"]), []).append(report)
        found = [(twin.of, _wrong(twin, phases.get(twin.test, []))) for twin in self.twins]
        return {of: wrong for of, wrong in found if wrong is not None}


def make_twins(deciding: Sequence[str], sources: Mapping[str, bytes]) -> Twins | None:
    """Twins of these tests from the sources of their files, by path; None if there are none.

    Tests without a function in their file, such as generated ones, have no twin.
    """
    readable = [test for test in deciding if _file(test) in sources]
    if not readable:
        return None
    made = [_canary(readable[0]), *_copies(readable, sources)]
    files = {copy.path: copy.source for copy in made}
    return Twins(tuple(deciding), files, tuple(twin for copy in made for twin in copy.twins))


def _wrong(twin: Twin, phases: Sequence[Mapping[str, object]]) -> str | None:
    if not phases:
        return "its twin did not run"
    failed = [phase for phase in phases if phase["outcome"] == "failed"]
    if twin.fails_with is None:
        return "its twin fails" if failed else None
    if any(twin.fails_with in str(phase.get("crash")) for phase in failed):
        return None
    return "its twin does not come to its end" if failed else "its twin passes, which must fail"


@dataclass(frozen=True)
class _Copy:
    """One file of twins."""

    path: str
    source: str
    twins: tuple[Twin, ...]


def _canary(test: str) -> _Copy:
    """A canary that matches the project's test patterns if this test does."""
    path = join(dirname(_file(test)), f"test_{_word()}.py")
    name, message = _renamed(test.partition("[")[0].rpartition("::")[2]), _word()
    source = f"def {name}():\n    raise AssertionError({message!r})\n"
    return _Copy(path, source, (Twin(f"{path}::{name}", CANARY, message),))


def _copies(tests: Sequence[str], sources: Mapping[str, bytes]) -> Iterator[_Copy]:
    must_pass = _CHANCE.choice(tests)
    for file in dict.fromkeys(map(_file, tests)):
        mine = [test for test in tests[:MAX_TWINS] if _file(test) == file]
        alike = [must_pass] if _file(must_pass) == file else []
        for chosen, must_fail in ((mine, True), (alike, False)):
            copy = _copied(file, sources[file], chosen, must_fail)
            if copy is not None:
                yield copy


def _copied(file: str, source: bytes, tests: Sequence[str], must_fail: bool) -> _Copy | None:
    """A file with these tests renamed, and failing at the end if they must."""
    try:
        text = source.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        tree = parse(text)
    except (SyntaxError, ValueError):
        return None
    path = join(dirname(file), f"test_{_word()}.py")
    lines = [line.encode() for line in text.split("\n")]
    found: dict[str, _Renamed] = {}
    twins = []
    for test in tests:
        names, bracket, parameters = test.partition("::")[2].partition("[")
        *classes, old = names.split("::")
        if names not in found:
            function = _function(tree, classes, old)
            ends = function is not None and isinstance(function.body[-1], ast.Return | ast.Raise)
            if function is None or (ends and must_fail):
                continue
            found[names] = _Renamed(function, _renamed(old), _word() if must_fail else None)
        new = found[names]
        twin = "::".join([path, *classes, new.name]) + bracket + parameters
        twins.append(Twin(twin, test, new.message))
    # From the last to the first, so that the positions of the others stay valid.
    for new in sorted(found.values(), key=lambda each: -each.function.lineno):
        new.write(lines)
    return _Copy(path, b"\n".join(lines).decode(), tuple(twins)) if twins else None


@dataclass(frozen=True)
class _Renamed:
    """A test function under a new name."""

    function: Function
    name: str
    message: str | None
    """Message of the statement added at its end."""

    def write(self, lines: list[bytes]) -> None:
        """Change the lines of its file."""
        if self.message is not None:
            self._add_end(lines, f"raise AssertionError({self.message!r})".encode())
        at, start = self.function.lineno - 1, self.function.col_offset
        old = rb"\bdef(\s+)%s\b" % re.escape(self.function.name).encode()
        new = rb"def\g<1>%s" % self.name.encode()
        lines[at] = lines[at][:start] + re.sub(old, new, lines[at][start:], count=1)

    def _add_end(self, lines: list[bytes], statement: bytes) -> None:
        first, last = self.function.body[0], self.function.body[-1]
        end, column = (last.end_lineno or last.lineno) - 1, last.end_col_offset or 0
        before = lines[first.lineno - 1][: first.col_offset]
        if before.strip():
            # The body is on the line of its `def`.
            lines[end] = lines[end][:column] + b"; " + statement + lines[end][column:]
        else:
            lines.insert(end + 1, before + statement)


def _function(scope: ast.AST, classes: Sequence[str], name: str) -> Function | None:
    """The last definition of this name in the scope, also below an `if` or a `try`."""
    defined = list(_defined(scope))
    if classes:
        inner = [c for c in defined if isinstance(c, ast.ClassDef) and c.name == classes[0]]
        return _function(inner[-1], classes[1:], name) if inner else None
    found = [f for f in defined if isinstance(f, Function) and f.name == name]
    return found[-1] if found else None


def _defined(scope: ast.AST) -> Iterator[Function | ast.ClassDef]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, Function | ast.ClassDef):
            yield node
        elif isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from _defined(node)


def _renamed(name: str) -> str:
    """A new name with the same first word, so that it still matches the project's test patterns."""
    first = re.match(r"_*[a-z]*", name)
    return f"{first.group() if first else ''}_{_word()}"


def _file(test: str) -> str:
    return test.partition("::")[0]


def _word() -> str:
    """A random word of letters."""
    return "".join(_CHANCE.choices(ascii_lowercase, k=12))
