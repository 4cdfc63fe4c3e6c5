"""The format stage's results: the funnel and statistics of each split, `report.json`; and the
dataset card that shows them, `README.md` with the hub's YAML, readable without the hub."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, Field, field_serializer

from collect import quantities
from collect.markdown import plain
from format.config import Arguments, Vocabulary
from format.dataset import (
    COLUMNS,
    TEST,
    TRAIN,
    Column,
    arrow_schema,
    is_assistant,
)
from format.translation import MAPPING

RECORDS, TABLES = "records", ("rollouts", "conversations")
"""Where an uploaded dataset has the records of its runs."""
SOURCE = ("run", "benchmark", "language", "system", "variant", "teacher", "model")
LABELS = (
    *("category", "difficulty", "grounding", "claims", "turn_quality", "trained_turns", "leaks"),
    *(
        "control_tokens",
        "read_arguments",
        "fix_touched_location",
        "debug_helped",
        "replay_verified",
    ),
)


class FunnelStep(quantities.FunnelStep):
    rule: str
    """The condition that kept conversations meet."""


class Funnel(BaseModel):
    """How many conversations each filter dropped, in order."""

    conversations: int = 0
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
    rows: int = 0
    instances: set[str] = Field(default_factory=set)
    repositories: set[str] = Field(default_factory=set)
    assistant_turns: Spread = Field(default_factory=Spread)
    tool_calls: Spread = Field(default_factory=Spread)
    characters: Spread = Field(default_factory=Spread)
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
        self.sources["\t".join(row[key].replace("\t", " ") for key in SOURCE)] += 1


def _label_counts(value: Any) -> Counter[str]:
    """Counts of the labels in one row's column; a score counts as one, zero, or in between."""
    if isinstance(value, dict):
        return Counter(value)
    if isinstance(value, list):
        return Counter(str(each).lower() for each in value) if value else Counter(["none"])
    if isinstance(value, float):
        return Counter([f"{value:g}" if value in (0, 1) else "between 0 and 1"])
    return Counter(["null" if value is None else str(value).lower()])


class RolloutsRead(BaseModel):
    """The rollouts of a run that rows were made from."""

    count: int
    newest: float
    """Unix time at which the newest one began, in seconds."""


class FormatReport(BaseModel):
    """Everything that the card says, as data; `sft/report.json`."""

    funnel: Funnel
    splits: dict[str, SplitStatistics]
    """`train`, and `test` if it has rows."""
    outputs: dict[str, dict[str, int]] = {}
    """Number of rows of the additional formats, by folder and split."""
    config: dict[str, Any]
    held_out: dict[str, Any]
    """The config's `held_out` section: the bugs whose conversations were dropped."""
    rollouts: dict[str, RolloutsRead] = {}
    """What was read of each run that has rollouts, by its name."""


# The card.


WHAT = {
    "preferences": "pairs of attempts at the same question, for training by preference",
    "token-ids": "the rows as the token ids that were sampled, for off-policy training",
    "llama-factory": "rows of which every turn is trained on, as LLaMA-Factory reads them",
    "atif": "rollouts of which there are rows, whole, as ATIF trajectories, one a line",
}
"""Descriptions of the additional formats, by folder."""
INTRODUCTION = """\
Conversations of debugger-using agents in sandboxes, as `messages` + `tools` for TRL's \
`SFTTrainer`. Splits are by repository: none is in more than one.

```python
from datasets import load_dataset

rows = load_dataset("parquet", data_files={"train": "data/train-*.parquet"})
```

%(form)s

The messages hold text of the benchmarks' repositories, whose licences apply to it."""
FORMS = {
    Arguments.OBJECT: "`datasets` reads it from version 4.7 on (`Json` features). "
    "`format.arguments: string` is for older ones.",
    Arguments.STRING: "Arguments of tool calls are JSON texts, `tools` is one, and what a message "
    "lacks is null: decode them, and drop the nulls, for TRL.",
}
"""What is said of the rows' form, by the config's `arguments`."""
VOCABULARY = {
    Vocabulary.NATIVE: "Rows with the role `inspector` are as they were held: actions in the text, "
    "without any tools, where `system` is `inspectcoder`; the actions as tools where it is "
    "`inspectcoder+tools`. The other vocabulary, `debug2fix`, would have:",
    Vocabulary.DEBUG2FIX: "Rows with the role `inspector` are in the words of Debug2Fix's Debug "
    "Subagent, its prompts and tools, with what the tools would have answered. They were held in "
    "other words:",
}
"""What the words of Program Inspectors' rows mean, by the config's `vocabulary`."""


def write_card(folder: Path, report: FormatReport) -> None:
    splits, config = report.splits, report.config
    steps = [["", "conversations in the run", "", f"{report.funnel.conversations:,}"]]
    for step in report.funnel.steps:
        steps.append([step.name, step.rule, f"{step.dropped:,}", f"{step.remaining:,}"])
    sources = [
        [split, *map(plain, source.split("\t")), f"{count:,}"]
        for split, each in splits.items()
        for source, count in each.sources.most_common()
    ]
    calls = sum((split.tools_called for split in splits.values()), Counter[str]())
    called = [[plain(name), f"{count:,}"] for name, count in calls.most_common()]
    held_out = {"held_out": report.held_out} if any(report.held_out.values()) else {}
    sections = {
        "Splits": _split_table(splits),
        "What each filter dropped": markdown_table(
            ["filter", "keeps where", "dropped", "left"], steps
        ),
        "Sources": markdown_table(["split", *SOURCE, "rows"], sources),
        "Columns": column_table(COLUMNS),
        "Labels": _label_table(splits),
        "Vocabulary": f"{VOCABULARY[config['vocabulary']]}\n\n{MAPPING}",
        "Tools called": markdown_table(["tool", "calls"], called)
        if called
        else "None: the rows act in their text.",
        "Config": fenced("yaml", yaml.safe_dump({"format": config, **held_out})),
    }
    if report.outputs:
        rows = [
            [f"`{name}/`", WHAT.get(name, ""), split, f"{count:,}"]
            for name, counted in report.outputs.items()
            for split, count in counted.items()
        ]
        sections["Further forms"] = markdown_table(["folder", "what", "split", "rows"], rows)
    introduction = INTRODUCTION % {"form": FORMS[Arguments(config["arguments"])]}
    write_readme(folder, config, introduction, sections)


def write_readme(
    folder: Path, config: dict[str, Any], introduction: str, sections: dict[str, str]
) -> None:
    """Write a dataset's card; `config` is the `format` section."""
    parts = [_front_matter(folder, config), f"# {plain(config['name'])}", introduction]
    parts += [f"## {name}\n\n{text}" for name, text in sections.items()]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n")


def _front_matter(folder: Path, config: dict[str, Any]) -> str:
    """The hub's YAML."""
    # Subfolders with the same layout as the dataset can be loaded by name.
    inner = sorted(path.parent for path in folder.glob("*/data"))
    facts: dict[str, Any] = {
        "license": config["license"],
        "pretty_name": config["name"],
        "language": ["en"],
        "task_categories": ["text-generation"],
        "tags": list(config["tags"]),
        "configs": [
            {
                "config_name": "default" if part == folder else part.name,
                "data_files": [
                    {"split": split, "path": path.relative_to(folder).as_posix()}
                    for split in (TRAIN, TEST)
                    for path in sorted((part / "data").glob(f"{split}-*.parquet"))
                ],
            }
            for part in (folder, *inner)
        ],
    }
    if config.get("push") and config["push"]["records"]:
        facts["configs"] += [
            {"config_name": table, "data_files": f"{RECORDS}/*/{table}/*.parquet"}
            for table in TABLES
        ]
    return f"---\n{yaml.safe_dump(facts, sort_keys=False)}---"


def _split_table(splits: dict[str, SplitStatistics]) -> str:
    def spread(measure: Spread) -> str:
        return f"{measure.mean:,.1f} ({measure.lowest:,}-{measure.highest:,})"

    header = ["split", "rows", "instances", "repositories"]
    header += ["assistant turns, mean (range)", "tool calls", "characters"]
    rows = []
    for name, each in splits.items():
        counts = (each.rows, len(each.instances), len(each.repositories))
        spreads = (each.assistant_turns, each.tool_calls, each.characters)
        rows.append([name, *(f"{n:,}" for n in counts), *(spread(s) for s in spreads)])
    return markdown_table(header, rows)


def column_table(columns: dict[str, Column]) -> str:
    types = {field.name: str(field.type) for field in arrow_schema(columns)}
    readable = {name: kind.replace("extension<arrow.json>", "JSON") for name, kind in types.items()}
    return markdown_table(
        ["column", "type", "what"], [[n, readable[n], c.what] for n, c in columns.items()]
    )


def _label_table(splits: dict[str, SplitStatistics]) -> str:
    names = list(dict.fromkeys(name for each in splits.values() for name in each.labels))
    rows = []
    for name in names:
        counts = {split: each.labels.get(name, Counter()) for split, each in splits.items()}
        for value in sorted(set().union(*counts.values())):
            rows.append([name, plain(value), *(f"{each[value]:,}" for each in counts.values())])
    return markdown_table(["column", "value", *splits], rows)


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines
    )


def fenced(language: str, text: str) -> str:
    """A code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
