"""What a config says about wandb and trackio."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


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
