"""How the oracle reads what test runners print."""

from __future__ import annotations

import pytest

from collect.oracle.candidates import GRADLE, MAIN_CLASS, MAVEN, PYTEST, TestRuns

TESTS = ("shop.CartTest#empty", "shop.CartTest#total")
PYTHON_TESTS = ("tests/test_cart.py::test_empty", "tests/test_cart.py::test_total")

JUNIT4_WITH_MAVEN = """\
[ERROR] Tests run: 9, Failures: 2, Errors: 0, Skipped: 0, Time elapsed: 0.045 s <<< FAILURE! - in x
[ERROR] total(shop.CartTest)  Time elapsed: 0 s  <<< FAILURE!
java.lang.AssertionError: expected:<6400> but was:<6405>
\tat shop.CartTest.total(CartTest.java:39)
"""
JUNIT5_WITH_MAVEN = """\
[ERROR] Tests run: 7, Failures: 0, Errors: 1, Skipped: 0, Time elapsed: 0.05 s <<< FAILURE! - in x
[ERROR] total{int}[1]  Time elapsed: 0.01 s  <<< ERROR!
java.lang.IllegalStateException: expected: <4365> but was: <365>
\tat shop.CartTest.total(CartTest.java:162)
"""
NEWER_MAVEN = """\
[ERROR] shop.CartTest.total  Time elapsed: 0.002 s  <<< ERROR!
java.lang.NullPointerException
"""
WITH_GRADLE = """\
java.lang.ClassNotFoundException: org.debian.gradle.plugin.MavenResolverHook

shop.CartTest > total FAILED
    java.lang.NullPointerException at CartTest.java:30
"""
WITH_PYTEST = """\
____________________ ERROR collecting tests/test_stock.py ____________________
E   ImportError: cannot import name 'stock'
_________________________________ test_total _________________________________
tests/test_stock.py:9: in test_total
E       ValueError: no stock
_________________________________ test_total _________________________________
tests/test_cart.py:9: in test_total
    total({})
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
E       KeyError: 'rate'
=========================== short test summary info ============================
FAILED tests/test_stock.py::test_total - ValueError: no stock
FAILED tests/test_cart.py::test_total - KeyError: 'rate'
"""


@pytest.mark.parametrize(
    ("runs", "output", "exception"),
    [
        (MAVEN, JUNIT4_WITH_MAVEN, None),
        (MAVEN, JUNIT5_WITH_MAVEN, "IllegalStateException"),
        (MAVEN, NEWER_MAVEN, "NullPointerException"),
        (GRADLE, WITH_GRADLE, "NullPointerException"),
    ],
)
def test_the_failed_test_and_its_exception(
    runs: TestRuns, output: str, exception: str | None
) -> None:
    assert runs.failing(output, TESTS) == "shop.CartTest#total"
    assert runs.exception(output, "shop.CartTest#total") == exception
    assert runs.exception(output, "shop.CartTest#empty") is None


def test_pytest_names_the_whole_test() -> None:
    assert PYTEST.failing(WITH_PYTEST, PYTHON_TESTS) == PYTHON_TESTS[1]
    spaced = "FAILED test_a.py::test_x[in [4] months] - assert 0\nFAILED test_b.py::test_y\n"
    tests = ("test_b.py::test_y", "test_a.py::test_x[in [4] months]")
    assert PYTEST.failing(spaced, tests) == tests[1]


def test_another_bugs_test_is_not_debugged() -> None:
    assert PYTEST.failing("FAILED test_a.py::test_x[1]", PYTHON_TESTS) == PYTHON_TESTS[0]


def test_the_exception_is_the_one_of_the_test_itself() -> None:
    assert PYTEST.exception(WITH_PYTEST, PYTHON_TESTS[1]) == "KeyError"
    assert PYTEST.exception(WITH_PYTEST, PYTHON_TESTS[0]) is None


@pytest.mark.parametrize("runs", [PYTEST, MAVEN, GRADLE, MAIN_CLASS])
def test_an_output_that_names_none_leaves_the_first(runs: TestRuns) -> None:
    assert runs.failing("BUILD FAILED\n> total", TESTS) == TESTS[0]


def test_each_tool_names_a_test_in_its_own_way() -> None:
    test = "shop.CartTest$Empty#total"
    assert "-Dtest='shop.CartTest$Empty#total' " in MAVEN.run_one(test)
    assert "--tests 'shop.CartTest$Empty.total' " in GRADLE.run_one(test)
    assert "java -ea -cp /tmp/classes Main " in MAIN_CLASS.run_one("Main")
