"""Which bugs a run is about."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from collect.benchmarks.base import Language
from collect.benchmarks.marks import SKIPPED, Mark


class BenchmarkConfig(BaseModel):
    """A benchmark, and which of its instances."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["bundled", "humanevalfix", "self_repair", "local"]
    language: Literal["python", "java", "all"] = "python"
    path: str | None = None
    """Local data: for humanevalfix a .jsonl, .jsonl.gz or .parquet file; for bundled a folder
    with `bugs` and `repositories`; for self_repair what `stepinto bench self-repair` wrote; for
    local a `bugs.jsonl`, or the folder of one, as `stepinto bench make` writes it. None: the hub,
    and the bugs that come with StepInto."""
    hub_id: str | None = None
    """Dataset on the hub, where `path` is None. None: the benchmark's own."""
    split: Literal["all", "train", "held_out"] = "all"
    """By repository, over all bugs of one language: whatever `instances` and `limit` say."""
    held_out_fraction: float = Field(default=0.25, ge=0, le=1)
    """Share of each language's repositories in the held-out split."""
    split_seed: int = 0
    instances: tuple[str, ...] | None = None
    """Ids, or globs over them (`textflow__*`). None: all."""
    limit: int | None = Field(default=None, ge=1)
    """At most so many, the first ones; those that `skip` leaves out don't count."""
    skip: tuple[Mark, ...] = SKIPPED
    """Marks of `stepinto bench verify` whose bugs collect and eval leave out; []: none."""
    test_timeout: float = Field(default=60.0, gt=0)
    """Seconds for one run of an instance's tests, without the time that a Java build takes."""

    @property
    def languages(self) -> tuple[Language, ...]:
        return ("python", "java") if self.language == "all" else (self.language,)
