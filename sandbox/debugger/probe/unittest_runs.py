"""Run tests with unittest, and stop where one fails."""

from __future__ import annotations

import re
import sys
from typing import Any

from .causes import keep_unexpected
from .interpreter import import_standard
from .memory import releasing
from .outcomes import Verdict
from .targets import Target, last_lines
from .wire import NoSuchTest, Refusal


def run_unittest(target: Target) -> object:
    import unittest

    sys.argv = ["python -m unittest", *target.names]
    loader = unittest.TestLoader()
    suite = load(unittest, loader, target)
    count, errors = suite.countTestCases(), [str(error) for error in loader.errors]
    if errors and (target.names[0] != "discover" or len(errors) >= count):
        raise explanation(target, "\n".join(errors))
    if not count:
        raise NoSuchTest("there is no test in {}".format(" ".join(target.names)))
    for error in errors:  # other modules' tests run, as without a debugger
        first, *_, last = error.strip().splitlines()
        target.session.notes.append(f"{first}: {last}")
    keep_unexpected()
    result = stopping_result(unittest.TestResult, target)
    try:
        code = 0 if run_suite(suite, result) else 1
    except KeyboardInterrupt as error:
        target.session.post_mortem(error)
    target.say_verdict(result.verdict, code)
    return code


def run_suite(suite: Any, result: Any) -> bool:
    """Whether all tests passed. As unittest's own runner, it shows every warning."""
    import warnings

    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("default")
        suite.run(result)
    return bool(result.wasSuccessful())


def load(unittest: Any, loader: Any, target: Target) -> Any:
    """The tests that the arguments of `python -m unittest` choose, as parsed by unittest."""

    class Program(unittest.TestProgram):  # type: ignore[misc]  # known at run time only
        def runTests(self) -> None:  # noqa: N802
            """Does nothing: tests run later, once it is known that there are any."""

    try:
        return Program(module=None, argv=sys.argv, testLoader=loader).test
    except (Exception, SystemExit):  # raised by importing a test module, or by the parser
        raise Refusal(last_lines(import_standard("traceback").format_exc())) from None


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
    """A result class that prepares the entry stop before a test, and stops if one fails."""

    class Result(base):  # type: ignore[misc]  # the class is only known at run time
        def __init__(self) -> None:
            super().__init__()
            self.verdict = Verdict()

        def startTest(self, test: Any) -> None:  # noqa: N802
            super().startTest(test)
            name = getattr(test, "_testMethodName", "")
            function = getattr(test, name, None)
            target.arm_function(function)
            if function is not None:
                setattr(test, name, releasing(function))

        def addSuccess(self, test: Any) -> None:  # noqa: N802
            super().addSuccess(test)
            self.verdict.add_passed(str(test))

        def stopTest(self, test: Any) -> None:  # noqa: N802
            super().stopTest(test)
            vars(test).pop(getattr(test, "_testMethodName", ""), None)

        def addError(self, test: Any, err: Any) -> None:  # noqa: N802
            super().addError(test, err)
            if type(test).__name__ != "_FailedTest":  # a module already reported
                target.session.post_mortem(err[1])

        def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
            super().addFailure(test, err)
            target.session.post_mortem(err[1])

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
            super().addSubTest(test, subtest, err)
            if err is not None:
                self.verdict.add_failed(str(test))
                target.session.subtest_failed(err[1], subtest._subDescription())

        def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
            super().addExpectedFailure(test, err)
            target.session.outcomes.add(str(test), "failed, as its expectedFailure expects")

        def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
            super().addUnexpectedSuccess(test)
            self.verdict.add_failed(str(test))
            target.session.outcomes.add(str(test), "did not fail, against its expectedFailure")

        def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
            super().addSkip(test, reason)
            target.session.outcomes.add(str(test), f"was skipped: {reason}")

    return Result()
