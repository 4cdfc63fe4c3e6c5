"""Java projects: built once, then edited, recompiled and run in fresh sandboxes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from collect.benchmarks.base import TestStatus
from collect.benchmarks.java_testing import java_statuses
from collect.factory.bug import Caught
from collect.factory.candidates import Candidate
from collect.factory.config import FactoryConfig
from collect.factory.java.builds import JavaBuild, build_project
from collect.factory.java.compiling import Compilation
from collect.factory.java.distance import read_distance, shows
from collect.factory.java.failures import read_failure, read_traces
from collect.factory.java.issue import write_java_issue
from collect.factory.java.running import ModuleRuns
from collect.factory.java.suite import SuiteRuns, read_suite, suite_statuses
from collect.factory.java.test_classes import test_classes
from collect.factory.java.traces import FOLDER, TracedBuild, read_output, trace_project
from collect.factory.project import Project
from collect.factory.suite import Suite
from collect.factory.workbench import TrialRun
from collect.java_tree import parse
from collect.mutations import CombinedMutation, Mutation
from sandbox import SandboxConfig, open_sandbox
from sandbox.java.errors import BuildFailed


@dataclass(frozen=True)
class JavaWorkbench:
    """See `collect.factory.workbench.Workbench`."""

    project: Project
    sandbox: SandboxConfig
    config: FactoryConfig
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _builds: list[tuple[JavaBuild, TracedBuild]] = field(default_factory=list)

    def run_suite(self) -> Suite:
        build, traced = self._prepared()
        classes = self._by_module(self._modules)
        with open_sandbox(self.sandbox) as opened:
            opened.write_files(
                {**self.project.source.files, **traced.sources, **traced.build.outputs}
            )
            first = ModuleRuns(opened, self.config.suite_timeout)
            first.run_traced(traced, classes, {"size": traced.next_number})
            hits = read_output(opened)
        found = suite_statuses(first.reports)
        passed = [
            test
            for test, status in found.items()
            if status is TestStatus.PASSED and self.group_of(test) in self._modules
        ]
        with open_sandbox(self.sandbox) as opened:
            opened.write_files({**self.project.source.files, **build.outputs})
            second = ModuleRuns(opened, self.config.suite_timeout)
            second.run_all(build.at(opened.workspace).modules, self._by_module(passed))
        runs = SuiteRuns(first.reports, second.reports, hits, "\n".join(first.output))
        return read_suite(self.project, self.config, runs, traced)

    def edited(self, mutation: Mutation | CombinedMutation) -> Mapping[str, bytes] | None:
        code = mutation.apply().encode()
        if parse(code).has_error:
            return None
        return {**self.project.source.files, mutation.path: code}

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Candidate, str] | None = None,
    ) -> TrialRun:
        if measured is not None:
            return self._run_measured(files, tests, timeout, *measured)
        build, _ = self._prepared()
        with open_sandbox(self.sandbox) as opened:
            opened.write_files({**files, **build.outputs})
            try:
                compilation = Compilation.of(opened, build, files)
                compilation.changed(self.project.source.files)
            except BuildFailed as error:
                return TrialRun({}, {}, str(error))
            runs = ModuleRuns(opened, timeout)
            runs.run_all(compilation.build.modules, self._by_module(tests))
        return self._trial(runs, tests)

    def group_of(self, test: str) -> str:
        return test.partition("#")[0].partition("$")[0]

    def write_issue(self, caught: Caught, seed: str) -> str:
        return write_java_issue(self.project, caught, seed)

    def _run_measured(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        candidate: Candidate,
        test: str,
    ) -> TrialRun:
        _, traced = self._prepared()
        sources, faults = traced.edited(files, candidate)
        before = {**self.project.source.files, **traced.sources}
        after = {**files, **sources}
        with open_sandbox(self.sandbox) as opened:
            opened.write_files({**after, **traced.build.outputs})
            extra = (f"{opened.workspace}/{FOLDER}",)
            try:
                Compilation.of(opened, traced.build, after, extra).changed(before)
            except BuildFailed as error:
                return TrialRun({}, {}, str(error))
            runs = ModuleRuns(opened, timeout)
            properties = {"faults": ",".join(map(str, faults)), "test": test}
            runs.run_traced(traced, self._by_module(tests), properties)
            told = read_output(opened)
        trial = self._trial(runs, tests)
        trace = trial.traces.get(test)
        shown = None if trace is None else shows(read_failure(trace), candidate)
        return replace(trial, distance={**read_distance(told), "on_traceback": shown})

    def _trial(self, runs: ModuleRuns, tests: Sequence[str]) -> TrialRun:
        traces = read_traces(tests, runs.reports)
        return TrialRun(
            statuses=java_statuses(tests, runs.reports),
            reasons={
                test: read_failure(trace).reason(self._sources) for test, trace in traces.items()
            },
            output="\n".join(runs.output),
            timed_out=runs.timed_out,
            traces=traces,
        )

    def _prepared(self) -> tuple[JavaBuild, TracedBuild]:
        """The builds, made once. Raises ProjectRefused, SandboxError."""
        with self._lock:
            if not self._builds:
                build = build_project(self.project, self.sandbox)
                self._builds.append((build, trace_project(self.project, build, self.sandbox)))
            return self._builds[0]

    @cached_property
    def _sources(self) -> Sequence[str]:
        return [path for path in self.project.source.files if path.endswith(".java")]

    @cached_property
    def _modules(self) -> Mapping[str, str]:
        """The test path of each test class."""
        files = self.project.source.files
        return {
            name: path for path in self.project.test_paths for name in test_classes(files, path)
        }

    def _by_module(self, tests: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for test in tests:
            found.setdefault(self._modules[self.group_of(test)], []).append(test)
        return found
