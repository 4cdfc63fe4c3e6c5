"""The parsed files of a bug: the program's own, and the tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collect.benchmarks.base import Instance
from collect.questions.java_module import JavaModule
from collect.questions.python_module import PythonModule
from collect.questions.statements import SourceModule, is_test_file


@dataclass(frozen=True)
class Program:
    """The parsed files of a bug: the program's own, and the tests."""

    modules: Mapping[str, SourceModule]
    tests: Mapping[str, SourceModule]

    @classmethod
    def of(cls, instance: Instance, files: Mapping[str, bytes]) -> Program:
        """Files in no language that is read, and invalid ones, are left out."""
        modules: dict[str, SourceModule] = {}
        tests: dict[str, SourceModule] = {}
        for path, data in sorted(files.items()):
            is_test = is_test_file(instance, path)
            module = _read(path, data, is_test)
            if module is not None:
                (tests if is_test else modules)[path] = module
        return cls(modules, tests)

    def module(self, path: str) -> SourceModule | None:
        """The module at a path, wherever it belongs."""
        return self.modules.get(path) or self.tests.get(path)


def _read(path: str, data: bytes, is_test: bool) -> SourceModule | None:
    if path.endswith(".java"):
        return JavaModule.read(path, data)
    if not path.endswith(".py"):
        return None
    try:
        return PythonModule(path, data, is_test)
    except (SyntaxError, ValueError):
        return None
