"""What all records on disk share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictRecord(BaseModel):
    """A record that does not change, and refuses fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)
