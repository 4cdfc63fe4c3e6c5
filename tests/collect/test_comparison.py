"""Where the buggy and the fixed run part, and what the oracle then says."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from collect.agents.config import AgentsConfig
from collect.agents.subagent_task import parse_answer
from collect.benchmarks.base import Instance
from collect.code.patches import diff_trees
from collect.comparison import Comparison, false_claims
from collect.rollouts.rollout import RolloutSettings
from collect.store.records import DebugAnswer, Role
from sandbox import SandboxConfig
from tests.repair_bug import RepairBugs, repair

SOURCE = """\
def factorial(n):
    if n == 0:
        return 1
    return n + factorial(n - 1)  # @fault


def longest(words):
    best = ""
    for word in words:
        if len(word) >= len(best):  # @first
            best = word
    return best
"""
TEST = """\
from solution import factorial, longest


def test_longest():
    assert longest(["a", "bb"]) == "bb"
    assert longest(["a", "bb", "ccc", "dddd", "e", "bbbb"]) == "dddd"


def test_factorial():
    assert factorial(0) == 1
    assert factorial(3) == 6
"""


def bug(test: str, wrong: str, right: str) -> Instance:
    files = {"solution.py": SOURCE.encode(), "test_solution.py": TEST.encode()}
    fixed = {**files, "solution.py": SOURCE.replace(wrong, right).encode()}
    return Instance(
        id=test,
        benchmark="repair-bugs",
        language="python",
        repository=f"repair-bugs/{test}",
        problem_statement="It returns something else.",
        fail_to_pass=(f"test_solution.py::{test}",),
        pass_to_pass=(),
        gold_patch=diff_trees(files, fixed),
        files=files,
        test_paths=("test_solution.py",),
    )


LONGEST = bug("test_longest", "len(word) >= len", "len(word) > len")


def compared(instance: Instance) -> Comparison:
    settings = RolloutSettings(
        RepairBugs(instance), SandboxConfig(), AgentsConfig(), {}, threading.Event()
    )
    found = settings.compare(instance, instance.fail_to_pass[0])
    assert found is not None
    return found


def test_calls_that_return_the_right_result_are_passed() -> None:
    visit = compared(LONGEST).visit
    assert visit is not None
    assert (visit.place, visit.hit) == ("solution.py:10", 8)
    assert (visit.values["word"], visit.values["best"]) == ("'bbbb'", "'dddd'")


def test_a_return_value_shows_which_call_goes_wrong() -> None:
    comparison = compared(bug("test_factorial", "n + factorial", "n * factorial"))
    visit = comparison.visit
    assert visit is not None
    assert (visit.line, visit.values["n"], comparison.returned) == (4, "1", "2")


@pytest.mark.slow
def test_the_oracle_goes_to_the_visit_that_goes_wrong() -> None:
    trace = repair("debug2fix_tool_limit", instance=LONGEST)
    assert trace.failure is None, trace.failure
    [log] = [log for log in trace.logs if log.role is Role.DEBUG_SUBAGENT]
    answer = parse_answer(log.final_answer)
    assert answer is not None
    assert "on visit 8" in answer.answer
    assert "word = 'bbbb'" in answer.evidence


def test_false_claims_are_found() -> None:
    comparison = compared(LONGEST)
    told = DebugAnswer(
        "Where?",
        "The values go wrong in longest at solution.py:10, on visit 8, in `n, word = word, 1`, "
        "where word = 'bbbb'",
        "word = 'bbbb'  (str); len(best) = 4  (int); afterwards best = 'dddd'  (str)",
        "solution.py:10",
    )
    assert false_claims(told, comparison) == []
    for wrong in (
        replace(told, location="solution.py:12"),
        replace(told, answer=told.answer.replace("visit 8", "visit 1")),
        replace(told, evidence="word = 'a'  (str)"),
    ):
        assert len(false_claims(wrong, comparison)) == 1
