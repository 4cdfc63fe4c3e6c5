"""Python projects, run by pytest in fresh sandboxes with measuring plugins."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.issue_text import read_symptom, write_issue
from collect.benchmarks.projects.project import Project, read_reasons
from collect.benchmarks.pytest_run import PytestJob, run_job, statuses
from collect.benchmarks.workspace import with_environment
from collect.synthesis.bug import Caught
from collect.synthesis.candidates import Candidate
from collect.synthesis.mutations import CombinedMutation, Mutation
from collect.synthesis.suite import Suite, run_suite
from collect.synthesis.workbench import TrialRun
from sandbox import SandboxConfig, open_sandbox

PLUGIN = "stepinto_distance"
FAULT_FILE = "fault.json"
DISTANCE_FILE = "distance.json"


@dataclass(frozen=True)
class PythonWorkbench:
    """See `collect.synthesis.workbench.Workbench`."""

    project: Project
    sandbox: SandboxConfig
    config: FactoryConfig

    def run_suite(self) -> Suite:
        return run_suite(self.project, self.sandbox, self.config)

    def edited(self, mutation: Mutation | CombinedMutation) -> Mapping[str, bytes] | None:
        code = mutation.apply()
        try:
            ast.parse(code)
        except (SyntaxError, ValueError):
            return None
        return {**self.project.source.files, mutation.path: code.encode()}

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Candidate, str] | None = None,
    ) -> TrialRun:
        job = PytestJob(list(dict.fromkeys(map(self.group_of, tests))), tests)
        if measured is not None:
            job = _measured(job, *measured)
        with open_sandbox(with_environment(self.sandbox, self.project.environment)) as opened:
            opened.write_files(files)
            run = run_job(opened, job, timeout)
        return TrialRun(
            statuses(run.reports),
            read_reasons(run.reports),
            run.output,
            run.result.timed_out,
            json.loads(run.outputs.get(DISTANCE_FILE, b"{}")),
        )

    def group_of(self, test: str) -> str:
        return test.partition("::")[0]

    def write_issue(self, caught: Caught, seed: str) -> str:
        symptom = read_symptom(
            self.project.source.name,
            caught.failing,
            files=self.project.source.files,
            exception=caught.reason.type,
            message=caught.reason.message,
            output=caught.output,
        )
        return write_issue(symptom, seed)


def _measured(job: PytestJob, candidate: Candidate, test: str) -> PytestJob:
    scopes = [
        {
            "path": part.path,
            "name": part.scope.rpartition(".")[2],
            "first": part.scope_lines[0],
            "last": part.scope_lines[1],
        }
        for part in candidate.parts
    ]
    return replace(
        job,
        plugins={PLUGIN: Path(__file__).with_name("distance_plugin.py").read_bytes()},
        inputs={FAULT_FILE: json.dumps({"test": test, "scopes": scopes}).encode()},
        outputs=(DISTANCE_FILE,),
    )
