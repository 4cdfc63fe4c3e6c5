"""Make a self-repair benchmark: all problems through the funnel, then the file and its card.

Outcomes are appended to a work file as they come, so that a killed run goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import platform
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from collect.build_info import code_version
from collect.config import Machinery
from collect.digest import digest
from collect.durable import write_text
from collect.errors import BudgetExhausted, ConfigError, InfrastructureFailure, RolloutStopped
from collect.funnel import funnel
from collect.models.budget import Budget
from collect.models.config import OracleConfig
from collect.models.opening import open_model
from collect.runner import AsyncioRunner
from collect.self_repair.config import SelfRepairConfig
from collect.self_repair.funnel import ORDER, Funnel, Outcome
from collect.self_repair.problem import Problem
from collect.self_repair.records import Bug, Card, Step, card_path
from collect.self_repair.sources import data_name, read_problems
from collect.self_repair.testing import Tester
from collect.self_repair.writers import ModelWriter, OracleWriter, SolutionsFile, SolutionWriter
from collect.watching.progress_bar import ProgressBar
from collect.work_file import WorkFile
from sandbox import clean_up

DEFAULT_NAME = "self_repair.jsonl"
ADVICE = (
    "another self_repair, sandbox or models section, or other data; remove it, or choose another "
    "self_repair.output"
)


@dataclass(frozen=True)
class Built:
    """What a start came to."""

    path: Path
    """The benchmark file; there only where `card` is not None."""
    card: Card | None
    """None where the run was stopped before the end."""
    reason: str | None = None
    """Why it was stopped, where not by the user."""


def build(machinery: Machinery, config: SelfRepairConfig, run: Path) -> Built:
    """Make the benchmark file, in the run's folder where the config names no other place.

    Raises ConfigError, SandboxError.
    """
    problems = read_problems(config)
    if config.solutions is not None:
        problems = SolutionsFile(Path(config.solutions)).with_solution(problems)
    in_dates = [problem for problem in problems if _is_in_dates(problem, config)]
    chosen = in_dates[: config.limit]
    path = Path(config.output) if config.output is not None else run / DEFAULT_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = _settings(machinery, config, chosen)
    work = WorkFile(path, settings, Outcome, lambda outcome: outcome.problem_id, ADVICE)
    stopped = _judge_all(machinery, config, chosen, work, run)
    done = [work.outcomes[problem.id] for problem in chosen if problem.id in work.outcomes]
    if len(done) < len(chosen):
        return Built(path, None, stopped)
    early = len(problems) - len(in_dates)
    card = _card(machinery, config, done, early)
    bugs = [outcome.bug for outcome in done if outcome.bug is not None]
    _write(path, bugs, card)
    work.remove()
    return Built(path, card)


def _judge_all(
    machinery: Machinery,
    config: SelfRepairConfig,
    problems: Sequence[Problem],
    work: WorkFile[Outcome],
    run: Path,
) -> str | None:
    """Fill the work file; why the run ended early, where something failed."""
    missing = [problem for problem in problems if problem.id not in work.outcomes]
    if not missing:
        return None
    stop = threading.Event()
    reasons: list[str] = []
    spent = sum(outcome.dollars for outcome in work.outcomes.values())
    clean_up(machinery.sandbox)
    tester = Tester(machinery.sandbox, config.test_timeout)
    tester.find_libraries([name for problem in missing for name in problem.libraries])
    with (
        _writer(machinery, config, missing, spent, stop, run=run) as writer,
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

        AsyncioRunner(machinery.runner.concurrency, stop).run(missing, judge)
    return reasons[0] if reasons else None


@contextmanager
def _writer(
    machinery: Machinery,
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
    model = machinery.model_config_of(config.writer)
    if isinstance(model, OracleConfig):
        if all(problem.canonical is None for problem in problems):
            raise ConfigError(
                f"self_repair.writer: {config.writer} breaks canonical solutions, and "
                f"{data_name(config)} has none; name a model of `models`, or set "
                "self_repair.solutions"
            )
        yield OracleWriter(config.seed, config.max_edits)
        return
    budget = Budget(machinery.runner.budget_dollars, spent)
    with closing(open_model(config.writer, model, budget, stop, run)) as backend:
        yield ModelWriter(backend, model.sampling, config.seed)


def _is_in_dates(problem: Problem, config: SelfRepairConfig) -> bool:
    if config.from_date is None and config.to_date is None:
        return True
    if problem.published is None:
        return False
    early = config.from_date is not None and problem.published < config.from_date
    late = config.to_date is not None and problem.published > config.to_date
    return not early and not late


def _settings(machinery: Machinery, config: SelfRepairConfig, problems: Sequence[Problem]) -> str:
    """A hash over what decides the outcomes."""
    facts = {
        "self_repair": config.model_dump(mode="json"),
        "sandbox": machinery.sandbox.model_dump(mode="json"),
        "models": {name: model.model_dump(mode="json") for name, model in machinery.models.items()},
        "problems": [_digest(problem) for problem in problems],
        "code": code_version(),
    }
    return digest(facts)


def _digest(problem: Problem) -> str:
    """A hash over all of a problem, private tests and prelude included."""
    return hashlib.sha256(repr(astuple(problem)).encode()).hexdigest()


def _card(
    machinery: Machinery, config: SelfRepairConfig, outcomes: Sequence[Outcome], early: int
) -> Card:
    dropped = Counter(outcome.dropped_at for outcome in outcomes if outcome.dropped_at is not None)
    dropped[Step.DATES] = early
    bugs = [outcome.bug for outcome in outcomes if outcome.bug is not None]
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


def _write(path: Path, bugs: Sequence[Bug], card: Card) -> None:
    """The card first: a benchmark file without one never appears."""
    write_text(card_path(path), card.model_dump_json(indent=2) + "\n")
    write_text(path, "".join(f"{bug.model_dump_json()}\n" for bug in bugs))
