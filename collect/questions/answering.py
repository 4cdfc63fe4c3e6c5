"""Asks a Debug Subagent questions without a main agent, and scores its answers.

Each becomes a rollout row with one conversation in the run's folder, as collect writes them:
`resolved` says whether the answer is right, `variant` is `questions`, and `category` the
question's. So `stepinto format` makes training data from right answers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

from rich.table import Table

from collect.agents.debug2fix import run_subagent
from collect.agents.rollout_context import RolloutContext
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.held_out import HeldOut, HeldOutConfig
from collect.benchmarks.opening import drawn, open_benchmark
from collect.code.patches import TestFiles, apply_patch
from collect.config import RuntimeConfig
from collect.errors import TRIED_AGAIN, ConfigError, FailureKind
from collect.preflight import Finding
from collect.question_records import (
    SOURCE_READER,
    Category,
    Question,
    QuestionsConfig,
    read_questions,
)
from collect.questions.asking import (
    VARIANT,
    Answered,
    Answers,
    arguments_for,
    as_question,
    lay_out,
    question_spec,
    reproducible,
)
from collect.questions.building import questions_path
from collect.questions.grounding import ground
from collect.questions.scoring import Reason, Verdict, score_text
from collect.questions.source_reader import read_all
from collect.rollouts.batch import Batch, settings_facts
from collect.rollouts.executor import RolloutWork, Rows
from collect.rollouts.rollout import (
    RolloutSettings,
    RolloutSpec,
    RolloutTrace,
    failure_in,
    for_attempt,
)
from collect.rollouts.rows import RunIdentity
from collect.store.records import Role, digest
from collect.store.run_store import RunStore


def hold_question(
    question: Question, spec: RolloutSpec, settings: RolloutSettings, trace: RolloutTrace
) -> Verdict:
    """Let the spec's model answer as Debug Subagent in a fresh sandbox. The trace records the
    conversation. Raises ConfigError, PatchError, RolloutError, RolloutStopped, SandboxError."""
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
        bug = replace(bug, files=files)
        context = RolloutContext(
            instance=bug,
            variant=VARIANT,
            attempt=spec.attempt,
            sandbox=sandbox,
            config=settings.agents,
            role_models={Role.DEBUG_SUBAGENT: role_model},
            stop=settings.stop,
            logs=trace.logs,
            ask=question.ask,
            log=settings.log,
            compare=partial(settings.compare, bug),
            is_right=lambda text: score_text(question, text).correct,
        )
        answered = run_subagent(context, arguments_for(question))
        verdict = score_text(question, answered.final_answer)
        settings.log.note("scored", resolved=verdict.correct)
        trace.stop_reason = trace.logs[0].stop_reason
        return verdict


@dataclass(frozen=True)
class QuestionWork(RolloutWork):
    """One attempt at one question."""

    question: Question

    @property
    def label(self) -> str:
        return f"{self.question.id} {self.spec.main}"

    def do(self, settings: RolloutSettings) -> Rows:
        started, right, trace = time.monotonic(), False, RolloutTrace()
        with failure_in(trace):
            right = hold_question(self.question, self.spec, settings, trace).correct
        trace.seconds = time.monotonic() - started
        return self.rows(trace, settings, right)

    def rows(self, trace: RolloutTrace, settings: RolloutSettings, right: bool = False) -> Rows:
        return as_question(self.question, right, *super().rows(trace, settings))


def answer(runtime: RuntimeConfig, config: QuestionsConfig, run: Path) -> Answers:
    """Answer the unanswered questions of the config's file with its answerer, and score all. Raises
    ConfigError."""
    every = read_questions(questions_path(config, run))
    questions = drawn(every, config.answer_shuffle_seed, config.answer_limit)
    if config.answerers == (SOURCE_READER,):
        instances = instances_of(open_benchmark(config.benchmark, runtime.sandbox), questions)
        return Answers(tuple(read_all(questions, instances)), 0, None)
    return answer_all(runtime, config, questions, run)


def answer_all(
    runtime: RuntimeConfig, config: QuestionsConfig, questions: Sequence[Question], run: Path
) -> Answers:
    """Answer what has no answer in the run's folder yet, and score all answers there. The config
    names one model; the folder may hold answers of several. Raises ConfigError if the folder's
    answers were made with other settings, SandboxError."""
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
    for attempt, question in product(range(config.attempts), questions):
        spec = question_spec(question, instances[question.instance_id], model, attempt)
        settings = digest(settings_facts(runtime, spec))
        works.append(QuestionWork(spec, identity, settings, question))
    with closing(RunStore.open(run)) as store:
        yield works, Batch(runtime, benchmark, works, store), store


def read_trainable(path: Path, config: HeldOutConfig) -> list[Question]:
    """The questions in the file, without those about held-out bugs. Raises ConfigError."""
    held_out, questions = HeldOut.of(config), read_questions(path)
    kept = [
        q
        for q in questions
        if not held_out.has(q.benchmark, q.instance_id, q.instance_hash, q.repository)
    ]
    if not kept:
        raise ConfigError(
            f"{path}: none of its {len(questions)} questions is left to train on; held_out leaves "
            "out the bugs of all. Make questions about other bugs with `stepinto bench questions`"
        )
    return kept


def instances_of(benchmark: Benchmark, questions: Sequence[Question]) -> Mapping[str, Instance]:
    """The bugs of the questions. Raises ConfigError if one is missing or has changed."""
    known = {instance.id: instance for instance in benchmark.instances()}
    for question in questions:
        instance, about = known.get(question.instance_id), f"question {question.id} is about"
        if instance is None or question.benchmark != instance.benchmark:
            raise ConfigError(
                f"{about} {question.benchmark} {question.instance_id}, which is not among the bugs "
                "of questions.benchmark; name the benchmark that the file was made from"
            )
        if instance.hash != question.instance_hash:
            raise ConfigError(
                f"{about} another version of {instance.id}; make the file anew with "
                "`stepinto bench questions`"
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
        key = held.rollout_id
        verdict = score_text(questions[key], held.final_answer)
        calls = sum(each.tool_outcome is not None for each in held.messages)
        grounding = ground(held, TestFiles()).score
        answered[key] = Answered(questions[key], verdict, answered[key].rollout, calls, grounding)
    return Answers(
        tuple(answered.values()),
        len(works) - len(answered),
        store.folder / "conversations",
        (*reasons, *batch.over_budget),
        batch.stop.is_set(),
    )


def score_table(answered: Sequence[Answered], by: str) -> Table:
    """Accuracy by category and overall, and why wrong answers are wrong."""
    right = sum(each.verdict.correct for each in answered)
    share = f"{right / len(answered):.1%}" if answered else "-"
    table = Table(title=f"{by}: {right} of {len(answered)} right ({share})")
    table.add_column("category", no_wrap=True)
    for column in ("questions", "right", "accuracy", "facts", "steps"):
        table.add_column(column, justify="right")
    table.add_column("wrong because", overflow="fold")
    for category in (*Category, None):
        group = [each for each in answered if category in (None, each.question.category)]
        if not group:
            continue
        wrong = [each.verdict.reason for each in group if not each.verdict.correct]
        reasons = [f"{reason} {count}" for reason, count in Counter(wrong).most_common()]
        table.add_row(
            category or "all",
            str(len(group)),
            str(len(group) - len(wrong)),
            f"{1 - len(wrong) / len(group):.1%}",
            f"{sum(each.verdict.share for each in group) / len(group):.0%}",
            f"{sum(each.steps for each in group) / len(group):.1f}",
            ", ".join(reasons) or "-",
            style=None if category else "bold",
        )
    return table
