"""Real debug sessions as TRL's GRPOTrainer drives them: one environment an episode at a time.

TRL finds an environment's tools among the public functions of its class, and then takes what the
instance has under the same names. There stand the Debug Subagent's own tools: each is its schema,
which chat templates render as it is, and can be called. So no name, argument or description can
differ from what rollouts are collected with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from collect.benchmarks.base import Instance
from collect.errors import ConfigError
from collect.failures_in_a_row import FailuresInARow
from collect.messages import ToolSchema
from collect.questions.episode import Episode, EpisodeSettings, tool_schemas
from collect.questions.records import Question
from collect.rollout import failure_of
from sandbox.errors import SandboxError

DEAD = "Error: the sandbox has failed."


class ToolMethod(dict[str, Any]):
    """A tool as chat templates take it, a schema, and as TRL does, something that is called."""

    def __init__(self, schema: ToolSchema, call: Callable[..., str]) -> None:
        super().__init__(schema)
        self.__name__ = str(schema["function"]["name"])
        self._call = call

    def __call__(self, **arguments: Any) -> str:
        return self._call(self.__name__, arguments)


class Episodes:
    """All environments of a training, and how often one has failed of late."""

    def __init__(
        self,
        settings: EpisodeSettings,
        instances: Mapping[str, Instance],
        *,
        retries: int,
        give_up_after: int,
        failures: Path,
    ) -> None:
        """`instances` are by id. A sandbox that can't be opened is tried again `retries` times;
        after `give_up_after` failed episodes in a row training ends. Why episodes failed is
        written to `failures`, a line each."""
        self._settings, self._instances = settings, instances
        self._retries, self._failures = retries, failures
        self._in_a_row = FailuresInARow(give_up_after, "episode")
        self._environments: list[DebugEnvironment] = []

    def factory(self, language: str) -> Callable[[], DebugEnvironment]:
        """What makes environments for a language's bugs."""
        schemas = tool_schemas(language, self._settings.agents)
        kind = environment_class(language, schemas)

        def make() -> DebugEnvironment:
            environment = kind(self, schemas)
            self._environments.append(environment)
            return environment

        return make

    def open(self, question: Question) -> Episode:
        """An episode for a question. Raises SandboxError where none can be had."""
        instance = self._instances[question.instance_id]
        for _ in range(self._retries):
            with suppress(SandboxError):
                return Episode(self._settings, instance, question)
        return Episode(self._settings, instance, question)

    def note(self, failure: str | None) -> None:
        """Count an ended episode. Raises SandboxError where it is time to give up."""
        if failure:
            with self._failures.open("a", encoding="utf-8") as file:
                file.write(json.dumps(failure) + "\n")
        if self._in_a_row.count(failure):
            raise SandboxError(
                f"{self._in_a_row.gave_up}; fix that, and start again: training goes on from its "
                "newest checkpoint"
            )

    def close(self) -> None:
        """Close whatever is still open."""
        for environment in self._environments:
            environment._close()


class DebugEnvironment:
    """One episode after the other, each in a sandbox of its own.

    Where the sandbox fails, the episode has a `failure`, and says nothing of the model.
    """

    def __init__(self, episodes: Episodes, schemas: list[ToolSchema]) -> None:
        self._episodes, self.schemas = episodes, schemas
        self.episode: Episode | None = None
        self.failure: str | None = None
        self.score: Any = None
        """What the episode is worth, once that was asked for."""
        self._ended = True
        for schema in schemas:
            setattr(self, schema["function"]["name"], ToolMethod(schema, self._call))

    def reset(self, *, question: str, **row: Any) -> None:
        """Begin the episode of a row: `question` is a question's record as JSON."""
        self._close()
        self.episode, self.failure, self.score, self._ended = None, None, None, False
        try:
            self.episode = self._episodes.open(Question.model_validate_json(question))
        except ConfigError:
            raise
        except Exception as error:
            self._fail(error)

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a tool answers; a failure of the sandbox ends the episode, not the training."""
        if self.episode is None or self.failure is not None:
            return DEAD
        try:
            return self.episode.call(name, json.dumps(arguments))
        except Exception as error:
            self._fail(error)
            return DEAD

    def _end(self) -> None:
        """Close the sandbox once the episode is over, and count it, the first time."""
        if self._ended:
            return
        self._ended = True
        self._close()
        self._episodes.note(self.failure)

    def _fail(self, error: Exception) -> None:
        failure = failure_of(error)
        self.failure = f"{failure.type}: {failure.message}"

    def _close(self) -> None:
        if self.episode is not None:
            # What it had to tell is known; the next start removes what may have been left.
            with suppress(SandboxError):
                self.episode.close()


def end_episode(environment: DebugEnvironment) -> None:
    """Close the sandbox of an episode that is over, and count it; safe to call again.

    No method, since TRL would offer that to the model. Raises SandboxError where too many episodes
    in a row have failed.
    """
    environment._end()


def environment_class(language: str, schemas: list[ToolSchema]) -> type[DebugEnvironment]:
    """An environment with a public function for each of the tools, by which TRL finds them."""
    functions = {schema["function"]["name"]: _method(schema["function"]) for schema in schemas}
    return type(f"{language.title()}DebugEnvironment", (DebugEnvironment,), functions)


def _method(function: Mapping[str, Any]) -> Callable[..., str]:
    """A method that calls the tool, with the docstring that TRL asks for."""
    name, properties = function["name"], function["parameters"].get("properties", {})

    def method(self: DebugEnvironment, **arguments: Any) -> str:
        return self._call(name, arguments)

    told = "\n".join(
        f"    {each}: {about.get('description', '')}" for each, about in properties.items()
    )
    method.__name__ = name
    method.__doc__ = f"{function['description']}\n\nArgs:\n{told}\n"
    return method
