"""Java projects: built once, then edited, recompiled and run in fresh sandboxes."""

from __future__ import annotations

import posixpath
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tree_sitter import Node

from collect.benchmarks.base import TestStatus
from collect.benchmarks.java_run import java_statuses, run_built
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.issue_text import MAX_CHARACTERS, MAX_LINES, Shown, compose
from collect.benchmarks.projects.layout import is_below
from collect.benchmarks.projects.project import Project, ProjectRefused
from collect.benchmarks.projects.symptom import Claim, Outcome
from collect.code.java_tree import called_name, declarators, line_of, parse, text_of, walk, words
from collect.synthesis.bug import Caught
from collect.synthesis.candidates import Candidate
from collect.synthesis.java.builds import Compilation, JavaBuild, build_project, test_classes
from collect.synthesis.java.symptom import (
    Failure,
    JavaSymptom,
    checked_call,
    margin_text,
    read_failure,
    read_java_claim,
    read_java_symptom,
    read_traces,
    thrown_in,
)
from collect.synthesis.java.traces import FOLDER, OBSERVER, TracedBuild, read_output, trace_project
from collect.synthesis.java_mutations.variables import CLASSES
from collect.synthesis.mutations import CombinedMutation, Mutation
from collect.synthesis.suite import SHOWN_OUTPUT, Suite
from collect.synthesis.workbench import TrialRun
from sandbox import Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import BuildFailed, JavaUnavailable, SandboxUnavailable
from sandbox.java.project import JavaProject

# Issue texts for Java bugs, from the symptom alone.


_NAMING = words("formal_parameter enhanced_for_statement resource catch_formal_parameter")


def write_java_issue(project: Project, caught: Caught, seed: str) -> str:
    """A bug report: what was called, what happened, what was expected. Deterministic for a seed."""
    tests = [path for path in project.source.files if is_below(path, project.test_paths)]
    failure = read_failure(caught.trace)
    symptom = read_java_symptom(
        project.source.name, caught.failing, failure, project.source.files, tests
    )
    claim = read_java_claim(symptom)
    exception = claim.actual if claim.outcome is Outcome.WRONG_ERROR else failure.type
    shown = Shown(symptom.project, symptom.tests, exception, java_snippet(symptom, claim))
    return compose(claim, shown, seed, "java")


def java_snippet(symptom: JavaSymptom, claim: Claim) -> str:
    """The test's lines up to the failing one. Empty if there are too many, or if they need the
    test's fields or helpers."""
    body = symptom.method.child_by_field_name("body") if symptom.method is not None else None
    last = symptom.statement
    if body is None or last is None or last.parent != body:
        return ""
    before = [node for node in body.named_children if node.end_byte <= last.start_byte]
    kept = [node for node in before if not checked_call(node)[0]]
    if any(_needs_more(node, [*kept, last]) for node in [*kept, last]):
        return ""
    code = "\n".join([*map(margin_text, kept), _shown(last, claim)])
    long = len(code) > MAX_CHARACTERS or code.count("\n") >= MAX_LINES
    return "" if long else code


def _shown(statement: Node, claim: Claim) -> str:
    """The last line, reduced to the expression that the assertion checks."""
    name, arguments = checked_call(statement)
    if not name:
        return margin_text(statement)
    thrown = thrown_in(arguments)
    if thrown is not None and claim.outcome in (Outcome.NO_ERROR, Outcome.WRONG_ERROR):
        if thrown.type == "block":
            return "\n".join(map(margin_text, thrown.named_children))
        return f"{text_of(thrown)};"
    if claim.call and claim.outcome is Outcome.WRONG_VALUE:
        return f"System.out.println({claim.call});"
    if claim.call and claim.outcome is Outcome.ERROR:
        return f"{claim.call};"
    return margin_text(statement)


def _needs_more(node: Node, statements: list[Node]) -> bool:
    """Whether a statement uses something that these statements don't declare: fields or helpers."""
    declared = {
        text_of(name)
        for statement in statements
        for part in walk(statement)
        for name in _declared(part)
    }
    return any(
        _is_own_call(part)
        or part.type == "this"
        or (part.type == "identifier" and _is_free(part) and text_of(part) not in declared)
        for part in walk(node)
    )


def _is_own_call(node: Node) -> bool:
    """Whether it calls a method of the test's class, other than an assertion."""
    if node.type != "method_invocation" or node.child_by_field_name("object") is not None:
        return False
    return not called_name(node).startswith("assert") and called_name(node) != "fail"


def _declared(node: Node) -> list[Node]:
    names = [each.child_by_field_name("name") for each in declarators(node)]
    if node.type in _NAMING:
        names.append(node.child_by_field_name("name"))
    if node.type == "lambda_expression":
        given = node.child_by_field_name("parameters")
        if given is not None:
            names += [given] if given.type == "identifier" else list(given.named_children)
    return [name for name in names if name is not None]


def _is_free(identifier: Node) -> bool:
    """Whether the identifier is a variable by Java's naming convention, and not a member."""
    parent = identifier.parent
    if parent is None or text_of(identifier)[:1].isupper():
        return False
    if parent.type == "method_invocation":
        return identifier != parent.child_by_field_name("name")
    if parent.type == "field_access":
        return identifier == parent.child_by_field_name("object")
    return parent.type != "method_reference" or identifier == parent.named_children[0]


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


def shows(failure: Failure, candidate: Candidate) -> bool | None:
    """Whether a stack trace contains a faulty method; None if that is unknown."""
    methods = [part for part in candidate.parts if _is_in_method(part)]
    found = any(
        _is_in(part, frame.method, frame.file, frame.line)
        for part in methods
        for frame in failure.frames
    )
    return found if found or (failure.whole and methods) else None


def _is_in_method(part: Mutation) -> bool:
    """Class names start with a capital, method names do not."""
    return not part.scope.rpartition(".")[2][:1].isupper()


def _is_in(part: Mutation, method: str, file: str, line: int) -> bool:
    first, last = part.scope_lines
    longer = max(0, part.text.count("\n") - part.source[part.start : part.end].count("\n"))
    same_file = posixpath.join("/", part.path).endswith(f"/{file}")
    same_method = part.scope.rpartition(".")[2] == method
    return same_file and same_method and first <= line <= last + longer


# Test runs of one sandbox with a Java build, module by module.


@dataclass
class ModuleRuns:
    """The results of all runs so far."""

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
        """Run tests, grouped by the test path of their module."""
        for path, own in tests.items():
            self.run(modules[path], own)

    def run_traced(
        self,
        traced: TracedBuild,
        tests: Mapping[str, list[str]],
        properties: Mapping[str, object],
    ) -> None:
        """Run tests on instrumented classes, with these settings of `Trace`."""
        workspace = self.sandbox.workspace
        for path, own in tests.items():
            module = traced.build.at(workspace).modules[path]
            self.run(traced.project(module, workspace, properties), own, OBSERVER)


# A Java project's test suite: which tests pass, and which lines each one runs.


Report = Mapping[str, object]
_WORST = ("failed", "skipped", "passed")


@dataclass(frozen=True)
class SuiteRuns:
    """The runner's reports from two runs of a suite."""

    first: Sequence[Report]
    second: Sequence[Report]
    hits: Sequence[str]
    """What `Trace` wrote in the first run."""
    output: str
    """The output of the first run."""


def read_suite(
    project: Project,
    config: FactoryConfig,
    runs: SuiteRuns,
    traced: TracedBuild,
) -> Suite:
    """Build the suite from two runs.

    Raises ProjectRefused if too few tests pass, or none runs the project's code.
    """
    one, two = suite_statuses(runs.first), suite_statuses(runs.second)
    once = [test for test, status in one.items() if status is TestStatus.PASSED]
    passed = [test for test in once if two.get(test) is TestStatus.PASSED]
    flaky = len(once) - len(passed)
    if len(passed) < config.min_tests:
        raise ProjectRefused(
            f"{project.source.slug}: only {len(passed)} tests pass, fewer than factory.min_tests "
            f"({config.min_tests}), of {len(one)} that were run; the last lines of its suite:\n"
            f"{runs.output[-SHOWN_OUTPUT:]}"
        )
    lines = _lines(project, passed, runs.hits, traced)
    if not lines:
        raise ProjectRefused(f"{project.source.slug}: its tests run no line of its files")
    seconds = dict.fromkeys(passed, 0.0)
    for report in runs.second:
        test = str(report["test"])
        if test in seconds:
            seconds[test] += float(str(report.get("seconds", 0.0)))
    return Suite(
        tests=tuple(passed),
        seconds=seconds,
        failing=len(one) - len(once),
        flaky=flaky,
        lines=lines,
    )


def suite_statuses(reports: Sequence[Report]) -> dict[str, TestStatus]:
    """The status of each test method, in run order. One failed invocation fails the method."""
    reported: dict[str, set[str]] = {}
    for report in reports:
        if "#" in str(report["test"]):
            reported.setdefault(str(report["test"]), set()).add(str(report["status"]))
    return {
        test: TestStatus(next((status for status in _WORST if status in own), "missing"))
        for test, own in reported.items()
    }


def _lines(
    project: Project, passed: Sequence[str], hits: Iterable[str], traced: TracedBuild
) -> dict[str, dict[int, tuple[int, ...]]]:
    index = {test: number for number, test in enumerate(passed)}
    code = set(project.code_paths)
    found: dict[str, dict[int, set[int]]] = {}
    for entry in hits:
        test, _, numbers = entry.partition("\t")
        for number in map(int, filter(None, numbers.split(","))):
            path, line = traced.statements[number]
            if test in index and path in code:
                found.setdefault(path, {}).setdefault(line, set()).add(index[test])
    for path, lines in found.items():
        _add_fields(project.source.files[path], lines)
    return {
        path: {line: tuple(sorted(tests)) for line, tests in sorted(lines.items())}
        for path, lines in found.items()
    }


def _add_fields(source: bytes, lines: dict[int, set[int]]) -> None:
    """A field's value affects every test that runs code of its class."""
    statements = dict(lines)
    for node in walk(parse(source)):
        if node.type not in CLASSES:
            continue
        first, last = line_of(node), node.end_point.row + 1
        inside = [tests for line, tests in statements.items() if first <= line <= last]
        body = node.child_by_field_name("body")
        for member in body.named_children if body is not None else ():
            if inside and member.type in ("field_declaration", "enum_constant"):
                lines[line_of(member)] = set().union(*inside)


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
        """The builds, which are made once. Raises ProjectRefused, SandboxError."""
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
