"""Solutions that set out to be judged right without being it, and what decides instead."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter, OrderedDict
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from collect.benchmarks.base import Instance, TestStatus
from collect.benchmarks.self_repair.benchmark import (
    PRIVATE_TESTS,
    SelfRepairBenchmark,
    cases_of,
    literal,
    run_cases,
)
from collect.benchmarks.self_repair.runtime import checking
from collect.benchmarks.self_repair.runtime.answering import spelling
from collect.code.patches import diff_trees
from collect.rollouts.rollout import Verdict, score
from collect.synthesis.self_repair.sources import PRELUDE
from sandbox import Sandbox, SandboxConfig

BENCHMARK = SelfRepairBenchmark()
BUGS = {bug.id: bug for bug in BENCHMARK.instances()}
PROGRAM, FUNCTION = BUGS["parking_lot"], BUGS["ferry_tickets"]
FRAMES = """\
import sys
frame = sys._getframe()
while frame and "expected" not in frame.f_locals: frame = frame.f_back
return frame.f_locals["expected"]
"""
FILES = """\
import ast, glob, sys
given = sys.stdin.read() if case is None else case
for path in glob.glob("**/test_*.py", recursive=True) + glob.glob("/tmp/**/*", recursive=True):
    for node in ast.walk(ast.parse(open(path).read())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "").startswith("check_"):
            values = [ast.literal_eval(each) for each in node.args]
            if given in values: return values[-1]
"""
CHECKER = """\
import checking
checking._difference = lambda got, expected: ""
class Anything(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
return Anything(-5)
"""
ENDS = """\
import os
os._exit(0)
"""
PATCHED = """\
import _pytest.python
_pytest.python.Function.runtest = lambda self: None
return -5
"""
ATTACKS = {"frames": FRAMES, "files": FILES, "checker": CHECKER, "ends": ENDS, "pytest": PATCHED}
QUICK = [("files", "program"), ("frames", "function")]


def forged(bug: Instance, attack: str, config: SandboxConfig | None = None) -> Verdict:
    body = "".join(f"    {line}\n" for line in ATTACKS[attack].splitlines())
    attacked = f"def attack(case):\n{body}\n"
    if bug is PROGRAM:
        attacked += "print(attack(None))\n"
    else:
        attacked += "class Solution:\n"
        attacked += "    def ferryTickets(self, *case): return attack(list(case))\n"
    files = {**bug.files, bug.solution: attacked.encode()}
    return score(BENCHMARK, bug, diff_trees(bug.files, files), config or SandboxConfig())


@pytest.mark.parametrize(
    ("attack", "kind"),
    [
        pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow])
        for case in product(ATTACKS, ("program", "function"))
    ],
)
def test_no_answer_is_right_that_the_solution_does_not_know(attack: str, kind: str) -> None:
    verdict = forged(PROGRAM if kind == "program" else FUNCTION, attack)
    assert {test.after for test in verdict.tests} == {TestStatus.FAILED}


@pytest.mark.slow
@pytest.mark.docker
def test_nor_in_a_container(image: str) -> None:
    config = SandboxConfig(backend="docker", image=image)
    for attack in ("files", "frames", "pytest"):
        for bug in (PROGRAM, FUNCTION):
            assert not forged(bug, attack, config).resolved
    for bug in (PROGRAM, FUNCTION):
        assert score(BENCHMARK, bug, bug.gold_patch, config).resolved


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug.hidden_files])
def test_bugs_of_inputs_and_outputs_are_what_they_claim(name: str) -> None:
    bug = BUGS[name]
    assert score(BENCHMARK, bug, bug.gold_patch, SandboxConfig()).resolved
    before = score(BENCHMARK, bug, "", SandboxConfig()).tests
    failed = {test.name for test in before if test.after is TestStatus.FAILED}
    assert failed == set(bug.fail_to_pass)


def answered(
    sandbox: Sandbox,
    solution: str,
    tests: str,
    timeout: float = 30,
    files: Mapping[str, bytes] = PROGRAM.files,
) -> list[str]:
    """The statuses of a test file's cases."""
    files = {**files, PRIVATE_TESTS: tests.encode(), "solution.py": solution.encode()}
    sandbox.write_files(files)
    names = [f"{PRIVATE_TESTS}::test_{number}" for number in range(tests.count("def "))]
    cases = cases_of(names, files)
    assert cases is not None
    results = run_cases(sandbox, cases, timeout)
    return [results.statuses[name].value for name in names]


def file_of(*calls: str) -> str:
    tests = (f"def test_{number}():\n    {call}\n" for number, call in enumerate(calls))
    return "from checking import check_call, check_program\n" + "".join(tests)


def test_answers_may_be_long_integers(sandbox: Sandbox) -> None:
    """Longer than Python converts by default, here and in the sandbox."""
    nines = 10**5000 - 1
    files = {"checking.py": PROGRAM.files["checking.py"], "prelude.py": PRELUDE.encode()}
    solution = "class Solution:\n    def add(self, xs): return [n + 1 for n in xs]\n"
    good = literal([nines + 1]), literal([-nines + 1])
    tests = file_of(
        f"check_call('add', [{literal([nines])}], {good[0]})",
        f"check_call('add', [{literal([-nines])}], {good[1]})",
        f"check_call('add', [{literal([nines])}], {good[1]})",
    )
    assert answered(sandbox, solution, tests, files=files) == ["passed", "passed", "failed"]
    program = "print(int(input()) + 1)\n"
    tests = file_of(
        f"check_program({'9' * 5000!r}, {'1' + '0' * 5000!r})",
        f"check_program({'9' * 5000!r}, {'1' + '0' * 4999!r})",
    )
    assert answered(sandbox, program, tests, files=files) == ["passed", "failed"]


def test_programs_read_and_write_in_every_way(sandbox: Sandbox) -> None:
    solution = """\
import os, sys
way, number = open("/dev/stdin").read().split()
if way == "input": print(input().split()[1])
if way == "lines": print(*(line.split()[1] for line in sys.stdin))
if way == "file": print(open(0).read().split()[1])
if way == "bytes": os.write(1, sys.stdin.buffer.read().split()[1])
if way == "exit": print(number); sys.exit(3)
if way == "floats": print(float(number))
if way == "raise": print(number); raise ValueError(number)
"""
    ways = ("input", "lines", "file", "bytes", "exit", "floats", "raise")
    calls = [f"check_program('{way} 7\\n', ' 7 \\n')" for way in ways]
    statuses = answered(sandbox, solution, file_of(*calls))
    assert statuses == ["passed"] * 6 + ["failed"]


@pytest.mark.slow
def test_a_time_out_keeps_the_answers_before_it(sandbox: Sandbox) -> None:
    solution = "number = int(input())\nprint(number)\nwhile number == 2: pass\n"
    calls = [f"check_program('{number}', '{number}')" for number in (1, 2, 3)]
    statuses = answered(sandbox, solution, file_of(*calls), timeout=3)
    assert statuses == ["passed", "missing", "missing"]


def test_what_a_program_writes_into_the_answers_is_no_more_than_answers(sandbox: Sandbox) -> None:
    solution = """\
import glob
for path in glob.glob(".stepinto-*/answers.jsonl"):
    with open(path, "w") as file: file.write("[" * 100_000 + "\\n{}\\n5\\n\\n\\0\\n")
"""
    calls = ["check_program('', '1')", "check_program('', '')"]
    assert answered(sandbox, solution, file_of(*calls)) == ["failed", "failed"]


def test_functions_get_and_give_values_as_in_one_process(sandbox: Sandbox) -> None:
    solution = "def same(value, *, more=None): return value if more is None else more\n"
    calls = [
        *("check_call('same', [(1, 2)], [1, 2])", "check_call('same', [[(1, 2)]], [[1, 2]])"),
        "check_call('same', {'value': 1, 'more': {'a': [None, True]}}, {'a': [None, 1.0]})",
        "check_call('same', ['\\ud800 \\n'], '\\ud800 \\n')",
    ]
    wanted = ["passed", "failed", "passed", "passed"]
    assert answered(sandbox, solution, file_of(*calls)) == wanted


def test_equal_values_alone_are_spelled_alike() -> None:
    values: list[Any] = [
        *(None, True, False, 0, 1, 1.0, -2, 0.5, 10**400, 1e300, "1", "", "null", [], [[]], {}),
        *([1], (1,), ["1"], [1, [2]], [[1], 2], {"a": 1}, {"b": 1}, {"a": 1, "b": [2]}),
        *(Counter("ab"), OrderedDict(b=1, a=1), Fraction(1, 2), Decimal("0.5"), Decimal(1), 0.1),
    ]
    for one, other in product(values, values):
        assert (spelling(one) == spelling(other)) is (one == other), (one, other)
    assert json.loads(spelling("\ud800")) == "\ud800"


@pytest.mark.parametrize(
    "test",
    [
        "check_call('f', [1], 2); print()",
        "check_call('f', [g()], 2)",
        "assert f(1) == 2",
        "check_program('1', '2', more=1)",
    ],
)
def test_any_other_test_is_run_by_pytest(test: str) -> None:
    tests = file_of("check_call('f', [1], 2)", test).encode()
    names = [f"{PRIVATE_TESTS}::test_{number}" for number in (0, 1)]
    assert cases_of(names, {PRIVATE_TESTS: tests}) is None
    assert cases_of(names[:1], {PRIVATE_TESTS: tests}) is not None
    assert cases_of(names, {}) is None


def test_millions_of_printed_words_take_little_memory() -> None:
    printed = "1 " * 2_000_000
    tracemalloc.start()
    try:
        assert checking._difference(printed, "2 3")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * len(printed)
    assert not checking._difference("1.0  2\n", "1 2.00")
    assert checking._difference("1 2 3", "1 2")
