"""Runs tests with unittest."""

from __future__ import annotations

import re
import sys
from typing import Any

from .interpreter import import_standard
from .memory import releasing
from .targets import Target, last_lines
from .wire import NoSuchTest, Refusal


def run_unittest(target: Target) -> object:
    import unittest

    sys.argv = ["python -m unittest", *target.names]
    loader = unittest.TestLoader()
    try:
        suite = loader.loadTestsFromNames(target.names)
    except (Exception, SystemExit):  # raised by the test's module as it is imported
        raise Refusal(last_lines(import_standard("traceback").format_exc())) from None
    if loader.errors:
        raise explanation(target, "\n".join(map(str, loader.errors)))
    if not suite.countTestCases():
        raise NoSuchTest("there is no test in {}".format(" ".join(target.names)))
    result = stopping_result(unittest.TestResult, target)
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


MISSING = re.compile(
    r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)'?"
    r"|AttributeError: (?:module|type object) .* has no attribute '(\w+)'"
)


def explanation(target: Target, problems: str) -> Refusal:
    """Why unittest loaded no test: the name is wrong, or its module does not import."""
    found = MISSING.match(problems.strip().splitlines()[-1])
    missing = (found.group(1) or found.group(2)) if found else ""
    for name in target.names:
        parts = name.split(".")
        if missing and (missing in parts or missing == ".".join(parts[: missing.count(".") + 1])):
            message = f"there is no test {name}: there is no {missing} in it"
            return NoSuchTest(message + target.near_tests())
    return Refusal(last_lines(problems))


def stopping_result(base: type, target: Target) -> Any:
    """A result that arms the entry before a test, and stops where one fails."""

    class Result(base):  # type: ignore[misc]  # the class is only known at run time
        def startTest(self, test: Any) -> None:  # noqa: N802
            super().startTest(test)
            name = getattr(test, "_testMethodName", "")
            function = getattr(test, name, None)
            target.arm_function(function)
            if function is not None:
                setattr(test, name, releasing(function))

        def stopTest(self, test: Any) -> None:  # noqa: N802
            super().stopTest(test)
            vars(test).pop(getattr(test, "_testMethodName", ""), None)

        def addError(self, test: Any, err: Any) -> None:  # noqa: N802
            super().addError(test, err)
            target.session.post_mortem(err[1])

        def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
            super().addFailure(test, err)
            target.session.post_mortem(err[1])

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
            super().addSubTest(test, subtest, err)
            if err is not None:
                target.session.post_mortem(err[1])

        def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
            super().addSkip(test, reason)
            target.session.notes.append(f"{test} was skipped: {reason}")

    return Result()
