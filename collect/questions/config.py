"""What a config says about runtime questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collect.benchmarks.config import BenchmarkConfig
from collect.question_records import Category

SOURCE_READER = "source_reader"
"""Stands for a model in `answer_with`: the baseline that never runs the program."""
ANSWERING = {"answer_with", "answer_limit", "answer_shuffle_seed", "attempts", "output"}
"""Settings that change nothing about which questions are made."""


class QuestionsConfig(BaseModel):
    """Which bugs are asked about, how much, and who answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: BenchmarkConfig = BenchmarkConfig(name="bundled")
    per_category: int = Field(default=3, ge=0)
    """Most questions of one category about one bug."""
    limits: Mapping[Category, int] = {}
    """The same for single categories: `{root_cause: 1}`."""
    max_tests: int = Field(default=2, ge=1)
    """Failing tests of one bug that are run for questions, the first ones."""
    wrong_patches: int = Field(default=1, ge=0)
    """Wrong patches of one bug that are asked about beside the gold patch."""
    seed: int = 0
    """Decides which questions are chosen, and how they are worded."""
    max_stops: int = Field(default=600, ge=10)
    """After this many stops in one traced run, each line is stopped at only once more."""
    test_timeout: float = Field(default=60.0, gt=0)
    """Seconds for one traced run of a test."""
    output: str | None = None
    """The file of questions; its card is written beside it. None: `questions.jsonl` in the run's
    folder."""
    answer_with: str | tuple[str, ...] = "oracle"
    """Who answers in `stepinto bench answer`: a model of `models`, or `source_reader`; or several
    of them, one after the other."""
    attempts: int = Field(default=1, ge=1, le=10_000)
    """Answers of each model to each question. They differ where the model samples: at a temperature
    of 0 all would be the same."""
    answer_limit: int | None = Field(default=None, ge=1)
    """Answer at most so many questions, the first ones."""
    answer_shuffle_seed: int | None = None
    """Shuffles the questions, in the same way for the same seed, so that `answer_limit` draws from
    all bugs and categories. None: the file's order."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.output is not None and not self.output.endswith(".jsonl"):
            raise ValueError("output must end in .jsonl")
        if not self.answerers:
            raise ValueError("answer_with must name a model, or source_reader")
        return self

    @property
    def answerers(self) -> tuple[str, ...]:
        """All who answer, each once."""
        names = (self.answer_with,) if isinstance(self.answer_with, str) else self.answer_with
        return tuple(dict.fromkeys(names))

    def answered_by(self, name: str) -> Self:
        """The same, answered by one alone."""
        return self.model_copy(update={"answer_with": name})

    def limit(self, category: Category) -> int:
        """Most questions of a category about one bug."""
        return self.limits.get(category, self.per_category)
