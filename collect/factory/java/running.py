"""Runs of tests in one sandbox where a Java build is laid out, module after module."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collect.benchmarks.java_testing import run_built
from collect.factory.java.traces import OBSERVER, TracedBuild
from sandbox import Sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.java.errors import JavaUnavailable
from sandbox.java.project import JavaProject


@dataclass
class ModuleRuns:
    """What the runs so far showed."""

    sandbox: Sandbox
    timeout: float
    """Seconds left for tests."""
    reports: list[Mapping[str, object]] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    timed_out: bool = False

    def run(self, project: JavaProject, tests: Sequence[str], observer: str | None = None) -> None:
        """Run tests or classes of a module. Raises SandboxError."""
        began = time.monotonic()
        try:
            ran = run_built(self.sandbox, project, tests, max(self.timeout, 1.0), observer)
        except JavaUnavailable as error:
            raise SandboxUnavailable(str(error)) from error
        self.timeout -= time.monotonic() - began
        self.reports += ran.reports
        self.output.append(ran.result.output.strip())
        self.timed_out |= ran.result.timed_out

    def run_all(self, modules: Mapping[str, JavaProject], tests: Mapping[str, list[str]]) -> None:
        """Run tests, by the test path of their module."""
        for path, own in tests.items():
            self.run(modules[path], own)

    def run_traced(
        self,
        traced: TracedBuild,
        tests: Mapping[str, list[str]],
        properties: Mapping[str, object],
    ) -> None:
        """The same, on instrumented classes, with these settings of `Trace`."""
        workspace = self.sandbox.workspace
        for path, own in tests.items():
            module = traced.build.at(workspace).modules[path]
            self.run(traced.project(module, workspace, properties), own, OBSERVER)
