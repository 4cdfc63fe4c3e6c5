"""Whether the rows in a run's `sft/` are what `format` would write now, for who trains on them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from collect.benchmarks.held_out import HeldOutConfig
from collect.errors import ConfigError, FileMoved
from collect.quantities import counted, first_of
from collect.store.files import write_text
from collect.store.run_store import RunStore
from format.config import FormatConfig
from format.report import FormatReport, RolloutsRead
from format.shipped import with_shipped

REFUSAL = "refused.txt"
"""In an earlier start's `sft/`: why the last one wrote nothing. Its next success replaces both."""
NOT_OF_ROWS = {"push", "processes", "name", "license", "tags", "atif", "llama_factory", "token_ids"}
"""Settings that change no row."""
PATHS = {"runs", "questions"}
"""Settings that name the same files from elsewhere in other words."""


def rollouts_read(runs: Sequence[Path]) -> dict[str, RolloutsRead]:
    """What rollouts these runs have now, by run; runs that have none are left out."""
    read = {}
    for run in runs:
        columns = ("rollout_id", "started_at")
        began = [row["started_at"] for row in RunStore(run).rollouts.rows(columns=columns)]
        if began:
            read[run.resolve().name] = RolloutsRead(count=len(began), newest=max(began))
    return read


@contextmanager
def refusal_noted(sft: Path) -> Iterator[None]:
    """Note in the rows of an earlier start why this one is refused, if it is."""
    try:
        yield
    except ConfigError as error:
        if sft.is_dir():
            write_text(sft / REFUSAL, f"{error}\n")
        raise


def refuse_after_refusal(sft: Path) -> None:
    """Raise ConfigError if the rows are an earlier start's, because the last one was refused."""
    note = sft / REFUSAL
    if not note.is_file():
        return
    why = note.read_text(encoding="utf-8", errors="replace").strip()
    raise ConfigError(
        f"the last `stepinto format` wrote no rows, so those in {sft} are older. It said:\n{why}\n"
        f"Do that and run `stepinto format` again, or remove {note} to train on the older rows"
    )


def what_changed(run: Path, config: FormatConfig, held_out: HeldOutConfig) -> list[str]:
    """What `format` would now read or do in another way than when it wrote the run's rows, one
    text each. Empty if nothing is known of how these were made."""
    try:
        report = FormatReport.model_validate_json((run / "sft" / "report.json").read_bytes())
        earlier = FormatConfig.model_validate(report.config)
        reserved = HeldOutConfig.model_validate(report.held_out)
        now = rollouts_read((run, *with_shipped(config).runs))
    except (FileNotFoundError, ValidationError, FileMoved):
        return []
    changes = []
    for name, read in report.rollouts.items():
        current = now.get(name, read)
        if current.count != read.count:
            had = counted(read.count, "rollout")
            changes.append(f"{name} had {had} and has {current.count:,} now")
        elif current.newest > read.newest:
            changes.append(f"rollouts of {name} were done again since")
    changes += _changed_settings(earlier, config)
    if reserved != held_out:
        changes.append("the section held_out was another")
    return changes


def _changed_settings(earlier: FormatConfig, config: FormatConfig) -> list[str]:
    before = earlier.model_dump(mode="json", exclude=NOT_OF_ROWS | PATHS)
    now = config.model_dump(mode="json", exclude=NOT_OF_ROWS | PATHS)
    changes = [
        f"format.{name} was {json.dumps(before[name])} and is {json.dumps(value)} now"
        for name, value in now.items()
        if before[name] != value
    ]
    runs_before, runs_now = _names_of_runs(earlier), _names_of_runs(config)
    if runs_before != runs_now:
        changes.append(
            f"format.runs was [{first_of(runs_before)}] and is [{first_of(runs_now)}] now"
        )
    return changes


def _names_of_runs(config: FormatConfig) -> list[str]:
    return sorted(path.resolve().name for path in config.runs)
