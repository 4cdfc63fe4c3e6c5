"""Run tests with pytest, or with unittest if there is no pytest."""

from __future__ import annotations

import os
import sys
from typing import Any, List

from .lookup import find_tests
from .memory import releasing
from .targets import Target, last_lines, run_unittest
from .wire import NoSuchTest, Refusal
from .workspace import Workspace


def run_name(target: Target) -> object:
    """Run a bare name: the one test function or class that has it."""
    name = target.names[0]
    found = find_tests(target.session.workspace, name)
    if not found:
        raise NoSuchTest(f"there is no test {name}" + target.near_tests())
    if len(found) > 1:
        raise NoSuchTest("there are several tests {}: {}".format(name, ", ".join(found[:8])))
    target.names = found
    return run_pytest(target)


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
    sys.argv = ["pytest", *target.names]
    plugin = plugin_for(target, pytest)
    code = int(pytest.main([*pytest_options(), *target.names], plugins=[plugin]))
    if not target.session.started and (code in (2, 3, 4, 5) or plugin.problems):
        raise explanation(target, code, plugin)
    target.say_passed(plugin.passed)
    return code


def explanation(target: Target, code: int, plugin: Plugin) -> Refusal:
    """Why pytest ran no test."""
    if plugin.problems:
        return Refusal(last_lines("\n".join(plugin.problems)))
    if code in (4, 5) and plugin.collecting:
        missing = "pytest found no test {}".format(" ".join(target.names))
        return NoSuchTest(missing + target.near_tests())
    message = "pytest ended with exit code {} before it looked for tests; its output says why"
    return Refusal(message.format(code))


def run_without_pytest(target: Target) -> object:
    """Without pytest, a node id may still be a unittest's."""
    path, _, name = target.names[0].partition("::")
    module = path[:-3].replace("/", ".") if path.endswith(".py") else path
    dotted = ".".join([module, *name.partition("[")[0].split("::")]).strip(".")
    import unittest

    if unittest.TestLoader().loadTestsFromName(dotted).countTestCases() == 0:
        raise Refusal(f"pytest is not installed for {sys.executable}, and no unittest")
    target.names = [dotted]
    return run_unittest(target)


def pytest_options() -> List[str]:
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


class Plugin:
    """Hooks that run when a test begins and when one fails."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.session = target.session
        self.problems: List[str] = []
        self.passed: List[str] = []
        self.collecting = False
        """Whether pytest has begun to look for tests."""
        self.devnull = open(os.devnull, "w")  # noqa: SIM115  # for as long as pytest writes

    def pytest_configure(self, config: Any) -> None:
        """The runner's own report is not the program's output."""
        reporter = config.pluginmanager.getplugin("terminalreporter")
        writer = getattr(reporter, "_tw", None)
        if writer is not None:
            writer._file = self.devnull

    def pytest_collection(self) -> None:
        self.collecting = True

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.problems.append(str(report.longrepr))

    def pytest_runtest_call(self, item: Any) -> None:
        function = getattr(item, "obj", None)
        self.target.arm_function(function)
        if function is not None:
            item.obj = releasing(function)

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        if hasattr(report, "context"):  # a subtest's; older versions need a plugin
            describe = getattr(report, "_sub_test_description", None) or report.sub_test_description
            self.session.subtest_failed(call.excinfo.value, describe())
        elif getattr(report, "when", "collect") != "collect":
            self.session.post_mortem(self._cause(call.excinfo.value))

    def _cause(self, error: Any) -> Any:
        """The exception that a program raised in a doctest; for an example with other output, both
        are shown."""
        doctest = sys.modules.get("doctest")
        if doctest is not None and isinstance(error, doctest.UnexpectedException):
            return error.exc_info[1]
        if doctest is not None and isinstance(error, doctest.DocTestFailure):
            said = "the doctest's {!r} gave {!r}, where {!r} was expected"
            example = error.example
            self.session.notes.append(said.format(example.source, error.got, example.want))
        return error

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self.passed.append(report.nodeid)
        said = outcome(report)
        if said:
            self.session.notes.append(f"{report.nodeid} {said}")

    def pytest_timeout_set_timer(self, item: Any, settings: Any) -> bool:
        """Disable pytest-timeout while debugging."""
        return True


def outcome(report: Any) -> str:
    """A note on how a test ended, beyond its exit code."""
    if report.failed and isinstance(report.longrepr, str):  # without an exception
        return f"failed: {report.longrepr}"
    if not hasattr(report, "wasxfail"):
        return "was skipped" if report.skipped else ""
    reason = report.wasxfail.replace("reason: ", "", 1)
    if reason.startswith("[NOTRUN]"):
        return "was not run, as its xfail wants"
    told = f" ({reason})" if reason else ""
    if report.skipped:
        return f"failed as expected (xfail){told}"
    return f"passed, though it was expected to fail (xfail){told}" if report.passed else ""


def plugin_for(target: Target, pytest: Any) -> Plugin:
    """The hooks in order; without decorators, since pytest is the program's and imported late."""
    pytest.hookimpl(trylast=True)(Plugin.pytest_configure)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_collectreport)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_runtest_call)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_exception_interact)
    pytest.hookimpl(tryfirst=True, optionalhook=True)(Plugin.pytest_timeout_set_timer)
    return Plugin(target)
