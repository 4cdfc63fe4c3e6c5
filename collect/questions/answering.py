"""Asks a Debug Subagent questions without a main agent, and scores its answers.

Each answer becomes a rollout row with one conversation in the run's folder, in the same form that
collect writes: `resolved` says whether the answer is right, `variant` is `questions`, and
`category` the question's. So `stepinto format` makes training data from right answers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from collect.agents.debug2fix import run_subagent
from collect.agents.rollout_context import RolloutContext
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.opening import open_benchmark
from collect.benchmarks.splits import drawn
from collect.config import RuntimeConfig
from collect.errors import TRIED_AGAIN, ConfigError, FailureKind
from collect.preflight import Finding
from collect.question_records import Question, read_questions
from collect.questions.building import questions_path
from collect.questions.config import SOURCE_READER, QuestionsConfig
from collect.questions.episode import lay_out, reproducible, with_files
from collect.questions.rows import (
    VARIANT,
    Answered,
    Answers,
    QuestionSpec,
    Said,
    arguments_for,
    as_question,
    question_spec,
)
from collect.questions.scoring import Verdict, score_text
from collect.questions.source_reader import read_all
from collect.rollouts.batch import Batch
from collect.rollouts.executor import Rows
from collect.rollouts.rollout import (
    RolloutSettings,
    RolloutSpec,
    RolloutTrace,
    failure_in,
    failure_of,
    for_attempt,
)
from collect.rollouts.rows import RunIdentity, rows_of
from collect.rollouts.settings import settings_facts, settings_hash
from collect.store.records import Role
from collect.store.run_store import RunStore


def run_question(context: RolloutContext, question: Question) -> Verdict:
    """Let the Debug Subagent answer in the context's sandbox with its prepared workspace.

    Its conversation is the context's only one. Raises RolloutError, RolloutStopped, SandboxError.
    """
    log = run_subagent(context, arguments_for(question))
    return score_text(question, log.final_answer)


def hold_question(
    question: Question, spec: RolloutSpec, settings: RolloutSettings, trace: RolloutTrace
) -> Verdict:
    """Ask the spec's model in a fresh sandbox. The trace records the conversation.

    Raises ConfigError, PatchError, RolloutError, RolloutStopped, SandboxError.
    """
    bug, patch = spec.instance, question.patch
    role_model = for_attempt(settings.role_models[spec.main], spec.attempt)
    with settings.open_sandbox(bug) as sandbox:
        trace.image_digest = sandbox.image_digest
        lay_out(settings.benchmark, bug, sandbox, patch)
        instance = with_files(bug, bug.files, patch) if bug.files else bug
        if not bug.files and role_model.is_oracle:
            # The oracle reads code there instead of through tools.
            instance = with_files(bug, sandbox.read_tree(), "")
        context = RolloutContext(
            instance=instance,
            variant=VARIANT,
            attempt=spec.attempt,
            sandbox=sandbox,
            config=settings.agents,
            role_models={Role.DEBUG_SUBAGENT: role_model},
            stop=settings.stop,
            logs=trace.logs,
            ask=question.ask,
            log=settings.log,
        )
        verdict = run_question(context, question)
        settings.log.note("scored", resolved=verdict.correct)
        trace.stop_reason = trace.logs[0].stop_reason
        return verdict


@dataclass(frozen=True)
class QuestionWork:
    """One attempt at one question."""

    question: Question
    spec: QuestionSpec
    identity: RunIdentity
    settings_hash: str

    @property
    def label(self) -> str:
        return f"{self.question.instance_id} {self.question.category}"

    def do(self, settings: RolloutSettings) -> Rows:
        started, right, trace = time.monotonic(), False, RolloutTrace()
        with failure_in(trace):
            right = hold_question(self.question, self.spec, settings, trace).correct
        trace.seconds = time.monotonic() - started
        return self._rows(right, trace, settings)

    def failed(self, error: Exception, settings: RolloutSettings) -> Rows:
        return self._rows(False, RolloutTrace(failure=failure_of(error)), settings)

    def _rows(self, right: bool, trace: RolloutTrace, settings: RolloutSettings) -> Rows:
        rows = rows_of(self.spec, trace, settings, self.identity, self.settings_hash)
        return as_question(self.question, right, *rows)


def answer_all(
    runtime: RuntimeConfig, config: QuestionsConfig, questions: Sequence[Question], run: Path
) -> Answers:
    """Answer what has no answer in the run's folder yet, and score all answers there.

    The config names one model; the folder may hold answers of several. Raises ConfigError if the
    folder's answers were made with other settings, SandboxError.
    """
    runtime = reproducible(runtime)
    benchmark = open_benchmark(config.benchmark, runtime.sandbox)
    works = _works(runtime, config, questions, benchmark, run)
    with closing(RunStore.open(run)) as store:
        batch = Batch(runtime, benchmark, works, store)
        batch.run()
        return _answers(works, batch, store)


def look_before_answers(
    runtime: RuntimeConfig, config: QuestionsConfig, questions: Sequence[Question], run: Path
) -> list[Finding]:
    """The checks that `answer_all` starts with; answers nothing. Raises ConfigError."""
    runtime = reproducible(runtime)
    benchmark = open_benchmark(config.benchmark, runtime.sandbox)
    works = _works(runtime, config, questions, benchmark, run)
    with closing(RunStore.open(run)) as store:
        return Batch(runtime, benchmark, works, store).preflight()


def _works(
    runtime: RuntimeConfig,
    config: QuestionsConfig,
    questions: Sequence[Question],
    benchmark: Benchmark,
    run: Path,
) -> list[QuestionWork]:
    instances = instances_of(benchmark, questions)
    (model,) = config.answerers
    identity = RunIdentity(run.name, runtime.seed)
    # All first attempts come first.
    specs = [
        (question, question_spec(question, instances[question.instance_id], model, attempt))
        for attempt in range(config.attempts)
        for question in questions
    ]
    return [
        QuestionWork(question, spec, identity, settings_hash(settings_facts(runtime, spec)))
        for question, spec in specs
    ]


def instances_of(benchmark: Benchmark, questions: Sequence[Question]) -> Mapping[str, Instance]:
    """The bugs of the questions. Raises ConfigError if one is missing or has changed."""
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


def _answers(works: Sequence[QuestionWork], batch: Batch, store: RunStore) -> Answers:
    """The verdicts on all answers in the folder, in the questions' order."""
    rows = {row.rollout_id: row for row in batch.rows()}
    said = {row.rollout_id: Said.of(row) for row in store.read_conversations(only=rows.keys())}
    answered: list[Answered] = []
    reasons: dict[str, None] = {}
    for work in works:
        row = rows.get(work.spec.id)
        if row is None:
            continue
        if row.failure_kind in TRIED_AGAIN:
            if row.failure_kind is FailureKind.INFRASTRUCTURE:
                reasons[row.failure] = None
            continue
        held = said.get(row.rollout_id, Said())
        verdict = score_text(work.question, held.text)
        answered.append(Answered(work.question, verdict, row, held.tool_calls, held.grounding))
    return Answers(
        tuple(answered),
        len(works) - len(answered),
        store.folder / "conversations",
        (*reasons, *batch.over_budget),
        batch.stop.is_set(),
    )


# Answers a file of questions with the configured answerer.


def answer(runtime: RuntimeConfig, config: QuestionsConfig, run: Path) -> Answers:
    """Answer the config's unanswered questions with its answerer.

    Raises ConfigError.
    """
    every = read_questions(questions_path(config, run))
    questions = drawn(every, config.answer_shuffle_seed, config.answer_limit)
    if config.answerers == (SOURCE_READER,):
        instances = instances_of(open_benchmark(config.benchmark, runtime.sandbox), questions)
        return Answers(tuple(read_all(questions, instances)), 0, None)
    return answer_all(runtime, config, questions, run)
