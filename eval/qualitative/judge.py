"""A model that sorts the main agents' questions, each of them once.

Its replies are kept in the run's folder, so that a second start pays for none of them again.
"""

from __future__ import annotations

import hashlib
import heapq
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
from collect.models.base import ConversationContext, ModelBackend, Sampling
from collect.models.budget import Budget, read_spent
from collect.models.config import OracleConfig, RelayConfig, ReplayConfig
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
THINKING = re.compile(r"\A(?:\s*<think>.*?</think>)*+", re.DOTALL)
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


def drawn(items: Iterable[Item], config: JudgeConfig) -> list[Item]:
    """At most `config.limit` items, the same ones for the same seed in whatever order they come,
    ordered by id."""

    def place(item: Item) -> bytes:
        return hashlib.sha256(f"{config.seed} {item.id}".encode()).digest()

    return sorted(heapq.nsmallest(config.limit, items, place), key=lambda item: item.id)


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
    if isinstance(model, OracleConfig | ReplayConfig | RelayConfig):
        raise ConfigError(
            f"eval.judge.model is {config.model!r}, of backend {model.backend}, which cannot "
            "judge; name an endpoint or a local model, or remove eval.judge"
        )


def read_label(reply: str) -> str | None:
    """The label of a reply; None unless that is all it says, thoughts in tags left out."""
    found = REPLY.fullmatch(THINKING.sub("", reply).strip())
    return found[1] if found and found[1] in LABELS else None


def prompt_for(item: Item) -> str:
    labels = "\n".join(f"- {name}: {text}" for name, text in LABELS.items())
    text = (files(__package__) / "prompts" / "question.md").read_text(encoding="utf-8")
    return fill(text, {"labels": labels, "text": item.text}).strip("\n")


def judge(
    runtime: RuntimeConfig,
    config: JudgeConfig,
    instances: Iterable[Instance],
    items: Sequence[Item],
    folder: Path,
) -> JudgeReport:
    """Ask for what has no reply in `folder` yet, and give all replies. `instances` are the bugs
    that the items are of."""
    runner, model = runtime.runner, runtime.model_config_of(config.model)
    bugs = {(each.benchmark, each.id): each for each in instances}
    facts, stop, reasons = model_facts(model), threading.Event(), dict[str, None]()
    in_a_row = CircuitBreaker(runner.give_up_after, "request")
    keyed = [(digest([facts, prompt_for(item)]), item) for item in items]
    advice = "another version; remove it, and every item is judged anew"
    with closing(WorkFile(folder / FILE, "", Judgement, lambda each: each.key, advice)) as work:
        known = work.outcomes
        # Each prompt is asked once, whatever number of items it is of.
        missing = {key: item for key, item in keyed if key not in known}
        budget = Budget(runner.budget_dollars, read_spent(folder), folder)

        def ask(entry: tuple[str, Item]) -> None:
            key, item = entry
            try:
                work.add(_judgement(key, item, bugs[item.instance], backend, model.sampling))
                in_a_row.count(None)
            except RolloutStopped:
                pass
            except (BudgetExhausted, InfrastructureFailure) as failure:
                # Go on, unless the budget is spent or nothing works any more.
                reason = f"{type(failure).__name__}: {failure}"
                reasons[reason] = None
                if in_a_row.count(reason) or isinstance(failure, BudgetExhausted):
                    stop.set()
            budget.note()
            bar.advance()

        if missing:
            total = len({key for key, _ in keyed})
            with (
                closing(open_model(config.model, model, budget, stop)) as backend,
                ProgressBar("questions", total, total - len(missing)) as bar,
            ):
                run_in_threads(missing.items(), ask, runner.concurrency, stop)
    judged = tuple((item, known[key].label) for key, item in keyed if key in known)
    left = len(items) - len(judged)
    return JudgeReport(config.model, judged, left, tuple(reasons), stop.is_set())


def _judgement(
    key: str, item: Item, bug: Instance, backend: ModelBackend, sampling: Sampling
) -> Judgement:
    """Raises RolloutStopped, BudgetExhausted, InfrastructureFailure."""
    context = ConversationContext(bug, item.arm.variant, item.attempt, "judge", 0)
    try:
        said = backend.open(context).complete([Message("user", prompt_for(item))], [], sampling)
    except ModelFailure as failure:
        return Judgement(key=key, id=item.id, label=None, reply=str(failure), dollars=0.0)
    text = said.message.said
    return Judgement(key=key, id=item.id, label=read_label(text), reply=text, dollars=said.dollars)
