"""What a run's config says about rollouts."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from collect.agents.config import AgentsConfig, Variant
from collect.benchmarks.config import BenchmarkConfig
from collect.errors import ConfigError
from collect.models.config import ModelConfig, OracleConfig
from sandbox import SandboxConfig


def _oracle() -> dict[str, ModelConfig]:
    return {"oracle": OracleConfig(backend="oracle")}


class RunnerConfig(BaseModel):
    """How many rollouts at once, and what they may cost."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrency: int = Field(default=2, ge=1)
    """Rollouts at once."""
    budget_dollars: float | None = Field(default=None, gt=0)
    """The run stops cleanly once its rollouts have cost this much, earlier starts included."""
    give_up_after: int = Field(default=10, ge=1)
    """The run stops once so many rollouts in a row have failed for the infrastructure's sake."""


class Machinery(BaseModel):
    """What collect and eval share: how rollouts are done, whichever they are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = 0
    sandbox: SandboxConfig = SandboxConfig()
    agents: AgentsConfig = AgentsConfig()
    models: Mapping[str, ModelConfig] = Field(default_factory=_oracle)
    """By the name that `collect` and `eval` call them."""
    runner: RunnerConfig = RunnerConfig()

    def model_config_of(self, name: str) -> ModelConfig:
        """A model by name. Raises ConfigError naming the known ones."""
        if name not in self.models:
            known = ", ".join(sorted(self.models))
            raise ConfigError(f"there is no model {name!r} under `models`; there are: {known}")
        return self.models[name]


class CollectConfig(BaseModel):
    """Which rollouts to collect: every instance, variant and attempt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: BenchmarkConfig = BenchmarkConfig(name="bundled")
    variants: tuple[Variant, ...] = (Variant.DEBUG2FIX_TOOL_LIMIT,)
    main: str = "oracle"
    """The main agent's model."""
    sub: str = "oracle"
    """The Debug Subagent's model."""
    attempts: int = Field(default=1, ge=1)
    """Rollouts of each instance and variant, each with a seed of its own."""
