"""Run Java tests in a sandbox, with statuses from StepInto's own runner.

The tests' module is built as for a debug session, and its tests run in one plain JVM. The verdict
never depends on what the program under test prints: the runner reports to a file whose path it
reads from standard input, with a key that signs each line. Tests with random names must fail
(`Canaries.java`). The agent can't change what configures the build and the test framework
(`steers_tests`), and no class of the workspace can replace one from a jar. Code under test still
shares the JVM: code that reads the key from the JVM's memory can forge the report.
"""

from __future__ import annotations

import hmac
import io
import json
import posixpath
import re
import secrets
import string
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from collect.benchmarks.base import TestResults, TestStatus
from sandbox import Command, CommandResult, Sandbox
from sandbox.debugger.java_session import RUNNER_CLASS, deliver_probe, forget_delivery
from sandbox.errors import (
    BuildFailed,
    BuildFailure,
    BuildTimedOut,
    JavaError,
    JavaUnavailable,
    NoSuchTest,
    SandboxFileError,
    SandboxUnavailable,
)
from sandbox.java.build import built_test, java_command, needs_fork
from sandbox.java.jdk import find_jdk
from sandbox.java.project import BuildKind, JavaProject, Module, is_build_file, scan_workspace
from sandbox.shell import FOLDER, capture, scratch_folder

Reports = Sequence[Mapping[str, object]]
"""What the test runner tells of the tests, in order."""
SETTINGS_FILES = frozenset({"junit-platform.properties", "testng.xml", "gradle-wrapper.properties"})
"""Names of other files, in any folder, from which test frameworks and Gradle read settings."""
SERVICES = re.compile(
    r"(^|/)(mockito-extensions/|META-INF/groovy/|META-INF/services/"
    r"((javax?|jdk|sun|com\.sun|kotlin|lombok|org\.(junit|testng|assertj|hamcrest|mockito"
    r"|spockframework|jetbrains|(codehaus|apache)\.(groovy|maven)))\.))"
)
"""Files that name classes which Java, build tools and libraries of tests load automatically."""
MAX_REPORT = 64 * 1024 * 1024
"""Bytes; a larger report is the program's doing, and counts as none."""
OF_TESTS = "the tests' classes and sources"
_DIGEST = r"""
find "$@" -type f \( -name "*.java" -o -name "*.class" -o -name "*.jar" \) \
    -exec stat -c "%n|%s|%z" {} + 2>/dev/null | sort | sha256sum
"""


def run_java_tests(sandbox: Sandbox, tests: Sequence[str], timeout: float) -> TestResults:
    """Run exactly these tests: `package.Class#method`, or a class with its own `main`.

    `timeout` is in seconds for all, without the build; tests that ended before it keep their
    status. A test without a report is MISSING: it does not exist, the program does not compile
    (`not_loaded` has these), or its JVM ended before it. Raises SandboxUnavailable if the sandbox
    lacks a JDK, the build tool or JUnit's launcher, BuildFailure if the workspace can't be listed,
    SandboxError.
    """
    began = time.monotonic()
    statuses = dict.fromkeys(tests, TestStatus.MISSING)
    left, timed_out, tampered = timeout, False, None
    raised: dict[str, str] = {}
    outputs: list[str] = []
    failures: list[str] = []
    unbuilt: dict[str, str] = {}
    doubts: dict[str, str] = {}
    last: tuple[JavaProject, str] | None = None
    try:
        for project, own in _built(sandbox, tests, outputs, failures, unbuilt):
            # What ran before may have prepared this run.
            if last is not None and _digest(sandbox, last[0]) != last[1]:
                doubts[OF_TESTS] = "tests of another class or module changed them"
            last = (project, _digest(sandbox, project))
            forget_delivery(sandbox)
            started = time.monotonic()
            ran = run_built(sandbox, project, own, max(left, 1.0))
            left -= time.monotonic() - started
            found = java_statuses(own, ran.reports)
            if not ran.ended and set(found.values()) == {TestStatus.PASSED}:
                # The JVM ended before the canaries: nothing shows that a failure would be told.
                found = dict.fromkeys(found, TestStatus.MISSING)
            statuses.update(found)
            raised.update(read_traces(own, ran.reports))
            tampered = tampered or ran.tampered
            timed_out = timed_out or ran.result.timed_out
            outputs.append(ran.result.output)
    except JavaUnavailable as error:
        raise SandboxUnavailable(str(error)) from error
    except JavaError as error:
        raise BuildFailure(str(error)) from error
    passing = set(statuses.values()) <= {TestStatus.PASSED, TestStatus.SKIPPED}
    return TestResults(
        statuses,
        "\n".join(part.strip() for part in outputs if part.strip()),
        timed_out,
        time.monotonic() - began,
        build_failure=failures[-1] if failures else None,
        tampered=tampered,
        doubts=doubts if passing else {},
        raised={test: trace.partition("\n\tat ")[0] for test, trace in raised.items()},
        not_loaded={t: name for t, name in unbuilt.items() if statuses[t] is TestStatus.MISSING},
    )


def steers_tests(path: str) -> bool:
    """Whether a file configures the build tool, the compiler or a test framework."""
    name = posixpath.basename(path)
    return is_build_file(path) or name in SETTINGS_FILES or SERVICES.search(path) is not None


def stands_in(path: str, tests: Iterable[str]) -> bool:
    """Whether a file is named like the class of one of the tests, by which its source is found."""
    classes = {enclosing_classes(test)[0].rpartition(".")[2] for test in tests}
    return posixpath.basename(path) in {f"{name}.java" for name in classes}


def _built(
    sandbox: Sandbox,
    tests: Sequence[str],
    outputs: list[str],
    failures: list[str],
    unbuilt: dict[str, str],
) -> Iterator[tuple[JavaProject, list[str]]]:
    """The built modules of the tests, each with its existing tests. What builds say goes to
    `outputs`. If they fail, `unbuilt` gets the tests whose sources have errors, with their class;
    `failures` gets any other reason.

    Without a build tool each class is built alone: the build of the next one may undo it.
    """
    by_class: dict[str, list[str]] = {}
    for test in tests:
        by_class.setdefault(test.partition("#")[0], []).append(test)
    modules: dict[Module, tuple[JavaProject, list[str]]] = {}
    for name, own in by_class.items():
        try:
            found, project = built_test(sandbox, name)
        except BuildTimedOut as error:
            # Every other class would take as long.
            outputs.append(str(error))
            failures.append(str(error))
            break
        except NoSuchTest as error:
            outputs.append(str(error))
            continue
        except BuildFailed as error:
            outputs.append(str(error))
            is_of_all = any(is_build_file(path) for path in scan_workspace(sandbox).stamps)
            if error.in_sources:
                unbuilt.update((test, name) for test in (tests if is_of_all else own))
            else:
                failures.append(str(error))
            if is_of_all:
                # Every other class would take a whole build to fail for the same reason.
                break
            continue
        if found.class_name != name:
            outputs.append(f"there is no class {name}; {found.class_name} has a like name")
        elif needs_fork(project, found):
            # A verdict must not depend on what the build tool prints when it runs the tests.
            raise JavaUnavailable(
                f"{name} can't be run outside of {project.module.kind}: the test class path of "
                f"{project.module.folder} is not known, or it has JUnit 5 and no launcher; put "
                "org.junit.platform:junit-platform-launcher into the sandbox's local repository"
            )
        elif project.module.kind is BuildKind.PLAIN:
            yield project, own
        else:
            modules.setdefault(project.module, (project, []))[1].extend(own)
    yield from modules.values()


def _digest(sandbox: Sandbox, project: JavaProject) -> str:
    """A digest of all sources, classes and jars of the workspace and of a project's class path, but
    not of what is compiled anew for each run."""
    places = [path for path in project.class_path if not path.startswith(f"{FOLDER}/")]
    return capture(sandbox, _DIGEST, sandbox.workspace, *places).output


@dataclass(frozen=True)
class BuiltRun:
    result: CommandResult
    reports: Reports
    """Lines of the runner's report, in order: `test`, `status`, and `message`, `invocation` and
    `seconds` if known."""
    ended: bool
    """Whether the runner ran to its end, and the JVM's exit code is the one that it set."""
    tampered: str | None
    """Evidence that the program interfered with the run."""


def run_built(
    sandbox: Sandbox,
    project: JavaProject,
    tests: Sequence[str],
    timeout: float,
    observer: str | None = None,
) -> BuiltRun:
    """Run tests, or whole classes, of a built module in one JVM; `timeout` is in seconds.

    `observer` names a class of the program, a `BiConsumer<String, Boolean>` that takes each test as
    it starts, with null, and as it ends: whether it failed. Raises JavaUnavailable, SandboxError.
    """
    key = secrets.token_bytes(32)
    letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(256))
    jdk = find_jdk(sandbox)
    jar = deliver_probe(sandbox, jdk)
    # The jar is first, so that it wins over a class of the same name in the workspace.
    ordered = replace(project, class_path=(jar, *project.class_path))
    arguments = [] if observer is None else ["--observer", observer]
    runner = [RUNNER_CLASS, "--report", *arguments, *tests]
    argv = java_command(sandbox, jdk, ordered, jar, runner)
    with scratch_folder(sandbox) as folder:
        report = f"{folder}/report.jsonl"
        # The file must exist even if the JVM does not start.
        sandbox.write_file(report, b"")
        path = posixpath.join(sandbox.workspace, report)
        command = Command(
            argv,
            cwd=project.folder,
            env=project.environment,
            stdin=f"{path}\n{key.hex()}\n{letters}\n".encode(),
            timeout=timeout,
        )
        result = sandbox.run(command)
        lines, tampered = _read_report(sandbox, report, key)
    return BuiltRun(
        replace(result, output=result.output.replace(f"{folder}/", "")),
        [line for line in lines if "test" in line],
        any(line.get("end") == result.exit_code for line in lines),
        tampered,
    )


def _read_report(
    sandbox: Sandbox, path: str, key: bytes
) -> tuple[list[Mapping[str, object]], str | None]:
    """The lines that the runner wrote, and evidence that others wrote to its report, or that a
    canary did not fail.

    An incomplete last line means that the JVM was killed. Nothing after a foreign line is trusted.
    """
    try:
        text = io.BytesIO(sandbox.read_file(path, MAX_REPORT))
    except SandboxFileError:
        return [], None
    lines: list[Mapping[str, object]] = []
    # Line by line: of a flood of lines the first is foreign.
    for number, line in enumerate(text):
        if not line.endswith(b"\n"):
            break
        seal, _, content = line[:-1].partition(b" ")
        expected = hmac.digest(key, b"%d %s" % (number, content), "sha256").hex()
        told = _told(content) if hmac.compare_digest(seal, expected.encode()) else None
        if told is None:
            shown = line[:200].decode(errors="replace").rstrip("\n")
            return lines, (
                f"line {number + 1} of the test runner's report is not the runner's: the program "
                f"wrote to it: {shown!r}"
            )
        lines.append(told)
    for told in lines:
        if "canary" in told and told["status"] != "failed":
            return lines, (
                f"a test that must fail ({told['canary']}) did not: {told['status']}; the program "
                "changed how failures are told"
            )
    return lines, None


def _told(content: bytes) -> Mapping[str, object] | None:
    """What a line says; None if it has not the form of the runner's: a program that finds the key
    can sign anything."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(told, dict) and ("end" in told or isinstance(told.get("status"), str))
    return told if whole else None


def java_statuses(tests: Sequence[str], reports: Reports) -> dict[str, TestStatus]:
    """Each test's status, from the runner's report."""
    reported: dict[str, set[str]] = {}
    for report in reports:
        reported.setdefault(str(report["test"]), set()).add(str(report["status"]))
    found = {}
    for test in tests:
        own = reported.get(test, set())
        # A failure before all or after all of a class's tests is reported for the class.
        of_classes = [reported.get(name, set()) for name in enclosing_classes(test)]
        everything = own.union(*of_classes)
        # One failed invocation is enough.
        if "failed" in everything:
            found[test] = TestStatus.FAILED
        # Without this word, the JVM ended before some of the test's invocations.
        elif "finished" not in own:
            found[test] = TestStatus.MISSING
        elif "passed" in own:
            found[test] = TestStatus.PASSED
        else:
            found[test] = TestStatus.SKIPPED if "skipped" in everything else TestStatus.MISSING
    return found


def read_traces(tests: Sequence[str], reports: Reports) -> dict[str, str]:
    """The first stack trace of each failing test: its own, or that of an enclosing class."""
    traces: dict[str, str] = {}
    for report in reports:
        if report["status"] == "failed":
            traces.setdefault(str(report["test"]), str(report.get("message", "")))
    around = {test: [test, *reversed(enclosing_classes(test))] for test in tests}
    return {
        test: next(traces[name] for name in names if name in traces)
        for test, names in around.items()
        if any(name in traces for name in names)
    }


def enclosing_classes(test: str) -> list[str]:
    """The test's class and its enclosing classes, outermost first."""
    parts = test.partition("#")[0].split("$")
    return ["$".join(parts[:size]) for size in range(1, len(parts) + 1)]
