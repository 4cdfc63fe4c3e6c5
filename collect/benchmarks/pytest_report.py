"""A pytest plugin that runs only the requested tests and reports each phase.

It is copied into the sandbox (see `collect.benchmarks.pytest_launch`) and runs there next to the
program under test: standard library only, CPython 3.8 and pytest 7 or later. It reports objects
with a `when`:

- `collected`: `tests`, the node ids to run.
- `collect`: a file or folder, `nodeid`, that can't be collected, or a conftest file that can't be
  imported.
- `start`: the test `nodeid` starts.
- `setup`, `call`, `teardown`: a phase of the test `nodeid` ended; `outcome` (passed, failed,
  skipped), `xfail` (whether the test itself expects to fail, and did), `seconds`, and `crash`
  (for a failure, where it was raised and the exception's text; else null).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import Any

import pytest

WORKSPACE = os.path.join(os.getcwd(), "")
"""Read once: a test may change its folder, and replace what tells it."""
MAX_MESSAGE = 2000
"""Characters kept of an exception's text."""


class Reporter:
    """Selects tests by node id, and reports their results."""

    def __init__(
        self,
        wanted: list[str] | None,
        write: Callable[[dict[str, Any]], None],
        ask: Callable[[pytest.Session], dict[str, Any] | None],
    ) -> None:
        """`wanted`: None selects every test. `ask` is called when these have run, and returns what
        to run after them, if anything: `paths`, and the `tests` among them."""
        self.wanted = None if wanted is None else set(wanted)
        self.write = write
        self.ask = ask
        self.expected: set[str] = set()

    # Inside pytest's own, of which pluggy would warn that they let an exception pass.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_cmdline_parse(self) -> Generator[None, Any, None]:
        outcome = yield
        error: Any = None if outcome.excinfo is None else outcome.excinfo[1]
        if type(error).__name__ == "ConftestImportFailure":
            self.write_uncollected(in_workspace(str(error.path)))

    # Last, so that it sees the collection after the project's own hooks.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        self.expected = {item.nodeid for item in items if expects_failure(item)}
        if self.wanted is not None:
            dropped = [item for item in items if item.nodeid not in self.wanted]
            items[:] = [item for item in items if item.nodeid in self.wanted]
            if dropped:
                config.hook.pytest_deselected(items=dropped)
        self.write({"when": "collected", "tests": [item.nodeid for item in items]})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, None, None]:
        yield
        more = self.ask(session)
        if more is not None:
            # In the same process, so that the program's interference shows, and after all others,
            # so that they are not disturbed.
            self.wanted = set(more["tests"])
            # Nobody reads how these fail, and formatting it takes longer than running them.
            session.config.option.tbstyle = "line"
            session.items = collect_beside(session, more["paths"])
            following = iter([*session.items[1:], None])
            for item in session.items:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=next(following))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write({"when": "start", "nodeid": nodeid})

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
            self.write_uncollected(report.nodeid.partition("::")[0])

    def write_uncollected(self, path: str) -> None:
        self.write({"nodeid": path, "when": "collect", "outcome": "failed", "xfail": False})


def collect_beside(session: pytest.Session, paths: list[str]) -> list[pytest.Item]:
    """The tests of additional files, under the folder nodes of earlier tests: those that a second
    `perform_collect` would create lack the conftest's fixtures."""
    modules: dict[Any, pytest.Module] = {}
    for item in session.items:
        # A doctest's module collects no functions.
        module = item.getparent(pytest.Module) if isinstance(item, pytest.Function) else None
        if module is not None and module.parent is not None:
            modules[module.path.parent] = module
    items: list[pytest.Item] = []
    for path in paths:
        full = session.config.rootpath / path
        if like := modules.get(full.parent):
            items += session.genitems(type(like).from_parent(like.parent, path=full))
    hook = session.config.hook
    hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
    return items


def expects_failure(item: pytest.Item) -> bool:
    """Whether the test itself is marked, rather than the program under test calling
    pytest.xfail."""
    marked = [getattr(item, "obj", None), getattr(item, "cls", None)]
    by_unittest = any(getattr(each, "__unittest_expecting_failure__", False) for each in marked)
    return by_unittest or item.get_closest_marker("xfail") is not None


def crash_of(report: pytest.TestReport) -> dict[str, Any] | None:
    """Where a test raised (relative to the workspace if inside it), and the exception."""
    if hasattr(report.longrepr, "errorstring"):
        return missing_fixture(report.longrepr)
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.outcome != "failed" or crash is None:
        return None
    return {
        "path": in_workspace(crash.path),
        "line": crash.lineno,
        "message": str(crash.message)[:MAX_MESSAGE],
    }


def in_workspace(path: str) -> str:
    return path[len(WORKSPACE) :] if path.startswith(WORKSPACE) else path


def missing_fixture(told: Any) -> dict[str, Any]:
    """What pytest says of a fixture that it can't find, as of an exception."""
    first = str(told.errorstring).strip().partition("\n")[0]
    message = f"FixtureLookupError: {first}"[:MAX_MESSAGE]
    path = in_workspace(str(told.filename))
    return {"path": path, "line": int(told.firstlineno), "message": message}
