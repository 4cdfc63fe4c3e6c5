"""What one problem comes to: a bug, or the step of the funnel that it did not get through."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from collect.self_repair.failure import read_failure
from collect.self_repair.layout import hidden_files, lay_out, task_text
from collect.self_repair.problem import Problem
from collect.self_repair.python_code import is_program
from collect.self_repair.records import Bug, Failure, Step
from collect.self_repair.testing import Tester, Trial
from collect.self_repair.writers import Solution, SolutionWriter

ORDER = tuple(Step)
MAX_ENDLESS = 3
"""Edits of one canonical solution that time out, after which no other is tried."""
PATIENCE = 10.0
"""How many times as long as the canonical solution, and half a second, one of its edits may take:
many edits never end, and there are others to try."""


class Outcome(BaseModel):
    """One problem's way through the funnel."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    problem_id: str
    dropped_at: Step | None = None
    """None: it became a bug."""
    missing: tuple[str, ...] = ()
    """Libraries that the sandbox lacks."""
    passed: bool = False
    """Whether the first solution passes every test."""
    dollars: float = 0.0
    bug: Bug | None = None


@dataclass(frozen=True)
class Funnel:
    """Puts problems through the steps. Thread-safe."""

    tester: Tester
    writer: SolutionWriter
    allow_timeouts: bool = False

    def judge(self, problem: Problem) -> Outcome:
        """All steps after the date range. Raises SandboxError, RolloutError, RolloutStopped."""
        missing = self.tester.missing(problem)
        if missing:
            return Outcome(problem_id=problem.id, dropped_at=Step.LIBRARIES, missing=missing)
        edit_timeout = self._edit_timeout(problem)
        if edit_timeout is None:
            return Outcome(problem_id=problem.id, dropped_at=Step.CANONICAL)
        return self._first_bug(problem, edit_timeout)

    def _edit_timeout(self, problem: Problem) -> float | None:
        """Seconds for an edit of the canonical solution; None where that fails itself."""
        if problem.canonical is None:
            return self.tester.timeout
        trial = self.tester.try_out(problem, problem.canonical)
        if trial.failing:
            return None
        return min(self.tester.timeout, PATIENCE * (trial.results.seconds + 0.5))

    def _first_bug(self, problem: Problem, edit_timeout: float) -> Outcome:
        """Of the writer's solutions; else the furthest step that one of them got to."""
        furthest, passed, dollars, endless = Step.WRITTEN, False, 0.0, 0
        for number, solution in enumerate(self.writer.solutions(problem)):
            dollars += solution.dollars
            found = self._try(problem, solution, edit_timeout)
            if isinstance(found, Bug):
                return Outcome(problem_id=problem.id, dollars=dollars, bug=found)
            furthest = max(furthest, found, key=ORDER.index)
            passed |= number == 0 and found is Step.FAILS
            endless += found is Step.ENDS
            if endless == MAX_ENDLESS:
                break
        return Outcome(problem_id=problem.id, dropped_at=furthest, passed=passed, dollars=dollars)

    def _try(self, problem: Problem, solution: Solution, edit_timeout: float) -> Bug | Step:
        if not is_program(solution.code):
            return Step.PARSES
        timeout = None if solution.edit is None else edit_timeout
        first = self.tester.try_out(problem, solution.code, timeout)
        step = self._stopped_at(first)
        if step is not None:
            return step
        second = self.tester.try_out(problem, solution.code, timeout)
        if first.failing != second.failing or _failure(first).type != _failure(second).type:
            return Step.REPEATS
        return _bug(problem, solution, first, _failure(first))

    def _stopped_at(self, trial: Trial) -> Step | None:
        if not trial.failing:
            return Step.FAILS
        if not set(trial.public) & set(trial.failing):
            return Step.FAILS_PUBLIC
        if trial.results.timed_out and not self.allow_timeouts:
            return Step.ENDS
        return None


def _failure(trial: Trial) -> Failure:
    """Of the first failing test, which is a public one."""
    if trial.results.timed_out:
        return Failure(type="TimeoutError", message="the tests did not end within the time-out")
    return read_failure(trial.results.output, trial.failing[0])


def _bug(problem: Problem, solution: Solution, trial: Trial, failure: Failure) -> Bug:
    return Bug(
        id=problem.id,
        source=problem.source,
        problem_id=problem.id,
        statement=task_text(problem),
        files=lay_out(problem, solution.code),
        hidden_files=hidden_files(problem),
        entry_point=problem.entry_point,
        fail_to_pass=trial.failing,
        pass_to_pass=trial.passing,
        gold_solution=problem.canonical,
        failure=failure,
        libraries=problem.libraries,
        published=problem.published,
        difficulty=problem.difficulty,
        written_by=solution.written_by,
        edit=solution.edit,
    )
