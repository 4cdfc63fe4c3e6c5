"""Config of a run's rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from collect.agents.config import AgentsConfig
from collect.agents.systems import Variant
from collect.benchmarks.config import BenchmarkConfig
from collect.errors import ConfigError, did_you_mean
from collect.models.config import ModelConfig, OracleConfig, RelayConfig
from collect.store.files import StrictRecord
from sandbox import SandboxConfig
from sandbox.images import ImagesConfig


class WandbSettings(StrictRecord):
    """Log metrics to wandb."""

    mode: Literal["offline", "online"] = "offline"
    """Offline writes below the run folder, for `wandb sync`."""
    project: str = "stepinto"
    """The wandb project."""
    name: str | None = None
    """The run's name in wandb. None: the run's own name."""


SAVED_NAME = "config.yaml"
"""The config's file name in its run folder."""
ROUND = "round-"
"""Prefix of the folders of a run's rounds; each is a run of its own."""
MOST_AT_ONCE = 10_000


class RayConfig(StrictRecord):
    """Run rollouts on the nodes of a Ray cluster."""

    address: str | None = None
    """`auto` for the cluster that this machine belongs to, or `HOST:PORT` of its head. None: a
    cluster on this machine only, for the duration of the run.
    """
    per_node: int = Field(default=4, ge=1, le=MOST_AT_ONCE)
    """Concurrent rollouts per node."""
    tries: int = Field(default=3, ge=1)
    """A rollout fails after this many tries on nodes that were lost or faulty."""
    node_timeout: float = Field(default=300, gt=0)
    """Seconds that a rollout waits while no node is available."""


class RunnerConfig(StrictRecord):
    """Where rollouts run, how many at once, and what they may cost."""

    backend: Literal["threads", "ray"] = "threads"
    """`threads`: in this process. `ray`: on the nodes of a cluster (needs the extra `ray`)."""
    ray: RayConfig = RayConfig()
    concurrency: int = Field(default=2, ge=1, le=MOST_AT_ONCE)
    """Rollouts at once, of all nodes together."""
    budget_dollars: float | None = Field(default=None, gt=0)
    """The run stops cleanly once it has cost this much: its rollouts and its judge, over all stages
    and earlier starts. `stepinto bench self-repair` counts only its own dollars.
    """
    estimate_after: int = Field(default=10, ge=1)
    """Rollouts after which a run's dollars, tokens and hours are estimated (at least two of each
    variant); repeated whenever their number has doubled."""
    min_free_disk_gb: float = Field(default=1.0, ge=0)
    """Gigabytes (10^9 bytes) that must be free on the disks of the run and the sandboxes, in
    addition to the rollouts' estimated size; 0 starts on any disk.
    """
    again: int = Field(default=1, ge=0, le=100)
    """How often rollouts with infrastructure failures are repeated at the end of a start."""
    give_up_after: int = Field(default=10, ge=1)
    """The run stops after this many infrastructure failures in a row."""
    wandb: WandbSettings | None = None
    """Log metrics to wandb during the run."""
    track_every: float = Field(default=30, gt=0)
    """Seconds between two updates of the metrics."""


class RuntimeConfig(StrictRecord):
    """Settings that collect and eval share."""

    seed: int = 0
    """Recorded in rows, plus the attempt's number. Models sample by their own `sampling.seed`."""
    sandbox: SandboxConfig = SandboxConfig()
    images: ImagesConfig = ImagesConfig()
    """How `stepinto bench pull` and cluster nodes fetch the images of bugs."""
    agents: AgentsConfig = AgentsConfig()
    models: Mapping[str, ModelConfig] = {"oracle": OracleConfig(backend="oracle")}
    """Models by the name that `collect` and `eval` use."""
    runner: RunnerConfig = RunnerConfig()

    @model_validator(mode="after")
    def _relays_of_models(self) -> Self:
        for name, relay in self.models.items():
            for player in (relay.student, relay.teacher) if isinstance(relay, RelayConfig) else ():
                if isinstance(self.models.get(player), RelayConfig | None):
                    raise ValueError(
                        f"models.{name}: a relay is of two other models, and {player!r} is none; "
                        f"there are: {', '.join(sorted(self.models))}"
                    )
        return self

    def model_config_of(self, name: str) -> ModelConfig:
        """A model by name. Raises ConfigError listing the known ones."""
        if name not in self.models:
            known, near = ", ".join(sorted(self.models)), did_you_mean(name, self.models)
            if name == "oracle":
                near = "; add models.oracle={backend: oracle}"
            raise ConfigError(
                f"there is no model {name!r} under `models`; there are: {known}{near}"
            )
        return self.models[name]


class CollectConfig(StrictRecord):
    """Which rollouts to collect: every instance, variant and attempt."""

    benchmark: BenchmarkConfig = BenchmarkConfig(name="bundled")
    variants: tuple[Variant, ...] = Field(default=("debug2fix_tool_limit",), min_length=1)
    """The agents, ablations or baselines to roll out."""
    main: str = "oracle"
    """The main agent's model."""
    sub: str = "oracle"
    """The Debug Subagent's model."""
    attempts: int = Field(default=1, ge=1, le=10_000)
    """Rollouts per instance and variant, each with its own seed."""
