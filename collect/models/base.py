"""Interfaces of models: one completion for a conversation so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass
from operator import add
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from pydantic import Field

from collect.console import NO_LOG, RolloutLog
from collect.store.files import StrictRecord
from collect.store.messages import Message, ReplyTokens, ToolSchema

if TYPE_CHECKING:
    from collect.benchmarks.base import Instance
    from collect.comparison import Comparison
    from collect.question_records import Ask
    from collect.store.records import Conversation
    from sandbox.debugger import Debugger


MAX_TOKENS = 10**9
"""Limit for one completion: far above any context, and far below overflow in sums and rows."""
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Sampling(StrictRecord):
    """Sampling settings. None leaves a setting to the server's default."""

    temperature: float | None = None
    """0 always takes the most likely token."""
    top_p: float | None = None
    """Only the most likely tokens whose total probability is this."""
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    """Maximum tokens per completion."""
    stop: tuple[str, ...] | None = None
    """Texts that end a completion; they are not part of it. Agents that act in text add the words
    that only the environment may write.
    """
    tool_choice: Literal["none"] | None = None
    """`none` forbids tool calls. Agents set it for an answer that they force."""
    seed: int | None = None
    """Base seed; the attempt's number is added, so that attempts differ but are reproducible."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one or more completions."""

    prompt_tokens: Tokens = 0
    completion_tokens: Tokens = 0
    cached_tokens: Tokens = 0
    """Part of `prompt_tokens` that the server took from its cache."""
    cache_write_tokens: Tokens = 0
    """Part of `prompt_tokens` that the server wrote to its cache, if it charges for that."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))

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
    """The server's reason, in OpenAI's words: stop, tool_calls, length ..."""
    served_model: str | None = None
    """The server's own name for the model that replied."""
    text_calls: int = 0
    """How many of the calls were read from the text."""
    player: str | None = None
    """The model that replied, by its name in the config, if several play one role (relay)."""
    replaced_tokens: int = 0
    """Part of `usage.prompt_tokens` that another reply took, which this one replaces (relay)."""
    tokens: ReplyTokens | None = None
    """With the whole prompt, if `models.NAME.logprobs` asks for it."""


def scripted_completion(message: Message) -> Completion:
    """A completion without cost."""
    finish_reason = "tool_calls" if message.tool_calls else "stop"
    return Completion(message, Usage(), 0.0, 0.0, finish_reason)


class Model(Protocol):
    """A model in one conversation."""

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """Reply to the conversation. Blocks the rollout's own thread.

        Raises ModelFailure, InfrastructureFailure, BudgetExhausted, RolloutStopped.
        """


FreshDebugger = Callable[[], AbstractContextManager["Debugger"]]


@dataclass(frozen=True)
class ConversationContext:
    """Identifies the conversation that a model is opened for. Except the log, only the oracle,
    relay and replay use it.
    """

    instance: Instance
    variant: str
    attempt: int
    role: str
    """main, debug_subagent ..."""
    index: int
    """0 for the rollout's first conversation; all roles count."""
    ask: Ask | None = None
    """The runtime question, if the rollout is about one: without its answer."""
    run_code: bool = False
    """Whether debugging agents get the tool that runs code."""
    log: RolloutLog = NO_LOG
    fresh_debugger: FreshDebugger | None = None
    """Opens a debugger, not started yet, in a sandbox of its own, with the bug as it was given."""
    compare: Callable[[str], Comparison | None] | None = None
    """Compares the runs of a test without and with the gold patch."""
    so_far: Callable[[], Conversation] | None = None
    """The conversation's record up to now."""
    is_right: Callable[[str], bool] | None = None
    """Whether a last message answers the runtime question, if the rollout is about one."""


class ModelBackend(Protocol):
    """Opens conversations with a model; shared by all rollouts of a run."""

    @property
    def name(self) -> str:
        """The model's name in the config."""

    def open(self, context: ConversationContext) -> Model:
        """A model for one conversation. Thread-safe."""

    def close(self) -> None: ...
