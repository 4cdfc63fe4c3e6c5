"""What can end a rollout early, by who is to blame. Every one becomes a row, never a crash.

RolloutError
├── ModelFailure            the model's doing: context exceeded, content refused, no valid reply
├── InfrastructureFailure   an endpoint, sandbox or test harness that did not work; tried again
├── BudgetExhausted         the run's dollars are spent
└── RolloutStopped          the user stopped the run; leaves no row

ConfigError is not of a rollout: bad input found before work starts.
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


class InfrastructureFailure(RolloutError):
    """Something around the model failed; the rollout says nothing about the model."""

    kind = FailureKind.INFRASTRUCTURE


class BudgetExhausted(RolloutError):
    """The dollar budget of the run is spent."""

    kind = FailureKind.BUDGET


class RolloutStopped(Exception):
    """The run is being stopped; the rollout leaves no row and is done again by the next start."""


class ConfigError(Exception):
    """The input is wrong. The message says what, where, and what to do."""
