"""Evaluation settings: variants, pairs of models, and bugs."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collect.agents.config import Variant
from collect.benchmarks.config import BenchmarkConfig
from collect.field_errors import did_you_mean
from collect.questions.config import SOURCE_READER
from eval.paired.config import ArmName, StatisticsConfig
from eval.qualitative.config import JudgeConfig
from eval.standalone.config import AloneConfig

# Settings of the HTML report.


class ReportConfig(BaseModel):
    """The report of the evaluation stage, in `RUN/eval/report`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    html: bool = True
    """Whether to write it. `stepinto view RUN` writes one at any time."""
    limit: int | None = Field(default=None, ge=1)
    """Maximum number of rollouts whose conversations get pages; None for all."""


class Pair(BaseModel):
    """The models of one arm, by their names in the run's config."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    main: str = Field(min_length=1)
    """The main agent's model."""
    sub: str | None = None
    """None: only run variants without a subagent with this main model."""


class EvalConfig(BaseModel):
    """The evaluation stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: BenchmarkConfig | None = None
    """None: the bugs of collect's benchmark that its split holds out from training."""
    variants: tuple[Variant, ...] = Field(default=(Variant.DEBUG2FIX_TOOL_LIMIT,), min_length=1)
    """Variants to run with every pair."""
    pairs: tuple[Pair, ...] = ()
    """Pairs of a main agent's and a subagent's model."""
    attempts: int = Field(default=1, ge=1, le=10_000)
    """Rollouts per bug in every arm."""
    baseline: Variant = Variant.BASELINE
    """The variant that relative changes refer to, if it is among the variants."""
    statistics: StatisticsConfig = StatisticsConfig()
    """Which arms to compare over the same bugs and seeds, and how."""
    questions: AloneConfig | None = None
    """Subagents to measure alone, on runtime questions. None: none."""
    judge: JudgeConfig | None = None
    """A model that sorts the questions of main agents (Debug2Fix, table 3), and failures beside the
    rules. None: table 3 is left out, and only the rules sort failures."""
    report: ReportConfig = ReportConfig()
    """HTML pages, in addition to the tables."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for name, values in (("variants", self.variants), ("pairs", self.pairs)):
            repeated = [value for i, value in enumerate(values) if value in values[:i]]
            if repeated:
                raise ValueError(f"eval.{name} names {repeated[0]!s} twice; remove one")
        return self

    @model_validator(mode="after")
    def _comparisons_are_of_arms(self) -> Self:
        arms = {ArmName(variant=v, main=main, sub=sub) for v, main, sub in self.arms()}
        for compared in self.statistics.comparisons:
            for name in (compared.first, compared.second):
                if name not in arms:
                    raise ValueError(
                        f"eval.statistics.comparisons names an arm that is not run: {name}; its "
                        "variant must be among eval.variants, and its models a pair of eval.pairs "
                        "(without `sub` for a variant that has no subagent)"
                    )
            if compared.first == compared.second:
                raise ValueError(
                    f"eval.statistics.comparisons compares an arm with itself: {compared.first}"
                )
        return self

    @model_validator(mode="after")
    def _statistics_name_models(self) -> Self:
        known = {name for pair in self.pairs for name in (pair.main, pair.sub) if name is not None}
        if self.questions is not None:
            known |= {*self.questions.models, SOURCE_READER}
        for key in ("baseline", "frontier"):
            name = getattr(self.statistics, key)
            if known and name is not None and name not in known:
                raise ValueError(
                    f"eval.statistics.{key} names {name!r}, which is in no pair of eval.pairs and "
                    f"answers no eval.questions; there are: {', '.join(sorted(known))}"
                    f"{did_you_mean(name, known)}"
                )
        return self

    def bugs_of(self, collected: BenchmarkConfig) -> BenchmarkConfig:
        """The bugs to measure on; `collected` is collect's benchmark."""
        return self.benchmark or collected.model_copy(update={"split": "held_out"})

    def arms(self) -> tuple[tuple[Variant, str, str | None], ...]:
        """Every (variant, main model, sub model) to run, each once.

        A variant with a subagent runs with each pair that has a sub model, the others once per main
        model.
        """
        arms = [
            (variant, pair.main, pair.sub if variant.has_subagent else None)
            for variant in self.variants
            for pair in self.pairs
            if pair.sub is not None or not variant.has_subagent
        ]
        return tuple(dict.fromkeys(arms))
