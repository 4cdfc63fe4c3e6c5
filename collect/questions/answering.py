"""Put questions to a Debug Subagent without any main agent, and judge what it answers.

Each answer becomes a rollout row with one conversation, in the run's folder, as collect writes
them: `resolved` says whether the answer is right, `variant` is `questions`, and `category` the
question's. So `stepinto format` makes training data of the right answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from collect.agents.config import Variant
from collect.agents.debug2fix import run_subagent
from collect.agents.rollout_context import Player, RolloutContext
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.opening import open_benchmark
from collect.benchmarks.workspace import open_instance_sandbox
from collect.config import Machinery
from collect.errors import TRIED_AGAIN, ConfigError, FailureKind, RolloutStopped
from collect.heartbeat import beating
from collect.models.budget import Budget, read_spent
from collect.models.opening import open_model
from collect.progress import Progress
from collect.questions.answered import Answered, Answers, Said
from collect.questions.config import QuestionsConfig
from collect.questions.messages import arguments_for
from collect.questions.records import Question
from collect.questions.rows import VARIANT, QuestionSpec, as_question
from collect.questions.scoring import score_text
from collect.questions.verdicts import Verdict
from collect.questions.workspace import lay_out, reproducible, with_files
from collect.records import Role
from collect.rollout import (
    RolloutSettings,
    RolloutSpec,
    RolloutTrace,
    failure_of,
    for_attempt,
)
from collect.rollout_journal import RolloutJournal
from collect.rollout_rows import RunIdentity, rows_of
from collect.rollouts import FailuresInARow, is_oracle
from collect.runner import AsyncioRunner
from collect.settings import Facts, note_settings, settings_facts, settings_hash, what_differs
from collect.store import RunStore
from sandbox import clean_up


def run_question(context: RolloutContext, question: Question) -> Verdict:
    """Let the Debug Subagent answer in the context's sandbox, whose workspace is prepared.

    Its conversation is the context's only one. Raises RolloutError, RolloutStopped, SandboxError.
    """
    log = run_subagent(context, arguments_for(question))
    return score_text(question, log.final_answer)


def hold_question(
    question: Question, spec: RolloutSpec, settings: RolloutSettings, trace: RolloutTrace
) -> Verdict:
    """Put a question to the spec's model in a fresh sandbox. The trace has what was said.

    Raises ConfigError, PatchError, RolloutError, RolloutStopped, SandboxError.
    """
    bug, patch, player = spec.instance, question.patch, settings.players[spec.main]
    with open_instance_sandbox(settings.sandbox, bug) as sandbox:
        trace.image_digest = sandbox.image_digest
        lay_out(settings.benchmark, bug, sandbox, patch)
        instance = with_files(bug, bug.files, patch) if bug.files else bug
        if not bug.files and player.is_oracle:
            # It reads code there where a model would call its tools.
            instance = with_files(bug, sandbox.read_tree(), "")
        context = RolloutContext(
            instance=instance,
            variant=VARIANT,
            attempt=spec.attempt,
            sandbox=sandbox,
            config=settings.agents,
            players={Role.DEBUG_SUBAGENT: player},
            stop=settings.stop,
            logs=trace.logs,
            ask=question.ask,
        )
        verdict = run_question(context, question)
        trace.stop_reason = trace.logs[0].stop_reason
        return verdict


@dataclass(frozen=True)
class Asked:
    """A question as it is put once; attempts are counted from 0."""

    question: Question
    attempt: int


def answer_all(
    machinery: Machinery, config: QuestionsConfig, questions: Sequence[Question], run: Path
) -> Answers:
    """Answer what the run's folder does not have yet, and judge all that it has.

    The config names one model. Answers of several may lie in one folder. Raises ConfigError where
    the folder holds answers made with other settings, SandboxError.
    """
    machinery = reproducible(machinery)
    benchmark = open_benchmark(config.benchmark, machinery.sandbox)
    instances = instances_of(benchmark, questions)
    with closing(RunStore.open(run)) as store:
        asker = _Asker(machinery, config, benchmark, instances, store)
        # All first attempts come first.
        asked = [Asked(each, n) for n in range(config.attempts) for each in questions]
        asker.ask(asked)
        store.compact()
        return asker.answers(asked)


def instances_of(benchmark: Benchmark, questions: Sequence[Question]) -> Mapping[str, Instance]:
    """The bugs that questions are about. Raises ConfigError where one is gone, or another."""
    known = {instance.id: instance for instance in benchmark.instances()}
    for question in questions:
        instance = known.get(question.instance_id)
        if instance is None or question.benchmark != instance.benchmark:
            raise ConfigError(
                f"question {question.id} is about {question.benchmark} {question.instance_id}, "
                "which is not among the bugs of questions.benchmark; name the benchmark that the "
                "file was made from"
            )
        if instance.hash != question.instance_hash:
            raise ConfigError(
                f"question {question.id} is about another version of {instance.id}; make the "
                "file anew with `stepinto bench questions`"
            )
    return known


class _Asker:
    """One start: the questions to ask, and who answers."""

    def __init__(
        self,
        machinery: Machinery,
        config: QuestionsConfig,
        benchmark: Benchmark,
        instances: Mapping[str, Instance],
        store: RunStore,
    ) -> None:
        self._machinery, self._benchmark, self._store = machinery, benchmark, store
        (self._name,) = config.answerers
        self._instances = instances
        self._model = machinery.model_config_of(self._name)
        self._identity = RunIdentity(store.folder.name, machinery.seed)
        self._stop = threading.Event()
        self._failures = FailuresInARow(machinery.runner.give_up_after)

    def ask(self, everything: Sequence[Asked]) -> None:
        """Ask what has no row yet. Raises ConfigError."""
        if not everything:
            return
        facts = settings_facts(self._machinery, self._spec(everything[0]))
        missing = self._missing(everything, facts)
        if not missing:
            return
        note_settings(self._store.folder, facts)
        of_rows = sum(row.dollars for row in self._store.read_rollouts())
        spent = read_spent(self._store.folder, of_rows)
        budget = Budget(self._machinery.runner.budget_dollars, spent)
        clean_up(self._machinery.sandbox)
        done = len(everything) - len(missing)
        with (
            closing(
                open_model(self._name, self._model, budget, self._stop, self._store.folder)
            ) as backend,
            Progress(len(everything), done) as progress,
            beating(self._store.folder, progress),
        ):
            player = Player(backend, self._model.sampling, is_oracle(self._model, backend))

            def ask(asked: Asked) -> None:
                settings = self._settings(for_attempt(player, asked.attempt))
                try:
                    self._ask_one(asked, settings, settings_hash(facts), progress)
                finally:
                    budget.note(self._store.folder)

            AsyncioRunner(self._machinery.runner.concurrency, self._stop).run(missing, ask)

    def answers(self, everything: Sequence[Asked]) -> Answers:
        """The verdicts on all answers that the folder holds, in the questions' order."""
        rows = {row.rollout_id: row for row in self._store.read_rollouts()}
        wanted = {self._spec(asked).id for asked in everything}
        said = {
            row.rollout_id: Said.of(row)
            for row in self._store.read_conversations()
            if row.rollout_id in wanted
        }
        answered: list[Answered] = []
        reasons: dict[str, None] = {}
        for asked in everything:
            row = rows.get(self._spec(asked).id)
            if row is None:
                continue
            if row.failure_kind in TRIED_AGAIN:
                reasons[f"{row.failure_type}: {row.failure_message}"] = None
                continue
            held = said.get(row.rollout_id, Said())
            question, verdict = asked.question, score_text(asked.question, held.text)
            answered.append(Answered(question, verdict, row, held.tool_calls, held.grounding))
        missing = len(everything) - len(answered)
        conversations = self._store.folder / "conversations"
        return Answers(tuple(answered), missing, conversations, tuple(reasons), self._stop.is_set())

    def _missing(self, everything: Sequence[Asked], facts: Facts) -> list[Asked]:
        wanted = {self._spec(asked).id for asked in everything}
        done = set()
        for row in self._store.read_rollouts():
            if row.rollout_id not in wanted or row.failure_kind in TRIED_AGAIN:
                continue
            if row.config_hash != settings_hash(facts):
                changed = what_differs(self._store.folder, row.config_hash, facts)
                raise ConfigError(
                    f"{self._store.folder} holds answers made with {changed}; they must not be "
                    "mixed. Choose another `run` name, or remove that folder"
                )
            done.add(row.rollout_id)
        return [asked for asked in everything if self._spec(asked).id not in done]

    def _settings(self, player: Player) -> RolloutSettings:
        return RolloutSettings(
            self._benchmark,
            self._machinery.sandbox,
            self._machinery.agents,
            {self._name: player},
            self._stop,
        )

    def _spec(self, asked: Asked) -> QuestionSpec:
        question, name = asked.question, self._name
        instance = self._instances[question.instance_id]
        return QuestionSpec(instance, Variant.DEBUG2FIX, name, name, asked.attempt, question.id)

    def _ask_one(
        self, asked: Asked, settings: RolloutSettings, config_hash: str, progress: Progress
    ) -> None:
        question, spec, trace = asked.question, self._spec(asked), RolloutTrace()
        journal = RolloutJournal.of(self._store.folder, spec, config_hash)
        settings = journal.kept(settings)
        started, right = time.monotonic(), False
        progress.started(spec.id, f"{question.instance_id} {question.category}")
        try:
            right = hold_question(question, spec, settings, trace).correct
        except RolloutStopped:
            progress.stopped(spec.id)
            return
        except ConfigError:
            raise
        except Exception as error:
            trace.failure = failure_of(error)
        trace.seconds = time.monotonic() - started
        rows = rows_of(spec, trace, settings, self._identity, config_hash)
        row, conversations = as_question(question, right, *rows)
        self._store.add(row, conversations)
        progress.finished(row)
        journal.has_row(row)
        if row.failure_kind is FailureKind.BUDGET or self._failures.too_many(row):
            self._stop.set()
