"""Make a file of runtime questions: every bug investigated, then the file and its card.

Outcomes are appended to a work file as they come, so that a killed run goes on where it stopped.
"""

from __future__ import annotations

import platform
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.build_info import code_version
from collect.config import Machinery
from collect.digest import digest
from collect.questions.choosing import Funnel
from collect.questions.config import ANSWERING, QuestionsConfig
from collect.questions.investigating import Investigator, NoQuestions
from collect.questions.records import (
    Card,
    Category,
    CategoryCard,
    Drop,
    Question,
    write_questions,
)
from collect.questions.workspace import reproducible
from collect.runner import AsyncioRunner
from collect.watching.progress_bar import ProgressBar
from collect.work_file import WorkFile
from sandbox import clean_up
from sandbox.errors import SandboxError, SandboxUnavailable

DEFAULT_NAME = "questions.jsonl"
ADVICE = "another questions or sandbox section; remove it, or choose another questions.output"


class Outcome(BaseModel):
    """What one bug came to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instance_id: str
    instance_hash: str
    questions: tuple[Question, ...] = ()
    asked: dict[Category, int] = {}
    dropped: dict[Category, dict[Drop, int]] = {}
    without: str | None = None
    """Why there is none."""


@dataclass(frozen=True)
class Built:
    """What a start came to."""

    path: Path
    card: Card | None
    """None where the run was stopped before the end."""


def questions_path(config: QuestionsConfig, run: Path) -> Path:
    """Where a config's questions lie."""
    return Path(config.output) if config.output is not None else run / DEFAULT_NAME


def build(machinery: Machinery, config: QuestionsConfig, run: Path) -> Built:
    """Make the file, in the run's folder where the config names no other place.

    Raises ConfigError, SandboxError.
    """
    machinery = reproducible(machinery)
    benchmark = open_benchmark(config.benchmark, machinery.sandbox)
    instances = select_instances(config.benchmark, benchmark)
    path = questions_path(config, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = _settings(machinery, config)
    work = WorkFile(path, settings, Outcome, lambda outcome: outcome.instance_hash, ADVICE)
    _investigate(machinery, config, benchmark, instances, work)
    done = [work.outcomes[each.hash] for each in instances if each.hash in work.outcomes]
    if len(done) < len(instances):
        return Built(path, None)
    questions = [question for outcome in done for question in outcome.questions]
    card = _card(config, done)
    write_questions(path, questions, card)
    work.remove()
    return Built(path, card)


def _investigate(
    machinery: Machinery,
    config: QuestionsConfig,
    benchmark: Benchmark,
    instances: Sequence[Instance],
    work: WorkFile[Outcome],
) -> None:
    missing = [instance for instance in instances if instance.hash not in work.outcomes]
    if not missing:
        return
    clean_up(machinery.sandbox)
    investigator = Investigator(benchmark, machinery.sandbox, config)
    with ProgressBar("bugs", len(instances), len(instances) - len(missing)) as bar:

        def investigate(instance: Instance) -> None:
            work.add(outcome_of(investigator, instance))
            bar.advance()

        stop = threading.Event()
        AsyncioRunner(machinery.runner.concurrency, stop).run(missing, investigate)


def outcome_of(investigator: Investigator, instance: Instance) -> Outcome:
    """One bug's questions and funnel; a sandbox that died costs this bug alone.

    Raises SandboxUnavailable.
    """
    funnel = Funnel()
    try:
        questions = investigator.questions(instance, funnel)
    except NoQuestions as reason:
        return _without(instance, str(reason))
    except SandboxUnavailable:
        raise
    except SandboxError as error:
        return _without(instance, f"{type(error).__name__}: {error}")
    dropped: dict[Category, dict[Drop, int]] = {}
    for (category, why), count in funnel.dropped.items():
        dropped.setdefault(category, {})[why] = count
    return Outcome(
        instance_id=instance.id,
        instance_hash=instance.hash,
        questions=tuple(questions),
        asked=dict(funnel.asked),
        dropped=dropped,
        without=None if questions else "nothing that could be asked has passed the rules",
    )


def _without(instance: Instance, reason: str) -> Outcome:
    return Outcome(instance_id=instance.id, instance_hash=instance.hash, without=reason)


def _settings(machinery: Machinery, config: QuestionsConfig) -> str:
    """A hash over what decides the outcome of a bug. Which bugs there are may change."""
    facts = {
        "questions": config.model_dump(mode="json", exclude={*ANSWERING, "benchmark"}),
        "benchmark": config.benchmark.name,
        "test_timeout": config.benchmark.test_timeout,
        "sandbox": machinery.sandbox.model_dump(mode="json"),
        "code": code_version(),
    }
    return digest(facts)


def _card(config: QuestionsConfig, outcomes: Sequence[Outcome]) -> Card:
    asked: Counter[Category] = Counter()
    kept: Counter[Category] = Counter()
    dropped: dict[Category, Counter[Drop]] = {category: Counter() for category in Category}
    for outcome in outcomes:
        asked.update(outcome.asked)
        kept.update(question.category for question in outcome.questions)
        for category, reasons in outcome.dropped.items():
            dropped[category].update(reasons)
    return Card(
        benchmark=config.benchmark.name,
        instances=len(outcomes),
        without=Counter(outcome.without for outcome in outcomes if outcome.without),
        questions=sum(kept.values()),
        categories={
            category: CategoryCard(
                asked=asked[category],
                dropped={why: dropped[category][why] for why in Drop},
                questions=kept[category],
            )
            for category in Category
        },
        seed=config.seed,
        per_category=config.per_category,
        versions={"stepinto": code_version(), "python": platform.python_version()},
    )
