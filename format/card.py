"""The dataset card: `README.md` with the hub's YAML, readable without the hub."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from format.dataset import arrow_schema, read_rows, split_file
from format.inspection import MAPPING, Vocabulary
from format.mixture import MixtureConfig, MixtureShare
from format.report import SOURCE, FormatReport, Funnel, SplitStatistics, Spread
from format.rows import COLUMNS, Column
from format.splits import TEST, TRAIN

WHAT = {
    "steps": "a row for each trained turn: `prompt`, `completion` and `tools`, with the keys of "
    "its conversation",
    "preferences": "pairs of attempts at the same question, for training by preference",
    "prompts": "questions whose answers are scored, for training by reward",
    "atif": "rollouts of which there are rows, whole, as ATIF trajectories, one a line",
}
"""Descriptions of the additional formats, by folder."""
EXAMPLE_CHARACTERS = 1_500
"""Limit for the text of one message in the example."""


def write_card(folder: Path, report: FormatReport) -> None:
    """Write the card of the dataset in `folder`."""
    example = next(read_rows(split_file(folder, next(iter(report.splits)))))
    sections = [
        _front_matter(folder, report),
        f"# {report.config['name']}",
        _introduction(report),
        "## Splits\n\n" + _split_table(report.splits),
        "## What each filter dropped\n\n" + _funnel_table(report.funnel),
        "## Sources\n\n" + _source_table(report.splits),
        "## Columns\n\n" + column_table(COLUMNS),
        "## Labels\n\n" + _label_table(report.splits),
        *_further(report),
        "## Vocabulary\n\n" + _vocabulary(report),
        "## Tools called\n\n" + _tool_table(report.splits),
        "## Example\n\n" + _example(example),
        "## Config\n\n" + _fenced("yaml", yaml.safe_dump(_config(report))),
    ]
    (folder / "README.md").write_text("\n\n".join(sections) + "\n")


def _front_matter(folder: Path, report: FormatReport) -> str:
    rows = {name: split.rows for name, split in report.splits.items()}
    return front_matter(folder, report.config["name"], report.config, rows)


def front_matter(folder: Path, title: str, config: dict[str, Any], rows: dict[str, int]) -> str:
    """The hub's YAML; `config` is the `format` section, `rows` are by split."""
    facts: dict[str, Any] = {
        "license": config["license"],
        "pretty_name": title,
        "language": ["en"],
        "task_categories": ["text-generation"],
        "tags": list(config["tags"]),
        "size_categories": [_size_category(sum(rows.values()))],
        "configs": [{"config_name": "default", "data_files": _files(folder, folder)}],
    }
    # Subfolders with the same layout as the dataset can be loaded by name.
    for inner in sorted(path.parent for path in folder.glob("*/data")):
        files = _files(folder, inner)
        facts["configs"].append({"config_name": inner.name, "data_files": files})
    return f"---\n{yaml.safe_dump(facts, sort_keys=False)}---"


def _files(folder: Path, inner: Path) -> list[dict[str, str]]:
    """The hub's list of split files in a folder of the dataset."""
    found = {name: sorted((inner / "data").glob(f"{name}-*.parquet")) for name in (TRAIN, TEST)}
    return [
        {"split": name, "path": path.relative_to(folder).as_posix()}
        for name, paths in found.items()
        for path in paths
    ]


def _size_category(rows: int) -> str:
    """The hub's category for a number of rows."""
    bounds = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
    return next((name for bound, name in bounds.items() if rows < bound), "n>1M")


def _config(report: FormatReport) -> dict[str, Any]:
    """The sections of the run's config that affect the dataset."""
    held_out = {"held_out": report.held_out} if any(report.held_out.values()) else {}
    return {"format": report.config, **held_out}


def _introduction(report: FormatReport) -> str:
    return (
        "Conversations of debugger-using agents in sandboxes, as `messages` + `tools` for TRL's "
        "`SFTTrainer`. Splits are by repository: none is in more than one.\n\n"
        + _fenced(
            "python",
            "from datasets import load_dataset\n\n"
            'rows = load_dataset("parquet", data_files={"train": "data/train-*.parquet"})',
        )
        + "\n\nThe messages hold text of the benchmarks' repositories, whose licences apply to it."
    )


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


def _funnel_table(funnel: Funnel) -> str:
    rows = [["", "conversations in the run", "", f"{funnel.conversations:,}"]]
    rows += [
        [step.name, step.rule, f"{step.dropped:,}", f"{step.remaining:,}"] for step in funnel.steps
    ]
    return markdown_table(["filter", "keeps where", "dropped", "left"], rows)


def _source_table(splits: dict[str, SplitStatistics]) -> str:
    rows = [
        [split, *source.split("\t"), f"{count:,}"]
        for split, each in splits.items()
        for source, count in each.sources.most_common()
    ]
    return markdown_table(["split", *SOURCE, "rows"], rows)


def _further(report: FormatReport) -> list[str]:
    """Sections on the mixture and on additional formats, if there are any."""
    sections = []
    mixture = MixtureConfig.model_validate(report.config["mixture"])
    if mixture != MixtureConfig(seed=mixture.seed):
        sections.append("## Mixture\n\n" + _mixture_table(report.mixture))
    if report.outputs:
        rows = [
            [f"`{name}/`", WHAT.get(name, ""), split, f"{count:,}"]
            for name, splits in report.outputs.items()
            for split, count in splits.items()
        ]
        table = markdown_table(["folder", "what", "split", "rows"], rows)
        sections.append("## Further forms\n\n" + table)
    return sections


def _mixture_table(shares: list[MixtureShare]) -> str:
    header = ["column", "value", "weight", "cap", "rows before", "rows after"]
    rows = [
        [
            each.column,
            each.value,
            f"{each.weight:g}",
            "" if each.cap is None else f"{each.cap:,}",
            f"{each.before:,}",
            f"{each.after:,}",
        ]
        for each in shares
    ]
    return markdown_table(header, rows)


def column_table(columns: dict[str, Column]) -> str:
    """A description of each column."""
    types = {field.name: str(field.type) for field in arrow_schema(columns)}
    readable = {name: kind.replace("extension<arrow.json>", "JSON") for name, kind in types.items()}
    return markdown_table(
        ["column", "type", "what"], [[n, readable[n], c.what] for n, c in columns.items()]
    )


def _label_table(splits: dict[str, SplitStatistics]) -> str:
    """The count of each label, by column and split."""
    names = list(dict.fromkeys(name for each in splits.values() for name in each.labels))
    rows = []
    for name in names:
        counts = {split: each.labels.get(name, Counter()) for split, each in splits.items()}
        for value in sorted(set().union(*counts.values())):
            rows.append([name, value, *(f"{each[value]:,}" for each in counts.values())])
    return markdown_table(["column", "value", *splits], rows)


def _vocabulary(report: FormatReport) -> str:
    """The vocabulary of Program Inspectors' rows, and what its words mean."""
    if report.config["vocabulary"] == Vocabulary.NATIVE:
        said = (
            "Rows with the role `inspector` are as they were held: actions in the text, without "
            "any tools, where `system` is `inspectcoder`; the actions as tools where it is "
            "`inspectcoder+tools`."
        )
        return f"{said} The other vocabulary, `debug2fix`, would have:\n\n{MAPPING}"
    said = (
        "Rows with the role `inspector` are in the words of Debug2Fix's Debug Subagent, its "
        "prompts and tools, with what the tools would have answered. They were held in other "
        "words:"
    )
    return f"{said}\n\n{MAPPING}"


def _tool_table(splits: dict[str, SplitStatistics]) -> str:
    total: Counter[str] = Counter()
    for each in splits.values():
        total.update(each.tools_called)
    if not total:
        return "None: the rows act in their text."
    return markdown_table(["tool", "calls"], [[name, f"{n:,}"] for name, n in total.most_common()])


def _example(row: dict[str, Any]) -> str:
    return _fenced("json", json.dumps(_shortened(row), indent=2, ensure_ascii=False))


def _shortened(row: dict[str, Any]) -> dict[str, Any]:
    """A row with long texts cut, and the number of omitted characters."""
    messages = [each | {"content": _cut(each["content"])} for each in row["messages"]]
    names = [tool["function"]["name"] for tool in row["tools"]]
    tools = f"the schemas of {', '.join(names)}" if names else "none"
    return row | {"messages": messages, "tools": tools}


def _cut(text: str) -> str:
    left_out = len(text) - EXAMPLE_CHARACTERS
    return text if left_out <= 0 else f"{text[:EXAMPLE_CHARACTERS]} [{left_out:,} characters more]"


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines
    )


def _fenced(language: str, text: str) -> str:
    """A code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
