"""Settings for making a self-repair benchmark."""

from __future__ import annotations

from datetime import date
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SourceName = Literal["bundled", "bigcodebench", "livecodebench", "leetcodedataset"]


class SelfRepairConfig(BaseModel):
    """Which problems, who writes the solutions, and what to keep."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: SourceName = "bundled"
    """The source of the problems."""
    path: str | None = None
    """A file of problems: .jsonl, .jsonl.gz, .parquet or .csv. None: the hub, or for `bundled` the
    problems that come with StepInto."""
    hub_id: str | None = None
    """Data set on the hub, if `path` is null. None: the source's own."""
    split: str | None = None
    """Split of the data set on the hub, or LiveCodeBench's release. None: the source's own."""
    from_date: date | None = None
    """Only problems published on this day or later. Problems without a date are dropped."""
    to_date: date | None = None
    """Only problems published on this day or earlier."""
    limit: int | None = Field(default=None, ge=1)
    """Maximum number of problems, from the start of the date range."""
    writer: str = "oracle"
    """Who writes the solutions: a model in `models`. The oracle breaks canonical solutions."""
    solutions: str | None = None
    """A file of existing solutions, used instead of a writer: columns `task_id` or `question_id`,
    and `solution` or `buggy_solution`. Only the problems that it names are tried."""
    seed: int = 0
    """Seed for the order of the oracle's edits, and for a model's sampling."""
    max_edits: int = Field(default=24, ge=1)
    """Maximum number of the oracle's edits per canonical solution."""
    test_timeout: float = Field(default=30.0, gt=0)
    """Seconds for one run of a problem's tests."""
    allow_timeouts: bool = False
    """Keep solutions that do not end within `test_timeout`."""
    output: str | None = None
    """The benchmark file; its card is written next to it. None: `self_repair.jsonl` in the run's
    folder."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.from_date and self.to_date and self.to_date < self.from_date:
            raise ValueError("to_date is before from_date")
        if self.output is not None and not self.output.endswith(".jsonl"):
            raise ValueError("output must end in .jsonl")
        return self
