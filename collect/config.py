"""What a run's config says about rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collect.agents.config import AgentsConfig, Variant
from collect.benchmarks.config import BenchmarkConfig
from collect.errors import ConfigError
from collect.field_errors import did_you_mean
from collect.models.config import ModelConfig, OracleConfig
from sandbox import SandboxConfig
from sandbox.images import ImagesConfig

# What a config says about wandb and trackio.


class WandbSettings(BaseModel):
    """Where the curves go."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["offline", "online"] = "offline"
    """Offline writes below the run folder, for `wandb sync`."""
    project: str = "stepinto"
    """Where the run is filed."""
    name: str | None = None
    """What it is called there. None: the run's own name."""


class TrackioSettings(BaseModel):
    """Where the curves go, beside or instead of wandb; below `$TRACKIO_DIR`, for `trackio show`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project: str = "stepinto"
    """Where the run is filed."""
    name: str | None = None
    """What it is called there. None: the run's own name."""
    space: str | None = None
    """`OWNER/NAME` of a Space of the hub to send them to; null stays on this machine."""


def needed(wandb: WandbSettings | None, trackio: TrackioSettings | None) -> tuple[str, ...]:
    """The packages that a config's trackers are."""
    chosen = {"wandb": wandb, "trackio": trackio}
    return tuple(name for name, settings in chosen.items() if settings is not None)


SAVED_NAME = "config.yaml"
"""Of a run's config, in its folder."""

MOST_ATTEMPTS = 10_000
"""Of each bug and variant."""
MOST_AT_ONCE = 10_000
REMOVED = ("copy_to", "copy_every", "copy_behind", "ask_above_dollars")
"""Settings of `runner` that earlier releases had."""


def _oracle() -> dict[str, ModelConfig]:
    return {"oracle": OracleConfig(backend="oracle")}


class RayConfig(BaseModel):
    """How rollouts are done on the nodes of a Ray cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str | None = None
    """`auto` for the cluster that this machine is a node of, or `HOST:PORT` of its head. None: a
    cluster of this machine alone, for as long as the run takes."""
    per_node: int = Field(default=4, ge=1, le=MOST_AT_ONCE)
    """Rollouts at once on a node."""
    tries: int = Field(default=3, ge=1)
    """A rollout has failed after this many tries on nodes that were lost or at fault."""
    node_timeout: float = Field(default=300, gt=0)
    """Seconds that a rollout waits where no node can do any."""


class RunnerConfig(BaseModel):
    """Where rollouts are done, how many at once, and what they may cost."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Literal["asyncio", "ray"] = "asyncio"
    """`asyncio`: in this process. `ray`: on the nodes of a cluster (needs the extra `ray`)."""
    ray: RayConfig = RayConfig()
    concurrency: int = Field(default=2, ge=1, le=MOST_AT_ONCE)
    """Rollouts at once, of all nodes together."""
    budget_dollars: float | None = Field(default=None, gt=0)
    """The run stops cleanly once it has cost this much: its rollouts and its judge, of all stages
    and earlier starts. `stepinto bench self-repair` counts its own dollars alone."""
    estimate_after: int = Field(default=10, ge=1)
    """Rollouts after which a run's dollars, tokens and hours are estimated, or two of each variant
    where that is more; again whenever there are twice as many."""
    min_free_disk_gb: float = Field(default=1.0, ge=0)
    """Gigabytes (10^9 bytes) that must be free on the run's and the sandboxes' disks beside what
    the rollouts are estimated to take; 0 starts on any disk."""
    again: int = Field(default=1, ge=0, le=100)
    """How often rollouts that failed because of the infrastructure are done once more at the end of
    a start."""
    give_up_after: int = Field(default=10, ge=1)
    """The run stops once so many rollouts in a row have failed because of the infrastructure."""
    wandb: WandbSettings | None = None
    """Where numbers of the rollouts go while they are done."""
    trackio: TrackioSettings | None = None
    """The same, beside or instead of wandb."""
    track_every: float = Field(default=30, gt=0)
    """Seconds between two lots of numbers."""
    logs: bool = True
    """Whether each rollout says what happens in it, in `RUN/logs`."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_removed(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if given.get("copy_to") is not None:
            copying = [name for name in REMOVED if name in given and name.startswith("copy_")]
            raise ValueError(
                f"{', '.join(copying)}: removed, take it out. To copy a run while it goes on, use "
                'rclone or `aws s3 sync`, see "Copying a run while it runs" in docs/run-folder.md'
            )
        if given.get("ask_above_dollars") is not None:
            raise ValueError(
                "ask_above_dollars: removed, take it out. To limit what a run spends, set "
                "runner.budget_dollars"
            )
        # Saved configs of earlier releases hold them with their defaults.
        return {name: value for name, value in given.items() if name not in REMOVED}


class RuntimeConfig(BaseModel):
    """What collect and eval share: how rollouts are done, whichever they are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = 0
    """Rows record it, with the attempt's number added. What a model samples by is its own
    `sampling.seed`."""
    sandbox: SandboxConfig = SandboxConfig()
    images: ImagesConfig = ImagesConfig()
    """How `stepinto bench pull` and the nodes of a cluster fetch the images of bugs."""
    agents: AgentsConfig = AgentsConfig()
    models: Mapping[str, ModelConfig] = Field(default_factory=_oracle)
    """By the name that `collect` and `eval` call them."""
    runner: RunnerConfig = RunnerConfig()

    def model_config_of(self, name: str) -> ModelConfig:
        """A model by name. Raises ConfigError naming the known ones."""
        if name not in self.models:
            known = ", ".join(sorted(self.models))
            oracle = "; add models.oracle={backend: oracle}" if name == "oracle" else ""
            near = oracle or did_you_mean(name, self.models)
            told = f"there is no model {name!r} under `models`; there are: {known}{near}"
            raise ConfigError(told)
        return self.models[name]


class CollectConfig(BaseModel):
    """Which rollouts to collect: every instance, variant and attempt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: BenchmarkConfig = BenchmarkConfig(name="bundled")
    variants: tuple[Variant, ...] = Field(default=(Variant.DEBUG2FIX_TOOL_LIMIT,), min_length=1)
    """What rolls out: an agent, one of its ablations or what it is compared with."""
    main: str = "oracle"
    """The main agent's model."""
    sub: str = "oracle"
    """The Debug Subagent's model."""
    attempts: int = Field(default=1, ge=1, le=MOST_ATTEMPTS)
    """Rollouts of each instance and variant, each with a seed of its own."""
