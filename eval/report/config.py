"""Whether an evaluation leaves pages for a browser, and how many."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ReportConfig(BaseModel):
    """The report of the evaluation stage, in `RUN/eval/report`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    html: bool = True
    """Whether it is written. `stepinto view RUN` writes one at any time."""
    limit: int | None = Field(default=None, ge=1)
    """Most rollouts whose conversations get pages; None for all."""
