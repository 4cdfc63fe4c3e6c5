"""Create the record of a bug from an edit that tests caught."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collect.benchmarks.local import Difficulty, EditRecord, FailureRecord, LocalBug
from collect.benchmarks.projects.project import Project, Reason
from collect.code.patches import diff_trees
from collect.synthesis.candidates import Candidate

MAX_MESSAGE = 500
"""Maximum characters of a failure's message."""


@dataclass(frozen=True)
class Caught:
    """The results of running the tests on an edited project."""

    files: Mapping[str, bytes]
    """The edited tree."""
    failing: tuple[str, ...]
    passing: tuple[str, ...]
    reason: Reason
    """The failure of the first failing test."""
    output: str
    """Output of the test runner."""
    distance: Mapping[str, int | bool | None]
    """Measurements on the first failing test, by field name of `Difficulty`; empty if there are
    none."""
    trace: str = ""
    """The first failing test's stack trace, if the runner reports it separately."""


def make_bug(project: Project, candidate: Candidate, caught: Caught, issue: str) -> LocalBug:
    """One line of the benchmark file."""
    source, environment = project.source, project.environment
    return LocalBug(
        id=f"{source.slug}__{candidate.id}",
        repository=f"repositories/{source.slug}",
        project=source.name,
        language=project.language,
        problem_statement=issue,
        fail_to_pass=caught.failing,
        pass_to_pass=caught.passing,
        gold_patch=diff_trees(caught.files, source.files),
        holds="correct",
        test_paths=project.test_paths,
        packages=environment.packages,
        import_paths=environment.import_paths,
        variables=environment.variables,
        category=candidate.mutation.category,
        edits=tuple(
            EditRecord(
                kind=part.kind,
                category=part.category,
                path=part.path,
                line=part.line,
                scope=part.scope,
            )
            for part in candidate.parts
        ),
        failure=FailureRecord(type=caught.reason.type, message=caught.reason.message[:MAX_MESSAGE]),
        difficulty=Difficulty.model_validate(
            {
                "failing_tests": len(caught.failing),
                "covering_tests": candidate.covering,
                **caught.distance,
            }
        ),
    )
