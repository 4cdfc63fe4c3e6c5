"""Reports which tests passed, because any program can write to the log, and which functions behind
the tests the program has replaced.

An image's interpreter (CPython 3.6 or later) loads it, never StepInto: as a plugin of pytest, or as
`sitecustomize` where the tests run under unittest. A file next to it holds a key. Each session
takes the key, leaves the key's digest for the next session, and at its end signs its report with
its own key, so that later code can't forge that report.
"""

import atexit
import hashlib
import hmac
import json
import math  # noqa: F401
import os
import sys
import unittest
from types import BuiltinFunctionType, FunctionType
from typing import Any, Callable, Dict, List, Set, Tuple  # noqa: UP035

NAME = "stepinto_confirmation"
FOLDER = os.path.dirname(os.path.abspath(__file__))


def _hide() -> None:
    """Hide this plugin from programs that tests start."""
    sys.path[:] = [path for path in sys.path if path != FOLDER]
    paths = os.environ.get("PYTHONPATH", "").split(":")
    _set("PYTHONPATH", ":".join(path for path in paths if path != FOLDER))
    _set("PYTEST_ADDOPTS", os.environ.get("PYTEST_ADDOPTS", "").replace("-p " + NAME, "").strip())


def _set(name: str, value: str) -> None:
    if value:
        os.environ[name] = value
    else:
        os.environ.pop(name, None)


WATCHED = ("builtins", "math", "json.encoder", "unittest.case", "unittest.result")
KINDS = (FunctionType, BuiltinFunctionType, type, staticmethod, classmethod, property)
BY_PYTEST = "_pytest.config.Config._getini_unknown_type"
"""pytest replaces this itself, for its fixture `tmpdir`."""


def _watch() -> Callable[[], List[str]]:  # noqa: UP006
    """Returns a function that names what was replaced since of pytest, unittest and Python."""
    owners: Dict[str, Any] = {}  # noqa: UP006
    for name, module in list(sys.modules.items()):
        if name in WATCHED or name.split(".")[0] in ("pytest", "_pytest", "pluggy"):
            owners[name] = module
            for key, value in vars(module).items():
                if isinstance(value, type) and value.__module__ == name:
                    owners[name + "." + key] = value
    before = [
        (owner, key, value, getattr(value, "__code__", None))
        for owner, of in owners.items()
        for key, value in vars(of).items()
        if isinstance(value, KINDS) and owner + "." + key != BY_PYTEST
    ]

    def replaced() -> List[str]:  # noqa: UP006
        return [
            owner + "." + key
            for owner, key, value, code in before
            if vars(owners[owner]).get(key) is not value
            or getattr(value, "__code__", None) is not code
        ]

    return replaced


def _session() -> Tuple[Set[str], Callable[..., None]]:  # noqa: UP006
    """Where to note the tests that passed, and a function that signs and writes the report."""
    with open(os.path.join(FOLDER, "key"), "r+") as file:
        key = file.read()
        file.seek(0)
        file.truncate()
        file.write(hashlib.sha256(key.encode()).hexdigest())
    # What the report is made with is bound before the program can replace it.
    encode, sign, digest = json.JSONEncoder(sort_keys=True).encode, hmac.new, hashlib.sha256
    passed: Set[str] = set()  # noqa: UP006
    number = len([name for name in os.listdir(FOLDER) if name.startswith("report-")])
    # Empty until the end, which identifies a session that did not finish.
    report_file = open(os.path.join(FOLDER, "report-%d" % number), "w")  # noqa: SIM115, UP031

    def finish(ran: bool, replaced: List[str]) -> None:  # noqa: UP006
        text = encode({"ran": ran, "passed": list(passed), "replaced": replaced})
        seal = sign(key.encode(), text.encode(), digest).hexdigest()
        with report_file:
            report_file.write(seal + " " + text)

    return passed, finish


def _hooks() -> Tuple[Callable[..., None], ...]:  # noqa: UP006
    """What pytest calls."""
    import pytest

    passed, finish = _session()
    watches: List[Callable[[], List[str]]] = []  # noqa: UP006

    @pytest.hookimpl(tryfirst=True)
    def load_initial_conftests() -> None:
        # All plugins have been loaded, and nothing of the project.
        watches.append(_watch())

    def logreport(report: Any) -> None:
        expected = report.skipped and hasattr(report, "wasxfail")
        if expected or (report.passed and report.when == "call"):
            passed.add(report.nodeid)

    def sessionfinish() -> None:
        finish(True, [name for watch in watches for name in watch()])

    def configure(config: Any) -> None:
        # Worker processes of pytest-xdist load the same plugins, and can't find this one.
        config.option.plugins = [name for name in config.option.plugins if name != NAME]

    return load_initial_conftests, logreport, sessionfinish, configure


def _observe_unittest() -> None:
    passed, finish = _session()
    process, kind = os.getpid(), unittest.TestResult
    ran: List[bool] = []  # noqa: UP006
    start, succeed = kind.startTest, kind.addSuccess

    def startTest(self: Any, test: Any) -> None:  # noqa: N802
        ran.append(True)
        start(self, test)

    def addSuccess(self: Any, test: Any) -> None:  # noqa: N802
        # A verbose runner shows a test by one of these.
        passed.update((str(test), (test.shortDescription() or "").strip()))
        succeed(self, test)

    setattr(kind, "startTest", startTest)  # noqa: B010
    setattr(kind, "addSuccess", addSuccess)  # noqa: B010
    watch = _watch()

    def end() -> None:
        # Not where a test has forked.
        if os.getpid() == process:
            finish(bool(ran), watch() if ran else [])

    atexit.register(end)


_hide()
if __name__ == "sitecustomize":
    _observe_unittest()
    # The interpreter's own, if it has one.
    own = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        sys.modules[__name__] = own
else:
    (
        pytest_load_initial_conftests,
        pytest_runtest_logreport,
        pytest_sessionfinish,
        pytest_configure,
    ) = _hooks()
