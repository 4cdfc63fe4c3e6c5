"""A pytest plugin that reports which tests passed, because any program can write to the log.

An image's interpreter (CPython 3.6 or later) loads it, never StepInto. A file next to it holds a
key. Each session takes the key, leaves the key's digest for the next session, and at its end signs
its report with its own key, so that later code can't forge that report.
"""

import hashlib
import hmac
import json
import os
import sys
from typing import Any, Callable, Tuple  # noqa: UP035

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


def _hooks() -> Tuple[Callable[[Any], None], Callable[[], None]]:  # noqa: UP006
    with open(os.path.join(FOLDER, "key"), "r+") as file:
        key = file.read()
        file.seek(0)
        file.truncate()
        file.write(hashlib.sha256(key.encode()).hexdigest())
    passed = set()
    number = len([name for name in os.listdir(FOLDER) if name.startswith("report-")])
    # Empty until the end, which identifies a session that did not finish.
    report_file = open(os.path.join(FOLDER, "report-%d" % number), "w")  # noqa: SIM115, UP031

    def logreport(report: Any) -> None:
        expected = report.skipped and hasattr(report, "wasxfail")
        if expected or (report.passed and report.when == "call"):
            passed.add(report.nodeid)

    def sessionfinish() -> None:
        text = json.dumps(sorted(passed))
        seal = hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
        with report_file:
            report_file.write(seal + " " + text)

    return logreport, sessionfinish


def pytest_configure(config: Any) -> None:
    """Worker processes of pytest-xdist load the same plugins as the first process, and can't find
    this one."""
    config.option.plugins = [name for name in config.option.plugins if name != NAME]


_hide()
pytest_runtest_logreport, pytest_sessionfinish = _hooks()
