"""Each parser on a log of its runner."""

from __future__ import annotations

import pytest

from collect.benchmarks.base import TestStatus
from collect.benchmarks.swe_bench.benchmark import REPOSITORIES
from collect.benchmarks.swe_bench.log_parsers import LOG_PARSERS

P, F, S = TestStatus.PASSED, TestStatus.FAILED, TestStatus.SKIPPED
PYTEST = """\
============================= test session starts ==============================
tests/test_a.py .Fs                                                      [100%]
ERROR    root:a.py:3 something that a test logs
=========================== short test summary info ============================
PASSED tests/test_a.py::test_one
PASSED tests/test_a.py::test_with[a-1]
PASSED tests/test_a.py::test_path[/tmp/x/y.txt-ok]
XFAIL tests/test_a.py::test_known
XPASS tests/test_a.py::test_surprise
SKIPPED [2] tests/test_a.py:12: no network
SKIPPED tests/test_a.py::test_left_out
FAILED tests/test_a.py::test_two - assert 1 == 2
FAILED tests/test_a.py::test_blank[a b] - AssertionError: no
ERROR tests/test_b.py - ImportError: no module
FAILED
==== 3 failed, 3 passed ====
"""
COMMON = {
    "tests/test_a.py::test_one": P,
    "tests/test_a.py::test_with[a-1]": P,
    "tests/test_a.py::test_known": P,
    "tests/test_a.py::test_left_out": S,
    "tests/test_a.py::test_two": F,
    "tests/test_b.py": F,
}
PATH, SHORT = "tests/test_a.py::test_path[/tmp/x/y.txt-ok]", "tests/test_a.py::test_path[/y.txt-ok]"
BLANK, CUT = "tests/test_a.py::test_blank[a b]", "tests/test_a.py::test_blank[a"
DJANGO = """\
Testing against Django installed in '/testbed/django'
test_one (queries.tests.QueryTests) ... ok
test_two (queries.tests.QueryTests)
A description in the place of a name ... FAIL
test_three (queries.tests.QueryTests) ... ERROR
test_four (queries.tests.QueryTests) ... skipped 'no database'
test_five (queries.tests.QueryTests) ... some output
ok
test_six (queries.tests.QueryTests) ... Internal Server Error: /x/
ok
test_seven (queries.tests.QueryTests) ... OK
test_eight (queries.tests.QueryTests) ... --version is equivalent to version
FAIL: test_two (queries.tests.QueryTests)
ERROR: setUpClass (queries.tests.Other)
"""
SYMPY = """\
sympy/core/tests/test_a.py[4]
test_one ok
test_two F
test_three E
test_four f                                                            [FAIL]

________________________________________________________________________________
________________ sympy/core/tests/test_a.py:test_two _________________
Traceback (most recent call last):
"""
SEABORN = """\
PASSED tests/test_a.py::test_one
tests/test_a.py::test_two PASSED [ 50%]
FAILED tests/test_a.py::test_three - ValueError
SKIPPED tests/test_a.py::test_four
"""
V2 = """\
\x1b[32mPASSED\x1b[0m tests/test_a.py::\x1b[1mtest_one\x1b[0m
\x1b[31mFAILED\x1b[0m tests/test_a.py::test_two[a b] - assert 1 - 2
astropy/a/tests/test_c.py::test_old[x y] PASSED
astropy/a/tests/test_c.py::test_older FAILED
SKIPPED [1] tests/test_a.py:3: why
"""


@pytest.mark.parametrize(
    ("name", "log", "expected"),
    [
        ("pytest", PYTEST, {**COMMON, PATH: P, CUT: F}),
        ("pytest_options", PYTEST, {**COMMON, SHORT: P, CUT: F}),
        (
            "pytest_v2",
            PYTEST.replace(" - ImportError: no module", "").replace(
                " something that a test logs", ""
            ),
            {**COMMON, PATH: P, BLANK: F},
        ),
        (
            "pytest_v2",
            V2,
            {
                "tests/test_a.py::test_one": P,
                "tests/test_a.py::test_two[a b]": F,
                "astropy/a/tests/test_c.py::test_old[x y]": P,
                "astropy/a/tests/test_c.py::test_older": F,
            },
        ),
        (
            "matplotlib",
            "PASSED a.py::t[MouseButton.LEFT]\nFAILED a.py::t[MouseButton.RIGHT] - x\n",
            {"a.py::t[1]": P, "a.py::t[3]": F},
        ),
        (
            "seaborn",
            SEABORN,
            {
                "tests/test_a.py::test_one": P,
                "tests/test_a.py::test_two": P,
                "tests/test_a.py::test_three": F,
            },
        ),
        (
            "sympy",
            SYMPY,
            {
                "test_one": P,
                "test_two": F,
                "test_three": F,
                "sympy/core/tests/test_a.py:test_two": F,
            },
        ),
        (
            "django",
            DJANGO,
            {
                "test_one (queries.tests.QueryTests)": P,
                "A description in the place of a name": F,
                "test_two": F,
                "test_three (queries.tests.QueryTests)": F,
                "test_four (queries.tests.QueryTests)": S,
                "test_five (queries.tests.QueryTests)": P,
                "test_six (queries.tests.QueryTests)": P,
                "test_seven (queries.tests.QueryTests)": P,
                "--version is equivalent to version": P,
                "setUpClass": F,
            },
        ),
    ],
)
def test_a_log(name: str, log: str, expected: dict[str, TestStatus]) -> None:
    found = LOG_PARSERS[name](log)
    found.pop("root:a.py:3", None)
    assert found == expected


def test_every_repository_has_its_parser() -> None:
    assert {repository.parser for repository in REPOSITORIES.values()} <= LOG_PARSERS.keys()
    assert all(LOG_PARSERS[name]("") == {} for name in LOG_PARSERS)
