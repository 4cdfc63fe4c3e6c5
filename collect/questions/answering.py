"""Asks a Debug Subagent questions without a main agent, and scores its answers.

Each answer becomes a rollout row with one conversation in the run's folder, in the same form that
collect writes: `resolved` says whether the answer is right, `variant` is `questions`, and
`category` the question's. So `stepinto format` makes training data from right answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from collect.agents.debug2fix import run_subagent
from collect.agents.rollout_context import RolloutContext
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.opening import drawn, open_benchmark
from collect.code.patches import TestFiles, apply_patch
from collect.config import RuntimeConfig
from collect.errors import TRIED_AGAIN, ConfigError, FailureKind
from collect.preflight import Finding
from collect.question_records import Question, read_questions
from collect.questions.building import questions_path
from collect.questions.config import SOURCE_READER, QuestionsConfig
from collect.questions.episode import lay_out, reproducible
from collect.questions.grounding import ground
from collect.questions.rows import (
    VARIANT,
    Answered,
    Answers,
    QuestionSpec,
    arguments_for,
    as_question,
    question_spec,
)
from collect.questions.scoring import Reason, Verdict, score_text
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


def hold_question(
    question: Question, spec: RolloutSpec, settings: RolloutSettings, trace: RolloutTrace
) -> Verdict:
    """Let the spec's model answer as Debug Subagent in a fresh sandbox. The trace records the
    conversation.

    Raises ConfigError, PatchError, RolloutError, RolloutStopped, SandboxError.
    """
    bug, files, patch = spec.instance, spec.instance.files, question.patch
    role_model = for_attempt(settings.role_models[spec.main], spec.attempt)
    with settings.open_sandbox(bug) as sandbox:
        trace.image_digest = sandbox.image_digest
        lay_out(settings.benchmark, bug, sandbox, patch)
        if files and patch:
            files = apply_patch(files, patch)
        elif not files and role_model.is_oracle:
            # The oracle reads code there instead of through tools.
            files = sandbox.read_tree()
        context = RolloutContext(
            instance=replace(bug, files=files),
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
        answered = run_subagent(context, arguments_for(question))
        verdict = score_text(question, answered.final_answer)
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


def answer(runtime: RuntimeConfig, config: QuestionsConfig, run: Path) -> Answers:
    """Answer the unanswered questions of the config's file with its answerer, and score all.

    Raises ConfigError.
    """
    every = read_questions(questions_path(config, run))
    questions = drawn(every, config.answer_shuffle_seed, config.answer_limit)
    if config.answerers == (SOURCE_READER,):
        instances = instances_of(open_benchmark(config.benchmark, runtime.sandbox), questions)
        return Answers(tuple(read_all(questions, instances)), 0, None)
    return answer_all(runtime, config, questions, run)


def answer_all(
    runtime: RuntimeConfig, config: QuestionsConfig, questions: Sequence[Question], run: Path
) -> Answers:
    """Answer what has no answer in the run's folder yet, and score all answers there.

    The config names one model; the folder may hold answers of several. Raises ConfigError if the
    folder's answers were made with other settings, SandboxError.
    """
    with _opened(runtime, config, questions, run) as (works, batch, store):
        batch.run()
        return _scored(works, batch, store)


def look_before_answers(
    runtime: RuntimeConfig, config: QuestionsConfig, questions: Sequence[Question], run: Path
) -> list[Finding]:
    """The checks that `answer_all` starts with; answers nothing. Raises ConfigError."""
    with _opened(runtime, config, questions, run) as (_, batch, _):
        return batch.preflight()


@contextmanager
def _opened(
    runtime: RuntimeConfig, config: QuestionsConfig, questions: Sequence[Question], run: Path
) -> Iterator[tuple[Sequence[QuestionWork], Batch, RunStore]]:
    runtime = reproducible(runtime)
    benchmark = open_benchmark(config.benchmark, runtime.sandbox)
    instances = instances_of(benchmark, questions)
    (model,) = config.answerers
    identity = RunIdentity(run.name, runtime.seed)
    works = []
    # All first attempts come first.
    for attempt in range(config.attempts):
        for question in questions:
            spec = question_spec(question, instances[question.instance_id], model, attempt)
            facts = settings_hash(settings_facts(runtime, spec))
            works.append(QuestionWork(question, spec, identity, facts))
    with closing(RunStore.open(run)) as store:
        yield works, Batch(runtime, benchmark, works, store), store


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


def _scored(works: Sequence[QuestionWork], batch: Batch, store: RunStore) -> Answers:
    """The verdicts on all answers in the folder, in the questions' order."""
    questions = {work.spec.id: work.question for work in works}
    rows = {row.rollout_id: row for row in batch.rows()}
    answered: dict[str, Answered] = {}
    reasons: dict[str, None] = {}
    for key in (each for each in questions if each in rows):
        row = rows[key]
        if row.failure_kind not in TRIED_AGAIN:
            answered[key] = Answered(questions[key], Verdict(Reason.NO_ANSWER), row)
        elif row.failure_kind is FailureKind.INFRASTRUCTURE:
            reasons[row.failure] = None
    for held in store.read_conversations(only=answered.keys()):
        calls = sum(each.tool_outcome is not None for each in held.messages)
        verdict = score_text(questions[held.rollout_id], held.final_answer)
        answered[held.rollout_id] = replace(
            answered[held.rollout_id],
            verdict=verdict,
            tool_calls=calls,
            grounding=ground(held, TestFiles()).score,
        )
    return Answers(
        tuple(answered.values()),
        len(works) - len(answered),
        store.folder / "conversations",
        (*reasons, *batch.over_budget),
        batch.stop.is_set(),
    )
