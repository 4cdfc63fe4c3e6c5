"""What a config says about paired statistics."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from collect.agents.config import Variant


class ArmName(BaseModel):
    """One arm of an evaluation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    variant: Variant
    """The agent, or what it is compared with."""
    main: str = Field(min_length=1)
    """The main agent's model."""
    sub: str | None = None
    """None: the variant has no subagent."""

    def __str__(self) -> str:
        """As a config has it: `{"variant":"baseline","main":"frontier"}`."""
        return self.model_dump_json(exclude_none=True)


class ComparisonConfig(BaseModel):
    """Two arms: how much better the first is than the second."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: ArmName
    second: ArmName


class StatisticsConfig(BaseModel):
    """Which arms are compared, and how sure the answers must be."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Of every interval; 1 - confidence is the level of every test, 5 % by default."""
    resamples: int = Field(default=10_000, ge=1000)
    """Of every bootstrap, and of a permutation test with too many permutations to try them all."""
    seed: int = 0
    """Of the resampling: the same numbers come of the same rollouts."""
    margin: float = Field(default=5.0, gt=0, le=100)
    """Percentage points that the first arm may be worse by and still be non-inferior. State it
    before the numbers are seen."""
    difference: float = Field(default=5.0, gt=0, le=100)
    """The difference, in percentage points, that an evaluation is planned to detect."""
    power: float = Field(default=0.8, gt=0, lt=1)
    """With which probability it is to detect it."""
    baseline: str | None = None
    """Sub model that counts as no gain, such as the untuned one. None: `eval.baseline`, a variant
    without a subagent, with the same main model."""
    frontier: str | None = None
    """Sub model that the others are to replace. None: the main model itself."""
    comparisons: tuple[ComparisonConfig, ...] = ()
    """Empty: every arm against its baseline, and every other sub model against the frontier."""

    @property
    def level(self) -> float:
        """How often a test may see a difference where there is none."""
        return 1 - self.confidence
