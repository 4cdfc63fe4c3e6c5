"""What a config says about making a self-repair benchmark."""

from __future__ import annotations

from datetime import date
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SourceName = Literal["bundled", "bigcodebench", "livecodebench", "leetcodedataset"]


class SelfRepairConfig(BaseModel):
    """Which problems, who writes a solution for each, and what is kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: SourceName = "bundled"
    """Whose problems."""
    path: str | None = None
    """The problems' file: .jsonl, .jsonl.gz, .parquet or .csv. None: the hub, and for `bundled`
    the problems that come with StepInto."""
    hub_id: str | None = None
    """Data set on the hub, where `path` is null. None: the source's own."""
    split: str | None = None
    """Of the data set on the hub: a split, or LiveCodeBench's release. None: the source's own."""
    from_date: date | None = None
    """Only problems published on this day or later. One without a date is left out."""
    to_date: date | None = None
    """Only problems published on this day or earlier."""
    limit: int | None = Field(default=None, ge=1)
    """At most so many problems, the first ones in the date range."""
    writer: str = "oracle"
    """Who writes the solutions: a model of `models`. The oracle breaks canonical solutions."""
    solutions: str | None = None
    """A file of solutions made before, which then has no need of a writer: columns `task_id` or
    `question_id`, and `solution` or `buggy_solution`. Only the problems that it names are tried."""
    seed: int = 0
    """Decides the order of the oracle's edits, and is given to a model's sampling."""
    max_edits: int = Field(default=24, ge=1)
    """Edits of one canonical solution that the oracle tries at most."""
    test_timeout: float = Field(default=30.0, gt=0)
    """Seconds for one run of a problem's tests."""
    allow_timeouts: bool = False
    """Keep solutions that do not end within `test_timeout`."""
    output: str | None = None
    """The benchmark file; its card is written beside it. None: `self_repair.jsonl` in the run's
    folder."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.from_date and self.to_date and self.to_date < self.from_date:
            raise ValueError("to_date is before from_date")
        if self.output is not None and not self.output.endswith(".jsonl"):
            raise ValueError("output must end in .jsonl")
        return self
