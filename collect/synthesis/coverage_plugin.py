"""A pytest plugin that records which lines of the workspace each test runs.

It is copied into the sandbox (see `collect.synthesis.workbench`) and runs there with coverage.py.
`code.json` next to it lists the files to watch, relative to the workspace. It writes `tests` (node
ids) and `lines` (by file, then by line number, indices into `tests`) to `coverage.json`. A line
that runs during imports belongs to no test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import coverage
import pytest

FOLDER = os.path.dirname(os.path.abspath(__file__))
WORKSPACE = os.getcwd()


class Tracker:
    """Measures coverage with one context per test."""

    def __init__(self, code: list[str]) -> None:
        self.code = {os.path.join(WORKSPACE, path): path for path in code}
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
        with open(os.path.join(FOLDER, "coverage.json"), "w", encoding="utf-8") as file:
            json.dump({"tests": list(numbers), "lines": lines}, file)


def pytest_configure(config: pytest.Config) -> None:
    with open(os.path.join(FOLDER, "code.json"), encoding="utf-8") as file:
        config.pluginmanager.register(Tracker(json.load(file)), "stepinto-coverage")
