"""What to evaluate: variants, pairs of models, and on which bugs."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collect.agents.config import Variant
from collect.benchmarks.config import BenchmarkConfig


class Pair(BaseModel):
    """The models of one arm, by their names in the run's config."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    main: str = Field(min_length=1)
    sub: str | None = None
    """None: only variants without a subagent are run with this main model."""


class EvalConfig(BaseModel):
    """The evaluation stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: BenchmarkConfig | None = None
    """None: the bugs of collect's benchmark that its split holds out from training."""
    variants: tuple[Variant, ...] = Field(default=(Variant.DEBUG2FIX_TOOL_LIMIT,), min_length=1)
    pairs: tuple[Pair, ...] = ()
    attempts: int = Field(default=1, ge=1)
    """Rollouts a bug in every arm."""
    baseline: Variant = Variant.BASELINE
    """The variant that relative changes refer to, where it is among the variants."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for name, values in (("variants", self.variants), ("pairs", self.pairs)):
            repeated = [value for i, value in enumerate(values) if value in values[:i]]
            if repeated:
                raise ValueError(f"eval.{name} names {repeated[0]!s} twice; remove one")
        return self

    def arms(self) -> tuple[tuple[Variant, str, str | None], ...]:
        """Every (variant, main model, sub model) to run, each once.

        A variant with a subagent runs with each pair that has a sub model, the others once for
        each main model.
        """
        arms = [
            (variant, pair.main, pair.sub if variant.has_subagent else None)
            for variant in self.variants
            for pair in self.pairs
            if pair.sub is not None or not variant.has_subagent
        ]
        return tuple(dict.fromkeys(arms))
