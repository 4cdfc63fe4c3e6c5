"""What can end a rollout early, by who is to blame. Every one becomes a row, never a crash.

RolloutError
├── ModelFailure            the model's doing: no valid reply, a workspace that can't be read
│   ├── ContextTooLong
│   └── ContentRefused
├── InfrastructureFailure   the test harness did not work
│   ├── EndpointFailure     a model's server refused for good: key, address, quota, bad request
│   │   ├── EndpointDown
│   │   ├── RateLimited
│   │   └── InvalidReply
│   ├── LocalModelFailed
│   ├── OutOfDisk
│   ├── RowRefused          what it came to can't be stored
│   └── NodeLost            the nodes of a cluster that did it are gone
├── BudgetExhausted         the run's dollars are spent
└── RolloutStopped          the user stopped the run; leaves no row

`sandbox.errors` has those of sandboxes. ConfigError is not of a rollout: bad input found before
work starts. What follows from each is in `collect.faults`.
"""

from enum import StrEnum


class FailureKind(StrEnum):
    """Who is to blame for a rollout without a verdict."""

    MODEL = "model"
    INFRASTRUCTURE = "infrastructure"
    BUDGET = "budget"


TRIED_AGAIN = (FailureKind.INFRASTRUCTURE, FailureKind.BUDGET)
"""Failures that say nothing about a model; the next start does such rollouts again."""


class RolloutError(Exception):
    """Base of what ends a rollout early."""

    kind = FailureKind.INFRASTRUCTURE


class ModelFailure(RolloutError):
    """The model can't go on: the context is too long, or its server refuses the content."""

    kind = FailureKind.MODEL


class ContextTooLong(ModelFailure):
    """The conversation is longer than the model, or its server, can read."""


class ContentRefused(ModelFailure):
    """The server does not want this content, or withheld the reply."""


class InfrastructureFailure(RolloutError):
    """Something around the model failed; the rollout says nothing about the model."""

    kind = FailureKind.INFRASTRUCTURE


class EndpointFailure(InfrastructureFailure):
    """A model's server refused a request for good."""


class EndpointDown(EndpointFailure):
    """It did not answer, or with a failure of its own, as often as it was asked."""


class RateLimited(EndpointFailure):
    """It answered that there were too many requests, as often as it was asked."""


class InvalidReply(EndpointFailure):
    """What it answered is no chat completion, or holds calls that can't be read."""


class LocalModelFailed(InfrastructureFailure):
    """A model of this process could not read the conversation, or broke down."""


class OutOfDisk(InfrastructureFailure):
    """The disk of the machine that did the rollout is full."""


class RowRefused(InfrastructureFailure):
    """What a rollout came to holds a value that its table can't."""


class NodeLost(InfrastructureFailure):
    """The machine or the process that did the rollout is gone, with several of them in a row."""


class BudgetExhausted(RolloutError):
    """The dollar budget of the run is spent."""

    kind = FailureKind.BUDGET


class RolloutStopped(Exception):
    """The run is being stopped; the rollout leaves no row and is done again by the next start."""


class ConfigError(Exception):
    """The input is wrong. The message says what, where, and what to do."""
