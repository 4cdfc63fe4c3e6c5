"""Make a self-repair benchmark: write solutions for problems, pass them through the funnel, write
the file and its card.

Outcomes are appended to a work file as they come, so that a killed run can resume.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from datetime import date
from itertools import islice
from pathlib import Path

from collect.agents.inspectcoder.code_blocks import fenced_blocks
from collect.benchmarks.base import Instance
from collect.benchmarks.pytest_run import section_of
from collect.benchmarks.row_files import file_rows
from collect.benchmarks.self_repair.benchmark import (
    SOLUTION,
    Bug,
    Card,
    Edit,
    Failure,
    Problem,
    Step,
    Tester,
    Trial,
    hidden_files,
    is_program,
    lay_out,
    task_text,
)
from collect.config import RuntimeConfig
from collect.errors import (
    BudgetExhausted,
    ConfigError,
    InfrastructureFailure,
    ModelFailure,
    RolloutStopped,
    the_nearest,
)
from collect.models.base import ConversationContext, ModelBackend, Sampling
from collect.models.budget import Budget
from collect.models.config import OracleConfig
from collect.quantities import counted, first_of, funnel
from collect.rollouts.executor import open_model
from collect.rollouts.progress import ProgressBar
from collect.store.files import StrictRecord, WorkFile, write_lines
from collect.store.messages import Message
from collect.store.records import ORACLE_TEACHER, code_version, digest
from collect.synthesis.mutations.finding import find_mutations, shuffled
from collect.synthesis.self_repair.sources import SelfRepairConfig, data_name, read_problems
from collect.threads import run_in_threads
from sandbox import clean_up
from sandbox.text import CUT

logger = logging.getLogger(__name__)

# Write solutions for problems: the oracle, a model, or a file. Each is thread-safe, and gives one
# solution after another, until one is a bug worth keeping.

ROLE = "solution_writer"
"""The role for which a model is opened; a recording for `replay` may name it."""
PROMPT = Path(__file__).parent / "prompts" / "write_solution.md"


@dataclass(frozen=True)
class Solution:
    """One program for one problem."""

    code: str
    written_by: str
    edit: Edit | None = None
    dollars: float = 0.0


@dataclass(frozen=True)
class OracleWriter:
    """Breaks the canonical solution by one edit, a different one each time."""

    seed: int
    max_edits: int

    def solutions(self, problem: Problem) -> Iterator[Solution]:
        if problem.canonical is None:
            return
        mutations = shuffled(find_mutations(problem.canonical), f"{self.seed}:{problem.id}")
        for mutation in islice(mutations, self.max_edits):
            edit = Edit(kind=mutation.kind, category=mutation.category, line=mutation.line)
            yield Solution(mutation.apply(), ORACLE_TEACHER, edit)


@dataclass(frozen=True)
class ModelWriter:
    """Asks a model once: no solution if it fails. Raises InfrastructureFailure, BudgetExhausted,
    RolloutStopped."""

    backend: ModelBackend
    sampling: Sampling
    seed: int

    def solutions(self, problem: Problem) -> Iterator[Solution]:
        # Models expect an instance; there is no bug yet.
        instance = Instance(
            id=problem.id,
            benchmark=problem.source,
            language="python",
            repository=problem.id,
            problem_statement=problem.statement,
            fail_to_pass=(),
            pass_to_pass=(),
            gold_patch="",
            solution=SOLUTION,
        )
        model = self.backend.open(ConversationContext(instance, ROLE, 0, ROLE, 0))
        sampling = self.sampling
        if sampling.seed is not None:
            sampling = sampling.model_copy(update={"seed": sampling.seed + self.seed})
        try:
            completion = model.complete([Message("user", prompt(problem))], (), sampling)
        except ModelFailure:
            return
        code = code_of(completion.message.said)
        if code:
            yield Solution(code, self.backend.name, dollars=completion.dollars)


class SolutionsFile:
    """Reads existing solutions, such as those that BigCodeBench-R's authors publish."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError."""
        self._path = path
        self._code: dict[str, str] = {}
        for where, row in file_rows(path, "self_repair.solutions"):
            name = _cell(where, row, "task_id", "question_id")
            if name in self._code:
                raise ConfigError(f"{where}: a second solution for {name}; give one a problem")
            self._code[name] = _cell(where, row, "buggy_solution", "solution")

    def solutions(self, problem: Problem) -> Iterator[Solution]:
        code = self._code.get(problem.id)
        if code:
            yield Solution(code, self._path.name)

    def with_solution(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems for which the file has a solution, even an empty one; reports how many have
        none. Raises ConfigError if none has one."""
        found = [problem for problem in problems if problem.id in self._code]
        unknown = sorted(self._code.keys() - {problem.id for problem in found})
        if not found:
            hint = the_nearest(unknown[0], [p.id for p in problems]) if unknown else ""
            raise ConfigError(
                f"{self._path}: none of its {counted(len(unknown), 'solution')} is of one of the "
                f"{counted(len(problems), 'problem')} of self_repair.source ({first_of(unknown)})"
                f"{hint}"
            )
        if unknown:
            logger.warning(
                f"{self._path}: {counted(len(unknown), 'solution')} of problems that are not among "
                f"the chosen source's: {first_of(unknown)}"
            )
        if len(found) < len(problems):
            known = f"{len(found)} of {len(problems)} problems"
            logger.info(f"{self._path}: has solutions of {known}, and only these are tried")
        return found


SolutionWriter = OracleWriter | ModelWriter | SolutionsFile


def _cell(where: str, row: object, *columns: str) -> str:
    """The text of the first of these columns that a row has."""
    for column in columns:
        value = row.get(column) if isinstance(row, dict) else None
        if isinstance(value, str):
            return value
    raise ConfigError(f"{where}: must have the column {' or '.join(columns)}, with text in it")


def prompt(problem: Problem) -> str:
    """The prompt for a model; the statement says how the program begins."""
    return PROMPT.read_text("utf-8").replace("{statement}", problem.statement)


def code_of(reply: str) -> str:
    """The longest fenced block of a reply, even without its end; the whole reply if there is none.

    Unlike for a patch, the code may be invalid here: the funnel counts such solutions.
    """
    blocks = fenced_blocks(reply)
    code = max(blocks, key=len) if blocks else reply
    return code.strip("\n").rstrip() + "\n" if code.strip() else ""


# Read from pytest's output how a test failed.


MAX_MESSAGE = 1500
"""Limit in characters."""
_ERROR_LINES = re.compile(r"^E {1,3}.*(?:\nE\b.*)*", re.MULTILINE)
_NAMED = re.compile(r"^([A-Za-z_][\w.]*)(?:: |:?$)", re.MULTILINE)
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def read_failure(output: str, test: str) -> Failure:
    """The failure of one test, by node id, in pytest's output.

    For chained exceptions, the last one; `Unknown` if pytest reported none, for example if the
    program ended the process.
    """
    section = section_of(test, output)
    # After a cut, another test's part may follow.
    blocks = _ERROR_LINES.findall(CUT.split(section)[0]) or _ERROR_LINES.findall(section)
    if not blocks:
        return Failure(type="Unknown", message="the run ended without a report on the test")
    lines = [line[1:].strip() for line in blocks[-1].split("\n")]
    text = _ADDRESS.sub("0x...", "\n".join(lines)).strip()
    named = _NAMED.match(text)
    if named is None:
        # A plain assert, which pytest shows without the exception's name.
        return Failure(type="AssertionError", message=text[:MAX_MESSAGE])
    kind = named[1].rpartition(".")[2]
    return Failure(type=kind, message=text[named.end() :][:MAX_MESSAGE].strip())


# The outcome of a problem: a bug, or the step of the funnel that it failed.

ORDER = tuple(Step)
MAX_ENDLESS = 3
"""Give up on a canonical solution after this many edits time out."""
PATIENCE = 10.0
"""An edit may take this many times the duration of the canonical solution plus half a second. Many
edits never end, and there are others to try."""


class Outcome(StrictRecord):
    """A problem's way through the funnel."""

    problem_id: str
    dropped_at: Step | None = None
    """None if it became a bug."""
    missing: tuple[str, ...] = ()
    """Libraries that the sandbox lacks."""
    passed: bool = False
    """Whether the first solution passes every test."""
    dollars: float = 0.0
    bug: Bug | None = None


@dataclass(frozen=True)
class Funnel:
    """Passes problems through the steps. Thread-safe."""

    tester: Tester
    writer: SolutionWriter
    allow_timeouts: bool = False

    def judge(self, problem: Problem) -> Outcome:
        """All steps after the date range: the first bug among the writer's solutions, or else the
        furthest step that one of them reached. Raises SandboxError, RolloutError, RolloutStopped.
        """
        missing = self.tester.missing(problem)
        if missing:
            return Outcome(problem_id=problem.id, dropped_at=Step.LIBRARIES, missing=missing)
        edit_timeout = self.tester.timeout
        if problem.canonical is not None:
            trial = self.tester.try_out(problem, problem.canonical)
            if trial.failing:
                return Outcome(problem_id=problem.id, dropped_at=Step.CANONICAL)
            edit_timeout = min(edit_timeout, PATIENCE * (trial.results.seconds + 0.5))
        furthest, passed, dollars, endless = Step.WRITTEN, False, 0.0, 0
        for number, solution in enumerate(self.writer.solutions(problem)):
            dollars += solution.dollars
            found = self._try(problem, solution, edit_timeout)
            if isinstance(found, Bug):
                return Outcome(problem_id=problem.id, dollars=dollars, bug=found)
            furthest = max(furthest, found, key=ORDER.index)
            passed |= number == 0 and found is Step.FAILS
            endless += found is Step.ENDS
            if endless == MAX_ENDLESS:
                break
        return Outcome(problem_id=problem.id, dropped_at=furthest, passed=passed, dollars=dollars)

    def _try(self, problem: Problem, solution: Solution, edit_timeout: float) -> Bug | Step:
        if not is_program(solution.code):
            return Step.PARSES
        timeout = None if solution.edit is None else edit_timeout
        first = self.tester.try_out(problem, solution.code, timeout)
        if not first.failing:
            return Step.FAILS
        if not set(first.public) & set(first.failing):
            return Step.FAILS_PUBLIC
        if first.results.timed_out and not self.allow_timeouts:
            return Step.ENDS
        second = self.tester.try_out(problem, solution.code, timeout)
        failure = _failure(first)
        if first.failing != second.failing or failure.type != _failure(second).type:
            return Step.REPEATS
        return Bug(
            id=problem.id,
            source=problem.source,
            problem_id=problem.id,
            statement=task_text(problem),
            files=lay_out(problem, solution.code),
            hidden_files=hidden_files(problem),
            entry_point=problem.entry_point,
            fail_to_pass=first.failing,
            pass_to_pass=first.passing,
            gold_solution=problem.canonical,
            failure=failure,
            libraries=problem.libraries,
            published=problem.published,
            difficulty=problem.difficulty,
            written_by=solution.written_by,
            edit=solution.edit,
        )


def _failure(trial: Trial) -> Failure:
    """The first failing test's failure; that test is public."""
    if trial.results.timed_out:
        return Failure(type="TimeoutError", message="the tests did not end within the time-out")
    return read_failure(trial.results.output, trial.failing[0])


DEFAULT_NAME = "self_repair.jsonl"
ADVICE = (
    "another self_repair, sandbox or models section, or other data; remove it, or choose another "
    "self_repair.output"
)


@dataclass(frozen=True)
class Built:
    """The result of a run."""

    path: Path
    """The benchmark file; exists only if `card` is not None."""
    card: Card | None
    """None if the run was stopped before the end."""
    reason: str | None = None
    """Why it was stopped, unless the user did."""


def build(runtime: RuntimeConfig, config: SelfRepairConfig, run: Path) -> Built:
    """Make the benchmark file, in the run's folder unless the config names another place.

    Raises ConfigError, SandboxError.
    """
    problems = read_problems(config)
    if config.solutions is not None:
        problems = SolutionsFile(Path(config.solutions)).with_solution(problems)
    in_dates = [problem for problem in problems if _is_in_dates(problem, config)]
    chosen = in_dates[: config.limit]
    path = Path(config.output) if config.output is not None else run / DEFAULT_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        "self_repair": config.model_dump(mode="json"),
        "sandbox": runtime.sandbox.model_dump(mode="json"),
        "models": {name: model.model_dump(mode="json") for name, model in runtime.models.items()},
        "problems": [
            hashlib.sha256(repr(astuple(problem)).encode()).hexdigest() for problem in chosen
        ],
        "code": code_version(),
    }
    work = WorkFile(path, digest(settings), Outcome, lambda outcome: outcome.problem_id, ADVICE)
    stopped = _judge_all(runtime, config, chosen, work, run)
    done = [work.outcomes[problem.id] for problem in chosen if problem.id in work.outcomes]
    if len(done) < len(chosen):
        return Built(path, None, stopped)
    bugs = [outcome.bug for outcome in done if outcome.bug is not None]
    card = _card(config, done, bugs, early=len(problems) - len(in_dates))
    write_lines(path, bugs, card)
    work.remove()
    return Built(path, card)


def _judge_all(
    runtime: RuntimeConfig,
    config: SelfRepairConfig,
    problems: Sequence[Problem],
    work: WorkFile[Outcome],
    run: Path,
) -> str | None:
    """Fill the work file. Returns why the run ended early, if something failed."""
    missing = [problem for problem in problems if problem.id not in work.outcomes]
    if not missing:
        return None
    stop = threading.Event()
    reasons: list[str] = []
    spent = sum(outcome.dollars for outcome in work.outcomes.values())
    clean_up(runtime.sandbox)
    tester = Tester(runtime.sandbox, config.test_timeout)
    tester.find_libraries([name for problem in missing for name in problem.libraries])
    with (
        _writer(runtime, config, missing, spent, stop, run=run) as writer,
        ProgressBar("problems", len(problems), len(problems) - len(missing)) as bar,
    ):
        funnel = Funnel(tester, writer, config.allow_timeouts)

        def judge(problem: Problem) -> None:
            try:
                work.add(funnel.judge(problem))
                bar.advance()
            except RolloutStopped:
                stop.set()
            except (InfrastructureFailure, BudgetExhausted) as error:
                where = "" if isinstance(error, BudgetExhausted) else f"{problem.id}: "
                reasons.append(f"{type(error).__name__}: {where}{error}")
                stop.set()

        run_in_threads(missing, judge, runtime.runner.concurrency, stop)
    return reasons[0] if reasons else None


@contextmanager
def _writer(
    runtime: RuntimeConfig,
    config: SelfRepairConfig,
    problems: Sequence[Problem],
    spent: float,
    stop: threading.Event,
    *,
    run: Path,
) -> Iterator[SolutionWriter]:
    if config.solutions is not None:
        yield SolutionsFile(Path(config.solutions))
        return
    model = runtime.model_config_of(config.writer)
    if isinstance(model, OracleConfig):
        if all(problem.canonical is None for problem in problems):
            raise ConfigError(
                f"self_repair.writer: {config.writer} breaks canonical solutions, and "
                f"{data_name(config)} has none; name a model of `models`, or set "
                "self_repair.solutions"
            )
        yield OracleWriter(config.seed, config.max_edits)
        return
    budget = Budget(runtime.runner.budget_dollars, spent)
    with closing(open_model(config.writer, model, budget, stop, run)) as backend:
        yield ModelWriter(backend, model.sampling, config.seed)


def _is_in_dates(problem: Problem, config: SelfRepairConfig) -> bool:
    if problem.published is None:
        return config.from_date is None and config.to_date is None
    first, last = config.from_date or date.min, config.to_date or date.max
    return first <= problem.published <= last


def _card(
    config: SelfRepairConfig, outcomes: Sequence[Outcome], bugs: Sequence[Bug], early: int
) -> Card:
    dropped = Counter(outcome.dropped_at for outcome in outcomes if outcome.dropped_at is not None)
    dropped[Step.DATES] = early
    failures = Counter(bug.failure.type for bug in bugs)
    return Card(
        source=config.source,
        data=data_name(config),
        writer=config.writer if config.solutions is None else Path(config.solutions).name,
        solutions=config.solutions,
        seed=config.seed,
        from_date=config.from_date,
        to_date=config.to_date,
        limit=config.limit,
        problems=len(outcomes) - dropped[Step.LIBRARIES] - dropped[Step.CANONICAL],
        passed=sum(outcome.passed for outcome in outcomes),
        bugs=len(bugs),
        steps=funnel(ORDER, dropped, len(outcomes) + early),
        without_libraries={each.problem_id: each.missing for each in outcomes if each.missing},
        failures=dict(sorted(failures.items())),
        dollars=sum(outcome.dollars for outcome in outcomes),
        versions={"stepinto": code_version(), "python": platform.python_version()},
    )
