"""Settings of paired statistics."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from collect.agents.config import Variant


class ArmName(BaseModel):
    """One arm of an evaluation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    variant: Variant
    """The agent, or the baseline."""
    main: str = Field(min_length=1)
    """The main agent's model."""
    sub: str | None = None
    """None: the variant has no subagent."""

    def __str__(self) -> str:
        """As in a config: `{"variant":"baseline","main":"frontier"}`."""
        return self.model_dump_json(exclude_none=True)


class ComparisonConfig(BaseModel):
    """Two arms: how much better the first is than the second."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: ArmName
    second: ArmName


class StatisticsConfig(BaseModel):
    """Which arms to compare, and the required confidence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence level of every interval; 1 - confidence is the level of every test, 5 % by
    default."""
    resamples: int = Field(default=10_000, ge=1000)
    """Number of resamples for every bootstrap, and for a permutation test that can't try all
    permutations."""
    seed: int = 0
    """Seed of the resampling, which makes results reproducible."""
    margin: float = Field(default=5.0, gt=0, le=100)
    """How many percentage points worse the first arm may be and still be non-inferior. Choose it
    before you see the numbers."""
    difference: float = Field(default=5.0, gt=0, le=100)
    """The difference, in percentage points, that an evaluation is planned to detect."""
    power: float = Field(default=0.8, gt=0, lt=1)
    """The probability to detect that difference."""
    baseline: str | None = None
    """Sub model that counts as no gain, such as the untuned one. None: `eval.baseline`, a variant
    without a subagent, with the same main model."""
    frontier: str | None = None
    """Sub model that the others should replace. None: the main model itself."""
    comparisons: tuple[ComparisonConfig, ...] = ()
    """Comparisons to make. Empty: every arm against its baseline, and every other sub model against
    the frontier."""

    @property
    def level(self) -> float:
        """The probability that a test finds a difference although there is none."""
        return 1 - self.confidence
