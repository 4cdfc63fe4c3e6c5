"""Benchmarks made end to end, in real sandboxes."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.self_repair.benchmark import (
    BUNDLED_FILE,
    Card,
    Problem,
    Step,
    Tester,
    Trial,
    read_bugs,
    read_card,
)
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.store.files import card_path
from collect.synthesis.self_repair.building import Built, Funnel, Outcome, SolutionsFile, build
from collect.synthesis.self_repair.sources import LiveCodeBench, SelfRepairConfig
from sandbox import SandboxConfig
from stepinto import main
from tests.collect.synthesis.self_repair.rows import BIGCODEBENCH, lines_file, stdin_row

CONFIG = Path(__file__).parents[4] / "configs" / "self-repair.yaml"
NOWHERE = Path("/nowhere")
"""The run's folder, where the config names another place."""
RIGHT = "x, xs = input(), map(int, input().split())\nprint(sum(xs))\n"
WRITTEN = {
    "wrong": "input()\nprint(max(map(int, input().split())))\n",
    "right": RIGHT,
    "syntax": "print(\n",
    "indentation": "if True:\nprint(1)\n",
    # The private test has one number, 7.
    "private": RIGHT.replace("sum(xs)", "[s := sum(xs), 0][s == 7]"),
    "crash": "print(int('x'))\n",
    "endless": "import time\nwhile True: time.sleep(1)\n",
    "flaky": "import os, time\nt = time.time_ns()\nprint(1 / 0 if t // 1000 % 2 else {}[t])\n",
    "late": RIGHT,
}


def problem_row(name: str) -> dict[str, Any]:
    return stdin_row(
        question_id=name,
        canonical_solution=None,
        contest_date="2025-06-01" if name == "late" else "2024-08-10",
    )


@pytest.fixture
def config(tmp_path: Path) -> SelfRepairConfig:
    """Nine problems and a file with a solution for each."""
    rows = [problem_row(name) for name in (*WRITTEN, "unwritten")]
    solutions = {**WRITTEN, "unwritten": ""}
    made = [{"question_id": name, "solution": code} for name, code in solutions.items()]
    return SelfRepairConfig(
        source="livecodebench",
        path=str(lines_file(tmp_path / "problems.jsonl", *rows)),
        solutions=str(lines_file(tmp_path / "made.jsonl", *made)),
        to_date=date(2025, 2, 1),
        test_timeout=15,
        output=str(tmp_path / "out" / "bugs.jsonl"),
    )


def card_of(built: Built) -> Card:
    assert built.card is not None
    return built.card


@pytest.mark.slow
def test_the_funnel(config: SelfRepairConfig) -> None:
    built = build(RuntimeConfig(), config, NOWHERE)
    card = card_of(built)
    assert read_card(built.path) == card
    dropped = {step.name: step.dropped for step in card.steps if step.dropped}
    left = dropped.pop(Step.REPEATS, 0)
    assert left <= 1
    assert dropped == {
        Step.DATES: 1,
        Step.WRITTEN: 1,
        Step.PARSES: 2,
        Step.FAILS: 1,
        Step.FAILS_PUBLIC: 1,
        Step.ENDS: 1,
    }
    assert (card.problems, card.passed) == (9, 1)
    bugs = {bug.id: bug for bug in read_bugs(built.path)}
    assert list(bugs)[:2] == ["wrong", "crash"]
    assert card.bugs == len(bugs)
    assert bugs["crash"].failure.type == "ValueError"
    wrong = bugs["wrong"]
    assert wrong.files["solution.py"] == WRITTEN["wrong"]
    assert wrong.fail_to_pass == ("test_solution.py::test_1",)
    assert wrong.pass_to_pass == ("test_private.py::test_private_1",)
    assert set(wrong.hidden_files) == {"test_private.py"}
    assert "instead of '3'" in wrong.failure.message
    assert wrong.gold_solution is None
    assert wrong.written_by == "made.jsonl"


@pytest.mark.slow
def test_endless_programs_are_kept_where_that_is_asked_for(config: SelfRepairConfig) -> None:
    allowing = config.model_copy(update={"allow_timeouts": True, "test_timeout": 2.0})
    only = lines_file(Path(str(config.output)).parent.parent / "one.jsonl", problem_row("endless"))
    built = build(RuntimeConfig(), allowing.model_copy(update={"path": str(only)}), NOWHERE)
    (bug,) = read_bugs(built.path)
    assert bug.failure.type == "TimeoutError"
    assert len(bug.fail_to_pass) == 2


@pytest.mark.slow
def test_a_killed_run_goes_on(config: SelfRepairConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build(RuntimeConfig(), config.model_copy(update={"limit": 4}), NOWHERE)
    expected = whole.path.read_bytes()
    judged: list[str] = []
    judge = Funnel.judge

    def counting(funnel: Funnel, problem: Problem) -> Outcome:
        judged.append(problem.id)
        if len(judged) == 3:
            raise KeyboardInterrupt
        return judge(funnel, problem)

    one_at_a_time = RuntimeConfig.model_validate({"runner": {"concurrency": 1}})
    limited = config.model_copy(update={"limit": 4})
    monkeypatch.setattr(Funnel, "judge", counting)
    with pytest.raises(KeyboardInterrupt):
        build(one_at_a_time, limited, NOWHERE)
    work = Path(str(config.output)).with_name("bugs.work.jsonl")
    with work.open("a") as file:
        file.write('{"problem_id": "syn')
    with pytest.raises(ConfigError, match=r"bugs\.work\.jsonl is of a run with another"):
        build(one_at_a_time, limited.model_copy(update={"seed": 1}), NOWHERE)
    other_private = [{**problem_row(name), "private_test_cases": "[]"} for name in WRITTEN]
    changed = lines_file(work.with_name("changed.jsonl"), *other_private)
    with pytest.raises(ConfigError, match="or other data"):
        build(one_at_a_time, limited.model_copy(update={"path": str(changed)}), NOWHERE)
    again = build(one_at_a_time, limited, NOWHERE)
    assert judged == ["wrong", "right", "syntax", "syntax", "indentation"]
    assert again.path.read_bytes() == expected
    assert not work.exists()


def test_a_model_writes_the_solutions(tmp_path: Path) -> None:
    replies = [
        {
            "instance_id": name,
            "role": "solution_writer",
            "replies": [{"content": f"```python\n{WRITTEN[name]}```"}],
        }
        for name in ("wrong", "right")
    ]
    recording = lines_file(tmp_path / "replies.jsonl", *replies)
    problems = lines_file(tmp_path / "problems.jsonl", *map(problem_row, ("wrong", "right")))
    config = SelfRepairConfig(
        source="livecodebench",
        path=str(problems),
        writer="played",
        output=str(tmp_path / "bugs.jsonl"),
    )
    runtime = RuntimeConfig.model_validate(
        {"models": {"played": {"backend": "replay", "path": str(recording)}}}
    )
    card = card_of(build(runtime, config, NOWHERE))
    assert (card.writer, card.problems, card.passed, card.bugs) == ("played", 2, 1, 1)
    assert read_bugs(Path(str(config.output)))[0].written_by == "played"


def test_the_oracle_breaks_what_passes_and_only_that(tmp_path: Path) -> None:
    rows = [
        BIGCODEBENCH,
        {**BIGCODEBENCH, "task_id": "wrong", "canonical_solution": "    return 1\n"},
        {**BIGCODEBENCH, "task_id": "without", "libs": ["no_such_library"]},
    ]
    config = SelfRepairConfig(
        source="bigcodebench",
        path=str(lines_file(tmp_path / "rows.jsonl", *rows)),
        output=str(tmp_path / "bugs.jsonl"),
    )
    card = card_of(build(RuntimeConfig(), config, NOWHERE))
    dropped = {step.name: step.dropped for step in card.steps if step.dropped}
    assert dropped == {Step.LIBRARIES: 1, Step.CANONICAL: 1}
    assert card.without_libraries == {"without": ("no_such_library",)}
    (bug,) = read_bugs(Path(str(config.output)))
    assert bug.edit is not None
    assert bug.gold_solution is not None
    before, after = bug.gold_solution.splitlines(), bug.files["solution.py"].splitlines()
    assert before[: bug.edit.line - 1] == after[: bug.edit.line - 1]
    assert before != after


def test_the_oracle_is_refused_where_there_is_nothing_to_break(config: SelfRepairConfig) -> None:
    with pytest.raises(
        ConfigError, match=r"breaks canonical solutions, and problems\.jsonl has none"
    ):
        build(RuntimeConfig(), config.model_copy(update={"solutions": None}), NOWHERE)


def test_only_problems_with_a_solution_are_tried(
    config: SelfRepairConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [{"question_id": name, "solution": WRITTEN["wrong"]} for name in ("wrong", "wrng")]
    changed = {"solutions": str(lines_file(tmp_path / "one.jsonl", *made))}
    card = card_of(build(RuntimeConfig(), config.model_copy(update=changed), NOWHERE))
    assert (card.problems, card.bugs, card.steps[0].dropped) == (1, 1, 0)
    told = capsys.readouterr().err
    assert "has solutions of 1 of 10 problems, and only these are tried" in told
    assert "1 solution of problems that are not among the chosen source's: wrng" in told
    lines_file(tmp_path / "one.jsonl", made[1])
    with pytest.raises(ConfigError, match=r"none of its 1 solution is .*the nearest are wrong"):
        build(RuntimeConfig(), config.model_copy(update=changed), NOWHERE)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "bugs.jsonl"
    made = [f"self_repair.output={output}", "self_repair.limit=1"]
    assert main(["bench", "self-repair", str(CONFIG), *made]) == 0
    assert "1 bug in" in capsys.readouterr().out
    assert main(["bench", "list", str(CONFIG), f"collect.benchmark.path={output}"]) == 0
    assert capsys.readouterr().out.startswith("working_hours")


class Flaky(Tester):
    """Runs another program the second time."""

    def try_out(self, problem: Problem, program: str, timeout: float | None = None) -> Trial:
        runs = self._importable
        runs[f"run {len(runs)}"] = True
        return super().try_out(problem, program if len(runs) == 1 else RIGHT, timeout)


def test_a_program_that_fails_once_is_dropped(config: SelfRepairConfig) -> None:
    problem = LiveCodeBench().problem("row", problem_row("wrong"))
    assert config.solutions is not None
    funnel = Funnel(Flaky(SandboxConfig(), 30), SolutionsFile(Path(config.solutions)))
    assert funnel.judge(problem).dropped_at is Step.REPEATS


@pytest.mark.slow
def test_the_bundled_benchmark_is_what_the_command_makes(tmp_path: Path) -> None:
    card = card_of(build(RuntimeConfig(), SelfRepairConfig(), tmp_path))
    output = tmp_path / "self_repair.jsonl"
    assert output.read_bytes() == BUNDLED_FILE.read_bytes()
    of_file = read_card(BUNDLED_FILE)
    assert card.model_copy(update={"versions": of_file.versions}) == of_file
    assert card.bugs == 12


def test_cards_and_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "bugs.jsonl"
    with pytest.raises(ConfigError, match="make it with `stepinto bench self-repair`"):
        read_bugs(path)
    with pytest.raises(ConfigError, match=r"bugs\.card\.json: no such file"):
        read_card(path)
    card_path(path).write_text(json.dumps({"source": 1}))
    with pytest.raises(ConfigError, match=r"bugs\.card\.json: source"):
        read_card(path)
    line = BUNDLED_FILE.read_text().splitlines()[0]
    path.write_text(f"{line}\n{json.dumps({**json.loads(line), 'fail_to_pass': []})}\n")
    with pytest.raises(ConfigError, match=r"bugs\.jsonl, line 2: fail_to_pass"):
        read_bugs(path)
    path.write_text(json.dumps({**json.loads(line), "solution": "other.py"}))
    with pytest.raises(ConfigError, match=r"line 1: .*files: there is no other\.py"):
        read_bugs(path)
