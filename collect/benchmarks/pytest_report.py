"""A pytest plugin that runs only the tests asked for and reports each phase as a JSON line.

It is copied into the sandbox (see `collect.benchmarks.pytest_run`) and runs there beside the
program under test: standard library only, CPython 3.8 and pytest 7 or later. `tests.json` next to
it lists the node ids, or is null for all; `report.jsonl` next to it gets one object a phase:
`nodeid`, `when` (setup, call, teardown), `outcome` (passed, failed, skipped), `xfail` (whether the
test itself expects to fail, and did), `seconds`, and `crash` (where a failed one raised, and the
exception's text; else null). What can't be collected is one object with `when` `collect` and the
`nodeid` of its file.
"""

from __future__ import annotations

import json
import os
from typing import Any, TextIO

import pytest

MAX_MESSAGE = 2000
"""Characters kept of an exception's text."""
FOLDER = os.path.dirname(os.path.abspath(__file__))


class Reporter:
    """Selects tests by node id, and writes what became of them."""

    def __init__(self, wanted: set[str] | None, report: TextIO) -> None:
        self.wanted = wanted
        self.report = report
        self.expected: set[str] = set()

    # Last, so that it sees what the project's own hooks made of the collection.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        self.expected = {item.nodeid for item in items if expects_failure(item)}
        if self.wanted is None:
            return
        dropped = [item for item in items if item.nodeid not in self.wanted]
        items[:] = [item for item in items if item.nodeid in self.wanted]
        if dropped:
            config.hook.pytest_deselected(items=dropped)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.write(
            {
                "nodeid": report.nodeid,
                "when": report.when,
                "outcome": report.outcome,
                "xfail": hasattr(report, "wasxfail") and report.nodeid in self.expected,
                "seconds": report.duration,
                "crash": crash_of(report),
            }
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == "failed":
            file = report.nodeid.partition("::")[0]
            self.write({"nodeid": file, "when": "collect", "outcome": "failed", "xfail": False})

    def write(self, fields: dict[str, Any]) -> None:
        self.report.write(json.dumps(fields) + "\n")
        # A test that kills the process or never ends must not take the earlier ones along.
        self.report.flush()

    def pytest_unconfigure(self) -> None:
        self.report.close()


def expects_failure(item: pytest.Item) -> bool:
    """Whether the test is marked so, rather than the program under test calling pytest.xfail."""
    marked = [getattr(item, "obj", None), getattr(item, "cls", None)]
    by_unittest = any(getattr(each, "__unittest_expecting_failure__", False) for each in marked)
    return by_unittest or item.get_closest_marker("xfail") is not None


def crash_of(report: pytest.TestReport) -> dict[str, Any] | None:
    """Where a test raised, relative to the workspace where it lies there, and what."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.outcome != "failed" or crash is None:
        return None
    path = os.path.relpath(crash.path) if crash.path.startswith(os.getcwd()) else crash.path
    return {"path": path, "line": crash.lineno, "message": str(crash.message)[:MAX_MESSAGE]}


def pytest_configure(config: pytest.Config) -> None:
    with open(os.path.join(FOLDER, "tests.json"), encoding="utf-8") as file:
        tests = json.load(file)
    wanted = None if tests is None else set(tests)
    report = open(os.path.join(FOLDER, "report.jsonl"), "a", encoding="utf-8")  # noqa: SIM115
    config.pluginmanager.register(Reporter(wanted, report), "stepinto-reporter")
