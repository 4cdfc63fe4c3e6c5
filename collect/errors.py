"""Errors that end a rollout early, by cause. Each becomes a row, never a crash.

`sandbox.errors` has the sandbox errors. ConfigError is bad input that is found before work starts.
`collect.rollouts.faults` decides what happens after each error.
"""

from enum import StrEnum


class FailureKind(StrEnum):
    """The cause of a rollout without a verdict."""

    MODEL = "model"
    INFRASTRUCTURE = "infrastructure"
    BUDGET = "budget"


TRIED_AGAIN = (FailureKind.INFRASTRUCTURE, FailureKind.BUDGET)
"""Failures that say nothing about a model; the next start repeats such rollouts."""


class RolloutError(Exception):
    """Base of errors that end a rollout early. docs/failures.md lists them."""

    kind = FailureKind.INFRASTRUCTURE


class ModelFailure(RolloutError):
    """The model can't continue: the context is too long, or its server rejects the content."""

    kind = FailureKind.MODEL


class ContextTooLong(ModelFailure):
    """The conversation is longer than the model or its server accepts."""


class ContentRefused(ModelFailure):
    """The server rejects this content, or withheld the reply."""


class InfrastructureFailure(RolloutError):
    """Something around the model failed; the rollout says nothing about the model."""


class EndpointFailure(InfrastructureFailure):
    """A model's server refused a request for good."""


class EndpointDown(EndpointFailure):
    """The server did not answer, or with a 5xx, on every try."""


class RateLimited(EndpointFailure):
    """The server answered that there were too many requests, on every try."""


class InvalidReply(EndpointFailure):
    """The answer is no chat completion, or contains unreadable calls."""


class LocalModelFailed(InfrastructureFailure):
    """A model in this process could not read the conversation, or crashed."""


class OutOfDisk(InfrastructureFailure):
    """The disk of the rollout's machine is full."""


class RowRefused(InfrastructureFailure):
    """The rollout's result contains a value that its table can't store."""


class NodeLost(InfrastructureFailure):
    """The machine or process of the rollout disappeared, several times in a row."""


class BudgetExhausted(RolloutError):
    """The dollar budget of the run is spent."""

    kind = FailureKind.BUDGET


class RolloutStopped(Exception):
    """The run is being stopped; the rollout leaves no row, and the next start repeats it."""


class ConfigError(Exception):
    """The input is wrong. The message says what, where, and what to do."""
