"""What a run may cost, looked at before it starts."""

from __future__ import annotations

from collections.abc import Iterable

from collect.config import RunnerConfig
from collect.errors import ConfigError
from collect.models.config import EndpointConfig, ModelConfig
from collect.quantities import dollars


def check_dollars(runner: RunnerConfig, models: Iterable[ModelConfig], spent: float) -> str:
    """What is spent, and the limits. Raises ConfigError for one that nothing counts against."""
    limits = {
        name: getattr(runner, name)
        for name in ("budget_dollars", "ask_above_dollars")
        if getattr(runner, name) is not None
    }
    endpoints = [model for model in models if isinstance(model, EndpointConfig)]
    if endpoints and all(model.prices.free for model in endpoints):
        for name in limits:
            raise ConfigError(
                f"runner.{name} is set, but no model has prices, so it would never be reached: "
                f"set models.NAME.prices, or runner.{name}=null"
            )
    told = ", ".join(f"{name} is {limit:g}" for name, limit in limits.items())
    return f"{dollars(spent)} spent; {told or 'no limit is set'}"
