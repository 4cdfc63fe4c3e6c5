"""A model that sorts the main agents' questions, each of them once.

Its replies are kept in the run's folder, so that a second start pays for none of them again.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from collect.agents.prompts import fill
from collect.benchmarks.base import Instance
from collect.config import RuntimeConfig
from collect.errors import (
    BudgetExhausted,
    ConfigError,
    InfrastructureFailure,
    ModelFailure,
    RolloutStopped,
)
from collect.models.base import ConversationContext, ModelBackend
from collect.models.budget import Budget, read_spent
from collect.models.config import OracleConfig, ReplayConfig
from collect.question_records import Category
from collect.rollouts.batch import model_facts
from collect.rollouts.executor import open_model
from collect.rollouts.faults import CircuitBreaker
from collect.rollouts.progress import ProgressBar
from collect.store.files import StrictRecord, WorkFile
from collect.store.messages import Message
from collect.store.records import digest
from collect.threads import run_in_threads
from eval.config import JudgeConfig
from eval.metrics import Arm, InstanceKey

FILE = "judgements.jsonl"
NONE = "none"
"""The label for what fits nowhere."""
REPLY = re.compile(r"label:[ \t]*([a-z_]+)")
THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
CATEGORIES: Mapping[Category, tuple[str, str]] = {
    Category.EXCEPTION: (
        "Exception Diagnosis",
        "Identifying the type, origin, or cause of runtime exceptions.",
    ),
    Category.ROOT_CAUSE: (
        "Root Cause Analysis",
        "Understanding why a specific behavior or bug occurs.",
    ),
    Category.LOCAL: (
        "Local Variable Inspection",
        "Querying the value of specific variables at a location.",
    ),
    Category.ATTRIBUTE: (
        "Attribute Value Inspection",
        "Inspecting object attributes or map entries.",
    ),
    Category.ASSERTION: (
        "Assertion Failure",
        "Identifying which assertion fails and the actual vs expected values.",
    ),
    Category.REACHABILITY: (
        "Code Reachability",
        "Checking if execution reaches a specific location or branch.",
    ),
    Category.POST_FIX: (
        "Post-Fix Verification",
        "Confirming that a code change resolves the issue.",
    ),
}
"""Titles and descriptions of Debug2Fix's table 3, in its order and words."""
LABELS: Mapping[str, str] = {
    **{each.value: text for each, (_, text) in CATEGORIES.items()},
    NONE: "None of these.",
}


@dataclass(frozen=True)
class Item:
    """A main agent's question."""

    id: str
    instance: InstanceKey
    arm: Arm
    attempt: int
    text: str


class Sample:
    """The questions to judge: at most `config.limit`, the same ones for the same seed in whatever
    order they come."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        self._kept: dict[bytes, Item] = {}

    def offer(self, item: Item) -> None:
        key = hashlib.sha256(f"{self._config.seed} {item.id}".encode()).digest()
        self._kept[key] = item
        if len(self._kept) > self._config.limit:
            del self._kept[max(self._kept)]

    @property
    def items(self) -> list[Item]:
        """All that was drawn, ordered by id."""
        return sorted(self._kept.values(), key=lambda each: each.id)


class Judgement(StrictRecord):
    """A model's reply about one item."""

    key: str
    """A hash of the model and of all that it was told."""
    id: str
    label: str | None
    """None where the reply is not in its form, or the model failed."""
    reply: str
    dollars: float


@dataclass(frozen=True)
class JudgeReport:
    model: str
    judged: tuple[tuple[Item, str | None], ...]
    """Items, and the labels that the model gave them; None where the reply could not be read."""
    missing: int = 0
    """Items without a reply yet: it was stopped, or requests failed."""
    reasons: tuple[str, ...] = ()
    """Different failures of the infrastructure or the budget."""
    stopped: bool = False


def check_judge(runtime: RuntimeConfig, config: JudgeConfig) -> None:
    """Raises ConfigError where the model is not in the config, or cannot judge."""
    model = runtime.model_config_of(config.model)
    if isinstance(model, OracleConfig | ReplayConfig):
        raise ConfigError(
            f"eval.judge.model is {config.model!r}, which plays a script and cannot judge; name an "
            "endpoint or a local model, or remove eval.judge"
        )


def read_label(reply: str) -> str | None:
    """The label of a reply; None unless that is all it says, thoughts in tags left out."""
    found = REPLY.fullmatch(THINKING.sub("", reply).strip())
    return found[1] if found and found[1] in LABELS else None


def prompt_for(item: Item) -> str:
    labels = "\n".join(f"- {name}: {text}" for name, text in LABELS.items())
    text = (files(__package__) / "prompts" / "question.md").read_text(encoding="utf-8")
    return fill(text, {"labels": labels, "text": item.text}).strip("\n")


class Judge:
    """One start: what is judged already, and what is to be judged."""

    def __init__(
        self,
        runtime: RuntimeConfig,
        config: JudgeConfig,
        instances: Iterable[Instance],
        folder: Path,
    ) -> None:
        """`instances` are the bugs that the items are of; replies are kept in `folder`."""
        self._runtime, self._name = runtime, config.model
        self._instances = {(each.benchmark, each.id): each for each in instances}
        self._model = runtime.model_config_of(config.model)
        self._folder = folder
        self._reasons: dict[str, None] = {}
        self._in_a_row = CircuitBreaker(runtime.runner.give_up_after, "request")
        self._stop = threading.Event()

    def judge(self, items: Sequence[Item]) -> JudgeReport:
        """Ask for what has no reply yet, and give all replies."""
        facts = model_facts(self._model)
        keyed = [(digest([facts, prompt_for(item)]), item) for item in items]
        advice = "another version; remove it, and every item is judged anew"
        work = WorkFile(self._folder / FILE, "", Judgement, lambda each: each.key, advice)
        known = work.outcomes
        with closing(work):
            # Each prompt is asked once, whatever number of items it is of.
            missing = {key: item for key, item in keyed if key not in known}
            if missing:
                self._ask(missing, len({key for key, _ in keyed}), work)
        judged = [(item, known[key].label) for key, item in keyed if key in known]
        left = len(items) - len(judged)
        return JudgeReport(
            self._name, tuple(judged), left, tuple(self._reasons), self._stop.is_set()
        )

    def _ask(self, missing: Mapping[str, Item], total: int, work: WorkFile[Judgement]) -> None:
        runner = self._runtime.runner
        budget = Budget(runner.budget_dollars, read_spent(self._folder), self._folder)
        with (
            closing(open_model(self._name, self._model, budget, self._stop)) as backend,
            ProgressBar("questions", total, total - len(missing)) as bar,
        ):

            def ask(entry: tuple[str, Item]) -> None:
                judgement = self._reply(*entry, backend)
                budget.note()
                if judgement is not None:
                    self._in_a_row.count(None)
                    work.add(judgement)
                bar.advance()

            run_in_threads(missing.items(), ask, runner.concurrency, self._stop)

    def _reply(self, key: str, item: Item, backend: ModelBackend) -> Judgement | None:
        instance = self._instances[item.instance]
        context = ConversationContext(instance, item.arm.variant, item.attempt, "judge", 0)
        label, dollars = None, 0.0
        try:
            asked = [Message("user", prompt_for(item))]
            said = backend.open(context).complete(asked, [], self._model.sampling)
            text, dollars = said.message.content, said.dollars
            label = read_label(text)
        except ModelFailure as failure:
            text = str(failure)
        except RolloutStopped:
            return None
        except (BudgetExhausted, InfrastructureFailure) as failure:
            # Go on, unless the budget is spent or nothing works any more.
            reason = f"{type(failure).__name__}: {failure}"
            self._reasons[reason] = None
            if self._in_a_row.count(reason) or isinstance(failure, BudgetExhausted):
                self._stop.set()
            return None
        return Judgement(key=key, id=item.id, label=label, reply=text, dollars=dollars)
