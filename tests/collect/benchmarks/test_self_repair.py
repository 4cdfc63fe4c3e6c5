from __future__ import annotations

import json
from pathlib import Path

import pytest

from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.marks import NO_GOLD, verify_instance
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.benchmarks.self_repair.benchmark import BUNDLED_FILE, SelfRepairBenchmark
from collect.code.patches import apply_patch
from collect.rollouts.rollout import score
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import BreakpointRequest, DebugLimits, Launch, open_debugger


@pytest.fixture(scope="module")
def benchmark() -> SelfRepairBenchmark:
    return SelfRepairBenchmark()


def named(benchmark: SelfRepairBenchmark, name: str) -> Instance:
    (found,) = [each for each in benchmark.instances() if each.id == name]
    return found


def test_the_bundled_bugs(benchmark: SelfRepairBenchmark) -> None:
    instances = benchmark.instances()
    assert len(instances) == len({instance.repository for instance in instances}) == 12
    for instance in instances:
        assert instance.solution == "solution.py"
        assert instance.solution in instance.files
        assert instance.public_tests[0] in instance.fail_to_pass
        assert not set(instance.hidden_files) & set(instance.files)
        assert set(instance.test_paths) >= set(instance.files) - {instance.solution}
        assert {"checking", "prelude"} <= set(instance.test_paths)  # packages would come first
        assert apply_patch(instance.files, instance.gold_patch) != instance.files
        for private in instance.hidden_files.values():
            assert private.decode() not in instance.problem_statement
    assert len([each for each in instances if each.hidden_files]) == 6


def test_a_statement_shows_an_example_as_it_is_typed(benchmark: SelfRepairBenchmark) -> None:
    statements = [bug.problem_statement for bug in benchmark.instances()]
    assert any('account_report("account,day,amount\\nx,2,-50' in text for text in statements)
    assert not any(r"\\n" in text for text in statements)


def test_it_is_opened_by_name(tmp_path: Path) -> None:
    config = BenchmarkConfig(name="self_repair", split="held_out")
    chosen = select_instances(config, open_benchmark(config))
    assert len(chosen) == 3
    path = tmp_path / "bugs.jsonl"
    path.write_text(BUNDLED_FILE.read_text().splitlines()[4])
    other = open_benchmark(BenchmarkConfig(name="self_repair", path=str(path)))
    assert [instance.id for instance in other.instances()] == ["visit_sessions"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("working_hours", marks=pytest.mark.slow),
        pytest.param("leaky_maze", marks=pytest.mark.slow),
        "ferry_tickets",
    ],
)
def test_one_of_each_kind_is_what_it_claims(benchmark: SelfRepairBenchmark, name: str) -> None:
    verification = verify_instance(benchmark, named(benchmark, name), SandboxConfig())
    assert verification.ok, verification.problems
    assert not verification.note


def test_a_bug_without_a_gold_solution(tmp_path: Path) -> None:
    row = json.loads(BUNDLED_FILE.read_text().splitlines()[0])
    path = tmp_path / "bugs.jsonl"
    path.write_text(json.dumps({**row, "gold_solution": None}))
    benchmark = SelfRepairBenchmark(path)
    (instance,) = benchmark.instances()
    assert instance.gold_patch == ""
    verification = verify_instance(benchmark, instance, SandboxConfig())
    assert verification.ok
    assert verification.note == NO_GOLD


def test_private_tests_count_in_the_score(benchmark: SelfRepairBenchmark) -> None:
    instance = named(benchmark, "ferry_tickets")
    fixed = score(benchmark, instance, instance.gold_patch, SandboxConfig())
    assert fixed.resolved
    assert any(test.name.startswith("test_private.py") for test in fixed.tests)
    unchanged = score(benchmark, instance, "", SandboxConfig())
    assert not unchanged.resolved


@pytest.mark.parametrize(
    ("name", "line", "function"),
    [
        pytest.param("working_hours", "total = 0", "working_hours", marks=pytest.mark.slow),
        pytest.param("leaky_maze", "leaks =", "shortest", marks=pytest.mark.slow),
        ("ferry_tickets", "after =", "Solution.ferryTickets"),
    ],
)
def test_a_debugger_stops_in_the_program(
    benchmark: SelfRepairBenchmark, name: str, line: str, function: str
) -> None:
    instance = named(benchmark, name)
    lines = instance.files[instance.solution].decode().splitlines()
    number = next(at for at, text in enumerate(lines, 1) if text.strip().startswith(line))
    stop = BreakpointRequest(file=instance.solution, line=number)
    with open_sandbox(SandboxConfig()) as sandbox:
        benchmark.prepare(instance, sandbox)
        debugger = open_debugger("python", sandbox, DebugLimits())
        event = debugger.start(Launch(instance.public_tests[0], (stop,), stop_at_entry=False))
        debugger.close()
    assert (event.file, event.line, event.function) == ("solution.py", number, function)
