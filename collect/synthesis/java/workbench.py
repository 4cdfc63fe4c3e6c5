"""Java projects: built once, then edited, recompiled and run in fresh sandboxes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from collect.benchmarks.base import TestStatus
from collect.benchmarks.java_run import java_statuses, run_built
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.project import Project
from collect.code.java_tree import line_of, parse, walk
from collect.synthesis.java.builds import Compilation, JavaBuild, build_project, test_classes
from collect.synthesis.java.symptom import Failure, read_failure, read_traces, write_java_issue
from collect.synthesis.java.traces import FOLDER, TRACE, TracedBuild, read_output, trace_project
from collect.synthesis.java_mutations.base import CLASSES
from collect.synthesis.mutations.base import Mutation, apply_all
from collect.synthesis.workbench import Suite, TrialRun, read_suite
from sandbox import Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import BuildFailed, JavaUnavailable, SandboxUnavailable
from sandbox.java.project import JavaProject


@dataclass
class _Runs:
    """The results of test runs, module by module."""

    reports: list[Mapping[str, object]] = field(default_factory=list)
    output: str = ""
    timed_out: bool = False


def _run(
    sandbox: Sandbox,
    modules: Mapping[str, JavaProject],
    tests: Mapping[str, list[str]],
    timeout: float,
    observer: str | None = None,
) -> _Runs:
    """Run tests or classes, by the test path of their module. Raises SandboxError."""
    deadline = time.monotonic() + timeout
    runs = _Runs()
    for path, own in tests.items():
        left = max(deadline - time.monotonic(), 1.0)
        try:
            ran = run_built(sandbox, modules[path], own, left, observer)
        except JavaUnavailable as error:
            raise SandboxUnavailable(str(error)) from error
        runs.reports += ran.reports
        runs.output += ran.result.output.strip() + "\n"
        runs.timed_out |= ran.result.timed_out
    return runs


def _suite_statuses(reports: Sequence[Mapping[str, object]]) -> dict[str, TestStatus]:
    """The status of each test method, in run order. One failed invocation fails the method. Whole
    classes were run, so no method is reported as finished."""
    reported: dict[str, set[str]] = {}
    for report in reports:
        if "#" in str(report["test"]):
            reported.setdefault(str(report["test"]), set()).add(str(report["status"]))
    order = (TestStatus.FAILED, TestStatus.SKIPPED, TestStatus.PASSED)
    return {
        test: next((status for status in order if status in own), TestStatus.MISSING)
        for test, own in reported.items()
    }


@dataclass(frozen=True)
class JavaWorkbench:
    """See `collect.synthesis.workbench.Workbench`."""

    project: Project
    sandbox: SandboxConfig
    config: FactoryConfig
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _builds: list[tuple[JavaBuild, TracedBuild]] = field(default_factory=list)

    def run_suite(self) -> Suite:
        build, traced = self._prepared()
        files = self.project.source.files
        with open_sandbox(self.sandbox) as opened:
            opened.write_files({**files, **traced.sources, **traced.build.outputs})
            modules = traced.modules(opened.workspace, {"size": traced.next_number})
            classes = self._by_module(self._modules)
            first = _run(opened, modules, classes, self.config.suite_timeout, TRACE)
            hits = read_output(opened)
        one = _suite_statuses(first.reports)
        again = [
            test
            for test, status in one.items()
            if status is TestStatus.PASSED and self.group_of(test) in self._modules
        ]
        with open_sandbox(self.sandbox) as opened:
            opened.write_files({**files, **build.outputs})
            modules = build.at(opened.workspace).modules
            second = _run(opened, modules, self._by_module(again), self.config.suite_timeout)
        not_passed = {test: each for test, each in one.items() if each is not TestStatus.PASSED}
        return read_suite(
            self.project,
            self.config,
            one,
            {**not_passed, **_suite_statuses(second.reports)},
            seconds=[
                (str(each["test"]), float(str(each.get("seconds", 0.0)))) for each in second.reports
            ],
            covered=self._covered(hits, traced),
            output=first.output,
        )

    def _covered(
        self, hits: Sequence[str], traced: TracedBuild
    ) -> Mapping[str, Mapping[int, set[str]]]:
        """The tests that run each line, from what `Trace` wrote."""
        found: dict[str, dict[int, set[str]]] = {}
        for entry in hits:
            test, _, numbers = entry.partition("\t")
            for number in map(int, filter(None, numbers.split(","))):
                path, line = traced.statements[number]
                if path in self.project.code_paths:
                    found.setdefault(path, {}).setdefault(line, set()).add(test)
        for path, lines in found.items():
            # A field's value affects every test that runs code of its class.
            statements = dict(lines)
            for node in walk(parse(self.project.source.files[path])):
                body = node.child_by_field_name("body") if node.type in CLASSES else None
                first, last = line_of(node), node.end_point.row + 1
                for member in body.named_children if body is not None else ():
                    if member.type in ("field_declaration", "enum_constant"):
                        inside = [statements[line] for line in statements if first <= line <= last]
                        lines[line_of(member)] = set().union(*inside)
        return found

    def edited(self, edits: Sequence[Mutation]) -> Mapping[str, bytes] | None:
        code = apply_all(edits).encode()
        if parse(code).has_error:
            return None
        return {**self.project.source.files, edits[0].path: code}

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Sequence[Mutation], str] | None = None,
    ) -> TrialRun:
        build, traced = self._prepared()
        originals = self.project.source.files
        before, after = originals, files
        edits, measured_test = measured or ((), "")
        properties: dict[str, object] = {}
        if measured is not None:
            sources, faults = traced.edited(files, edits)
            before, after = {**originals, **traced.sources}, {**files, **sources}
            build = traced.build
            properties = {"faults": ",".join(map(str, faults)), "test": measured_test}
        with open_sandbox(self.sandbox) as opened:
            opened.write_files({**after, **build.outputs})
            extra = () if measured is None else (f"{opened.workspace}/{FOLDER}",)
            try:
                compilation = Compilation(opened, build, after, extra)
                compilation.changed(before)
            except BuildFailed as error:
                return TrialRun({}, {}, str(error))
            modules, observer = compilation.build.modules, None
            if measured is not None:
                modules, observer = traced.modules(opened.workspace, properties), TRACE
            runs = _run(opened, modules, self._by_module(tests), timeout, observer)
            told = read_output(opened)
        traces = read_traces(tests, runs.reports)
        failures = {test: read_failure(trace) for test, trace in traces.items()}
        distance: dict[str, int | bool | None] = {}
        if measured is not None:
            failure = failures.get(measured_test)
            shown = None if failure is None else shows(failure, edits)
            distance = {**read_distance(told), "on_traceback": shown}
        paths = [path for path in originals if path.endswith(".java")]
        return TrialRun(
            statuses=java_statuses(tests, runs.reports),
            reasons={test: failure.reason(paths) for test, failure in failures.items()},
            output=runs.output.strip(),
            timed_out=runs.timed_out,
            distance=distance,
            traces=traces,
        )

    def group_of(self, test: str) -> str:
        return test.partition("#")[0].partition("$")[0]

    def write_issue(self, failing: Sequence[str], run: TrialRun, seed: str) -> str:
        return write_java_issue(self.project, failing, run.traces[failing[0]], seed)

    def _prepared(self) -> tuple[JavaBuild, TracedBuild]:
        """The builds, which are made once. Raises ProjectRefused, SandboxError."""
        with self._lock:
            if not self._builds:
                build = build_project(self.project, self.sandbox)
                self._builds.append((build, trace_project(self.project, build, self.sandbox)))
            return self._builds[0]

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


# Distance between a Java test's failure and the fault.


def read_distance(lines: Sequence[str]) -> Mapping[str, int | None]:
    """The values that `Trace` wrote for the failing test, by field name of `Difficulty`. Empty if
    it wrote nothing: the fault is in no method, or the test did not end."""
    if not lines:
        return {}
    calls, entries, depth = map(int, lines[0].split("\t"))
    if not entries:
        return {}
    known = {"calls_to_failure": calls, "entries": entries}
    return {**known, "call_depth": depth if depth >= 0 else None}


def shows(failure: Failure, edits: Sequence[Mutation]) -> bool | None:
    """Whether a stack trace contains a faulty method; None if that is unknown."""
    places = [(edit.path, edit.scope.rpartition(".")[2]) for edit in edits]
    # Class names start with a capital, method names do not.
    methods = [(path, name) for path, name in places if not name[:1].isupper()]
    for frame in failure.frames:
        if any(frame.method == name and frame.path([path]) for path, name in methods):
            return True
    return False if failure.whole and methods else None
