"""Rollouts for an RL framework: the framework serves the model that it trains, and StepInto lets it
act on real sandboxes and says what it earned. Knows no framework; `stepinto_questions` and
`stepinto_repair` are its environments for verifiers.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from collect.agents.systems import SYSTEMS
from collect.benchmarks.base import Benchmark, TestStatus
from collect.benchmarks.held_out import refuse_held_out
from collect.benchmarks.opening import drawn, open_benchmark, open_chosen
from collect.config import RuntimeConfig
from collect.errors import TRIED_AGAIN, InfrastructureFailure
from collect.models.budget import Budget
from collect.models.config import OpenAIConfig, Retries
from collect.models.endpoint import EndpointBackend
from collect.questions.answering import QuestionWork, instances_of, read_trainable
from collect.questions.asking import question_spec, reproducible
from collect.questions.building import questions_path
from collect.questions.scoring import Reward, reward_of
from collect.rollouts.batch import settings_facts
from collect.rollouts.executor import RolloutWork, Rows, Setup
from collect.rollouts.rollout import RolloutSpec
from collect.rollouts.rows import RunIdentity
from collect.store.records import digest
from collect.store.run_store import RunStore
from configs.loading import RunConfig, config_saved, load_config
from sandbox import clean_up

REQUEST_SECONDS = 3_600.0
"""For one reply; the framework has limits of its own."""


@dataclass(frozen=True)
class Policy:
    """The model that a framework trains, as it serves it: chat completions at `url`, which only
    this `key` of one rollout opens."""

    name: str
    url: str
    key: str


@dataclass(frozen=True)
class Scores:
    """What a rollout earned."""

    rewards: Mapping[str, float]
    metrics: Mapping[str, float]


class Environment(ABC):
    """The tasks of a config. Rollouts run in `runner.concurrency` threads; further ones wait."""

    tasks: Mapping[str, str]
    """What is asked, by the task's id."""

    def __init__(self, config: RunConfig, benchmark: Benchmark, record: bool) -> None:
        """With `record` rollouts are stored in the config's run folder, as `collect` does. Raises
        ConfigError, also if another process writes there."""
        self.config, self._benchmark = config, benchmark
        clean_up(config.sandbox)
        self._store = None
        first = 0
        if record:
            with config_saved(config):
                self._store = RunStore.open(config.folder)
                self._store.compact()
            first = 1 + max((row.attempt for row in self._store.read_rollouts()), default=-1)
        self._attempts = itertools.count(first)
        # The threads outlive every rollout: a sandbox dies with the thread that started it.
        self._pool = ThreadPoolExecutor(config.runner.concurrency, "rollout")

    async def roll_out(self, task: str, policy: Policy) -> Scores:
        """Let the model work on a task, in a fresh sandbox. If this is cancelled, the rollout ends
        at its next step, and this returns after its sandbox is closed.

        Raises InfrastructureFailure if the rollout says nothing about the model, ConfigError.
        """
        stop = threading.Event()
        job = self._pool.submit(self._do, task, policy, stop)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            stop.set()
            if not job.done():
                await asyncio.gather(asyncio.wrap_future(job), return_exceptions=True)
            raise

    def _do(self, task: str, policy: Policy, stop: threading.Event) -> Scores:
        model = OpenAIConfig(
            backend="openai",
            model=policy.name,
            base_url=policy.url,
            api_key_env=None,
            timeout=REQUEST_SECONDS,
            # The framework retries rollouts.
            retries=Retries(max_retries=2, outage_wait=0),
        )
        runtime = self._runtime.model_copy(update={"models": {policy.name: model}})
        work = self._work(task, policy.name, next(self._attempts), runtime)
        setup = Setup(runtime, self._benchmark, runtime.models, self.config.folder)
        backend = EndpointBackend(policy.name, model, Budget(None), stop, key=policy.key)
        with closing(backend):
            rows = work.do(setup.settings({policy.name: backend}, stop))
        if self._store is not None:
            self._store.add(*rows)
        if rows[0].failure_kind in TRIED_AGAIN:
            raise InfrastructureFailure(rows[0].failure)
        return self._scores(task, rows)

    @property
    def _runtime(self) -> RuntimeConfig:
        return self.config

    @abstractmethod
    def _work(self, task: str, model: str, attempt: int, runtime: RuntimeConfig) -> RolloutWork:
        """The rollout in which the model does the task."""

    @abstractmethod
    def _scores(self, task: str, rows: Rows) -> Scores: ...

    def close(self) -> None:
        """Wait for the rollouts in progress, and release the run folder."""
        self._pool.shutdown()
        if self._store is not None:
            self._store.close()


class QuestionsEnvironment(Environment):
    """The questions of `stepinto bench questions`, answered as Debug Subagent."""

    def __init__(self, config: RunConfig, record: bool = False) -> None:
        chosen = config.questions
        super().__init__(config, open_benchmark(chosen.benchmark, config.sandbox), record)
        every = read_trainable(questions_path(chosen, config.folder), config.held_out)
        drawn_ones = drawn(every, chosen.answer_shuffle_seed, chosen.answer_limit)
        self._questions = {question.id: question for question in drawn_ones}
        self._bugs = instances_of(self._benchmark, drawn_ones)
        self.tasks = {each.id: each.question for each in drawn_ones}

    @property
    def _runtime(self) -> RuntimeConfig:
        return reproducible(self.config)

    def _work(self, task: str, model: str, attempt: int, runtime: RuntimeConfig) -> RolloutWork:
        question = self._questions[task]
        spec = question_spec(question, self._bugs[question.instance_id], model, attempt)
        identity = RunIdentity(self.config.run, runtime.seed)
        return QuestionWork(spec, identity, digest(settings_facts(runtime, spec)), question)

    def _scores(self, task: str, rows: Rows) -> Scores:
        row, conversations = rows
        require = self.config.train.grpo.rewards.require_session
        reward = Reward(0.0, 0.0, 0.0, 0.0)
        if conversations:
            reward = reward_of(self._questions[task], conversations[0], require)
        return Scores(asdict(reward), {"steps": row.sub_steps, "debug_calls": row.debug_calls})


class RepairEnvironment(Environment):
    """The bugs of `collect.benchmark`, repaired by the first of `collect.variants`. The model plays
    all of its agents."""

    def __init__(self, config: RunConfig, record: bool = False) -> None:
        benchmark, choice = open_chosen(config.collect.benchmark, config.sandbox)
        refuse_held_out(choice.instances, config.held_out)
        super().__init__(config, benchmark, record)
        self._bugs = {bug.id: bug for bug in choice.instances}
        self.tasks = {bug.id: bug.problem_statement for bug in choice.instances}

    def _work(self, task: str, model: str, attempt: int, runtime: RuntimeConfig) -> RolloutWork:
        variant = self.config.collect.variants[0]
        sub = model if SYSTEMS[variant].subagent else None
        spec = RolloutSpec(self._bugs[task], variant, model, sub, attempt)
        identity = RunIdentity(self.config.run, runtime.seed)
        return RolloutWork(spec, identity, digest(settings_facts(runtime, spec)))

    def _scores(self, task: str, rows: Rows) -> Scores:
        row, _ = rows
        passed = sum(test.after == TestStatus.PASSED for test in row.tests)
        metrics = {
            "tests_passed": passed / len(row.tests) if row.tests else 0.0,
            "main_steps": row.main_steps,
            "sub_calls": row.sub_calls,
            "debug_calls": row.debug_calls,
            "invalid_calls": row.invalid_tool_calls,
        }
        return Scores({"resolved": float(row.resolved)}, metrics)


KINDS: Mapping[str, type[QuestionsEnvironment | RepairEnvironment]] = {
    "questions": QuestionsEnvironment,
    "repair": RepairEnvironment,
}


@cache
def open_environment(
    kind: str, config: Path, overrides: tuple[str, ...], record: bool
) -> Environment:
    """The environment of a config, opened once in a process. Raises ConfigError."""
    return KINDS[kind](load_config(config, overrides), record)
