"""From a rollout's row to the bug or question that it was about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from collect.agents.config import Variant
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.opening import open_benchmark
from collect.errors import ConfigError
from collect.questions.answering import hold_question
from collect.questions.records import Question, read_questions
from collect.questions.rows import VARIANT, question_spec, rollouts_of
from collect.records import Conversation, Rollout
from collect.replaying.replaying import Recorded
from collect.rollout import RolloutSpec, run_agents
from sandbox import SandboxConfig

WHOLE = {"split": "all", "limit": None, "instances": None, "shuffle_seed": None}
"""A benchmark's settings that choose among its bugs, so that none is chosen."""


class Bugs:
    """The bugs of some benchmarks, by name and id."""

    def __init__(self, configs: Iterable[BenchmarkConfig], sandbox: SandboxConfig) -> None:
        """Raises ConfigError where a benchmark's data is missing or broken."""
        self._found: dict[tuple[str, str, str], tuple[Benchmark, Instance]] = {}
        whole = [config.model_copy(update=WHOLE) for config in configs]
        for place, config in enumerate(whole):
            if config not in whole[:place]:
                benchmark = open_benchmark(config, sandbox)
                for instance in benchmark.instances():
                    key = (instance.benchmark, instance.id, instance.hash)
                    self._found.setdefault(key, (benchmark, instance))

    def of(self, row: Rollout) -> tuple[Benchmark, Instance] | None:
        """The row's bug as it was then, and how its tests are run; None where it is gone."""
        return self._found.get((row.benchmark, row.instance_id, row.instance_hash))


class Finder:
    """What is needed to do the rollouts of a run once more."""

    def __init__(self, bugs: Bugs, questions: Iterable[Path]) -> None:
        """`questions` are files of them. Raises ConfigError for one that can't be read."""
        self._bugs = bugs
        paths = [path for path in dict.fromkeys(questions) if path.is_file()]
        self._questions = [question for path in paths for question in read_questions(path)]
        self._by_rollout: dict[tuple[str, int], Mapping[str, Question]] = {}

    def check(self, row: Rollout) -> Instance:
        """The row's bug. Raises ConfigError where it is gone, or the row's question."""
        instance = self._bug(row)[1]
        if row.variant == VARIANT:
            self._question(row)
        return instance

    def benchmark_of(self, row: Rollout) -> Benchmark:
        """How the row's bug is laid out. Raises ConfigError where the bug is gone or another."""
        return self._bug(row)[0]

    def recorded(self, row: Rollout, conversations: Sequence[Conversation]) -> Recorded:
        """The rollout, ready to be driven again. Raises ConfigError."""
        instance = self._bug(row)[1]
        if row.variant == VARIANT:
            question = self._question(row)
            asked = question_spec(question, instance, row.sub_model, row.attempt)
            return Recorded(
                row.rollout_id,
                (row.sub_model,),
                tuple(conversations),
                lambda settings, trace: hold_question(question, asked, settings, trace),
            )
        main, sub = row.main_model, row.sub_model or None
        spec = RolloutSpec(instance, Variant(row.variant), main, sub, row.attempt)
        return Recorded(
            row.rollout_id,
            (main,) if sub is None else (main, sub),
            tuple(conversations),
            lambda settings, trace: run_agents(spec, settings, trace),
        )

    def _bug(self, row: Rollout) -> tuple[Benchmark, Instance]:
        found = self._bugs.of(row)
        if found is None:
            raise ConfigError(
                f"the bug {row.benchmark} {row.instance_id} of rollout {row.rollout_id} is not "
                "among those of the run's config, or has changed since; give the benchmark that "
                "it was of, e.g. collect.benchmark.path=FOLDER"
            )
        return found

    def _question(self, row: Rollout) -> Question:
        by = (row.sub_model, row.attempt)
        if by not in self._by_rollout:
            self._by_rollout[by] = dict(rollouts_of(self._questions, [by]))
        question = self._by_rollout[by].get(row.rollout_id)
        if question is None:
            raise ConfigError(
                f"rollout {row.rollout_id} answers a question about {row.instance_id} that is in "
                "none of the run's files; give the one it is in with --questions FILE"
            )
        return question
