"""Run pytest in a sandbox, and read its reports.

The verdict never depends on what the program under test prints, or writes into the report: a
process of ours that runs none of its code signs each line (`collect.benchmarks.pytest_launch`). The
agent can't change the files that configure pytest (`RUNNER_FILES`), and no module of the workspace
can replace pytest itself. Code under test still shares pytest's process: if it changes pytest
there, twins of the tests reveal it (`collect.benchmarks.twins`).
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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from posixpath import dirname, join
from string import ascii_lowercase
from typing import TypeAlias

from collect.benchmarks.base import TestResults, TestStatus
from collect.code.syntax import parse
from sandbox import Command, CommandResult, Sandbox
from sandbox.errors import SandboxFileError, SandboxUnavailable
from sandbox.shell import scratch_folder

MAX_TWINS = 10
"""Limit of failing twins."""
CANARY = "a test that must fail"
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_CHANCE = random.SystemRandom()


@dataclass(frozen=True)
class Twin:
    """A test to run after the others."""

    test: str
    """Its node id."""
    of: str
    """The test that it copies, or CANARY."""
    fails_with: str | None
    """What its failure message must contain; None if it must pass."""


@dataclass(frozen=True)
class Twins:
    """The twins of one run."""

    deciding: tuple[str, ...]
    """Tests that must all have passed before the twins run."""
    files: Mapping[str, str]
    """Sources by path relative to the workspace, at paths that don't exist yet."""
    twins: tuple[Twin, ...]

    def order(self) -> dict[str, object]:
        """The twins as sent to the launcher."""
        tests = [twin.test for twin in self.twins]
        return {"deciding": self.deciding, "files": dict(self.files), "tests": tests}

    def are_needed(self, statuses: Mapping[str, TestStatus]) -> bool:
        """Whether these statuses mean that the twins have run, or should have."""
        passed = all(statuses[test] is TestStatus.PASSED for test in self.deciding)
        return passed and TestStatus.FAILED not in statuses.values()

    def disagreeing(self, reports: Iterable[Mapping[str, object]]) -> dict[str, str]:
        """Each copied test whose twin gave a wrong result, with that result."""
        phases: dict[str, list[Mapping[str, object]]] = {}
        for report in reports:
            phases.setdefault(str(report["nodeid"]), []).append(report)
        found = [(twin.of, _wrong(twin, phases.get(twin.test, []))) for twin in self.twins]
        return {of: wrong for of, wrong in found if wrong is not None}


def make_twins(deciding: Sequence[str], sources: Mapping[str, bytes]) -> Twins | None:
    """Twins of these tests from the sources of their files, by path; None if there are none.

    Tests without a function in their file, such as generated ones, have no twin.
    """
    readable = [test for test in deciding if _file(test) in sources]
    if not readable:
        return None
    made = [_canary(readable[0]), *_copies(readable, sources)]
    files = {copy.path: copy.source for copy in made}
    return Twins(tuple(deciding), files, tuple(twin for copy in made for twin in copy.twins))


def _wrong(twin: Twin, phases: Sequence[Mapping[str, object]]) -> str | None:
    if not phases:
        return "its twin did not run"
    failed = [phase for phase in phases if phase["outcome"] == "failed"]
    if twin.fails_with is None:
        return "its twin fails" if failed else None
    if any(twin.fails_with in str(phase.get("crash")) for phase in failed):
        return None
    return "its twin does not come to its end" if failed else "its twin passes, which must fail"


@dataclass(frozen=True)
class _Copy:
    """One file of twins."""

    path: str
    source: str
    twins: tuple[Twin, ...]


def _canary(test: str) -> _Copy:
    """A canary that matches the project's test patterns if this test does."""
    path = join(dirname(_file(test)), f"test_{_word()}.py")
    name, message = _renamed(test.partition("[")[0].rpartition("::")[2]), _word()
    source = f"def {name}():\n    raise AssertionError({message!r})\n"
    return _Copy(path, source, (Twin(f"{path}::{name}", CANARY, message),))


def _copies(tests: Sequence[str], sources: Mapping[str, bytes]) -> Iterator[_Copy]:
    must_pass = _CHANCE.choice(tests)
    for file in dict.fromkeys(map(_file, tests)):
        mine = [test for test in tests[:MAX_TWINS] if _file(test) == file]
        alike = [must_pass] if _file(must_pass) == file else []
        for chosen, must_fail in ((mine, True), (alike, False)):
            copy = _copied(file, sources[file], chosen, must_fail)
            if copy is not None:
                yield copy


def _copied(file: str, source: bytes, tests: Sequence[str], must_fail: bool) -> _Copy | None:
    """A file with these tests renamed, and failing at the end if they must."""
    try:
        text = source.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        tree = parse(text)
    except (SyntaxError, ValueError):
        return None
    path = join(dirname(file), f"test_{_word()}.py")
    lines = [line.encode() for line in text.split("\n")]
    found: dict[str, _Renamed] = {}
    twins = []
    for test in tests:
        names, bracket, parameters = test.partition("::")[2].partition("[")
        *classes, old = names.split("::")
        if names not in found:
            function = _function(tree, classes, old)
            ends = function is not None and isinstance(function.body[-1], ast.Return | ast.Raise)
            if function is None or (ends and must_fail):
                continue
            found[names] = _Renamed(function, _renamed(old), _word() if must_fail else None)
        new = found[names]
        twin = "::".join([path, *classes, new.name]) + bracket + parameters
        twins.append(Twin(twin, test, new.message))
    # From the last to the first, so that the positions of the others stay valid.
    for new in sorted(found.values(), key=lambda each: -each.function.lineno):
        new.write(lines)
    return _Copy(path, b"\n".join(lines).decode(), tuple(twins)) if twins else None


@dataclass(frozen=True)
class _Renamed:
    """A test function under a new name."""

    function: Function
    name: str
    message: str | None
    """Message of the statement added at its end."""

    def write(self, lines: list[bytes]) -> None:
        """Change the lines of its file."""
        if self.message is not None:
            self._add_end(lines, f"raise AssertionError({self.message!r})".encode())
        at, start = self.function.lineno - 1, self.function.col_offset
        old = rb"\bdef(\s+)%s\b" % re.escape(self.function.name).encode()
        new = rb"def\g<1>%s" % self.name.encode()
        lines[at] = lines[at][:start] + re.sub(old, new, lines[at][start:], count=1)

    def _add_end(self, lines: list[bytes], statement: bytes) -> None:
        first, last = self.function.body[0], self.function.body[-1]
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
    """A random word of letters."""
    return "".join(_CHANCE.choices(ascii_lowercase, k=12))


REPORT_FILE = "report.jsonl"
PHASES = frozenset({"setup", "call", "teardown"})
PHASE_FIELDS = {"nodeid", "when", "outcome", "xfail"}
_LAUNCHER = "launch.py"
_SOURCES = {_LAUNCHER: "pytest_launch.py", "stepinto_pytest_report.py": "pytest_report.py"}
_OPTIONS = ("--continue-on-collection-errors", "--maxfail=0", "--color=no", "--tb=short")
# Python would import `sitecustomize` from PYTHONPATH, which contains the project's folders.
ISOLATED = 'STEPINTO_PYTHONPATH="$PYTHONPATH"; export STEPINTO_PYTHONPATH; unset PYTHONPATH'
"""Shell command before a launcher, which restores PYTHONPATH for its program."""


@dataclass(frozen=True)
class PytestJob:
    """What to run."""

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


@dataclass(frozen=True)
class PytestRun:
    """The result of a run."""

    result: CommandResult
    reports: Sequence[Mapping[str, object]]
    """One report per test phase, in order, as `pytest_report` writes them."""
    outputs: Mapping[str, bytes]
    """The output files that were written."""
    unloaded: tuple[str, ...] = ()
    """Files that could not be collected, mostly because of import errors."""
    collected: tuple[str, ...] = ()
    """The tests that pytest was going to run; empty if the process ended before that was known."""
    last: str | None = None
    """The test that started last."""
    ended: bool = True
    """Whether pytest ran to its end, and its process ended as pytest reported."""
    changed: bool = False
    """Whether something else wrote to the report."""
    replaced: tuple[str, ...] = ()
    """Functions and classes of pytest, unittest and Python that were replaced after the tests."""
    cut_short: str | None = None
    """If the process ended before pytest did: during what, and what was done about it."""

    @property
    def output(self) -> str:
        """pytest's output."""
        return self.result.output

    @property
    def was_cut_short(self) -> bool:
        """Whether the process ended before pytest did, other than by the timeout."""
        return not self.ended and not self.result.timed_out


def run_job(sandbox: Sandbox, job: PytestJob, timeout: float) -> PytestRun:
    """Run one pytest process. `timeout` is in seconds; reports from before it are kept. Twins get
    twice as much extra time: each test may have two.

    The project's conftest files and ini options apply; installed third-party plugins only if
    PYTEST_PLUGINS names them. Raises SandboxUnavailable if the sandbox's Python has no pytest.
    """
    key = secrets.token_bytes(32)
    with scratch_folder(sandbox) as folder:
        sandbox.write_files({f"{folder}/{name}": data for name, data in _files(job, sandbox)})
        order, limit = _order(key, job.twins, timeout), timeout * (1 if job.twins is None else 3)
        result = sandbox.run(_command(sandbox, folder, order, limit))
        _refuse_missing_pytest(sandbox, result)
        written = {name: _read(sandbox, f"{folder}/{name}") for name in (REPORT_FILE, *job.outputs)}
    if result.timed_out and job.twins is not None:
        # The process that removes the twins was killed.
        sandbox.run(Command(["rm", "-f", "--", *job.twins.files]))
    outputs = {name: data for name, data in written.items() if data is not None}
    lines = outputs.pop(REPORT_FILE, b"").split(b"\n")[:-1]
    reports = list(_signed(lines, key))
    run = _run_of(_without(folder, result), reports, outputs)
    return replace(run, changed=len(reports) < len(lines))


def run_to_the_end(sandbox: Sandbox, job: PytestJob, timeout: float) -> PytestRun:
    """Run a job; if its process ends before pytest does, run each unfinished test alone.

    `timeout` is in seconds for everything. A test that also ends its process when run alone has
    failed. Raises as `run_job` does.
    """
    began = time.monotonic()
    run = run_job(sandbox, job, timeout)
    if not run.was_cut_short:
        return run
    finished = {str(each["nodeid"]) for each in run.reports if each["when"] == "teardown"}
    asked = run.collected if job.tests is None else job.tests
    rest = [test for test in asked if test not in finished]
    reports = [each for each in run.reports if str(each["nodeid"]) in finished]
    unloaded = [*run.unloaded]
    for test in rest:
        left = timeout - (time.monotonic() - began)
        if left <= 0:
            run = replace(run, result=replace(run.result, timed_out=True))
            break
        alone = run_job(sandbox, PytestJob([test.partition("::")[0]], [test]), left)
        reports += alone.reports
        unloaded += alone.unloaded
        if alone.was_cut_short and alone.last == test:
            reports.append(_ended_the_process(test, alone.result.exit_code))
    told = _told_cut_short(run, rest)
    seconds = time.monotonic() - began
    return replace(
        run,
        result=replace(run.result, output=f"{run.output}\n{told}\n", seconds=seconds),
        reports=reports,
        unloaded=tuple(dict.fromkeys(unloaded)),
        cut_short=told,
    )


def _told_cut_short(run: PytestRun, rest: Sequence[str]) -> str:
    during = f"during {run.last}" if run.last is not None else "before the first test"
    after = f"; {len(rest)} tests were run again, each in a process of its own" if rest else ""
    return f"pytest's process ended {during}, before pytest did (os._exit, a crash?){after}"


def _ended_the_process(test: str, exit_code: int) -> dict[str, object]:
    message = f"the test ended the process of pytest (exit status {exit_code})"
    return {
        "nodeid": test,
        "when": "call",
        "outcome": "failed",
        "xfail": False,
        "seconds": 0.0,
        "crash": {"path": test.partition("::")[0], "line": 0, "message": message},
    }


def _run_of(
    result: CommandResult, reports: Sequence[Mapping[str, object]], outputs: Mapping[str, bytes]
) -> PytestRun:
    by_kind: dict[str, list[Mapping[str, object]]] = {}
    for each in reports:
        by_kind.setdefault(str(each["when"]), []).append(each)
    phases = [r for r in reports if r["when"] in PHASES and r.keys() >= PHASE_FIELDS]
    started, ends, exits = (by_kind.get(kind, []) for kind in ("start", "end", "exit"))
    collected = by_kind.get("collected", [{"tests": []}])[0]["tests"]
    replaced = by_kind.get("replaced", [{"names": []}])[0]["names"]
    late = any(each["timed_out"] for each in exits)
    return PytestRun(
        replace(result, timed_out=result.timed_out or late),
        phases,
        outputs,
        tuple(dict.fromkeys(str(each["nodeid"]) for each in by_kind.get("collect", []))),
        tuple(map(str, collected)) if isinstance(collected, list) else (),
        str(started[-1]["nodeid"]) if started else None,
        ended=bool(ends and exits) and ends[-1]["status"] == exits[-1]["status"],
        replaced=tuple(map(str, replaced)) if isinstance(replaced, list) else (),
    )


def _files(job: PytestJob, sandbox: Sandbox) -> Iterator[tuple[str, bytes]]:
    here = Path(__file__).parent
    # Without --rootdir, pytest may use the tests' folder as root, and shorten the ids.
    options = ("-p", "no:cacheprovider", *_OPTIONS, f"--rootdir={sandbox.workspace}")
    facts = {
        "arguments": [*options, *job.paths],
        "tests": None if job.tests is None else list(job.tests),
        "plugins": list(job.plugins),
    }
    yield "job.json", json.dumps(facts).encode()
    for name, source in _SOURCES.items():
        yield name, (here / source).read_bytes()
    for name, data in job.plugins.items():
        yield f"{name}.py", data
    yield from job.inputs.items()


def _order(key: bytes, twins: Twins | None, seconds: float) -> bytes:
    """The launcher's input, passed so that nothing else in the sandbox can read it."""
    order = None if twins is None else twins.order()
    return json.dumps({"key": key.hex(), "twins": order, "seconds": seconds}).encode()


def _command(sandbox: Sandbox, folder: str, order: bytes, timeout: float) -> Command:
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    launch = [sandbox.python, "-s", f"{folder}/{_LAUNCHER}"]
    argv = ["sh", "-c", f'{ISOLATED}; exec "$@"', "sh", *launch]
    return Command(argv, env=environment, stdin=order, timeout=timeout)


def _refuse_missing_pytest(sandbox: Sandbox, result: CommandResult) -> None:
    if result.output.rstrip().endswith("No module named 'pytest'"):
        raise SandboxUnavailable(
            f"{sandbox.python}, the sandbox's Python, has no pytest: install it there, or set "
            "sandbox.python to an interpreter that has it"
        )


def _read(sandbox: Sandbox, path: str) -> bytes | None:
    """None if the program under test has removed the file."""
    try:
        return sandbox.read_file(path)
    except SandboxFileError:
        return None


def _signed(lines: Sequence[bytes], key: bytes) -> Iterator[dict[str, object]]:
    """The lines that the launcher signed: the program under test may also have written to the
    file."""
    count = 0
    for line in lines:
        mac, _, text = line.partition(b" ")
        expected = blake2b(b"%d %s" % (count, text), key=key).hexdigest()
        if hmac.compare_digest(mac, expected.encode()):
            count += 1
            yield json.loads(text)


def _without(folder: str, result: CommandResult) -> CommandResult:
    return replace(result, output=result.output.replace(f"{folder}/", ""))


# Run pytest tests in a sandbox, with statuses from pytest itself.


RUNNER_FILES = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"}
    | {"setup.cfg", "pyproject.toml"}
)
"""Names of files, in any folder, from which pytest reads hooks and settings."""
RUNNER_MODULES = frozenset({"pytest", "_pytest", "pluggy", "iniconfig"})
"""Modules that make up pytest."""
STARTED_MODULES = frozenset({"sitecustomize", "usercustomize"})
"""Modules that Python imports at startup."""
SHADOWING = RUNNER_MODULES | STARTED_MODULES


def run_pytest(
    sandbox: Sandbox, tests: Sequence[str], timeout: float, deciding: Sequence[str] = ()
) -> TestResults:
    """Run exactly these node ids, relative to the workspace, in one pytest process.

    `timeout` is in seconds for the whole run; tests that ended before it keep their status. A node
    id that does not exist is MISSING and does not affect the others. If one test ends the process,
    each test that had not run yet runs alone. `deciding` are the tests that have twins. Raises
    SandboxUnavailable if the sandbox's Python has no pytest.
    """
    sources = _read_files(sandbox, tests)
    if not sources:
        missing = dict.fromkeys(tests, TestStatus.MISSING)
        return TestResults(missing, "none of the test files exists")
    twins = make_twins(deciding, sources) if deciding else None
    run = run_to_the_end(sandbox, PytestJob(list(sources), tests, twins=twins), timeout)
    found = statuses(run.reports)
    results = TestResults(
        {test: found.get(test, TestStatus.MISSING) for test in tests},
        run.output,
        run.result.timed_out,
        run.result.seconds,
        cut_short=run.cut_short,
        tampered="the program wrote to the report of its tests" if run.changed else None,
        replaced=run.replaced,
    )
    if twins is None or not twins.are_needed(results.statuses):
        return results
    replaced = dict.fromkeys(run.replaced, "the program replaced it")
    return replace(results, doubts={**twins.disagreeing(run.reports), **replaced})


def statuses(reports: Iterable[Mapping[str, object]]) -> dict[str, TestStatus]:
    """The status of every reported test, in run order."""
    phases: dict[str, list[Mapping[str, object]]] = {}
    for report in reports:
        phases.setdefault(str(report["nodeid"]), []).append(report)
    return {test: _status(of_test) for test, of_test in phases.items()}


def steers_tests(path: str, import_paths: Sequence[str] = ()) -> bool:
    """Whether pytest reads hooks or settings from a file, or whether Python would import it from
    the tree's root or `import_paths` instead of pytest or before it."""
    if posixpath.basename(path) in RUNNER_FILES:
        return True
    return _module_at(path, import_paths) is not None


def runner_in(paths: Iterable[str], import_paths: Sequence[str]) -> str | None:
    """A file with which the tree brings its own pytest; None if there is none."""
    return next((p for p in sorted(paths) if _module_at(p, import_paths) in RUNNER_MODULES), None)


def _module_at(path: str, import_paths: Sequence[str]) -> str | None:
    """The importable module or package that a file is or belongs to."""
    folders = {
        "",
        *("" if each in (".", "./") else posixpath.normpath(each) for each in import_paths),
    }
    for folder in sorted(folders, key=len, reverse=True):
        if not folder or path.startswith(f"{folder}/"):
            top, _, rest = path.removeprefix(f"{folder}/" if folder else "").partition("/")
            name = top if rest else top.removesuffix(".py")
            if name in RUNNER_MODULES | STARTED_MODULES and path.endswith(".py"):
                return name
    return None


def _read_files(sandbox: Sandbox, tests: Iterable[str]) -> dict[str, bytes]:
    """The existing files of these tests."""
    files = {}
    for path in dict.fromkeys(test.partition("::")[0] for test in tests):
        with suppress(SandboxFileError):
            files[path] = sandbox.read_file(path)
    return files


def _status(phases: Sequence[Mapping[str, object]]) -> TestStatus:
    """A test's status from its phases; an expected failure counts as passed."""
    if any(phase["outcome"] == "failed" for phase in phases):
        return TestStatus.FAILED
    if not any(phase["when"] == "teardown" for phase in phases):
        return TestStatus.MISSING
    if any(phase["outcome"] == "skipped" and not phase["xfail"] for phase in phases):
        return TestStatus.SKIPPED
    return TestStatus.PASSED


# One test's part of pytest's output.


SECTION = re.compile(r"^_{3,} (?:ERROR at \w+ of |ERROR collecting )?(.+?) _{3,}$", re.MULTILINE)
SUMMARY = re.compile(
    r"^=+ (?:short test summary info|warnings summary|\d+ \w+.*) =+$", re.MULTILINE
)


def section_of(test: str, output: str) -> str:
    """The part of pytest's output about one test, by node id, or about its file; the whole output
    if there is no such part."""
    name = test.partition("::")[2].replace("::", ".")
    pieces = SECTION.split(output)
    for title, text in zip(pieces[1::2], pieces[2::2], strict=True):
        if title in (name, test.partition("::")[0]):
            return SUMMARY.split(text)[0].strip("\n")
    return output.strip()
