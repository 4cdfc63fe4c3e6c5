"""The places that the oracle as main agent suspects, and the rules that name one of them."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from collect.agents.config import AgentsConfig
from collect.agents.rollout_context import RoleModel
from collect.agents.subagent_task import parse_answer
from collect.benchmarks.base import Instance
from collect.code.patches import diff_trees
from collect.errors import ConfigError
from collect.models.base import Sampling
from collect.models.config import OracleConfig
from collect.oracle import OracleBackend
from collect.oracle.candidates import Kind, Line, Reached, gold_candidate, make_candidates, watch
from collect.rollouts.rollout import RolloutSettings, RolloutSpec, RolloutTrace, run_rollout
from collect.store.records import ORACLE_TEACHER, Role
from sandbox import SandboxConfig
from sandbox.debugger import Debugger
from tests.repair_bug import BUG, RepairBugs

SOURCE = """\
def doubled(amount):
    return amount * 2


def taxed(amount):
    rate = amount - 100
    if amount < 0 and rate > 1:
        return amount - 5
    return amount + rate


def unused(amount):
    return amount * 7


def shown(amount):
    given = amount + 1
    total = taxed(amount)
    more = doubled(total)
    return more + given
"""
LINES = SOURCE.splitlines()
FIXED = SOURCE.replace("amount - 100", "amount")
TEST = "from solution import shown\n\n\ndef test_it():\n    assert shown(0) == 1\n"
FILES = {"solution.py": SOURCE.encode(), "test_solution.py": TEST.encode()}
TEST_ID = "test_solution.py::test_it"
INSTANCE = Instance(
    id="tax",
    benchmark="repair-bugs",
    language="python",
    repository="repair-bugs/tax",
    problem_statement="Nothing is taxed.",
    fail_to_pass=(TEST_ID,),
    pass_to_pass=(),
    gold_patch=diff_trees(FILES, {**FILES, "solution.py": FIXED.encode()}),
    files=FILES,
    test_paths=("test_solution.py",),
)


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(LINES, 1) if text in line)


def settings(**models: str) -> RolloutSettings:
    """Models by name, each an oracle that answers so."""
    roles = {
        name: RoleModel(
            OracleBackend(name, OracleConfig.model_validate({"backend": "oracle", "answer": how})),
            Sampling(),
            ORACLE_TEACHER,
        )
        for name, how in models.items()
    }
    bugs, stop = RepairBugs(INSTANCE), threading.Event()
    return RolloutSettings(bugs, SandboxConfig(), AgentsConfig(), roles, stop)


def in_place(answer: str, attempt: int = 0) -> RolloutTrace:
    spec = RolloutSpec(INSTANCE, "debug2fix_tool_limit", "main", "sub", attempt)
    trace = run_rollout(spec, settings(main="full", sub=answer))
    assert trace.failure is None, trace.failure
    return trace


def watched(lines: Iterable[Line]) -> Reached:
    with settings().fresh_debugger(INSTANCE) as debugger:
        return watch(debugger, TEST_ID, lines)


def test_a_line_counts_if_the_test_comes_there_and_the_change_matters() -> None:
    gold = Line("solution.py", line_of("rate = "), "True")
    sum_ = Line("solution.py", line_of("return amount + rate"), "amount + rate != amount - rate")
    same = Line("solution.py", line_of("return amount * 2"), "amount * 2 != amount + amount")
    fails = Line("solution.py", line_of("return more + given"), "unknown != 1")
    never = Line("solution.py", line_of("return amount * 7"), "True")
    found = watched([never, fails, same, sum_, gold])
    assert list(found.order) == [line.place for line in (gold, sum_, same, fails)]
    assert [found.kind(line) for line in (gold, sum_, same, fails, never)] == [
        *(Kind.CHANGES, Kind.CHANGES, Kind.REACHED, Kind.REACHED, Kind.ELSEWHERE)
    ]


def test_suspects_are_reached_before_and_after_the_fault() -> None:
    cache: list[Reached] = []

    def once(lines: Iterable[Line]) -> Reached:
        cache.extend([] if cache else [watched(lines)])
        return cache[0]

    ranks = set()
    for seed in range(12):
        candidates = make_candidates(INSTANCE, 3, random.Random(seed), once)
        gold = gold_candidate(INSTANCE)
        assert [each.kind for each in candidates if each.place != gold.place] == [Kind.CHANGES] * 2
        order = sorted(candidates, key=lambda each: cache[0].order[each.line.place])
        ranks.add([each.place for each in order].index(gold.place))
    assert "unused" not in {each.function for each in candidates}
    assert len(ranks) > 1


def test_arms_that_begin_a_bug_together_watch_its_test_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def counted(debugger: Debugger, test: str, lines: Iterable[Line]) -> Reached:
        calls.append(test)
        return watch(debugger, test, lines)

    monkeypatch.setattr("collect.oracle.watch", counted)
    shared = settings(main="full", sub="nothing")
    specs = [RolloutSpec(INSTANCE, "debug2fix_tool_limit", "main", "sub", n) for n in (0, 1)]
    with ThreadPoolExecutor() as pool:
        traces = list(pool.map(lambda spec: run_rollout(spec, shared), specs))
    assert [trace.failure for trace in traces] == [None, None]
    assert calls == [TEST_ID]


@pytest.mark.parametrize(
    "rule",
    [
        "source",
        pytest.param("random", marks=pytest.mark.slow),
        pytest.param("first_reached", marks=pytest.mark.slow),
        pytest.param("last_reached", marks=pytest.mark.slow),
    ],
)
def test_a_rule_names_a_suspect(rule: str) -> None:
    main, sub = in_place(rule).logs
    question = sub.rows[1].message.content
    suspects = [int(line) for line in re.findall(r"solution\.py:(\d+)", question)]
    answer = parse_answer(sub.final_answer)
    assert answer is not None
    named = int(answer.location.removeprefix("solution.py:"))
    assert named in suspects
    order = [suspect for suspect in ORDER if suspect in suspects]
    assert rule != "first_reached" or named == order[0]
    assert rule != "last_reached" or named == order[-1]
    # The test's code mentions `shown` alone.
    mentioned = [line for line in suspects if line > line_of("def shown")]
    assert rule != "source" or not mentioned or named in mentioned
    assert f"I change {answer.location}" in "".join(row.message.content for row in main.rows)


ORDER = [
    line_of(text)
    for text in (
        *("given = ", "total = ", "rate = ", "if amount", "return amount + rate"),
        *("more = ", "return amount * 2", "return more"),
    )
]


def guessed(attempt: int) -> bool:
    """Whether a guess without an answer resolves the bug."""
    spec = RolloutSpec(BUG, "inspectcoder", "main", "sub", attempt)
    trace = run_rollout(spec, settings(main="full", sub="nothing"))
    inspector, coder = trace.logs
    assert (inspector.role, coder.role) == (Role.INSPECTOR, Role.PATCH_CODER)
    assert inspector.final_answer == "I don't know what is wrong."
    assert set(inspector.actions) == {"propose_repair"}
    return trace.verdict.resolved


def test_an_inspector_that_answers_nothing_leaves_it_to_one_guess() -> None:
    guessed(0)


@pytest.mark.slow
def test_few_guesses_resolve_a_bug() -> None:
    assert sum(map(guessed, range(8))) < 6


def test_an_inspector_is_told_no_suspects() -> None:
    spec = RolloutSpec(BUG, "inspectcoder", "main", "sub", 0)
    with pytest.raises(ConfigError, match=r"models\.sub\.answer: .* Inspector is told none"):
        run_rollout(spec, settings(main="full", sub="random"))
