"""A pytest plugin that watches tests: which lines each of them runs, or how far the failure of one
is from the fault.

It is copied into the sandbox (see `collect.synthesis.workbench`) and runs there, with coverage.py
for the lines. `watch.json` next to it has either of

- `code`: files to watch, relative to the workspace. The result has `tests` (node ids) and `lines`
  (by file, then by line number, indices into `tests`). A line that runs during imports belongs to
  no test.
- `test` (a node id) and `scopes`: the path relative to the workspace, name, first and last line of
  each faulty function, or of module-level code (without a name). The result has
  `calls_to_failure`, `entries`, `call_depth` and `on_traceback`.

It writes the result to `watched.json`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from types import FrameType

import pytest

FOLDER = os.path.dirname(os.path.abspath(__file__))
WORKSPACE = os.getcwd() + os.sep
MAX_DECORATOR_LINES = 20
"""A function's code starts at its first decorator, above the line of `def`."""


class Tracker:
    """Measures coverage with one context per test."""

    def __init__(self, code: list[str]) -> None:
        import coverage

        self.code = {WORKSPACE + path: path for path in code}
        self.measured = coverage.Coverage(
            data_file=None, config_file=False, include=list(self.code), messages=False
        )
        self.measured.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.measured.switch_context(item.nodeid)
        yield
        self.measured.switch_context("")

    def pytest_unconfigure(self) -> None:
        self.measured.stop()
        data = self.measured.get_data()
        numbers: dict[str, int] = {}
        lines: dict[str, dict[int, list[int]]] = {}
        for path in data.measured_files():
            if path in self.code:
                found = data.contexts_by_lineno(path)
                lines[self.code[path]] = {
                    line: [numbers.setdefault(test, len(numbers)) for test in sorted(tests) if test]
                    for line, tests in sorted(found.items())
                }
        write({"tests": list(numbers), "lines": lines})


class Meter:
    """Counts calls of the workspace's functions while one test runs."""

    def __init__(self, test: str, scopes: list[tuple[str, str, int, int]]) -> None:
        self.test = test
        self.scopes = scopes
        self.calls = 0
        self.entries = 0
        self.at_last_entry = 0
        self.depth = 0
        self.on_traceback = False

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if item.nodeid != self.test:
            yield
            return
        sys.setprofile(self.profile)
        yield
        sys.setprofile(None)

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if item.nodeid == self.test and call.excinfo is not None:
            self.on_traceback = any(
                self.is_faulty(str(entry.path), entry.name, entry.lineno + 1)
                for entry in call.excinfo.traceback
            )

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not is_project(code.co_filename):
            return
        self.calls += 1
        if self.is_faulty(code.co_filename, code.co_name, code.co_firstlineno):
            self.entries += 1
            self.at_last_entry = self.calls
            # Below the test, counting only functions of the project.
            frames = (caller for caller, _ in traceback.walk_stack(frame))
            self.depth = sum(is_project(each.f_code.co_filename) for each in frames) - 1

    def is_faulty(self, path: str, name: str, line: int) -> bool:
        return any(
            (WORKSPACE + scope, function) == (path, name)
            and first - MAX_DECORATOR_LINES <= line <= last
            for scope, function, first, last in self.scopes
        )

    def pytest_unconfigure(self) -> None:
        entered = self.entries > 0
        found: dict[str, object] = {
            "calls_to_failure": self.calls - self.at_last_entry if entered else None,
            "entries": self.entries if entered else None,
            "call_depth": self.depth if entered else None,
            "on_traceback": self.on_traceback,
        }
        write(found)


def is_project(path: str) -> bool:
    """Whether code belongs to the project or its tests."""
    return path.startswith(WORKSPACE) and not path.startswith(FOLDER)


def write(result: dict[str, object]) -> None:
    with open(os.path.join(FOLDER, "watched.json"), "w", encoding="utf-8") as file:
        json.dump(result, file)


def pytest_configure(config: pytest.Config) -> None:
    with open(os.path.join(FOLDER, "watch.json"), encoding="utf-8") as file:
        told = json.load(file)
    watcher = Tracker(**told) if "code" in told else Meter(**told)
    config.pluginmanager.register(watcher, "stepinto-watcher")
