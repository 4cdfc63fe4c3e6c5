"""Config of runtime questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collect.benchmarks.config import BenchmarkConfig
from collect.question_records import Category

SOURCE_READER = "source_reader"
"""A value of `answer_with` instead of a model: the baseline that never runs the program."""
ANSWERING = {"answer_with", "answer_limit", "answer_shuffle_seed", "attempts", "output"}
"""Settings that don't affect which questions are made."""


class QuestionsConfig(BaseModel):
    """Which bugs are asked about, how many questions, and who answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: BenchmarkConfig = BenchmarkConfig(name="bundled")
    per_category: int = Field(default=3, ge=0)
    """Maximum questions per category and bug."""
    limits: Mapping[Category, int] = {}
    """Maximum per bug for single categories: `{root_cause: 1}`."""
    max_tests: int = Field(default=2, ge=1)
    """Failing tests per bug that are run for questions, starting with the first."""
    wrong_patches: int = Field(default=1, ge=0)
    """Wrong patches per bug to ask about, in addition to the gold patch."""
    seed: int = 0
    """Decides the choice and the wording of questions."""
    test_timeout: float = Field(default=60.0, gt=0)
    """Seconds for one traced run of a test."""
    output: str | None = None
    """The question file; its card is written next to it. None: `questions.jsonl` in the run's
    folder.
    """
    answer_with: str | tuple[str, ...] = "oracle"
    """Who answers in `stepinto bench answer`: a model of `models`, or `source_reader`; or several
    of them in turn.
    """
    attempts: int = Field(default=1, ge=1, le=10_000)
    """Answers of each model to each question. They differ if the model samples: at temperature 0
    all would be equal.
    """
    answer_limit: int | None = Field(default=None, ge=1)
    """Answer at most this many questions, starting with the first."""
    answer_shuffle_seed: int | None = None
    """Shuffles the questions reproducibly, so that `answer_limit` draws from all bugs and
    categories. None: the file's order.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.output is not None and not self.output.endswith(".jsonl"):
            raise ValueError("output must end in .jsonl")
        if not self.answerers:
            raise ValueError("answer_with must name a model, or source_reader")
        return self

    @property
    def answerers(self) -> tuple[str, ...]:
        """All answerers, each once."""
        names = (self.answer_with,) if isinstance(self.answer_with, str) else self.answer_with
        return tuple(dict.fromkeys(names))

    def answered_by(self, name: str) -> Self:
        """A copy with a single answerer."""
        return self.model_copy(update={"answer_with": name})
