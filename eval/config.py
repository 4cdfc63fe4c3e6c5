"""Evaluation settings: variants, pairs of models, bugs, statistics, and questions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from collect.agents.systems import SYSTEMS, Variant
from collect.benchmarks.config import BenchmarkConfig
from collect.config import ROUND
from collect.errors import did_you_mean
from collect.question_records import SOURCE_READER, Category
from collect.store.files import StrictRecord


class ArmName(StrictRecord):
    """One arm of an evaluation."""

    variant: Variant
    """The agent, or the baseline."""
    main: str = Field(min_length=1)
    """The main agent's model."""
    sub: str | None = None
    """None: the variant has no subagent."""

    def __str__(self) -> str:
        """As in a config: `{"variant":"baseline","main":"frontier"}`."""
        return self.model_dump_json(exclude_none=True)


class ComparisonConfig(StrictRecord):
    """Two arms: how much better the first is than the second."""

    first: ArmName
    second: ArmName


class StatisticsConfig(StrictRecord):
    """Which arms to compare, and the required confidence."""

    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence level of every interval; 1 - confidence is the level of every test, 5 % by
    default."""
    resamples: int = Field(default=10_000, ge=1000)
    """Number of permutations for a test that can't try all of them."""
    seed: int = 0
    """Seed of these permutations, which makes results reproducible."""
    cluster: Literal["bug", "repository"] = "bug"
    """What intervals and tests take as independent of each other: bugs, or all bugs of a repository
    together, for which results hold on other repositories, too."""
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
    """The primary comparisons, chosen before you see the numbers. P-values are corrected for their
    number alone; all others are exploratory. Empty: every arm against its baseline, and every other
    sub model against the frontier, all of them corrected. Under `stepinto iterate` a `sub` may be
    the student of a later round, such as `small-round-2`."""

    @property
    def level(self) -> float:
        """The probability that a test finds a difference although there is none."""
        return 1 - self.confidence


class AloneConfig(StrictRecord):
    """The `eval.questions` section."""

    models: tuple[str, ...] = Field(min_length=1)
    """The models that answer, by their names in `models`; the source reader always answers too."""
    path: str | None = None
    """A questions.jsonl from `stepinto bench questions`. None: generate questions."""
    benchmark: BenchmarkConfig | None = None
    """The bugs to ask about; questions in `path` about other bugs are skipped. None:
    `eval.benchmark`, or the bugs of collect's benchmark that its split holds out."""
    limit: int | None = Field(default=None, ge=1)
    """Maximum number of questions, from the start."""
    shuffle_seed: int | None = None
    """Seed to shuffle the questions, so that `limit` draws from all bugs and categories. None: the
    file's order."""
    per_category: int = Field(default=3, ge=0)
    """For generated questions: maximum number per category and bug."""
    limits: Mapping[Category, int] = {}
    """Other maximums for single categories."""
    seed: int = 0
    """Seed for selecting and wording generated questions."""
    test_timeout: float = Field(default=60.0, gt=0)
    """Seconds for one traced run of a test when questions are generated."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _refuse_repeated("models", self.models)
        if self.path is not None and not self.path.endswith(".jsonl"):
            raise ValueError(f"path must end in .jsonl, as a file of questions does: {self.path}")
        if SOURCE_READER in self.models:
            raise ValueError(f"models names {SOURCE_READER!r}, which is always there; remove it")
        return self


class JudgeConfig(StrictRecord):
    """The `eval.judge` section."""

    model: str = Field(min_length=1)
    """Its name in `models`: an endpoint or a local model."""
    limit: int = Field(default=200, ge=1)
    """At most so many questions, drawn at random."""
    seed: int = 0
    """Seed of the random draw."""


class Pair(StrictRecord):
    """The models of one arm, by their names in the run's config."""

    main: str = Field(min_length=1)
    """The main agent's model."""
    sub: str | None = None
    """None: only run variants without a subagent with this main model."""


class EvalConfig(StrictRecord):
    """The evaluation stage."""

    benchmark: BenchmarkConfig | None = None
    """None: the bugs of collect's benchmark that its split holds out from training."""
    variants: tuple[Variant, ...] = Field(default=("debug2fix_tool_limit",), min_length=1)
    """Variants to run with every pair."""
    pairs: tuple[Pair, ...] = ()
    """Pairs of a main agent's and a subagent's model. `{main: [a, b], sub: [x, y]}`, alone or in
    the list, stands for each main model with each sub model."""
    attempts: int = Field(default=1, ge=1, le=10_000)
    """Rollouts per bug in every arm."""
    fork: bool = False
    """Whether the pairs of a main agent's model share the beginnings of its rollouts: those with
    later subagents reuse the main agent's replies of the first pair as long as it sees the same. So
    arms differ in the subagent only, and the main agent's beginning is paid for once: `dollars` of
    the later arms leave it out, their tokens and steps count it."""
    baseline: Variant = "baseline"
    """The variant that relative changes refer to, if it is among the variants."""
    statistics: StatisticsConfig = StatisticsConfig()
    """Which arms to compare over the same bugs and seeds, and how."""
    questions: AloneConfig | None = None
    """Subagents to measure alone, on runtime questions. None: none."""
    judge: JudgeConfig | None = None
    """A model that sorts the questions of main agents (Debug2Fix, table 3). None: table 3 is left
    out."""

    @field_validator("pairs", mode="before")
    @classmethod
    def _expand(cls, pairs: object) -> object:
        """Each main model with each sub model where several are named; `Pair` checks the rest."""
        expanded: list[object] = []
        for each in _listed(pairs):
            if not isinstance(each, Mapping):
                expanded.append(each)
                continue
            named = [[(key, name) for name in _listed(names)] for key, names in each.items()]
            if [] in named:
                raise ValueError(f"{dict(each)} has an empty list; name at least one model")
            expanded += map(dict, product(*named))
        return expanded

    @model_validator(mode="after")
    def _check(self) -> Self:
        _refuse_repeated("eval.variants", self.variants)
        _refuse_repeated("eval.pairs", self.pairs)
        arms = self.arms()
        for name in self.not_run():
            # Which rounds there are is known to `stepinto iterate`, which checks it.
            student = re.sub(rf"-{ROUND}\d+$", "", name.sub or "")
            if (name.variant, name.main, student) not in arms:
                raise ValueError(
                    f"eval.statistics.comparisons names an arm that is not run: {name}; its "
                    "variant must be among eval.variants, and its models a pair of eval.pairs "
                    "(without `sub` for a variant that has no subagent); or set "
                    "eval.statistics.comparisons=[]"
                )
        for compared in self.statistics.comparisons:
            if compared.first == compared.second:
                raise ValueError(
                    f"eval.statistics.comparisons compares an arm with itself: {compared.first}"
                )
        sides = [(str(each.first), str(each.second)) for each in self.statistics.comparisons]
        _refuse_repeated("eval.statistics.comparisons", [" and ".join(sorted(s)) for s in sides])
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

    def not_run(self) -> list[ArmName]:
        """The arms in `statistics.comparisons` that are not run."""
        arms, compared = self.arms(), self.statistics.comparisons
        named = (name for each in compared for name in (each.first, each.second))
        return [name for name in named if (name.variant, name.main, name.sub) not in arms]

    def bugs_of(self, collected: BenchmarkConfig) -> BenchmarkConfig:
        """The bugs to measure on; `collected` is collect's benchmark."""
        return self.benchmark or collected.model_copy(update={"split": "held_out"})

    def arms(self) -> tuple[tuple[str, str, str | None], ...]:
        """Every (variant, main model, sub model) to run, each once.

        A variant with a subagent runs with each pair that has a sub model, the others once per main
        model.
        """
        arms = [
            (variant, pair.main, pair.sub if SYSTEMS[variant].subagent else None)
            for variant in self.variants
            for pair in self.pairs
            if pair.sub is not None or not SYSTEMS[variant].subagent
        ]
        return tuple(dict.fromkeys(arms))


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else [value]


def _refuse_repeated(key: str, values: Sequence[object]) -> None:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{key} names {value!s} twice; remove one")
