from __future__ import annotations

import pytest

from collect.synthesis.self_repair.building import MAX_MESSAGE, read_failure
from sandbox.text import BoundedOutput

OUTPUT = """\
============================= test session starts ==============================
collected 3 items

test_solution.py FFF

=================================== FAILURES ===================================
____________________________ TestCases.test_first ______________________________
test_solution.py:9: in test_first
    self.assertEqual(task_func(1), 2)
E   AssertionError: 1 != 2
____________________________ TestCases.test_second _____________________________
solution.py:3: in task_func
    return {}["a"]
E   KeyError: 'a'

During handling of the above exception, another exception occurred:
solution.py:5: in task_func
    raise Odd(<object at 0x7f00aa11bb22>)
E   solution.Odd: <object at 0x7f00aa11bb22>
E     more
____________________________ TestCases.test_third ______________________________
test_solution.py:12: in test_third
    assert f(1) == 2
E   assert 1 == 2
E    +  where 1 = f(1)
=========================== short test summary info ============================
FAILED test_solution.py::TestCases::test_first - AssertionError: 1 != 2
"""


@pytest.mark.parametrize(
    ("test", "kind", "message"),
    [
        ("test_first", "AssertionError", "1 != 2"),
        ("test_second", "Odd", "<object at 0x...>\nmore"),
        ("test_third", "AssertionError", "assert 1 == 2\n+  where 1 = f(1)"),
    ],
)
def test_each_section(test: str, kind: str, message: str) -> None:
    failure = read_failure(OUTPUT, f"test_solution.py::TestCases::{test}")
    assert (failure.type, failure.message) == (kind, message)


def test_an_error_of_the_whole_file() -> None:
    output = "_ ERROR collecting test_solution.py _\nsolution.py:1: in <module>\nE   NameError: x\n"
    failure = read_failure(output, "test_solution.py::test_1")
    assert (failure.type, failure.message) == ("NameError", "x")


def test_the_failure_of_another_test_behind_a_cut_is_not_its_own() -> None:
    printed = "----- Captured stdout call -----\n" + "x" * 5_000
    kept = BoundedOutput(1_000)
    kept.add(OUTPUT.replace("2\n____", f"2\n{printed}\n____", 1).encode())
    output = kept.text()
    assert "test_second" not in output
    failure = read_failure(output, "test_solution.py::TestCases::test_first")
    assert (failure.type, failure.message) == ("AssertionError", "1 != 2")


def test_no_report_at_all() -> None:
    assert read_failure("", "test_solution.py::test_1").type == "Unknown"


def test_an_exception_without_a_message_and_one_with_a_long_one() -> None:
    assert read_failure("E   StopIteration\n", "a::b").type == "StopIteration"
    long = read_failure(f"E   ValueError: {'x' * 9000}\n", "a::b")
    assert long.message == "x" * MAX_MESSAGE
