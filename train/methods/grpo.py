"""Group relative policy optimisation: of several attempts at a question, those that come to a
better answer in a real debug session are made likelier."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect.benchmarks.opening import open_benchmark
from collect.errors import ConfigError
from collect.questions.answering import instances_of
from collect.questions.episode import EpisodeSettings
from collect.questions.records import Question
from collect.questions.workspace import reproducible
from format.dataset import split_file
from sandbox import clean_up
from train.base_model import context_length
from train.config import TrainConfig
from train.environments import Episodes
from train.job import Job
from train.launched_processes import process_count
from train.preflight.report import Preflight
from train.question_bench import QuestionBench
from train.question_rows import chosen_questions, prompt_lengths, write_question_rows
from train.rewards import reward_functions, reward_weights
from train.rows import load_rows
from train.templates import set_serving_template
from train.tokenization import Tokenization
from train.trainer import NAMED, check_trainer_arguments, lora_config, quiet, shared_options

OPTIONS = {name: setting for name, setting in NAMED.items() if name != "max_length"} | {
    "num_generations": "grpo.generations",
    "max_completion_length": "grpo.max_completion_length",
    "temperature": "grpo.temperature",
    "beta": "grpo.beta",
    "reward_weights": "grpo.rewards",
}
FIXED = ("output_dir", "save_strategy", "remove_unused_columns", "max_tool_calling_iterations")
"""Options that the stage needs as they are; the last is `agents.sub_max_steps`."""


@dataclass(frozen=True)
class RewardOptimization:
    """On the train split of `RUN/sft/prompts`, or on a file of questions."""

    config: TrainConfig
    bench: QuestionBench

    @property
    def other_facts(self) -> Any:
        return self.bench.facts

    def check(self) -> None:
        config = self.config
        check_trainer_arguments(config.trainer_arguments, "GRPOConfig", OPTIONS, FIXED)
        batch = config.batch_size * config.gradient_accumulation * process_count()
        group = config.grpo.generations
        if batch % group and "generation_batch_size" not in config.trainer_arguments:
            raise ConfigError(
                f"train.batch_size times train.gradient_accumulation times processes is {batch}, "
                f"which train.grpo.generations = {group} does not divide: all attempts at a "
                "question must fall into one step"
            )

    def data(self, run: Path) -> Path:
        if self.config.grpo.questions is None:
            return split_file(run / "sft" / "prompts", "train", "format.prompts: {}")
        path = Path(self.config.grpo.questions)
        if not path.is_file():
            raise ConfigError(f"train.grpo.questions: there is no file {path}")
        return path

    def repositories(self, data: Path) -> set[str]:
        return {question.repository for question in chosen_questions(data, self.bench.held_out)}

    def prepare(self, job: Job, tokenization: Tokenization) -> Preflight:
        """Raises ConfigError, also where a question is about a bug that is none of the
        benchmark's."""
        questions = chosen_questions(job.data, self.bench.held_out)
        instances_of(self._benchmark(), questions)
        agents = self.bench.machinery.agents
        lengths = prompt_lengths(questions, agents, _served_tokenizer(tokenization))
        self._check_lengths(max(lengths), context_length(tokenization.base))
        write_question_rows(questions, agents, job.rows)
        return Preflight(
            max_length=max(lengths) + self.config.grpo.max_completion_length,
            rows=len(questions),
            tokens=sum(lengths),
            longest=max(lengths),
        )

    def _check_lengths(self, longest: int, context: int | None) -> None:
        wanted = longest + self.config.grpo.max_completion_length
        if context is not None and wanted > context:
            raise ConfigError(
                f"train.grpo.max_completion_length = {self.config.grpo.max_completion_length} and "
                f"the longest prompt, of {longest} tokens, are more than the base model's context "
                f"of {context}; lower it to {context - longest} at most, or take another model"
            )

    @contextmanager
    def trainer(self, job: Job, model: Any, tokenization: Tokenization) -> Iterator[Any]:
        clean_up(self.bench.machinery.sandbox)
        questions = chosen_questions(job.data, self.bench.held_out)
        episodes = self._episodes(job, questions)
        languages = {str(question.language) for question in questions}
        try:
            with warnings.catch_warnings():
                # That environments are experimental, which tests against this TRL make up for.
                warnings.simplefilter("ignore", UserWarning)
                yield self._trainer(
                    job, model, _served_tokenizer(tokenization), episodes, languages
                )
        finally:
            episodes.close()

    def _trainer(
        self, job: Job, model: Any, tokenizer: Any, episodes: Episodes, languages: set[str]
    ) -> Any:
        from trl import GRPOConfig, GRPOTrainer

        config, grpo = self.config, self.config.grpo
        return quiet(
            GRPOTrainer(
                model=model,
                reward_funcs=reward_functions(grpo.rewards),
                args=GRPOConfig(
                    num_generations=grpo.generations,
                    max_completion_length=grpo.max_completion_length,
                    temperature=grpo.temperature,
                    beta=grpo.beta,
                    reward_weights=reward_weights(grpo.rewards),
                    max_tool_calling_iterations=self.bench.machinery.agents.sub_max_steps,
                    **shared_options(config, job.checkpoints),
                ),
                train_dataset=load_rows(job.rows),
                processing_class=tokenizer,
                peft_config=lora_config(config.lora, model) if config.lora else None,
                environment_factory={name: episodes.factory(name) for name in sorted(languages)},
            )
        )

    def _benchmark(self) -> Any:
        return open_benchmark(self.bench.benchmark, self.bench.machinery.sandbox)

    def _episodes(self, job: Job, questions: Sequence[Question]) -> Episodes:
        machinery, benchmark = reproducible(self.bench.machinery), self._benchmark()
        return Episodes(
            EpisodeSettings(benchmark, machinery.sandbox, machinery.agents),
            instances_of(benchmark, questions),
            retries=self.config.grpo.sandbox_retries,
            give_up_after=machinery.runner.give_up_after,
            failures=job.work / "failed-episodes.jsonl",
        )


def _served_tokenizer(tokenization: Tokenization) -> Any:
    """A tokenizer with which episodes are held as the model is served.

    Raises ConfigError where no parser of its replies is known.
    """
    tokenizer = deepcopy(tokenization.tokenizer)
    set_serving_template(tokenizer, tokenization.templates.serving)
    parsers = (getattr(tokenizer, name, None) for name in ("response_template", "response_schema"))
    if not any(parsers):
        raise ConfigError(
            "TRL has no parser of the replies that the serving template asks for, so no tool call "
            "would be read; set train.serving_template to one of TRL's, as `trl:qwen2_5.jinja`"
        )
    return tokenizer
