"""Problems of all data sets in one format, and the bugs that `stepinto bench self-repair` makes.

BigCodeBench-R and LiveCodeBench-R (InspectCoder, section 3.2) are made in this way: a model writes
one solution per problem, which is kept if it fails for a reason other than syntax, and not only on
private tests.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationError, model_validator

from collect.benchmarks.base import Instance, TestResults, TestStatus
from collect.benchmarks.pytest_run import run_pytest
from collect.benchmarks.running import StoredBenchmark
from collect.benchmarks.self_repair.runtime import answering, checking
from collect.benchmarks.workspace import run_checked
from collect.code.patches import diff_trees
from collect.code.syntax import parse
from collect.errors import ConfigError, first_wrong_field
from collect.quantities import FunnelStep
from collect.store.files import StrictRecord, card_path, read_lines
from collect.store.records import ORACLE_TEACHER
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxFileError
from sandbox.shell import scratch_folder
from sandbox.text import source_lines

SOLUTION = "solution.py"


@dataclass(frozen=True)
class TestFile:
    """A file of tests that pytest runs."""

    __test__ = False

    code: str = field(repr=False)
    names: tuple[str, ...]
    """Test names as in node ids, after the file: `test_1`, `TestCases::test_one`."""


@dataclass(frozen=True)
class Problem:
    """What to write, and how it is tested."""

    id: str
    source: str
    """The data set's name in the config."""
    statement: str = field(repr=False)
    """The coding task as given to a model: without what fails or how it is tested."""
    canonical: str | None = field(repr=False)
    """A complete correct program, if upstream has one."""
    entry_point: str
    """The function or method under test, such as `Solution.add`; empty for a program that reads
    standard input."""
    public_tests: TestFile
    private_tests: TestFile | None = None
    prelude: str = field(repr=False, default="")
    """Code that upstream runs first, whose names a solution may use without importing them."""
    libraries: tuple[str, ...] = ()
    """Top-level packages that a solution or a test imports."""
    published: date | None = None
    difficulty: str | None = None


LONG = 10**600
"""Integers from here on are hexadecimal in literals: Python's limit for the digits of decimal ones
may be set as low as 640."""


def literal(value: object) -> str:
    """The expression of a value of JSON's types, as `repr`, but for long integers."""
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, int) and abs(value) >= LONG:
        return hex(value)
    return repr(value)


def numbered(imports: str, bodies: Sequence[str], private: bool = False) -> TestFile:
    """A file of functions `test_1`, `test_2` ..., one per body; if private, `test_private_1` ...,
    because pytest's report tells tests apart by name."""
    prefix = "test_private_" if private else "test_"
    names = tuple(f"{prefix}{number}" for number in range(1, len(bodies) + 1))
    parts = [imports]
    for name, body in zip(names, bodies, strict=True):
        indented = "\n".join(f"    {line}" for line in source_lines(body))
        parts.append(f"def {name}():\n{indented}\n")
    return TestFile("\n\n".join(parts), names)


# Turn a problem and a program for it into the files of a workspace. `solution.py` is the program as
# written, for the same line numbers; tests put `prelude.py`, which upstream runs first, into it.

PUBLIC_TESTS = "test_solution.py"
PRIVATE_TESTS = "test_private.py"
CHECKING = "checking.py"
PRELUDE = "prelude.py"
TEST_PATHS = (
    PUBLIC_TESTS,
    PRIVATE_TESTS,
    *(path for file in (CHECKING, PRELUDE) for path in (file, file.removesuffix(".py"))),
)
"""Files that an agent must not change, and packages that would be imported instead of them."""


def lay_out(problem: Problem, solution: str) -> dict[str, str]:
    """The files that an agent sees."""
    files = {SOLUTION: solution, PUBLIC_TESTS: problem.public_tests.code}
    if "from checking import" in problem.public_tests.code:
        files[CHECKING] = (Path(__file__).parent / "runtime" / CHECKING).read_text("utf-8")
    if problem.prelude:
        files[PRELUDE] = problem.prelude
    return files


def hidden_files(problem: Problem) -> dict[str, str]:
    """The files that are added only for scoring."""
    return {PRIVATE_TESTS: problem.private_tests.code} if problem.private_tests else {}


def node_ids(problem: Problem) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The public tests, and the private ones."""
    private = problem.private_tests.names if problem.private_tests else ()
    return (
        tuple(f"{PUBLIC_TESTS}::{name}" for name in problem.public_tests.names),
        tuple(f"{PRIVATE_TESTS}::{name}" for name in private),
    )


def task_text(problem: Problem) -> str:
    """The coding task, with the paths of its program and tests, but not what fails."""
    what = f"`{problem.entry_point}` is" if problem.entry_point else "The program is"
    return (
        f"{problem.statement}\n\n"
        f"{what} written in `{SOLUTION}`, and its tests in `{PUBLIC_TESTS}` "
        f"(`python -m pytest {PUBLIC_TESTS}`) must pass.\n"
    )


# The benchmark on disk: one line per bug, and a card that describes how it was made.

BUNDLED_FILE = Path(__file__).parents[1] / "bundled" / "self_repair.jsonl"


class Step(StrEnum):
    """The steps that a problem must pass, in order."""

    DATES = "published in the date range"
    LIBRARIES = "libraries in the sandbox"
    CANONICAL = "canonical solution passes, where there is one"
    WRITTEN = "solution written"
    PARSES = "no error of syntax or indentation"
    FAILS = "fails a test"
    FAILS_PUBLIC = "fails a public test"
    ENDS = "ends within the time-out"
    REPEATS = "fails the same way again"


class Failure(StrictRecord):
    type: str
    """The exception's class: AssertionError, KeyError ...; TimeoutError if the test never ended."""
    message: str
    """Its first lines, shortened."""


class Edit(StrictRecord):
    """The oracle's edit of the canonical solution."""

    kind: str
    category: str
    line: int
    """Line in the canonical solution, 1-based."""


class Bug(StrictRecord):
    """One line of the benchmark file: the data of an instance."""

    id: str = Field(min_length=1)
    source: str
    problem_id: str
    statement: str = Field(min_length=1)
    files: Mapping[str, str]
    """Files that the agent sees, by path; includes `solution`."""
    hidden_files: Mapping[str, str] = {}
    solution: str = SOLUTION
    entry_point: str
    fail_to_pass: tuple[str, ...] = Field(min_length=1)
    pass_to_pass: tuple[str, ...]
    gold_solution: str | None
    """A correct `solution`; None if unknown."""
    failure: Failure
    libraries: tuple[str, ...] = ()
    published: date | None = None
    difficulty: str | None = None
    written_by: str
    edit: Edit | None = None
    """None if a model wrote the solution."""

    @model_validator(mode="after")
    def _solution_is_a_file(self) -> Self:
        if self.solution not in self.files:
            raise ValueError(f"files: there is no {self.solution} among them")
        return self


class Card(StrictRecord):
    """How a benchmark file was made. The paper's full-set pass rate needs `problems` and
    `passed`."""

    source: str
    data: str
    """The file or data set of the problems."""
    writer: str
    solutions: str | None
    seed: int
    from_date: date | None
    to_date: date | None
    limit: int | None
    problems: int
    """Problems that reached the writing step: the full set of a pass rate."""
    passed: int
    """Number of these problems whose first solution passes every test."""
    bugs: int
    """Number of these whose first solution became a bug; the others stay unsolved."""
    steps: tuple[FunnelStep, ...]
    without_libraries: Mapping[str, tuple[str, ...]] = {}
    """Problems dropped because the sandbox lacks libraries, with the missing libraries."""
    failures: Mapping[str, int]
    """Number of bugs by the exception of their first failing test."""
    dollars: float
    """The cost of the model that wrote the solutions."""
    versions: Mapping[str, str]

    @property
    def scripted(self) -> bool:
        """Whether the first solutions are correct programs that the oracle broke on purpose."""
        return self.writer == ORACLE_TEACHER

    @property
    def first_pass_rate(self) -> float:
        """In percent."""
        return 100 * self.passed / self.problems

    def gain(self, resolve_rate: float) -> float:
        """Percentage points that this resolve rate of the bugs adds to the pass rate."""
        return resolve_rate * self.bugs / self.problems


def read_card(path: Path) -> Card:
    """The card of a benchmark file. Raises ConfigError."""
    card = card_path(path)
    try:
        return Card.model_validate_json(card.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{card}: no such file; `stepinto bench self-repair` writes it beside {path.name}"
        ) from error
    except ValidationError as error:
        raise ConfigError(f"{card}: {first_wrong_field(error, Card)}") from error


def read_bugs(path: Path) -> list[Bug]:
    """The lines of a benchmark file. Raises ConfigError, which names the line and the field."""
    return read_lines(path, Bug, "make it with `stepinto bench self-repair`")


def parsed(where: str, column: str, code: str) -> ast.Module:
    """The syntax tree. Raises ConfigError, which names the row and the column."""
    try:
        return parse(code)
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{where}: column {column}: not Python: {error}") from error


def imported_libraries(*trees: ast.Module) -> set[str]:
    """The top-level packages that the code imports from outside the standard library."""
    names = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names


def unittest_names(tree: ast.Module) -> tuple[str, ...]:
    """The tests of every class of the module, as `Class::method`."""
    found: dict[str, None] = {}
    for each in (part for part in tree.body if isinstance(part, ast.ClassDef)):
        parts = (p for p in each.body if isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef))
        names = (part.name for part in parts if part.name.startswith("test"))
        found |= dict.fromkeys(f"{each.name}::{name}" for name in names)
    return tuple(found)


def is_program(code: str) -> bool:
    """Whether the code parses without a syntax or indentation error."""
    try:
        compile(code, "solution.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def run_problem_tests(
    sandbox: Sandbox, tests: Sequence[str], timeout: float, deciding: Sequence[str] = ()
) -> TestResults:
    """As `run_pytest`, for a program of one file, whose tests are known to exist. Without a timeout
    a test without a report has failed: the program can't be imported, or ended the process."""
    results = run_pytest(sandbox, tests, timeout, deciding)
    if results.timed_out:
        return results
    missing = [test for test, each in results.statuses.items() if each is TestStatus.MISSING]
    failed = dict.fromkeys(missing, TestStatus.FAILED)
    return replace(results, statuses={**results.statuses, **failed})


# A problem that is only input and output is scored outside the solution's process: the sandbox gets
# the inputs alone, and the answers are compared here.

MAX_ANSWERS = 64 * 1024 * 1024
"""Most bytes of all answers to one problem's cases."""


@dataclass(frozen=True)
class Case:
    """One test, as a call of `checking.py` whose arguments are literals."""

    checker: str
    arguments: tuple[Any, ...]

    @property
    def question(self) -> dict[str, str]:
        """What the solution is told."""
        if self.checker == "check_program":
            return {"stdin": self.arguments[0]}
        function, arguments, _ = self.arguments
        return {"function": function, "arguments": literal(arguments)}

    def accepts(self, answer: object) -> bool:
        expected = self.arguments[-1]
        if not isinstance(answer, str):
            return False
        if self.checker == "check_program":
            return not checking._difference(answer, expected)
        return answer == answering.spelling(expected)


CHECKERS = {"check_program": 2, "check_call": 3}
"""The functions of `checking.py`, and how many arguments they take."""


def cases_of(tests: Iterable[str], files: Mapping[str, bytes]) -> dict[str, Case] | None:
    """The tests as cases; None if one of them is more than that."""
    cases: dict[str, Case] = {}
    paths = {test.partition("::")[0] for test in tests}
    for path in paths & files.keys():
        for name, case in _cases_in(parse(files[path].decode())):
            cases[f"{path}::{name}"] = case
    return {test: cases[test] for test in tests} if cases.keys() >= set(tests) else None


def _cases_in(module: ast.Module) -> Iterator[tuple[str, Case]]:
    for part in module.body:
        match part:
            case ast.FunctionDef(
                name=name,
                args=ast.arguments(args=[]),
                body=[ast.Expr(ast.Call(func=ast.Name(id=checker), args=given, keywords=[]))],
                decorator_list=[],
            ) if CHECKERS.get(checker) == len(given):
                with suppress(ValueError):
                    yield name, Case(checker, tuple(map(ast.literal_eval, given)))


def run_cases(sandbox: Sandbox, cases: Mapping[str, Case], timeout: float) -> TestResults:
    """Let the solution answer the cases; `timeout` is in seconds for all of them. Its tests leave
    the workspace first: they hold what is expected. Raises SandboxError."""
    paths = {test.partition("::")[0] for test in cases}
    run_checked(sandbox, "can't remove the tests", "rm", "-f", "--", *sorted(paths))
    questions = json.dumps([case.question for case in cases.values()])
    program = Path(answering.__file__).read_bytes()
    with scratch_folder(sandbox) as folder:
        files = {"answering.py": program, "cases.json": questions.encode()}
        sandbox.write_files({f"{folder}/{name}": data for name, data in files.items()})
        argv = [sandbox.python, f"{folder}/answering.py"]
        result = sandbox.run(Command(argv, timeout=timeout))
        answers = _read_answers(sandbox, f"{folder}/answers.jsonl")
    # Without an answer in time a test has no result.
    unanswered = TestStatus.MISSING if result.timed_out else TestStatus.FAILED
    statuses = dict.fromkeys(cases, unanswered)
    for (test, case), answer in zip(cases.items(), answers, strict=False):
        statuses[test] = TestStatus.PASSED if case.accepts(answer) else TestStatus.FAILED
    return TestResults(statuses, result.output, result.timed_out, result.seconds)


def _read_answers(sandbox: Sandbox, path: str) -> list[object]:
    """The whole lines; the program may have written any."""
    try:
        lines = sandbox.read_file(path, MAX_ANSWERS).split(b"\n")[:-1]
    except SandboxFileError:
        return []
    answers: list[object] = []
    for line in lines:
        try:
            answers.append(json.loads(line))
        except (ValueError, RecursionError):
            answers.append(None)
    return answers


@dataclass(frozen=True)
class Trial:
    results: TestResults
    """Of the public tests, and then the private ones."""
    public: tuple[str, ...]

    @property
    def failing(self) -> tuple[str, ...]:
        """In the order of the results."""
        statuses = self.results.statuses.items()
        return tuple(test for test, status in statuses if status is not TestStatus.PASSED)

    @property
    def passing(self) -> tuple[str, ...]:
        statuses = self.results.statuses.items()
        return tuple(test for test, status in statuses if status is TestStatus.PASSED)


@dataclass(frozen=True)
class Tester:
    """Runs programs, each in a fresh sandbox. Thread-safe."""

    __test__ = False

    sandbox: SandboxConfig
    timeout: float
    """Seconds for one run of a problem's tests."""
    _importable: dict[str, bool] = field(default_factory=dict, compare=False)

    def try_out(self, problem: Problem, program: str, timeout: float | None = None) -> Trial:
        """Run all tests, public and private; `timeout` None: the default. Raises SandboxError."""
        files = {**lay_out(problem, program), **hidden_files(problem)}
        public, private = node_ids(problem)
        with open_sandbox(self.sandbox) as sandbox:
            sandbox.write_files({path: text.encode() for path, text in files.items()})
            results = run_problem_tests(sandbox, [*public, *private], timeout or self.timeout)
        return Trial(results, public)

    def find_libraries(self, names: Sequence[str]) -> None:
        """Import each library once in the sandbox, for `missing`."""
        with open_sandbox(self.sandbox) as sandbox:
            for name in sorted({*names} - self._importable.keys()):
                argv = [sandbox.python, "-c", f"import {name}"]
                self._importable[name] = sandbox.run(Command(argv)).exit_code == 0

    def missing(self, problem: Problem) -> tuple[str, ...]:
        """The problem's libraries that the sandbox lacks."""
        return tuple(name for name in problem.libraries if not self._importable[name])


@dataclass(eq=False)
class SelfRepairBenchmark(StoredBenchmark):
    """The bugs of a benchmark file; by default the bundled one."""

    name: ClassVar[str] = "self_repair"
    path: Path = BUNDLED_FILE
    test_timeout: float = 60.0

    def _read(self) -> Iterable[Instance]:
        return map(_instance, read_bugs(self.path))

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        wanted = list(tests)
        if instance.is_scored and (cases := cases_of(wanted, instance.files)):
            return run_cases(sandbox, cases, self.test_timeout)
        deciding = instance.fail_to_pass if instance.is_scored else ()
        return run_problem_tests(sandbox, wanted, self.test_timeout, deciding)


def _instance(bug: Bug) -> Instance:
    files = {path: text.encode() for path, text in bug.files.items()}
    gold_patch = ""
    if bug.gold_solution is not None:
        gold_patch = diff_trees(files, {**files, bug.solution: bug.gold_solution.encode()})
    return Instance(
        id=bug.id,
        benchmark=SelfRepairBenchmark.name,
        language="python",
        repository=f"{bug.source}/{bug.problem_id.replace('/', '_')}",
        problem_statement=bug.statement,
        fail_to_pass=bug.fail_to_pass,
        pass_to_pass=bug.pass_to_pass,
        gold_patch=gold_patch,
        files=files,
        test_paths=TEST_PATHS,
        hidden_files={path: text.encode() for path, text in bug.hidden_files.items()},
        solution=bug.solution,
        category=bug.failure.type,
    )
