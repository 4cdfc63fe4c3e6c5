"""A model that sorts questions, and failures beside the rules, each of them once.

Its replies are kept in the run's folder, so that a second start pays for none of them again.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

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
from collect.rollouts.circuit_breaker import CircuitBreaker
from collect.rollouts.models import open_model
from collect.rollouts.progress_bar import ProgressBar
from collect.rollouts.settings import model_facts
from collect.store.atomic_files import locked, replacing
from collect.store.build_info import digest
from collect.store.messages import Message
from collect.store.record_lines import StrictRecord, read_lines
from collect.threads import run_in_threads
from eval.qualitative.config import JudgeConfig
from eval.qualitative.failure_modes import MODES, RECORDED
from eval.qualitative.prompts import prompt
from eval.qualitative.samples import Item, Kind

FILE = "judgements.jsonl"
ROLE = "judge"
NONE = "none"
"""The label for what fits nowhere."""
REPLY = re.compile(r"label:[ \t]*([a-z_]+)")
THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
DESCRIPTIONS: Mapping[Category, str] = {
    Category.EXCEPTION: "Identifying the type, origin, or cause of runtime exceptions.",
    Category.ROOT_CAUSE: "Understanding why a specific behavior or bug occurs.",
    Category.LOCAL: "Querying the value of specific variables at a location.",
    Category.ATTRIBUTE: "Inspecting object attributes or map entries.",
    Category.ASSERTION: "Identifying which assertion fails and the actual vs expected values.",
    Category.REACHABILITY: "Checking if execution reaches a specific location or branch.",
    Category.POST_FIX: "Confirming that a code change resolves the issue.",
}
"""The categories of Debug2Fix's table 3, in its order and words."""
LABELS: Mapping[Kind, Mapping[str, str]] = {
    Kind.QUESTION: {each.value: text for each, text in DESCRIPTIONS.items()}
    | {NONE: "None of these."},
    Kind.FAILURE: {m.name: m.description for m in MODES if m.name not in RECORDED},
}


class Judgement(StrictRecord):
    """A model's reply about one item."""

    key: str
    """A hash of the model and of all that it was told."""
    id: str
    kind: Kind
    label: str | None
    """None where the reply is not in its form, or the model failed."""
    reply: str
    dollars: float


@dataclass(frozen=True)
class Judged:
    """One item, and what the model said of it."""

    item: Item
    label: str | None
    """None where the reply could not be read."""


@dataclass(frozen=True)
class JudgeReport:
    """What a model said."""

    model: str
    judged: tuple[Judged, ...]
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


def read_label(kind: Kind, reply: str) -> str | None:
    """The label of a reply; None unless that is all it says, thoughts in tags left out."""
    found = REPLY.fullmatch(THINKING.sub("", reply).strip())
    return found[1] if found and found[1] in LABELS[kind] else None


def prompt_for(item: Item) -> str:
    """All that the model is told."""
    labels = "\n".join(f"- {name}: {text}" for name, text in LABELS[item.kind].items())
    return prompt(item.kind.value, labels=labels, text=item.text)


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
        self._path = folder / FILE
        self._known: dict[str, Judgement] = {}
        self._reasons: dict[str, None] = {}
        self._in_a_row = CircuitBreaker(runtime.runner.give_up_after, "request")
        self._stop, self._lock = threading.Event(), threading.Lock()

    def judge(self, items: Sequence[Item]) -> JudgeReport:
        """Ask for what has no reply yet, and give all replies."""
        with closing(locked(self._path.with_name(f".{FILE}.lock"))):
            self._read()
            keys = {item.id: self._key(item) for item in items}
            missing = {keys[item.id]: item for item in items if keys[item.id] not in self._known}
            if missing:
                self._ask(missing, len({*keys.values()}))
        judged = [
            Judged(item, self._known[keys[item.id]].label)
            for item in items
            if keys[item.id] in self._known
        ]
        left = len(items) - len(judged)
        return JudgeReport(
            self._name, tuple(judged), left, tuple(self._reasons), self._stop.is_set()
        )

    def _read(self) -> None:
        if not self._path.is_file():
            return
        held = self._path.read_bytes()
        # A line that was cut, by a kill or a full disk, is asked for once more.
        whole = b"".join(line for line in held.splitlines(keepends=True) if _is_whole(line))
        if whole != held:
            with replacing(self._path) as temporary:
                temporary.write_bytes(whole)
        advice = "remove it, and every item is judged anew"
        self._known = {each.key: each for each in read_lines(self._path, Judgement, advice)}

    def _key(self, item: Item) -> str:
        facts = [model_facts(self._model), prompt_for(item)]
        return digest(facts)

    def _ask(self, missing: Mapping[str, Item], total: int) -> None:
        """Ask each prompt once, whatever number of items it is of."""
        spent = read_spent(self._path.parent)
        budget = Budget(self._runtime.runner.budget_dollars, spent, self._path.parent)
        with (
            closing(open_model(self._name, self._model, budget, self._stop)) as backend,
            ProgressBar("questions and failures", total, total - len(missing)) as bar,
        ):

            def ask(entry: tuple[str, Item]) -> None:
                judgement = self._reply(*entry, backend)
                budget.note()
                with self._lock:
                    if judgement is not None:
                        self._keep(judgement)
                bar.advance()

            concurrency = self._runtime.runner.concurrency
            run_in_threads(missing.items(), ask, concurrency, self._stop)

    def _reply(self, key: str, item: Item, backend: ModelBackend) -> Judgement | None:
        context = ConversationContext(
            self._instances[item.instance], item.arm.variant, item.attempt, ROLE, 0
        )
        try:
            asked = [Message("user", prompt_for(item))]
            said = backend.open(context).complete(asked, [], self._model.sampling)
        except ModelFailure as failure:
            return Judgement(
                key=key, id=item.id, kind=item.kind, label=None, reply=str(failure), dollars=0.0
            )
        except RolloutStopped:
            return None
        except (BudgetExhausted, InfrastructureFailure) as failure:
            self._failed(failure)
            return None
        text = said.message.content
        label = read_label(item.kind, text)
        return Judgement(
            key=key, id=item.id, kind=item.kind, label=label, reply=text, dollars=said.dollars
        )

    def _failed(self, failure: BudgetExhausted | InfrastructureFailure) -> None:
        """Go on, unless the budget is spent or nothing works any more."""
        reason = f"{type(failure).__name__}: {failure}"
        with self._lock:
            self._reasons[reason] = None
        if self._in_a_row.count(reason) or isinstance(failure, BudgetExhausted):
            self._stop.set()

    def _keep(self, judgement: Judgement) -> None:
        self._in_a_row.count(None)
        self._known[judgement.key] = judgement
        with self._path.open("a", encoding="utf-8") as file:
            file.write(judgement.model_dump_json() + "\n")


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return line.endswith(b"\n")
