"""What a config says about the model that sorts questions, and failures beside the rules."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class JudgeConfig(BaseModel):
    """The `eval.judge` section."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1)
    """Its name in `models`: an endpoint or a local model."""
    limit: int = Field(default=200, ge=1)
    """At most so many questions, and at most so many failed rollouts, drawn at random."""
    seed: int = 0
    """Seed of the random draw."""
