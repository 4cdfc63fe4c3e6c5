"""Run pytest in a sandbox, and read its reports.

The verdict never depends on what the program under test prints, or writes into the report: a
process of ours that runs none of its code signs each line (`collect.benchmarks.pytest_launch`). The
agent can't change the files that configure pytest (`RUNNER_FILES`), and no module of the workspace
can replace pytest itself. Code under test still shares pytest's process: if it changes pytest
there, twins of the tests reveal it.
"""

from __future__ import annotations

import ast
import hmac
import json
import posixpath
import random
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from posixpath import dirname, join
from string import ascii_lowercase
from types import UnionType
from typing import Any, TypeAlias

from collect.benchmarks.base import NO_END, TestResults, TestStatus
from collect.benchmarks.workspace import read_files
from collect.code.syntax import parse
from sandbox import Command, CommandResult, Sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.shell import scratch_folder

Report: TypeAlias = Mapping[str, object]
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

# Twins: copies of tests under random names, one of which must pass and the others fail.

MAX_TWINS = 10
"""Limit of failing twins."""
CANARY = "a test that must fail"
_CHANCE = random.SystemRandom()


@dataclass(frozen=True)
class Twin:
    test: str
    """Its node id."""
    of: str
    """The test that it copies, or CANARY."""
    fails_with: str | None
    """What its failure message must contain; None if it must pass."""


@dataclass(frozen=True)
class Twins:
    deciding: tuple[str, ...]
    """Tests that must all have passed before the twins run."""
    files: Mapping[str, str]
    """Sources by path relative to the workspace, at paths that don't exist yet."""
    twins: tuple[Twin, ...]

    def disagreeing(self, reports: Iterable[Report]) -> dict[str, str]:
        """Each copied test whose twin gave a wrong result, with that result."""
        by_test = _by_test(reports)
        found = {}
        for twin in self.twins:
            phases = by_test.get(twin.test, [])
            failed = [phase for phase in phases if phase["outcome"] == "failed"]
            if not phases:
                found[twin.of] = "its twin did not run"
            elif twin.fails_with is None:
                if failed:
                    found[twin.of] = "its twin fails"
            elif not failed:
                found[twin.of] = "its twin passes, which must fail"
            elif not any(twin.fails_with in str(phase.get("crash")) for phase in failed):
                found[twin.of] = "its twin does not come to its end"
        return found


def make_twins(deciding: Sequence[str], sources: Mapping[str, bytes]) -> Twins | None:
    """Twins of these tests from the sources of their files, by path; None if there are none. Tests
    without a function in their file, such as generated ones, have no twin."""
    tests = [test for test in deciding if _file(test) in sources]
    if not tests:
        return None
    # The canary matches the project's test patterns if this test does.
    path = join(dirname(_file(tests[0])), f"test_{_word()}.py")
    name, message = _renamed(tests[0].partition("[")[0].rpartition("::")[2]), _word()
    files = {path: f"def {name}():\n    raise AssertionError({message!r})\n"}
    twins = [Twin(f"{path}::{name}", CANARY, message)]
    must_pass = _CHANCE.choice(tests)
    for file in dict.fromkeys(map(_file, tests)):
        for candidates, must_fail in ((tests[:MAX_TWINS], True), ([must_pass], False)):
            chosen = [test for test in candidates if _file(test) == file]
            path = join(dirname(file), f"test_{_word()}.py")
            source, copies = _copied(path, sources[file], chosen, must_fail)
            if copies:
                files[path] = source
                twins += copies
    return Twins(tuple(deciding), files, tuple(twins))


def _copied(
    path: str, source: bytes, tests: Sequence[str], must_fail: bool
) -> tuple[str, list[Twin]]:
    """A file for `path` with these tests renamed, and failing at the end if they must."""
    try:
        text = source.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        tree = parse(text)
    except (SyntaxError, ValueError):
        return "", []
    found: dict[str, tuple[Function, str, str | None]] = {}
    twins = []
    for test in tests:
        names, bracket, parameters = test.partition("::")[2].partition("[")
        *classes, old = names.split("::")
        if names not in found:
            function = _function(tree, classes, old)
            ends = function and must_fail and isinstance(function.body[-1], ast.Return | ast.Raise)
            if function is None or ends:
                continue
            found[names] = function, _renamed(old), _word() if must_fail else None
        _, new, message = found[names]
        twins.append(Twin("::".join([path, *classes, new]) + bracket + parameters, test, message))
    lines = [line.encode() for line in text.split("\n")]
    # From the last to the first, so that the positions of the others stay valid.
    for function, new, message in sorted(found.values(), key=lambda each: -each[0].lineno):
        if message is not None:
            _add_end(lines, function, f"raise AssertionError({message!r})".encode())
        at, start = function.lineno - 1, function.col_offset
        old_name = rb"\bdef(\s+)%s\b" % re.escape(function.name).encode()
        new_name = rb"def\g<1>%s" % new.encode()
        lines[at] = lines[at][:start] + re.sub(old_name, new_name, lines[at][start:], count=1)
    return b"\n".join(lines).decode(), twins


def _add_end(lines: list[bytes], function: Function, statement: bytes) -> None:
    first, last = function.body[0], function.body[-1]
    end, column = (last.end_lineno or last.lineno) - 1, last.end_col_offset or 0
    before = lines[first.lineno - 1][: first.col_offset]
    if before.strip():
        # The body is on the line of its `def`.
        lines[end] = lines[end][:column] + b"; " + statement + lines[end][column:]
    else:
        lines.insert(end + 1, before + statement)


def _function(scope: ast.AST, classes: Sequence[str], name: str) -> Function | None:
    """The last definition of this name in the scope, also below an `if` or a `try`."""
    defined = list(_defined(scope))
    if classes:
        inner = [c for c in defined if isinstance(c, ast.ClassDef) and c.name == classes[0]]
        return _function(inner[-1], classes[1:], name) if inner else None
    found = [f for f in defined if isinstance(f, Function) and f.name == name]
    return found[-1] if found else None


def _defined(scope: ast.AST) -> Iterator[Function | ast.ClassDef]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, Function | ast.ClassDef):
            yield node
        elif isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from _defined(node)


def _renamed(name: str) -> str:
    """A new name with the same first word, so that it still matches the project's test patterns."""
    first = re.match(r"_*[a-z]*", name)
    return f"{first.group() if first else ''}_{_word()}"


def _file(test: str) -> str:
    return test.partition("::")[0]


def _word() -> str:
    return "".join(_CHANCE.choices(ascii_lowercase, k=12))


# One pytest process.

REPORT_FILE = "report.jsonl"
USAGE_ERROR = 4
"""pytest's exit status if it refuses its options, or can't import a conftest file."""
PHASES = frozenset({"setup", "call", "teardown"})
Kinds: TypeAlias = Mapping[str, type | UnionType]
_OF_PHASE: Kinds = {"nodeid": str, "outcome": str, "xfail": bool, "seconds": int | float}
FIELDS: Mapping[str, Kinds] = {
    **dict.fromkeys(PHASES, _OF_PHASE),
    "start": {"nodeid": str},
    "collect": {"nodeid": str},
    "collected": {"tests": list},
    "checked": {"doubts": dict},
    "done": {},
    "end": {"status": int},
    "exit": {"status": int, "timed_out": bool},
}
"""What a report holds, by its `when`."""
CRASH_FIELDS: Kinds = {"path": str, "line": int, "message": str}
_SOURCES = {"launch.py": "pytest_launch.py", "stepinto_pytest_report.py": "pytest_report.py"}
_OPTIONS = (
    *("-p", "no:cacheprovider", "--continue-on-collection-errors", "--maxfail=0"),
    *("--color=no", "--tb=short"),
)
# Python would import `sitecustomize` from PYTHONPATH, which contains the project's folders. The
# launcher restores it for the tests.
_START = (
    'STEPINTO_PYTHONPATH="$PYTHONPATH"; export STEPINTO_PYTHONPATH; unset PYTHONPATH; exec "$@"'
)


@dataclass(frozen=True)
class PytestJob:
    paths: Sequence[str]
    """Files and folders that pytest collects from, relative to the workspace."""
    tests: Sequence[str] | None = None
    """Node ids of the only tests to run; None: everything that is collected."""
    plugins: Mapping[str, bytes] = field(default_factory=dict)
    """Source of extra plugins by module name. They share a folder with the files in `inputs`, and
    may write files there."""
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    """Files that the plugins write, read after the run."""
    twins: Twins | None = None
    """What runs after the tests if they pass."""
    options: Sequence[str] = ()
    """More options of pytest."""


@dataclass(frozen=True)
class PytestRun:
    result: CommandResult
    reports: Sequence[Report]
    """One report per test phase, in order, as `pytest_report` writes them."""
    outputs: Mapping[str, bytes]
    unloaded: tuple[str, ...]
    """Files and folders that could not be collected, mostly because of import errors, and conftest
    files that could not be imported."""
    collected: tuple[str, ...] | None
    """The tests that pytest was going to run; None if the process ended before that was known."""
    last: str | None
    """The test that started last."""
    ended: bool
    """Whether pytest ran to its end, and its process ended as pytest reported."""
    changed: bool
    """Whether something else wrote to the report."""
    doubts: Mapping[str, str] | None
    """What the program did to its tests, by what it did it to: it replaced functions, say. None if
    the process ended before that was checked."""
    cut_short: str | None = None
    """If the process ended before pytest did: during what, and what was done about it."""

    @property
    def output(self) -> str:
        return self.result.output

    @property
    def was_cut_short(self) -> bool:
        """Whether the process ended before pytest did, other than by the timeout."""
        return not self.ended and not self.result.timed_out

    @property
    def stopped_collecting(self) -> bool:
        """Whether a file ended the collection of all, by `sys.exit` or `os._exit`, say."""
        known = self.collected is not None or bool(self.unloaded) or self.result.timed_out
        return not known and self.result.exit_code != USAGE_ERROR


def run_job(sandbox: Sandbox, job: PytestJob, timeout: float) -> PytestRun:
    """Run one pytest process. `timeout` is in seconds; reports from before it are kept. Twins get
    twice as much extra time: each test may have two.

    The project's conftest files and ini options apply; installed third-party plugins only if
    PYTEST_PLUGINS names them. Raises SandboxUnavailable if the sandbox's Python has no pytest.
    """
    key, twins = secrets.token_bytes(32), job.twins
    facts = {
        # Without --rootdir, pytest may use the tests' folder as root, and shorten the ids.
        "arguments": [*_OPTIONS, f"--rootdir={sandbox.workspace}", *job.options, *job.paths],
        "paths": list(job.paths),
        "tests": None if job.tests is None else list(job.tests),
        "plugins": list(job.plugins),
    }
    files = {"job.json": json.dumps(facts).encode(), **job.inputs}
    files |= {name: Path(__file__).with_name(own).read_bytes() for name, own in _SOURCES.items()}
    files |= {f"{name}.py": data for name, data in job.plugins.items()}
    order: dict[str, object] = {"key": key.hex(), "twins": None, "seconds": timeout}
    if twins is not None:
        tests = [twin.test for twin in twins.twins]
        order["twins"] = {"deciding": twins.deciding, "files": dict(twins.files), "tests": tests}
    with scratch_folder(sandbox) as folder:
        sandbox.write_files({f"{folder}/{name}": data for name, data in files.items()})
        launch = ["sh", "-c", _START, "sh", sandbox.python, "-s", f"{folder}/launch.py"]
        command = Command(
            launch,
            env={"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            # Nothing else in the sandbox can read this.
            stdin=json.dumps(order).encode(),
            timeout=timeout if twins is None else timeout * 3,
        )
        result = sandbox.run(command)
        if result.output.rstrip().endswith("No module named 'pytest'"):
            raise SandboxUnavailable(
                f"{sandbox.python}, the sandbox's Python, has no pytest: install it there, or set "
                "sandbox.python to an interpreter that has it"
            )
        outputs = read_files(sandbox, job.outputs, folder)
        report = read_files(sandbox, [REPORT_FILE], folder).get(REPORT_FILE, b"")
    if result.timed_out and twins is not None:
        # The process that removes the twins was killed.
        sandbox.run(Command(["rm", "-f", "--", *twins.files]))
    result = replace(result, output=result.output.replace(f"{folder}/", ""))
    return _read_run(result, report, key, outputs)


def collect_tests(
    sandbox: Sandbox, names: Sequence[str], options: Sequence[str], timeout: float
) -> tuple[str, ...]:
    """The node ids that files, folders and tests stand for, each case of a parametrised test among
    them; none if they can't be collected. `options` are pytest's. Raises SandboxError."""
    job = PytestJob(names, options=("--collect-only", *options))
    return run_job(sandbox, job, timeout).collected or ()


def _read_run(
    result: CommandResult, report: bytes, key: bytes, outputs: Mapping[str, bytes]
) -> PytestRun:
    """Only lines that the launcher signed count: the program may also have written to the file. It
    shares a process with what tells the launcher, so that a signed line may say anything."""
    lines = report.split(b"\n")[:-1]
    reports: list[Report] = []
    for line in lines:
        mac, _, text = line.partition(b" ")
        expected = blake2b(b"%d %s" % (len(reports), text), key=key).hexdigest()
        if not hmac.compare_digest(mac, expected.encode()):
            continue
        told = _told(text)
        if told is None:
            break
        reports.append(told)
    by_kind: dict[str, list[Report]] = {}
    for each in reports:
        by_kind.setdefault(str(each["when"]), []).append(each)
    started, ends, exits = (by_kind.get(kind, []) for kind in ("start", "end", "exit"))
    collected: Any = by_kind.get("collected", [{"tests": None}])[0]["tests"]
    checked: Any = by_kind.get("checked", [{"doubts": None}])[0]["doubts"]
    late = any(each["timed_out"] for each in exits)
    return PytestRun(
        replace(result, timed_out=result.timed_out or late),
        [report for report in reports if report["when"] in PHASES],
        outputs,
        tuple(dict.fromkeys(str(each["nodeid"]) for each in by_kind.get("collect", []))),
        None if collected is None else tuple(collected),
        str(started[-1]["nodeid"]) if started else None,
        ended=bool(ends and exits) and ends[-1]["status"] == exits[-1]["status"],
        changed=len(reports) < len(lines),
        doubts=checked,
    )


def _told(text: bytes) -> Report | None:
    """A report; None if pytest can't have given it."""
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fields = FIELDS.get(str(report.get("when"))) if isinstance(report, dict) else None
    if fields is None or not _holds(report, fields):
        return None
    crash = report.get("crash")
    words = [*report.get("tests", ()), *report.get("doubts", {}).values()]
    whole = crash is None or (isinstance(crash, dict) and _holds(crash, CRASH_FIELDS))
    return report if whole and all(isinstance(word, str) for word in words) else None


def _holds(told: Mapping[str, object], fields: Kinds) -> bool:
    return all(isinstance(told.get(name), kind) for name, kind in fields.items())


def run_loadable(sandbox: Sandbox, job: PytestJob, timeout: float) -> PytestRun:
    """Run a job. A conftest file that can't be imported ends pytest before any test: then run the
    files that it is not for without the others. `timeout` is in seconds for everything."""
    began = time.monotonic()
    unloaded: list[str] = []
    while True:
        left = timeout - (time.monotonic() - began)
        run = run_job(sandbox, job, max(left, 1.0))
        unloaded += run.unloaded
        paths = [path for path in job.paths if _unloaded_for(path, unloaded) is None]
        is_over = run.collected is not None or run.result.timed_out
        if is_over or not paths or paths == list(job.paths):
            return replace(run, unloaded=tuple(dict.fromkeys(unloaded)))
        job = replace(job, paths=paths)


def _unloaded_for(path: str, unloaded: Iterable[str]) -> str | None:
    """What can't be loaded of a test file: itself, its folder or a conftest of its folders."""
    for each in unloaded:
        folder = dirname(each) if posixpath.basename(each) == "conftest.py" else each
        if path == each or not folder or path.startswith(f"{folder}/"):
            return each
    return None


def run_to_the_end(sandbox: Sandbox, job: PytestJob, timeout: float) -> PytestRun:
    """Run a job; if its process ends before pytest does, or pytest before it has collected the
    tests, run each unfinished test alone.

    `timeout` is in seconds for everything. A test that also ends its process when run alone has
    failed. Raises as `run_job` does.
    """
    began = time.monotonic()
    run = run_loadable(sandbox, job, timeout)
    if not (run.was_cut_short or (job.tests is not None and run.stopped_collecting)):
        return run
    finished = {str(each["nodeid"]) for each in run.reports if each["when"] == "teardown"}
    asked = (run.collected or ()) if job.tests is None else job.tests
    rest = [test for test in asked if test not in finished]
    reports = [each for each in run.reports if str(each["nodeid"]) in finished]
    unloaded = [*run.unloaded]
    for test in rest:
        left = timeout - (time.monotonic() - began)
        if left <= 0:
            run = replace(run, result=replace(run.result, timed_out=True))
            break
        alone = run_job(sandbox, PytestJob([_file(test)], [test]), left)
        reports += alone.reports
        unloaded += [_file(test)] if alone.stopped_collecting else alone.unloaded
        if alone.was_cut_short and alone.last == test:
            message = f"the test ended the process of pytest (exit status {alone.result.exit_code})"
            crash = {"path": _file(test), "line": 0, "message": message}
            failed = {"nodeid": test, "when": "call", "outcome": "failed", "xfail": False}
            reports.append({**failed, "seconds": 0.0, "crash": crash})
    during = f"during {run.last}" if run.last is not None else "before the first test"
    after = f"; {len(rest)} tests were run again, each in a process of its own" if rest else ""
    told = f"pytest ended {during} (sys.exit in a module?){after}"
    if run.was_cut_short:
        told = f"pytest's process ended {during}, before pytest did (os._exit, a crash?){after}"
    seconds = time.monotonic() - began
    return replace(
        run,
        result=replace(run.result, output=f"{run.output}\n{told}\n", seconds=seconds),
        reports=reports,
        unloaded=tuple(dict.fromkeys(unloaded)),
        cut_short=told,
    )


# Statuses from pytest itself.

RUNNER_FILES = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"}
    | {"setup.cfg", "pyproject.toml", "setup.py", "noxfile.py", "Makefile"}
)
"""Names of files, in any folder, from which pytest reads hooks and settings, or which run before it
where an image's tests begin with a build."""
RUNNER_MODULES = frozenset({"pytest", "_pytest", "pluggy", "iniconfig"})
"""Modules that make up pytest."""
STARTED_MODULES = frozenset({"sitecustomize", "usercustomize"})
"""Modules that Python imports at startup."""


def run_pytest(
    sandbox: Sandbox, tests: Sequence[str], timeout: float, deciding: Sequence[str] = ()
) -> TestResults:
    """Run exactly these node ids, relative to the workspace, in one pytest process.

    `timeout` is in seconds for the whole run; tests that ended before it keep their status. A node
    id that does not exist is MISSING and does not affect the others; `not_loaded` has those whose
    file, or a conftest of it, can't be imported. If one test ends the process, each test that had
    not run yet runs alone. `deciding` are the tests that have twins. Raises
    SandboxUnavailable if the sandbox's Python has no pytest.
    """
    sources = read_files(sandbox, map(_file, tests))
    if not sources:
        missing = dict.fromkeys(tests, TestStatus.MISSING)
        return TestResults(missing, "none of the test files exists")
    twins = make_twins(deciding, sources) if deciding else None
    run = run_to_the_end(sandbox, PytestJob(list(sources), tests, twins=twins), timeout)
    reported = statuses(run.reports)
    found = {test: reported.get(test, TestStatus.MISSING) for test in tests}
    unreported = [test for test in tests if found[test] is TestStatus.MISSING]
    causes = {test: _unloaded_for(_file(test), run.unloaded) for test in unreported}
    doubts, of_program = dict[str, str](), dict(run.doubts or {})
    passed = all(found[test] is TestStatus.PASSED for test in deciding)
    # If all deciding tests passed and no other failed, the twins have run, or should have.
    if twins is not None and passed and TestStatus.FAILED not in found.values():
        if run.doubts is None or run.was_cut_short:
            of_program[NO_END] = "the process ended before pytest did"
        doubts = {**twins.disagreeing(run.reports), **of_program}
    return TestResults(
        found,
        run.output,
        run.result.timed_out,
        run.result.seconds,
        cut_short=run.cut_short,
        tampered="the program wrote to the report of its tests" if run.changed else None,
        doubts=doubts,
        of_program=tuple(of_program),
        not_loaded={test: cause for test, cause in causes.items() if cause is not None},
    )


def statuses(reports: Iterable[Report]) -> dict[str, TestStatus]:
    """The status of every reported test, in run order; an expected failure counts as passed."""
    found = {}
    for test, phases in _by_test(reports).items():
        if any(phase["outcome"] == "failed" for phase in phases):
            found[test] = TestStatus.FAILED
        elif not any(phase["when"] == "teardown" for phase in phases):
            found[test] = TestStatus.MISSING
        elif any(phase["outcome"] == "skipped" and not phase["xfail"] for phase in phases):
            found[test] = TestStatus.SKIPPED
        else:
            found[test] = TestStatus.PASSED
    return found


def _by_test(reports: Iterable[Report]) -> dict[str, list[Report]]:
    phases: dict[str, list[Report]] = {}
    for report in reports:
        phases.setdefault(str(report["nodeid"]), []).append(report)
    return phases


def steers_tests(path: str, import_paths: Sequence[str] = ()) -> bool:
    """Whether pytest reads hooks or settings from a file, or whether Python would import it from
    the tree's root or `import_paths` instead of pytest or before it."""
    named = posixpath.basename(path) in RUNNER_FILES
    return named or _module_at(path, import_paths) is not None


def runner_in(paths: Iterable[str], import_paths: Sequence[str]) -> str | None:
    """A file with which the tree brings its own pytest; None if there is none."""
    return next((p for p in sorted(paths) if _module_at(p, import_paths) in RUNNER_MODULES), None)


def _module_at(path: str, import_paths: Sequence[str]) -> str | None:
    """The module of pytest or of Python's start in whose place a file would be imported."""
    for folder in {".", *map(posixpath.normpath, import_paths)} if path.endswith(".py") else ():
        inside = path if folder == "." else path.removeprefix(f"{folder}/")
        name = inside.partition("/")[0].removesuffix(".py")
        if (folder == "." or inside != path) and name in RUNNER_MODULES | STARTED_MODULES:
            return name
    return None


SECTION = re.compile(r"(?m)^_{3,} (?:ERROR at \w+ of |ERROR collecting )?(.+?) _{3,}$")
SUMMARY = re.compile(r"(?m)^=+ (?:short test summary info|warnings summary|\d+ \w.*) =+$")


def section_of(test: str, output: str) -> str:
    """The part of pytest's output about one test, by node id, or about its file; the whole output
    if there is no such part."""
    name = test.partition("::")[2].replace("::", ".")
    pieces = SECTION.split(output)
    for title, text in zip(pieces[1::2], pieces[2::2], strict=True):
        if title in (name, _file(test)):
            return SUMMARY.split(text)[0].strip("\n")
    return output.strip()
