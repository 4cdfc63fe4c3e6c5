"""The model seam: one completion for one conversation so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from collect.rollout_log import NO_LOG, RolloutLog
from collect.store.messages import Message, ToolSchema

if TYPE_CHECKING:
    from collect.benchmarks.base import Instance
    from collect.question_records import Ask


MAX_TOKENS = 10**9
"""Of one completion: far above any context, and far below what sums and rows can hold."""
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Sampling(BaseModel):
    """How to sample. None leaves a setting to the server's default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float | None = None
    """0 takes the most likely token each time."""
    top_p: float | None = None
    """Only the most likely tokens that have this probability together."""
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    """Completion tokens."""
    stop: tuple[str, ...] | None = None
    """Texts that end a completion, themselves left out. Agents that act in their text add the
    words that only the environment may say."""
    seed: int | None = None
    """Base seed; the attempt's number is added, so that attempts differ and can be repeated."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one or more completions."""

    prompt_tokens: Tokens = 0
    completion_tokens: Tokens = 0
    cached_tokens: Tokens = 0
    """Part of `prompt_tokens` that the server took from its cache."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Completion:
    """One reply of a model."""

    message: Message
    """Role assistant, verbatim."""
    usage: Usage
    dollars: Amount
    seconds: Amount
    finish_reason: str
    """The server's word: stop, tool_calls, length ..."""


class Model(Protocol):
    """A model in one conversation."""

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """Reply to the conversation. Blocking; called from the rollout's own thread.

        Raises ModelFailure, InfrastructureFailure, BudgetExhausted, RolloutStopped.
        """


@dataclass(frozen=True)
class ConversationContext:
    """Which conversation a model is opened for. Only the oracle and replay look at it, but for the
    log."""

    instance: Instance
    variant: str
    attempt: int
    role: str
    """main, debug_subagent ..."""
    index: int
    """0 for the rollout's first conversation, counted over all roles."""
    ask: Ask | None = None
    """The runtime question, where the rollout is about one alone: what is asked, not the answer."""
    run_code: bool = False
    """Whether those who debug are offered the tool that runs code."""
    log: RolloutLog = NO_LOG
    """The rollout's."""


class ModelBackend(Protocol):
    """Something that conversations can be held with; shared by all rollouts of a run."""

    @property
    def name(self) -> str:
        """The model's name in the config."""

    def open(self, context: ConversationContext) -> Model:
        """A model for one conversation. Thread-safe."""

    def close(self) -> None: ...
