"""What becomes of a candidate that can't be judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from collect.benchmarks.base import Environment, TestStatus
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.project import Project, Reason, Source
from collect.synthesis.making import Candidate, Judge, Selection, Step
from collect.synthesis.mutations.base import Mutation
from collect.synthesis.mutations.finding import find_project_mutations
from collect.synthesis.workbench import Suite, TrialRun
from sandbox.errors import SandboxDead, SandboxUnavailable

CODE = "def last(rows):\n    return rows[-1]\n"
TEST = "tests/test_rows.py::test_last"
PROJECT = Project(
    Source("rows", "1", "here", "", {"rows.py": CODE.encode()}), Environment(), (), ()
)
SUITE = Suite(tests=(TEST,), seconds={TEST: 0.1}, lines={})


@dataclass(frozen=True)
class Failing:
    """A workbench whose runs end in an error."""

    error: Exception

    def run_suite(self) -> Suite:
        return SUITE

    def edited(self, edits: object) -> Mapping[str, bytes]:
        return PROJECT.source.files

    def run(self, files: Mapping[str, bytes], tests: Sequence[str], *more: object) -> TrialRun:
        raise self.error

    def group_of(self, test: str) -> str:
        return test

    def write_issue(self, failing: object, run: TrialRun, *more: object) -> str:
        return ""


def candidate() -> Candidate:
    mutation: Mutation = find_project_mutations(CODE, "rows.py")[0]
    return Candidate((mutation,), (TEST,), 1)


@pytest.mark.parametrize("error", [SandboxDead("it is gone"), IndexError("out of range")])
def test_a_candidate_that_can_not_be_judged_is_counted(error: Exception) -> None:
    outcome = Judge(PROJECT, SUITE, Failing(error), FactoryConfig()).judge(candidate())
    assert (outcome.dropped_at, outcome.bug) == (Step.JUDGED, None)
    selection = Selection(FactoryConfig())
    selection.add(outcome)
    assert selection.dropped == {Step.JUDGED: 1}
    assert selection.problems == [
        f"{candidate().id} ({outcome.kind}): {type(error).__name__}: {error}"
    ]


@pytest.mark.parametrize("error", [SandboxUnavailable("no bubblewrap"), OSError("disk full")])
def test_what_would_hit_every_candidate_ends_the_run(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        Judge(PROJECT, SUITE, Failing(error), FactoryConfig()).judge(candidate())


@dataclass(frozen=True)
class SharedState(Failing):
    """Three tests that share state: in the edited tree those after the first fail if all run, and
    `alone` fails by itself too."""

    alone: tuple[str, ...] = ()

    def edited(self, edits: object) -> Mapping[str, bytes]:
        return {"rows.py": b"edited"}

    def run(self, files: Mapping[str, bytes], tests: Sequence[str], *more: object) -> TrialRun:
        failing = self.alone if len(tests) == 1 else STATEFUL[1:]
        failing = failing if files["rows.py"] == b"edited" else ()
        statuses = {
            test: TestStatus.FAILED if test in failing else TestStatus.PASSED for test in tests
        }
        reasons = {test: Reason("ValueError", "", "") for test in failing if test in tests}
        return TrialRun(statuses, reasons)

    def write_issue(self, failing: object, run: TrialRun, *more: object) -> str:
        return "It fails."


STATEFUL = ("t.py::test_a", "t.py::test_b", "t.py::test_c")


@pytest.mark.parametrize("alone", [(), STATEFUL[2:]])
def test_a_named_test_fails_alone(alone: tuple[str, ...]) -> None:
    seconds = dict.fromkeys(STATEFUL, 0.1)
    suite = Suite(tests=STATEFUL, seconds=seconds, lines={})
    bench = SharedState(IndexError(), alone)
    mutation = candidate().parts
    project = replace(PROJECT, test_paths=("t.py",))
    outcome = Judge(project, suite, bench, FactoryConfig()).judge(Candidate(mutation, STATEFUL, 1))
    if not alone:
        assert (outcome.dropped_at, outcome.bug) == (Step.ALONE, None)
    else:
        assert outcome.bug is not None, outcome
        assert outcome.bug.fail_to_pass == (STATEFUL[2], STATEFUL[1])
