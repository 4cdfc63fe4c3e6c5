"""Run tests with pytest, by a plugin that stops where one fails and tells what pytest reports."""

from __future__ import annotations

import os
import sys
from typing import Any, Iterator

from .causes import keep_unexpected
from .interpreter import LIMIT, depth
from .memory import releasing
from .outcomes import Verdict, outcome, runs_again
from .problems import listed, why
from .reports import Reports, plugin_of
from .targets import Target, reached_program
from .unittest_runs import run_unittest
from .wire import NoSuchTest, Refusal
from .workspace import Workspace, find_tests, is_test_file

SHOWN_CASES = 5
PYTEST_LEVELS = 3
"""Frames below `pytest.main` of `python -m pytest`."""


def run_name(target: Target) -> object:
    """Run a bare name: the one test function or class that has it; or a dotted one, with pytest
    if its file is one of pytest's."""
    name = target.names[0]
    if "." in name:
        node = node_of(target.session.workspace, name)
        if node is None or not has_pytest():
            return run_unittest(target)
        target.names = [node]
        return run_pytest(target)
    found = find_tests(target.session.workspace, name)
    if not found:
        raise NoSuchTest(f"there is no test {name}" + target.near_tests())
    if len(found) > 1:
        raise NoSuchTest("there are several tests {}: {}".format(name, ", ".join(found[:8])))
    target.names = found
    return run_pytest(target)


def node_of(workspace: Workspace, dotted: str) -> str | None:
    """The node id of `tests.test_cart.CartTest.test_total`; None if no test file has it."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        path = os.path.join(workspace.root, *parts[:length]) + ".py"
        if is_test_file(path) and os.path.isfile(path):
            return "::".join([workspace.relative(path), *parts[length:]])
    return None


def has_pytest() -> bool:
    from importlib.util import find_spec

    return find_spec("pytest") is not None


def preload(kind: str, workspace: Workspace) -> None:
    """Import the test runner before anything is traced, which would take twice as long; but not if
    it is itself the program under test."""
    if kind not in ("pytest", "name"):
        return
    from importlib.util import find_spec

    path = sys.path[:]
    sys.path.insert(0, workspace.root)
    try:
        spec = find_spec("pytest")
        if spec is not None and spec.origin and not workspace.mine(spec.origin):
            import pytest  # noqa: F401
    except Exception:
        return  # reported when the tests run
    finally:
        sys.path[:] = path


def run_pytest(target: Target) -> object:
    try:
        import pytest
    except ImportError:
        return run_without_pytest(target)
    arguments = [*target.names, *target.options]
    sys.argv = ["pytest", *arguments]
    plugin = plugin_for(target, pytest)
    pause_quietly()
    if not target.session.workspace.mine(pytest.__file__):
        target.session.tracer.rest()
    LIMIT.begin(depth() - PYTEST_LEVELS)
    stderr = sys.stderr
    try:
        plugins = [plugin, plugin_of(plugin.reports, pytest)]
        code = int(pytest.main([*pytest_options(), *arguments], plugins=plugins))
    except Exception as error:
        if target.session.started:
            raise
        raise Refusal(why(error, target.session.workspace)) from None
    finally:
        sys.stderr = stderr
        plugin.devnull.close()
    if not target.session.started and (code in (2, 3, 4, 5) or plugin.problems):
        raise pytest_explanation(target, code, plugin)
    target.session.outcomes.running = ""
    plugin.report()
    if plugin.broken is not None:
        target.session.notes.append(
            f"pytest ended early: {why(plugin.broken, target.session.workspace)}"
        )
    target.say_verdict(plugin.verdict, code)
    return code


def pause_quietly() -> None:
    """Keep pytest from ending its capture and printing a banner where a test calls pdb, in whose
    place the debugger pauses."""
    from bdb import Bdb

    debugging = sys.modules.get("_pytest.debugging")
    if hasattr(getattr(debugging, "pytestPDB", None), "_init_pdb"):
        debugging.pytestPDB._init_pdb = lambda *_, **__: Bdb()  # type: ignore[union-attr]


def pytest_explanation(target: Target, code: int, plugin: Plugin) -> Refusal:
    """Why pytest ran no test."""
    if plugin.problems:
        return Refusal(listed(plugin.problems))
    named = "".join(f" {name!r}" if " " in name else f" {name}" for name in target.names)
    if plugin.deselected and code == 5:
        of = f" of{named}" if named else ""
        return NoSuchTest(f"pytest's options leave out every test{of}{plugin.selection()}")
    skipped = target.session.outcomes.take()
    if skipped and code == 5:
        return Refusal("pytest has no test to run: " + "; ".join(skipped))
    if code in (4, 5) and plugin.collecting:
        return NoSuchTest(f"pytest found no test{named}" + target.near_tests())
    if plugin.broken is not None:
        return Refusal(why(plugin.broken, target.session.workspace))
    message = "pytest ended with exit code {} before it looked for tests; its output says why"
    return Refusal(message.format(code))


def run_without_pytest(target: Target) -> object:
    """Without pytest, a node id may still be a unittest's."""
    if not target.names:
        raise Refusal(f"pytest is not installed for {sys.executable}")
    path, _, name = target.names[0].partition("::")
    module = path[:-3].replace("/", ".") if path.endswith(".py") else path
    dotted = ".".join([module, *name.partition("[")[0].split("::")]).strip(".")
    import unittest

    if unittest.TestLoader().loadTestsFromName(dotted).countTestCases() == 0:
        raise Refusal(f"pytest is not installed for {sys.executable}, and no unittest")
    target.names = [dotted]
    return run_unittest(target)


def pytest_options() -> list[str]:
    """Options that keep a debugged run in one process, uncaptured, without time-out."""
    options = [
        "-s",
        "-o",
        "faulthandler_timeout=0",
        "--rootdir=.",
        "-o",
        "cache_dir=/tmp/pytest-cache",
    ]
    if is_loaded("xdist"):
        options += ["-n", "0"]
    if is_loaded("pytest_cov"):
        options += ["--no-cov"]
    return options


def is_loaded(plugin: str) -> bool:
    """Whether pytest will load an installed plugin, and so know its options."""
    from importlib.util import find_spec

    if not find_spec(plugin):
        return False
    asked = os.environ.get("PYTEST_PLUGINS", "") + os.environ.get("PYTEST_ADDOPTS", "")
    return plugin in asked or not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")


OUTSIDE = {
    "setup": "it was raised in the set-up of the test, which itself did not run",
    "teardown": "it was raised after the test itself, in its teardown",
}
"""What a report's `when` means of the exception."""
ELSEWHERE = {
    "PytestUnhandledThreadExceptionWarning": "in a thread",
    "PytestUnraisableExceptionWarning": "where nothing can handle it, as in a finaliser",
}
"""With `filterwarnings = error`, what pytest makes of an exception that nothing handles; from
version 8.4 on with that as its cause."""
UNHANDLED = "it was raised {}; the test fails as pytest makes an error of its warning of that"


class Plugin:
    """Hooks that run when a test begins and when one fails."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.session = target.session
        self.problems: list[str] = []
        self.verdict = Verdict()
        self.reports = Reports(target.session.link, target.session.workspace)
        self.broken: BaseException | None = None
        """What ended pytest itself."""
        self.collecting = False
        """Whether pytest has begun to look for tests."""
        self.are_several = False
        """Whether several tests run."""
        self.deselected = 0
        self.options: Any = None
        self.devnull = open(os.devnull, "w")  # noqa: SIM115  # for as long as pytest writes

    def pytest_cmdline_parse(self) -> Iterator[None]:
        """From here on pytest may load plugins and modules of the program."""
        self.session.tracer.run_freely(None)
        self.note_broken((yield))

    def pytest_cmdline_main(self) -> Iterator[None]:
        self.note_broken((yield))

    def note_broken(self, outcome: Any) -> None:
        """Note what ended pytest; its own long report of that is not the program's output."""
        if outcome.excinfo is not None:
            self.broken = outcome.excinfo[1]
            sys.stderr = self.devnull

    def pytest_internalerror(self, excinfo: Any) -> None:
        self.broken = excinfo.value

    def pytest_configure(self, config: Any) -> None:
        """The runner's own report is not the program's output."""
        self.options = config.option
        self.reports.watch(config)
        if self.reports.writer is not None:
            self.reports.writer._file = self.devnull

    def pytest_collection(self) -> None:
        self.collecting = True

    def pytest_collection_finish(self, session: Any) -> None:
        """Note which cases a test has that is named without one: all of them run."""
        self.are_several = len(session.items) > 1
        for name in self.target.names:
            cases = [item.nodeid for item in session.items if item.nodeid.startswith(f"{name}[")]
            if len(cases) > 1:
                more = f" and {len(cases) - SHOWN_CASES} more" if len(cases) > SHOWN_CASES else ""
                shown = ", ".join(cases[:SHOWN_CASES])
                said = "{} has {} cases, which run in turn; to choose one: {}{}"
                self.session.notes.append(said.format(name, len(cases), shown, more))

    def pytest_deselected(self, items: Any) -> None:
        self.deselected += len(items)

    def selection(self) -> str:
        """The options that select tests, and how to undo those of the project."""
        chosen = {"-k": self.options.keyword, "-m": self.options.markexpr}
        shown = [f"{name} {text!r}" for name, text in chosen.items() if text]
        undone = "; -m '' selects all markers" if self.options.markexpr else ""
        return f" ({', '.join(shown)}{undone})" if shown else ""

    def pytest_runtest_setup(self, item: Any) -> None:
        self.session.watch_unhandled()
        self.session.outcomes.running = item.nodeid if self.are_several else ""

    def pytest_runtest_teardown(self) -> None:
        self.session.watch_unhandled()

    def pytest_runtest_call(self, item: Any) -> None:
        self.session.watch_unhandled()
        keep_unexpected()
        function = getattr(item, "obj", None)
        self.target.arm_function(function)
        if function is not None:
            item.obj = releasing(function)

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        if hasattr(report, "context"):  # a subtest's; older versions need a plugin
            self.reports.add_sections(report)
            self.report()
            describe = getattr(report, "_sub_test_description", None) or report.sub_test_description
            self.session.subtest_failed(call.excinfo.value, describe())
            return
        error = call.excinfo.value
        if getattr(report, "when", "collect") == "collect":
            self.problems.append(why(error, self.session.workspace))
        elif report.when == "setup" and not reached_program(self.session, error):
            self.problems.append(why(error, self.session.workspace))
            self.session.notes.append(f"{node.nodeid} was not run: {self.problems[-1]}")
        else:
            self.session.outcomes.running = ""
            if node.nodeid not in self.target.names:
                self.session.notes.append(f"the test that failed is {node.nodeid}")
            if report.when in OUTSIDE:
                self.session.notes.append(OUTSIDE[report.when])
            self.session.notes += runs_again(node)
            self.reports.add_sections(report)
            self.reports.add_pending(node.config)
            self.report()
            cause = self._cause(error)
            # What pytest made of it was told as unhandled before.
            self.session.post_mortem(cause, counted=cause is error.__cause__)

    def _cause(self, error: Any) -> Any:
        """The program's exception behind pytest's; for an example of a doctest with other output,
        says both."""
        elsewhere = ELSEWHERE.get(type(error).__name__)
        if elsewhere is not None and error.__cause__ is not None:
            self.session.notes.append(UNHANDLED.format(elsewhere))
            return error.__cause__
        doctest = sys.modules.get("doctest")
        if doctest is not None and isinstance(error, doctest.UnexpectedException):
            return error.exc_info[1]
        if doctest is not None and isinstance(error, doctest.DocTestFailure):
            said = "the doctest's {!r}{} gave {!r}, where {!r} was expected"
            example, test = error.example, error.test
            at = ""
            if test.filename and test.lineno is not None:
                file = self.session.workspace.relative(test.filename)
                at = f" at {file}:{test.lineno + example.lineno + 1}"
            self.session.notes.append(said.format(example.source, at, error.got, example.want))
        return error

    def report(self) -> None:
        """Add to the output what pytest has reported."""
        self.session.evaluator.flush(self.session.link.streams())
        self.reports.send()

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Note what ended the run before its last test, such as `pytest.exit`."""
        # pytest's own subclass ends a run for which collecting has failed.
        if type(excinfo.value) is KeyboardInterrupt:
            self.session.post_mortem(excinfo.value)
        self.broken = excinfo.value

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.verdict.add_failed(report.nodeid)
        is_own = not hasattr(report, "context") and not hasattr(report, "wasxfail")
        if is_own and report.when == "call" and report.passed:
            self.verdict.add_passed(report.nodeid)
        self.session.outcomes.add(report.nodeid, outcome(report))

    def pytest_collectreport(self, report: Any) -> None:
        if report.skipped:
            self.session.outcomes.add(report.nodeid, outcome(report))

    def pytest_timeout_set_timer(self, item: Any, settings: Any) -> bool:
        """Disable pytest-timeout while debugging."""
        return True


def plugin_for(target: Target, pytest: Any) -> Plugin:
    """The hooks in order; without decorators, since pytest is the program's and imported late."""
    pytest.hookimpl(trylast=True)(Plugin.pytest_configure)
    # Inside pytest's own, of which pluggy would print that they let an exception pass.
    pytest.hookimpl(hookwrapper=True, trylast=True)(Plugin.pytest_cmdline_parse)
    pytest.hookimpl(hookwrapper=True, trylast=True)(Plugin.pytest_cmdline_main)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_runtest_setup)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_runtest_call)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_runtest_teardown)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_exception_interact)
    pytest.hookimpl(tryfirst=True, optionalhook=True)(Plugin.pytest_timeout_set_timer)
    return Plugin(target)
