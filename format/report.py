"""The format stage's results: the funnel, and statistics of each split."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from pydantic import BaseModel, Field, field_serializer

from format.mixture import MixtureShare
from format.rows import is_assistant

SOURCE = ("benchmark", "language", "system", "variant", "teacher", "model")
"""The columns for a row's origin."""
LABELS = (
    "category",
    "difficulty",
    "grounding",
    "claims",
    "turn_quality",
    "trained_turns",
    "leaks",
    "fix_touched_location",
    "debug_helped",
    "replay_verified",
)
"""The columns whose values are counted."""


class FunnelStep(BaseModel):
    """One filter, and how many conversations it left."""

    name: str
    rule: str
    """The condition that kept conversations meet."""
    dropped: int = 0
    remaining: int = 0


class Funnel(BaseModel):
    """How many conversations each filter dropped, in order."""

    conversations: int = 0
    """Number in the run."""
    steps: list[FunnelStep]

    @classmethod
    def of(cls, rules: dict[str, str], dropped_by: Counter[str | None]) -> Funnel:
        """The steps by name and rule; `dropped_by` counts the conversations by the step that
        dropped them, None for those that were kept."""
        total = dropped_by.total()
        funnel = cls(conversations=total, steps=[])
        for name, rule in rules.items():
            funnel.add_step(name, rule, funnel.kept - dropped_by[name])
        return funnel

    def add_step(self, name: str, rule: str, remaining: int) -> None:
        """Add a step that selected among everything that passed the earlier ones."""
        step = FunnelStep(name=name, rule=rule, dropped=self.kept - remaining, remaining=remaining)
        self.steps.append(step)

    @property
    def kept(self) -> int:
        return self.steps[-1].remaining if self.steps else self.conversations


class Spread(BaseModel):
    """Sum, extremes and mean of one measure."""

    count: int = 0
    total: int = 0
    lowest: int = 0
    highest: int = 0

    def add(self, value: int) -> None:
        self.lowest = min(self.lowest, value) if self.count else value
        self.highest = max(self.highest, value)
        self.count += 1
        self.total += value

    @property
    def mean(self) -> float:
        """0 if there are no values."""
        return self.total / self.count if self.count else 0.0


class SplitStatistics(BaseModel):
    """The contents of one split."""

    rows: int = 0
    instances: set[str] = Field(default_factory=set)
    repositories: set[str] = Field(default_factory=set)
    assistant_turns: Spread = Field(default_factory=Spread)
    tool_calls: Spread = Field(default_factory=Spread)
    characters: Spread = Field(default_factory=Spread)
    """Characters of a row's messages and tools."""
    tools_called: Counter[str] = Field(default_factory=Counter)
    labels: dict[str, Counter[str]] = Field(default_factory=dict)
    """Counts of each label, by column."""
    sources: Counter[str] = Field(default_factory=Counter)
    """Rows by the values of the `SOURCE` columns, tab-separated."""

    @field_serializer("instances", "repositories")
    def _in_order(self, names: set[str]) -> list[str]:
        return sorted(names)

    def add(self, row: dict[str, Any], characters: int) -> None:
        said = [json.loads(text) for text in row["messages"] if is_assistant(text)]
        calls = [
            call["function"]["name"] for message in said for call in message.get("tool_calls", ())
        ]
        self.rows += 1
        self.instances.add(f"{row['benchmark']}/{row['instance_id']}")
        self.repositories.add(row["repository"])
        self.assistant_turns.add(len(said))
        self.tool_calls.add(len(calls))
        self.characters.add(characters)
        self.tools_called.update(calls)
        for name in LABELS:
            self.labels.setdefault(name, Counter()).update(_label_counts(row.get(name)))
        self.sources["\t".join(row[key] for key in SOURCE)] += 1


def _label_counts(value: Any) -> Counter[str]:
    """Counts of the labels in one row's column; a score counts as one, zero, or in between."""
    if isinstance(value, dict):
        return Counter(value)
    if isinstance(value, list):
        return Counter(str(each).lower() for each in value) if value else Counter(["none"])
    if isinstance(value, float):
        return Counter([f"{value:g}" if value in (0, 1) else "between 0 and 1"])
    return Counter(["null" if value is None else str(value).lower()])


class FormatReport(BaseModel):
    """Everything that the card says, as data; `sft/report.json`."""

    funnel: Funnel
    splits: dict[str, SplitStatistics]
    """`train`, and `test` if it has rows."""
    mixture: list[MixtureShare] = []
    """How many rows the mixture kept, for the values that its config names."""
    outputs: dict[str, dict[str, int]] = {}
    """Number of rows of the additional formats, by folder and split."""
    config: dict[str, Any]
    held_out: dict[str, Any]
    """The config's `held_out` section: the bugs whose conversations were dropped."""
