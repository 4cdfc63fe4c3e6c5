"""Runs tests with unittest."""

from __future__ import annotations

import sys
from typing import Any

from .targets import Target, last_lines
from .wire import Refusal


def run_unittest(target: Target) -> object:
    import unittest

    sys.argv = ["python -m unittest", *target.names]
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(target.names)
    if loader.errors:
        problems = last_lines("\n".join(map(str, loader.errors)))
        raise Refusal(problems + target.near_tests())
    if not suite.countTestCases():
        raise Refusal("there is no test in {}".format(" ".join(target.names)))
    result = stopping_result(unittest.TestResult, target)
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


def stopping_result(base: type, target: Target) -> Any:
    """A result that arms the entry before a test, and stops where one fails."""

    class Result(base):  # type: ignore[misc]  # the class is only known at run time
        def startTest(self, test: Any) -> None:  # noqa: N802
            super().startTest(test)
            target.arm_function(getattr(test, getattr(test, "_testMethodName", ""), None))

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
