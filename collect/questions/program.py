"""The parsed files of a bug: the program's own, and the tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from collect.benchmarks.base import Instance
from collect.questions.comparing import parse_value
from collect.questions.java_module import JavaModule
from collect.questions.python_module import PythonModule
from collect.questions.statements import SourceModule, is_test_file

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
