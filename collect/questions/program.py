"""The parsed files of a bug: the program's own, and the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from collect.benchmarks.base import Instance
from collect.code.java_source import JavaSource
from collect.code.reading import FunctionRange
from collect.question_records import Location
from collect.questions.comparing import parse_value
from collect.questions.python_module import PythonModule
from collect.questions.statements import SourceModule, Statement, innermost, is_test_file
from sandbox.text import source_lines

LITERAL = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)+'|(?<![\w.])-?\d[\d_]*(?:\.\d+)?")
LEAVES = re.compile(r"\b(?:return|throw)\b")
MAY_STOP_TWICE = re.compile(r"->|::|\b(?:for|while|do|try|switch)\b")
"""Code that can make a debugger stop several times per execution of its line."""
NAME = re.compile(r"[A-Za-z_]\w*")
FIELD = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
ENDS = (";", "{", "}")
MAX_LINES = 12


class JavaModule:
    """One Java file of a program."""

    def __init__(self, path: str, text: str, source: JavaSource) -> None:
        self.path, self.text = path, text
        self.lines = source_lines(text)
        self._source = source

    @classmethod
    def read(cls, path: str, data: bytes) -> JavaModule | None:
        """The file, or None if it has no type."""
        source = JavaSource.read(data)
        return None if source is None else cls(path, data.decode("utf-8", "replace"), source)

    @cached_property
    def statements(self) -> Sequence[Statement]:
        """All statements in methods, by line; only the first of each line."""
        found: dict[int, Statement] = {}
        for function in self._source.functions:
            lines = self._source.stops(function)
            own = min((self._indent(line) for line in lines), default=0)
            left = False
            for line in lines:
                inside = self._indent(line) > own
                found.setdefault(line, self._statement(line, function, inside or left))
                left = left or (
                    inside and re.search(r"\b(?:return|throw)\b", self._at(line)) is not None
                )
        return [found[line] for line in sorted(found)]

    def at(self, line: int) -> Statement | None:
        """The innermost statement that spans this line."""
        return innermost(self.statements, line)

    def literals(self, function: str) -> Iterator[str]:
        """Literals in a method, and outside all methods, including initialisers."""
        inside = [each for each in self._source.functions if each.name == function]
        methods = [each for each in self._source.functions if not each.name.endswith("init>")]
        others = [each for each in methods if each.name != function]
        for number, text in enumerate(self.lines, 1):
            elsewhere = any(each.first <= number <= each.last for each in others)
            if not elsewhere or any(each.first <= number <= each.last for each in inside):
                yield from LITERAL.findall(text)

    def all_literals(self) -> Iterator[str]:
        """All literals of the file."""
        yield from LITERAL.findall(self.text)

    def raising_lines(self, function: str) -> list[int]:
        """The lines of a method's `throw` statements."""
        return [
            line
            for each in self._source.functions
            if each.name == function
            for line in self._source.stops(each)
            if self._at(line).startswith("throw ")
        ]

    def _statement(self, line: int, function: FunctionRange, conditional: bool) -> Statement:
        probes = self._source.probes(line, function.name)
        last = line
        while not self._at(last).endswith(ENDS) and last < min(line + MAX_LINES, function.last):
            last += 1
        return Statement(
            place=Location(file=self.path, line=line, last_line=last, function=function.name),
            source=self._at(line),
            conditional=conditional,
            once=last == line and MAY_STOP_TWICE.search(self._at(line)) is None,
            assigned=tuple(n for n in self._source.assigned(line) if NAME.fullmatch(n)),
            used=tuple(probe for probe in probes if NAME.fullmatch(probe)),
            attributes=tuple(probe for probe in probes if FIELD.fullmatch(probe)),
        )

    def _at(self, line: int) -> str:
        return self.lines[line - 1].partition("//")[0].strip()

    def _indent(self, line: int) -> int:
        text = self.lines[line - 1]
        return len(text) - len(text.lstrip())


FIXTURES = "conftest.py"
PARSED = 128
"""Number of files kept parsed: a patch changes few, and the next bug is often in the same project.
"""


@dataclass(frozen=True)
class Program:
    """The parsed files of a bug: the program's own, and the tests."""

    modules: Mapping[str, SourceModule]
    tests: Mapping[str, SourceModule]
    _written: dict[tuple[str, str, str], Sequence[object]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Cache of `written_out`, which is called for each of hundreds of values."""

    @classmethod
    def of(cls, instance: Instance, files: Mapping[str, bytes]) -> Program:
        """Invalid files, and files in other languages, are left out."""
        modules: dict[str, SourceModule] = {}
        tests: dict[str, SourceModule] = {}
        for path, data in sorted(files.items()):
            is_test = is_test_file(instance, path)
            module = _read(path, data, is_test)
            if module is not None:
                (tests if is_test else modules)[path] = module
        return cls(modules, tests)

    def module(self, path: str) -> SourceModule | None:
        """The module at a path, in the program or the tests."""
        return self.modules.get(path) or self.tests.get(path)

    def written_out(self, file: str, function: str, test: str) -> Sequence[object]:
        """The parsed literals in the places where one would look for a function's values."""
        key = file, function, test
        if key not in self._written:
            texts = dict.fromkeys(self._literals(file, function, test))
            self._written[key] = [parse_value(text) for text in texts]
        return self._written[key]

    def _literals(self, file: str, function: str, test: str) -> Iterator[str]:
        module = self.module(file)
        if module is not None:
            yield from module.literals(function)
        path, _, name = test.partition("::")
        for other, tests in self.tests.items():
            if other == path:
                yield from tests.literals(name.partition("[")[0].replace("::", "."))
            elif other.endswith(FIXTURES):
                yield from tests.all_literals()


@lru_cache(maxsize=PARSED)
def _read(path: str, data: bytes, is_test: bool) -> SourceModule | None:
    if path.endswith(".java"):
        return JavaModule.read(path, data)
    if not path.endswith(".py"):
        return None
    try:
        return PythonModule(path, data, is_test)
    except (SyntaxError, ValueError):
        return None
