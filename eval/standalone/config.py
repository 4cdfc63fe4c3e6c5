"""Settings to measure subagents on runtime questions, without a main agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collect.benchmarks.config import BenchmarkConfig
from collect.question_records import Category
from collect.questions.config import SOURCE_READER, QuestionsConfig


class AloneConfig(BaseModel):
    """The `eval.questions` section."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
        repeated = [name for i, name in enumerate(self.models) if name in self.models[:i]]
        if repeated:
            raise ValueError(f"models names {repeated[0]!r} twice; remove one")
        if self.path is not None and not self.path.endswith(".jsonl"):
            raise ValueError(f"path must end in .jsonl, as a file of questions does: {self.path}")
        if SOURCE_READER in self.models:
            raise ValueError(f"models names {SOURCE_READER!r}, which is always there; remove it")
        return self

    def asking(self, benchmark: BenchmarkConfig, output: Path) -> QuestionsConfig:
        """The settings to generate the questions into `output` and ask them."""
        return QuestionsConfig(
            benchmark=benchmark,
            per_category=self.per_category,
            limits=self.limits,
            seed=self.seed,
            test_timeout=self.test_timeout,
            output=str(output),
        )
