"""A pytest plugin that measures the distance between a test's failure and the fault.

It is copied into the sandbox and runs there: standard library only. `fault.json` next to it has
`test` (a node id), and `scopes`: `path` relative to the workspace, `name`, `first` and `last` line
of each faulty function, or of module-level code (`name` empty). It writes `calls_to_failure`,
`entries`, `call_depth` and `on_traceback` to `distance.json`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

FOLDER = os.path.dirname(os.path.abspath(__file__))
WORKSPACE = os.getcwd() + os.sep
MAX_DECORATOR_LINES = 20
"""A function's code starts at its first decorator, above the line of `def`."""


class Meter:
    """Counts calls of the workspace's functions while one test runs."""

    def __init__(self, test: str, scopes: list[dict[str, Any]]) -> None:
        self.test = test
        self.scopes = [{**scope, "path": WORKSPACE + scope["path"]} for scope in scopes]
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
            scope["path"] == path
            and scope["name"] == name
            and scope["first"] - MAX_DECORATOR_LINES <= line <= scope["last"]
            for scope in self.scopes
        )

    def pytest_unconfigure(self) -> None:
        entered = self.entries > 0
        found = {
            "calls_to_failure": self.calls - self.at_last_entry if entered else None,
            "entries": self.entries if entered else None,
            "call_depth": self.depth if entered else None,
            "on_traceback": self.on_traceback,
        }
        with open(os.path.join(FOLDER, "distance.json"), "w", encoding="utf-8") as file:
            json.dump(found, file)


def is_project(path: str) -> bool:
    """Whether code belongs to the project or its tests."""
    return path.startswith(WORKSPACE) and not path.startswith(FOLDER)


def pytest_configure(config: pytest.Config) -> None:
    with open(os.path.join(FOLDER, "fault.json"), encoding="utf-8") as file:
        fault = json.load(file)
    config.pluginmanager.register(Meter(fault["test"], fault["scopes"]), "stepinto-distance")
