"""Java projects: built once, then edited, recompiled and run in fresh sandboxes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from collect.benchmarks.base import TestStatus
from collect.benchmarks.java_run import Reports, java_statuses, read_traces, run_built
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.issue_text import Outcome, compose
from collect.benchmarks.projects.project import Project, is_below
from collect.code.java_tree import line_of, parse, walk
from collect.synthesis.java.builds import (
    TRACE,
    TRACE_FOLDER,
    Compilation,
    JavaBuild,
    TracedBuild,
    build_project,
    read_output,
    test_classes,
    trace_project,
)
from collect.synthesis.java.symptoms import (
    Failure,
    enclosing_method,
    java_snippet,
    read_failure,
    read_java_claim,
    read_java_symptom,
    source_path,
    stands_alone,
)
from collect.synthesis.java_mutations.base import CLASSES
from collect.synthesis.mutations.base import Mutation, apply_all
from collect.synthesis.workbench import Return, Suite, TrialRun, read_suite
from sandbox import Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import BuildFailed, JavaUnavailable, SandboxUnavailable
from sandbox.java.project import JavaProject


def _run(
    sandbox: Sandbox,
    modules: Mapping[str, JavaProject],
    tests: Mapping[str, list[str]],
    timeout: float,
    observer: str | None = None,
) -> tuple[Reports, str, bool]:
    """Run tests or classes, by the test path of their module: the reports, the output, and whether
    the time ran out. Raises SandboxError."""
    deadline = time.monotonic() + timeout
    runs = []
    for path, own in tests.items():
        left = max(deadline - time.monotonic(), 1.0)
        try:
            runs.append(run_built(sandbox, modules[path], own, left, observer))
        except JavaUnavailable as error:
            raise SandboxUnavailable(str(error)) from error
    reports = [report for run in runs for report in run.reports]
    output = "\n".join(run.result.output.strip() for run in runs)
    return reports, output.strip(), any(run.result.timed_out for run in runs)


def _suite_statuses(reports: Reports) -> dict[str, TestStatus]:
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
            modules = traced.modules(opened.workspace, {"size": len(traced.statements)})
            classes = self._by_module(self._modules)
            timeout = self.config.suite_timeout
            reports, output, _ = _run(opened, modules, classes, timeout, TRACE)
            hits = read_output(opened)
        one = _suite_statuses(reports)
        again = [
            test
            for test, status in one.items()
            if status is TestStatus.PASSED and self.group_of(test) in self._modules
        ]
        with open_sandbox(self.sandbox) as opened:
            opened.write_files({**files, **build.outputs})
            modules = build.at(opened.workspace).modules
            reports, _, _ = _run(opened, modules, self._by_module(again), timeout)
        not_passed = {test: each for test, each in one.items() if each is not TestStatus.PASSED}
        return read_suite(
            self.project,
            self.config,
            one,
            {**not_passed, **_suite_statuses(reports)},
            seconds=[(str(each["test"]), float(str(each.get("seconds", 0.0)))) for each in reports],
            covered=self._covered(hits, traced),
            output=output,
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
        originals, measured_test = self.project.source.files, ""
        before, after = originals, files
        if measured is not None:
            build, (edits, measured_test) = traced.build, measured
            sources = traced.edited(files, edits)
            before, after = {**originals, **traced.sources}, {**files, **sources}
        with open_sandbox(self.sandbox) as opened:
            opened.write_files({**after, **build.outputs})
            extra = () if measured is None else (f"{opened.workspace}/{TRACE_FOLDER}",)
            try:
                compilation = Compilation(opened, build, after, extra)
                compilation.changed(before)
            except BuildFailed as error:
                return TrialRun({}, {}, str(error))
            modules, observer = compilation.build.modules, None
            if measured is not None:
                told = {"test": measured_test}
                modules, observer = traced.modules(opened.workspace, told), TRACE
            reports, output, late = _run(opened, modules, self._by_module(tests), timeout, observer)
            lines = read_output(opened)
        traces = read_traces(tests, reports)
        failures = {test: read_failure(trace) for test, trace in traces.items()}
        paths = [path for path in originals if path.endswith(".java")]
        distance = _distance(lines, failures.get(measured_test), edits) if measured else {}
        return TrialRun(
            statuses=java_statuses(tests, reports),
            reasons={test: failure.reason(paths) for test, failure in failures.items()},
            output=output,
            timed_out=late,
            distance=distance,
            returns=read_returns(lines, paths),
            failure=_stack(failures[measured_test], paths) if measured_test in failures else (),
            traces=traces,
        )

    def group_of(self, test: str) -> str:
        return test.partition("#")[0].partition("$")[0]

    def write_issue(
        self, failing: Sequence[str], run: TrialRun, files: Mapping[str, bytes], seed: str
    ) -> str:
        files, failure = self.project.source.files, read_failure(run.traces[failing[0]])
        test_files = [path for path in files if is_below(path, self.project.test_paths)]
        symptom = read_java_symptom(failing[0], failure, files, test_files)
        claim = read_java_claim(symptom)
        exception = claim.actual if claim.outcome is Outcome.WRONG_ERROR else failure.type
        shown = {"project": self.project.source.name, "exception": exception}
        shown["snippet"] = java_snippet(symptom, claim)
        tests = failing if self.config.issue_names_test else ()
        shows = shown["snippet"] or stands_alone(claim.call)
        if not tests and not (claim.tells and shows):
            return ""
        return compose(claim, tests, shown, seed, "java")

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


def _stack(failure: Failure, paths: Sequence[str]) -> list[tuple[str, str, int]]:
    """The frames in these files, from the test inwards."""
    found = ((frame.path(paths), frame.method, frame.line) for frame in reversed(failure.frames))
    return [(path, method, line) for path, method, line in found if path is not None]


def _distance(
    lines: Sequence[str], failure: Failure | None, edits: Sequence[Mutation]
) -> dict[str, int | bool | None]:
    """How far a test's failure is from the edits, by field name of `Difficulty`.

    `lines` is what `Trace` wrote for the test: nothing if it did not end. Whether the stack trace
    has a faulty method is None where that is unknown.
    """
    found: dict[str, int | bool | None] = {"on_traceback": None}
    if lines:
        calls, at_entry, entries, depth = map(int, lines[-1].split("\t")[1:])
        if entries:
            found |= {"calls_to_failure": calls - at_entry, "entries": entries}
            found["call_depth"] = depth if depth >= 0 else None
    places = [(edit.path, edit.scope.rpartition(".")[2]) for edit in edits]
    # Class names start with a capital, method names do not.
    methods = [(path, name) for path, name in places if not name[:1].isupper()]
    if failure is not None and methods:
        shown = any(
            frame.method == name and frame.path([path]) is not None
            for frame in failure.frames
            for path, name in methods
        )
        found["on_traceback"] = shown or (False if failure.whole else None)
    return found


def read_returns(lines: Sequence[str], sources: Sequence[str]) -> list[Return]:
    """The returns of faulty methods that `Trace` wrote."""
    told = [line.split("\t") for line in lines]
    end = int(told[-1][1]) if told else 0
    path_of = cache(lambda file: source_path(file, sources) or file)
    returns = []
    for what, calls, effect, *frames in told:
        if what == "return":
            named = [frame.partition(":") for frame in frames]
            stack = tuple((path_of(file), enclosing_method(method)) for file, _, method in named)
            returns.append(Return(end - int(calls), stack, effect))
    return returns
