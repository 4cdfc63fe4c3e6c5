"""AutoSD's experiments in real debug sessions and test runs, and its rollouts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from collect.agents.baselines.autosd import Experiment, ExperimentArguments, error_line
from collect.agents.config import AgentsConfig, RepairConfig
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import ToolReply
from collect.benchmarks.base import Instance
from collect.models.base import scripted_completion
from collect.models.replay import Recording, ReplayBackend
from collect.store.messages import Message
from collect.store.records import Role, StopReason, ToolOutcome
from sandbox import Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger import DebugLimits
from tests.repair_bug import BUG, CORRECT, FAULT_LINE, repair

SOLUTION = """\
def total(numbers):
    result = 0
    for number in numbers:
        result += number - 1
    return result


def never(numbers):
    return None


def endless(numbers):
    while numbers:
        numbers = numbers + [1]
"""
TESTS = """\
from solution import endless, total


def test_total():
    assert total([1, 2, 3]) == 6


def test_endless():
    endless([])
    endless([1])
"""
INSTANCE = Instance(
    id="total",
    benchmark="test",
    language="python",
    repository="test/total",
    problem_statement="Add the numbers.",
    fail_to_pass=("test_solution.py::test_total",),
    pass_to_pass=(),
    gold_patch="",
    files={"solution.py": SOLUTION.encode(), "test_solution.py": TESTS.encode()},
    solution="solution.py",
)
slow = partial(pytest.param, marks=pytest.mark.slow)
STEP = "Hypothesis: h\nPrediction: p\nExperiment: `{script}`"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox(SandboxConfig(), None) as opened:
        opened.write_files(INSTANCE.files)
        yield opened


def experiment(
    sandbox: Sandbox, script: str, test: str = "test_total", seconds: float = 30
) -> ToolReply:
    config = AgentsConfig(
        debugger=DebugLimits(
            start_timeout=seconds, action_timeout=1 if test == "test_endless" else 30
        ),
        repair=RepairConfig(max_experiment_hits=2 if test == "test_endless" else 30),
    )
    context = RolloutContext(INSTANCE, "autosd", 0, sandbox, config, {}, threading.Event())
    answer = Experiment(context, f"test_solution.py::{test}").call(
        ExperimentArguments(script=script), "1"
    )
    assert sandbox.read_file("solution.py") == SOLUTION.encode()
    return answer


@pytest.mark.parametrize(
    ("script", "observed"),
    [
        ("b 5 ;; c ;; p result", "3"),
        slow("b 4 ;; c ;; p number", "At each loop execution, the expression was: [1, 2, 3]"),
        ("b solution.py:4, number > 1 ;; c ;; p number == 2", "[True, False]"),
        ("b 4 ;; b 5 ;; c ;; p result", "[(line 4) 0, (line 4) 0, (line 4) 1, (line 5) 3]"),
        slow(
            "b 4 ;; c ;; p number ;; p result",
            "number: At each loop execution, the expression was:",
        ),
        slow(
            "b 4 ;; c ;; c ;; n ;; p result", "At each loop execution, the expression was: [1, 3]"
        ),
        slow("b total ;; c ;; print(numbers, 1)", "([1, 2, 3], 1)"),
        slow("b 5 ;; c ;; p locals()", "{'numbers': [1, 2, 3], 'result': 3, 'number': 3}"),
    ],
)
def test_a_debugger_script_prints_at_every_hit(
    sandbox: Sandbox, script: str, observed: str
) -> None:
    answer = experiment(sandbox, script)
    assert answer.outcome is ToolOutcome.OK
    assert observed in answer.text
    assert answer.action == "experiment/debugger"
    assert answer.event is not None
    assert answer.event.file == "solution.py"


@pytest.mark.parametrize(
    ("script", "observed"),
    [
        ("b 9 ;; c ;; p 1", "[The breakpoint line was not covered by the test.]"),
        ("b 99 ;; c ;; p 1", "line 99 of solution.py holds no code"),
        slow("b absent.py:2 ;; c ;; p 1", "absent.py"),
        ("b 4 ;; c ;; p missing", "*** NameError: name 'missing' is not defined"),
        slow("b 4 ;; c ;; p result +", "*** SyntaxError"),
    ],
)
def test_a_debugger_script_that_shows_nothing_says_why(
    sandbox: Sandbox, script: str, observed: str
) -> None:
    answer = experiment(sandbox, script)
    assert answer.outcome is ToolOutcome.ERROR
    assert answer.text.count(observed) == 1


@pytest.mark.slow
def test_an_endless_program_is_interrupted_and_its_hits_are_bounded(sandbox: Sandbox) -> None:
    never_reached = experiment(sandbox, "b 9 ;; c ;; p 1", "test_endless", seconds=6).text
    assert "not covered" in never_reached
    assert "did not end, and was interrupted at solution.py:1" in never_reached
    bounded = experiment(sandbox, "b 14 ;; c ;; p len(numbers)", "test_endless").text
    assert "[1, 2]\n[These are the first 2 executions; there are more.]" in bounded
    reached = experiment(sandbox, "b 13 ;; c ;; p numbers", "test_endless")
    assert reached.outcome is ToolOutcome.OK


@pytest.mark.parametrize(
    ("script", "observed"),
    [
        ('REPLACE(4, "number - 1", "number") AND RUN', "[No exception triggered]"),
        (
            'REPLACE(2, "0", "7") AND REPLACE(5, "result", "result - 4") AND RUN',
            "[No exception triggered]",
        ),
        ('REPLACE(4, "- 1", "+ 1") AND RUN', "assert 9 == 6"),
        slow(
            'REPLACE(4, "number - 1", "absent") AND RUN', "NameError: name 'absent' is not defined"
        ),
        ('REPLACE(4, "number - 1", "(") AND RUN', "SyntaxError: '(' was never closed"),
        slow('REPLACE(3, "for number in numbers", "while True") AND RUN', "not defined"),
        slow('REPLACE(5, "return", "while True") AND RUN', "SyntaxError: "),
    ],
)
def test_an_edit_script_runs_the_test_and_is_taken_back(
    sandbox: Sandbox, script: str, observed: str
) -> None:
    answer = experiment(sandbox, script)
    assert observed in answer.text
    assert "\n" not in answer.text
    assert answer.action == "experiment/edit"


@pytest.mark.slow
def test_a_test_that_does_not_end_any_more_is_killed(sandbox: Sandbox) -> None:
    script = 'REPLACE(5, "return result", "while True: pass") AND RUN'
    told = experiment(sandbox, script, seconds=3).text
    assert "[The test did not end within 3 seconds and was killed.]" in told


def test_a_script_that_can_not_be_read_is_no_experiment(sandbox: Sandbox) -> None:
    answer = experiment(sandbox, "print the total")
    assert answer.outcome is ToolOutcome.INVALID
    assert "An experiment is either" in answer.text
    assert experiment(sandbox, 'REPLACE(4, "x", "y") AND RUN').outcome is ToolOutcome.INVALID


def test_the_error_is_the_last_exception() -> None:
    section = "a.py:1: in f\nE   KeyError: 1\n\nDuring ...\nE   ValueError: 2\nE     more\n"
    assert error_line(section) == "ValueError: 2"
    assert error_line("E     File 'a', line 1\nE       (\nE   SyntaxError: s\n") == "SyntaxError: s"
    assert error_line("no marks\n") == "no marks"
    assert error_line("") == "[The test failed without a message.]"


def test_the_oracle_resolves_a_bug_by_two_experiments() -> None:
    trace = repair("autosd")
    assert trace.failure is None
    assert trace.verdict.resolved
    debugging, patching = trace.logs
    assert [log.role for log in trace.logs] == [Role.PATCH_CODER, Role.PATCH_CODER]
    assert debugging.actions == {"experiment/debugger": 1, "experiment/edit": 1}
    assert [row.event.line for row in debugging.events] == [FAULT_LINE]
    task = patching.rows[1].message.content
    assert "[No exception triggered]" in task
    assert "The hypothesis is supported" in task


def conversations(*replies: list[str]) -> ReplayBackend:
    """A model with these replies, conversation by conversation."""
    recordings = [
        Recording(
            tuple(scripted_completion(Message("assistant", text)) for text in texts),
            {"index": index},
        )
        for index, texts in enumerate(replies)
    ]
    return ReplayBackend("m", recordings)


@pytest.mark.slow
def test_the_reasoning_steps_are_shared_by_all_attempts() -> None:
    step = STEP.format(script="b 1 ;; c ;; p 2")
    rejected = "Conclusion: The hypothesis is rejected. <DEBUGGING DONE>"
    wrong = f"```python\n{BUG.files['solution.py'].decode()}```"
    model = conversations([step, rejected], [wrong], [step], [wrong])
    trace = repair("autosd", model, max_reasoning_steps=3)
    assert [log.steps for log in trace.logs] == [2, 1, 1, 1]
    assert [log.patch_attempt for log in trace.logs] == [1, 1, 2, 2]
    assert trace.stop_reason is StopReason.STEP_LIMIT
    assert "No hypothesis about the cause" in trace.logs[1].rows[1].message.content
    assert "Experiment: `b 1" in trace.logs[3].rows[1].message.content


def test_a_model_that_never_experiments_still_gets_its_patch() -> None:
    prose = "I believe that the comparison is wrong."
    model = conversations([prose, prose], [f"```python\n{CORRECT}```"])
    trace = repair("autosd", model, max_reasoning_steps=2)
    assert trace.verdict.resolved
    outcomes = [row.tool_outcome for row in trace.logs[0].rows if row.tool_outcome]
    assert outcomes == [ToolOutcome.INVALID] * 2
