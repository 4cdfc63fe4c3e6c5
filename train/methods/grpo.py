"""Group relative policy optimisation: makes the better of several attempts at a question likelier,
as measured in real debug sessions."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from collect.agents.debug2fix import instructions_of, subagent_schemas
from collect.benchmarks.base import Instance
from collect.benchmarks.opening import open_benchmark
from collect.control_tokens import ControlTokens
from collect.errors import ConfigError
from collect.question_records import Question
from collect.questions.answering import instances_of, read_trainable
from collect.questions.asking import (
    Episode,
    EpisodeSettings,
    opening_messages,
    reproducible,
)
from collect.questions.building import DEFAULT_NAME
from collect.questions.scoring import Reward, reward_of
from collect.rollouts.faults import CircuitBreaker
from collect.rollouts.rollout import failure_of
from collect.store.messages import ToolSchema
from sandbox import clean_up
from sandbox.environment import install_command
from sandbox.errors import SandboxError
from train.adapters import lora_config
from train.base_model import Tokenization, context_length, set_serving_template
from train.config import RewardSettings, TrainConfig
from train.job import Job, QuestionBench, process_count
from train.preflight import Preflight, load_rows, write_encoded
from train.trainer import quiet, shared_options

# Real debug sessions as TRL's GRPOTrainer drives them, one environment per episode.
#
# TRL finds an environment's tools by the public functions of its class, then uses the instance's
# attributes of the same names. Those are the Debug Subagent's own tools, both schema and callable,
# so names, arguments and descriptions are the same as in collected rollouts.


DEAD = "Error: the sandbox has failed."
RETRIES = 2
"""How often opening a sandbox is retried before its episode is left out."""


class ToolMethod(dict[str, Any]):
    """A tool that is a schema (for chat templates) and can be called (for TRL)."""

    def __init__(self, schema: ToolSchema, call: Callable[..., str]) -> None:
        super().__init__(schema)
        self.__name__ = str(schema["function"]["name"])
        self._call = call

    def __call__(self, **arguments: Any) -> str:
        return self._call(self.__name__, arguments)


class Episodes:
    """All environments of a training, and how many episodes in a row have failed."""

    def __init__(
        self,
        settings: EpisodeSettings,
        instances: Mapping[str, Instance],
        *,
        control_tokens: ControlTokens,
        give_up_after: int,
        failures: Path,
    ) -> None:
        """`instances` are by id. After `give_up_after` failed episodes in a row training ends. The
        reason of each failure is appended to `failures`, one line each."""
        self.control_tokens = control_tokens
        self._settings, self._instances, self._failures = settings, instances, failures
        self._in_a_row = CircuitBreaker(give_up_after, "episode")
        self._environments: list[DebugEnvironment] = []

    def factory(self, language: str) -> Callable[[], DebugEnvironment]:
        schemas = subagent_schemas(language, self._settings.agents)
        kind = environment_class(language, schemas)

        def make() -> DebugEnvironment:
            environment = kind(self, schemas)
            self._environments.append(environment)
            return environment

        return make

    def open(self, question: Question) -> Episode:
        """Open an episode for a question. Raises SandboxError if no sandbox opens."""
        instance = self._instances[question.instance_id]
        for _ in range(RETRIES):
            with suppress(SandboxError):
                return Episode(self._settings, instance, question)
        return Episode(self._settings, instance, question)

    def note(self, failure: str | None) -> None:
        """Count an ended episode. Raises SandboxError after too many failures in a row."""
        if failure:
            with self._failures.open("a", encoding="utf-8") as file:
                file.write(json.dumps(failure) + "\n")
        if self._in_a_row.count(failure):
            raise SandboxError(
                f"{self._in_a_row.gave_up}; fix that, and start again: training goes on from its "
                "newest checkpoint"
            )

    def close(self) -> None:
        for environment in self._environments:
            environment._close()


class DebugEnvironment:
    """Runs one episode after the other, each in its own sandbox.

    If the sandbox fails, the episode has a `failure` and counts as no evidence about the model.
    """

    def __init__(self, episodes: Episodes, schemas: list[ToolSchema]) -> None:
        self._episodes, self.schemas = episodes, schemas
        self.episode: Episode | None = None
        self.failure: str | None = None
        self.score: Reward | None = None
        self._ended = True
        for schema in schemas:
            setattr(self, schema["function"]["name"], ToolMethod(schema, self._call))

    def reset(self, *, question: str, **row: Any) -> str | None:
        """Begin the episode of a row; `question` is a question's record as JSON.

        TRL adds the returned start of the session to the prompt.
        """
        self._close()
        self.episode, self.failure, self.score, self._ended = None, None, None, False
        try:
            self.episode = self._episodes.open(Question.model_validate_json(question))
        except ConfigError:
            raise
        except Exception as error:
            self._fail(error)
            return None
        return self.episode.opening or None

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool. If the sandbox fails, this ends the episode, not the training."""
        if self.episode is None or self.failure is not None:
            return DEAD
        try:
            given = json.dumps(arguments, ensure_ascii=False)
            return self.episode.call(name, self._unmarked(given))
        except Exception as error:
            self._fail(error)
            return DEAD

    def _fail(self, error: Exception) -> None:
        failure = failure_of(error)
        self.failure = f"{failure.type}: {failure.message}"

    # Not public, since TRL would offer them to the model.
    def _unmarked(self, text: str) -> str:
        """A text of the model without the marks in control tokens."""
        return self._episodes.control_tokens.unmarked(text)

    def _end(self) -> None:
        """Close the sandbox and count the episode, once. Raises SandboxError if too many episodes
        in a row have failed."""
        if not self._ended:
            self._ended = True
            self._close()
            self._episodes.note(self.failure)

    def _close(self) -> None:
        if self.episode is not None:
            # Leftovers are removed at the next start.
            with suppress(SandboxError):
                self.episode.close()


def environment_class(language: str, schemas: list[ToolSchema]) -> type[DebugEnvironment]:
    """An environment class with a public function for each tool, which is how TRL finds them."""
    functions = {schema["function"]["name"]: _method(schema["function"]) for schema in schemas}
    return type(f"{language.title()}DebugEnvironment", (DebugEnvironment,), functions)


def _method(function: Mapping[str, Any]) -> Callable[..., str]:
    """A method that calls the tool, with the docstring that TRL requires."""
    name, properties = function["name"], function["parameters"].get("properties", {})

    def method(self: DebugEnvironment, **arguments: Any) -> str:
        return self._call(name, arguments)

    told = "\n".join(
        f"    {each}: {about.get('description', '')}" for each, about in properties.items()
    )
    method.__name__ = name
    method.__doc__ = f"{function.get('description', name)}\n\nArgs:\n{told}\n"
    return method


# An episode's reward: the scorer's verdict on the final answer, plus a little shaping.
#
# Each part is a separate TRL reward function, logged and weighted by itself. If the sandbox failed,
# all parts are None: TRL then leaves the episode out of its group's mean, and its advantage is
# zero.


Message = Mapping[str, Any]
RewardFunction = Callable[..., list[float | None]]


PARTS = tuple(Reward.__dataclass_fields__)


def scored(
    environment: DebugEnvironment, completion: Sequence[Message], settings: RewardSettings
) -> Reward | None:
    """End the episode and score it, once; None if its sandbox failed. `completion` is the
    conversation after its prompt."""
    episode = environment.episode
    if environment.failure is None and episode is not None and environment.score is None:
        last = completion[-1] if completion else {}
        answered = last.get("role") == "assistant"
        text = str(last.get("content") or "") if answered else ""
        calls = sum(len(message.get("tool_calls") or ()) for message in completion)
        # TRL could not match the lost ones to a tool.
        lost, held = max(calls - episode.calls, 0), episode.answered(environment._unmarked(text))
        environment.score = reward_of(episode.question, held, settings.require_session, lost)
    environment._end()
    return environment.score


def reward_function(part: str, settings: RewardSettings) -> RewardFunction:
    """The reward function for one part of a score."""

    def reward(
        completions: Sequence[Sequence[Message]],
        environments: Sequence[DebugEnvironment],
        log_metric: Callable[[str, float], None] | None = None,
        **others: Any,
    ) -> list[float | None]:
        pairs = zip(environments, completions, strict=True)
        scores = [scored(environment, completion, settings) for environment, completion in pairs]
        if part == PARTS[0] and log_metric is not None:
            log_metric("episodes/failed", sum(each is None for each in scores) / len(scores))
        return [None if each is None else getattr(each, part) for each in scores]

    reward.__name__ = part
    return reward


MESSAGES = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
SCHEMA = pa.schema({"prompt": MESSAGES, "environment": pa.string(), "question": pa.string()})
"""Questions as the rows that TRL's GRPOTrainer reads. `environment` is the bug's language, by which
TRL chooses the tools; `question` is passed to the environment's `reset`."""


@dataclass(frozen=True)
class RewardOptimization:
    """Trains on a file of questions."""

    config: TrainConfig
    bench: QuestionBench

    @property
    def other_facts(self) -> Any:
        return self.bench.facts

    def check(self) -> None:
        """Raise ConfigError if a question's attempts would be divided among steps."""
        config = self.config
        batch = config.batch_size * config.gradient_accumulation * process_count()
        group = config.grpo.generations
        if batch % group and "generation_batch_size" not in config.trainer_arguments:
            raise ConfigError(
                f"train.batch_size times train.gradient_accumulation times processes is {batch}, "
                f"which train.grpo.generations = {group} does not divide: all attempts at a "
                "question must fall into one step"
            )

    def data(self, run: Path) -> Path:
        path = Path(self.config.grpo.questions or run / DEFAULT_NAME)
        if not path.is_file():
            raise ConfigError(
                f"train.grpo.questions: there is no file {path}; make one with `stepinto bench "
                "questions`"
            )
        return path

    def prepare(self, job: Job, tokenization: Tokenization) -> Preflight:
        """Render the prompts, with the current `agents` section. Raises ConfigError, also if a
        question's bug is not in the benchmark."""
        if self.config.trainer_arguments.get("use_vllm") and find_spec("vllm") is None:
            raise ConfigError(
                "train.trainer_arguments.use_vllm needs vLLM, which is not installed; "
                f"{install_command('grpo')}, in an environment of its own, or set it to false"
            )
        questions, agents = read_trainable(job.data, self.bench.held_out), self.bench.runtime.agents
        instances_of(self._benchmark(), questions)
        tokenizer, rows, lengths = _served_tokenizer(tokenization), [], []
        languages = {question.language for question in questions}
        tools = {language: subagent_schemas(language, agents) for language in languages}
        for question in questions:
            messages = opening_messages(question, agents)
            prompt = [{"role": each.role, "content": each.content} for each in messages]
            rendered = tokenizer.apply_chat_template(
                prompt,
                tools=tools[question.language],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
            )
            lengths.append(len(rendered["input_ids"]))
            facts = {"environment": question.language, "question": question.model_dump_json()}
            rows.append({"prompt": prompt} | facts)
        longest, episode = max(lengths), self.config.grpo.max_completion_length
        context = context_length(tokenization.base)
        if context is not None and longest + episode > context:
            raise ConfigError(
                f"train.grpo.max_completion_length = {episode} and the longest prompt, of "
                f"{longest} tokens, are more than the base model's context of {context}; lower it "
                f"to {context - longest} at most, or take another model"
            )
        write_encoded(iter(rows), job.rows, SCHEMA)
        by_language = instructions_of(agents)
        return Preflight(
            rows=len(rows),
            tokens=sum(lengths),
            longest=longest,
            repositories=sorted({question.repository for question in questions}),
            instructions=sorted(by_language[language] for language in languages),
        )

    @contextmanager
    def trainer(self, job: Job, model: Any, tokenization: Tokenization) -> Iterator[Any]:
        from trl import GRPOConfig

        from train.trl_trainers import RewardTrainer

        config, grpo = self.config, self.config.grpo
        clean_up(self.bench.runtime.sandbox)
        questions = read_trainable(job.data, self.bench.held_out)
        languages = sorted({str(question.language) for question in questions})
        runtime, benchmark = reproducible(self.bench.runtime), self._benchmark()
        episodes = Episodes(
            EpisodeSettings(benchmark, runtime.sandbox, runtime.agents),
            instances_of(benchmark, questions),
            control_tokens=tokenization.control_tokens,
            give_up_after=runtime.runner.give_up_after,
            failures=job.work / "failed-episodes.jsonl",
        )
        arguments = GRPOConfig(
            num_generations=grpo.generations,
            max_completion_length=grpo.max_completion_length,
            temperature=grpo.temperature,
            beta=grpo.beta,
            reward_weights=[float(getattr(grpo.rewards, part)) for part in PARTS],
            max_tool_calling_iterations=self.bench.runtime.agents.sub_max_steps,
            **shared_options(config, job.checkpoints),
        )
        try:
            with warnings.catch_warnings():
                # TRL warns that environments are experimental; our tests cover this TRL version.
                warnings.simplefilter("ignore", UserWarning)
                yield quiet(
                    RewardTrainer(
                        model=model,
                        reward_funcs=[reward_function(part, grpo.rewards) for part in PARTS],
                        args=arguments,
                        train_dataset=load_rows(job.rows),
                        processing_class=_served_tokenizer(tokenization),
                        peft_config=lora_config(config, model),
                        environment_factory={name: episodes.factory(name) for name in languages},
                    )
                )
        finally:
            episodes.close()

    def _benchmark(self) -> Any:
        return open_benchmark(self.bench.benchmark, self.bench.runtime.sandbox)


def _served_tokenizer(tokenization: Tokenization) -> Any:
    """A tokenizer that renders episodes as the served model sees them.

    Raises ConfigError if no parser of its replies is known.
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
