"""Programs run on their tests, in real sandboxes."""

from __future__ import annotations

import json

import pytest

from collect.benchmarks.base import TestStatus
from collect.benchmarks.self_repair.benchmark import Problem, Tester, Trial, node_ids
from collect.synthesis.self_repair.building import read_failure
from collect.synthesis.self_repair.sources import BigCodeBench, LiveCodeBench
from sandbox import SandboxConfig
from tests.collect.synthesis.self_repair.rows import (
    BIGCODEBENCH,
    functional_row,
    stdin_row,
)


@pytest.fixture(scope="module")
def tester() -> Tester:
    return Tester(SandboxConfig(), timeout=30)


def stdin_problem(*cases: tuple[str, str]) -> Problem:
    tests = [{"input": given, "output": out, "testtype": "stdin"} for given, out in cases]
    row = stdin_row(public_test_cases=json.dumps(tests), private_test_cases="[]")
    return LiveCodeBench().problem("row", row)


def message(trial: Trial) -> str:
    failure = read_failure(trial.results.output, trial.failing[0])
    return f"{failure.type}: {failure.message}"


@pytest.mark.parametrize(
    "problem",
    [
        BigCodeBench().problem("row", BIGCODEBENCH),
        LiveCodeBench().problem("row", stdin_row()),
        LiveCodeBench().problem("row", functional_row()),
    ],
    ids=lambda problem: problem.id,
)
def test_the_canonical_solution_passes(tester: Tester, problem: Problem) -> None:
    assert problem.canonical is not None
    trial = tester.try_out(problem, problem.canonical)
    assert not trial.failing, trial.results.output
    public, private = node_ids(problem)
    assert trial.passing == (*public, *private)


READERS = {
    "input": "n = int(input())\nprint(sum(map(int, input().split())))",
    "stdin": "import sys\nn, *xs = sys.stdin.read().split()\nprint(sum(map(int, xs)))",
    "buffer": "import sys\nn, *xs = sys.stdin.buffer.read().split()\nprint(sum(map(int, xs)))",
    "descriptor": "print(sum(map(int, open(0).read().split()[1:])))",
    "main": "def main():\n    n, *xs = sys.stdin.read().split()\n    print(sum(map(int, xs)))\n"
    "if __name__ == '__main__':\n    main()",
    "exit": "input()\nprint(sum(map(int, input().split())))\nsys.exit(3)",
    "write": "sys.stdout.buffer.write(b'10 ')\nsys.stdin.readline()\n"
    "print(sum(map(int, sys.stdin.readline().split())) - 10)",
}


@pytest.mark.parametrize(
    "name",
    [
        *("input", "stdin"),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("buffer", "descriptor", "main", "exit", "write")
        ),
    ],
)
def test_ways_to_read_and_write(tester: Tester, name: str) -> None:
    expected = "10 -4\n" if name == "write" else "6\n"
    problem = stdin_problem(("3\n1 2 3\n", expected))
    trial = tester.try_out(problem, READERS[name])
    assert not trial.failing, trial.results.output


OUTPUTS = [
    ("1.50\n", "1.5", None),
    ("  a b  \n\n", "a b", None),
    ("2 1e1", "2.0 10", None),
    ("0.3333333333333333", "0.333333333333", "wrong answer in line 1: '0.3333333333333333'"),
    ("YES", "Yes", "wrong answer in line 1: 'YES' instead of 'Yes'"),
    ("a  b", "a b", "wrong answer in line 1: 'a  b' instead of 'a b'"),
    ("1\n2", "1\n3", "wrong answer in line 2: '2' instead of '3'"),
    ("1\n2", "1", "2 lines printed, expected 1"),
    ("", "1", "wrong answer in line 1: '' instead of '1'"),
]


def test_outputs_are_compared_as_upstream_does(tester: Tester) -> None:
    cases = [(json.dumps(printed), expected) for printed, expected, _ in OUTPUTS]
    trial = tester.try_out(
        stdin_problem(*cases), "import json\nprint(json.loads(input()), end='')\n"
    )
    for test, (printed, _, told) in zip(trial.public, OUTPUTS, strict=True):
        assert (test in trial.failing) == (told is not None), printed
        if told is not None:
            failure = read_failure(trial.results.output, test)
            assert told in failure.message
            assert f"input:    {json.dumps(printed)!r}" in failure.message


LONG = "9" * 5000
"""More digits than Python converts by default."""


def test_integers_are_as_long_as_upstreams(tester: Tester) -> None:
    """See upstream's compute_code_generation_metrics.py."""
    problem = stdin_problem((f"{LONG}\n", f"1{'0' * 5000}\n"), ("9\n", "10\n"))
    assert not tester.try_out(problem, "print(int(input()) + 1)\n").failing
    assert tester.try_out(problem, "print(int(input()) + 2)\n").failing
    too_long = tester.try_out(stdin_problem(("1\n", "1")), "print(10 ** 50_000)\n")
    assert message(too_long).startswith("ValueError: Exceeds the limit (50000 digits)")


def test_a_call_may_take_and_return_long_integers(tester: Tester) -> None:
    tests = [{"input": f"[{LONG}]\n-{LONG}", "output": f"[[{LONG}]]", "testtype": "functional"}]
    row = functional_row(public_test_cases=json.dumps(tests), private_test_cases="[]")
    problem = LiveCodeBench().problem("row", row)
    solution = "class Solution:\n    def pairs(self, xs, n):\n        return [[-n]]\n"
    assert not tester.try_out(problem, solution).failing
    wrong = tester.try_out(problem, solution.replace("-n", "n"))
    assert f"pairs([{LONG[:190]}" in message(wrong)


CALLS = [
    ("[0.1, 0.3]", "return [0.1, 3 * 0.1]", False),
    ("[1, 2]", "return (1, 2)", True),
    ("[[1, 2]]", "return [(1, 2)]", False),
    ("2", "return 2.0", True),
    ('"Yes"', "return 'YES'", False),
]


def test_results_are_compared_as_upstream_does(tester: Tester) -> None:
    """See upstream's testing_util.py, grade_call_based: equal, and only a tuple outside of all
    others counts as a list."""
    for expected, body, is_right in CALLS:
        tests = [{"input": "[]\n1", "output": expected, "testtype": "functional"}]
        row = functional_row(public_test_cases=json.dumps(tests), private_test_cases="[]")
        solution = f"class Solution:\n    def pairs(self, xs, n):\n        {body}\n"
        trial = tester.try_out(LiveCodeBench().problem("row", row), solution)
        assert bool(trial.failing) != is_right, body


def test_a_wrong_result_is_told_with_its_call(tester: Tester) -> None:
    problem = LiveCodeBench().problem("row", functional_row())
    wrong = "class Solution:\n    def pairs(self, xs, n):\n        return [xs] * 400\n"
    trial = tester.try_out(problem, wrong)
    told = message(trial)
    assert told.startswith("AssertionError: pairs([1, 2, 3], 1) gave [[1, 2, 3]")
    assert told.endswith("expected [[1, 2]]")
    assert len(told) < 800


def test_lines_are_those_of_the_solution(tester: Tester) -> None:
    problem = LiveCodeBench().problem("row", functional_row())
    wrong = "class Solution:\n    def pairs(self, xs, n):\n        return xs[9]\n"
    trial = tester.try_out(problem, wrong)
    assert "solution.py:3: in pairs" in trial.results.output
    assert message(trial) == "IndexError: list index out of range"


def test_the_program_may_use_what_only_its_tests_import(tester: Tester) -> None:
    row = {**BIGCODEBENCH, "complete_prompt": "def task_func(xs):\n"}
    problem = BigCodeBench().problem("row", row | {"test": f"import math\n{row['test']}"})
    assert problem.canonical is not None
    assert not tester.try_out(problem, problem.canonical).failing


def test_a_plain_function_is_found_too(tester: Tester) -> None:
    problem = LiveCodeBench().problem("row", functional_row())
    plain = "def pairs(xs, n):\n    return [list(p) for p in zip(xs, xs[1:])][:n]\n"
    assert not tester.try_out(problem, plain).failing


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param("import os\nos._exit(0)\n", "Unknown", marks=pytest.mark.slow),
        ("nowhere()\n", "NameError: name 'nowhere' is not defined"),
    ],
)
def test_a_program_that_ends_the_run_fails_its_tests(
    tester: Tester, program: str, expected: str
) -> None:
    trial = tester.try_out(BigCodeBench().problem("row", BIGCODEBENCH), program)
    assert trial.failing == trial.public
    assert set(trial.results.statuses.values()) == {TestStatus.FAILED}
    assert message(trial).startswith(expected)


@pytest.mark.slow
def test_a_test_of_a_time_out_is_not_known_to_fail() -> None:
    problem = BigCodeBench().problem("row", BIGCODEBENCH)
    endless = "import math\ndef task_func(xs):\n    while xs == [3, 5]: pass\n    return 3\n"
    trial = Tester(SandboxConfig(), timeout=3).try_out(problem, endless)
    assert trial.results.timed_out
    assert trial.results.statuses[trial.public[0]] is TestStatus.MISSING
    assert trial.failing == trial.public[:1]


def test_libraries_are_tried_in_the_sandbox() -> None:
    tester = Tester(SandboxConfig(), timeout=30)
    problem = BigCodeBench().problem("row", {**BIGCODEBENCH, "libs": ["math", "no_such_library"]})
    tester.find_libraries(problem.libraries)
    assert tester.missing(problem) == ("no_such_library",)
