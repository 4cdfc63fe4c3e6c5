"""Two runs on one page: the arms that both have, on the bugs that both played, and which of their
settings differ."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from collect.quantities import counted, first_of
from collect.store.files import write_text
from collect.store.records import Rollout
from eval.config import StatisticsConfig
from eval.figures import table
from eval.metrics import MISSING, Arm, Labels, decimal, ordered
from eval.paired import Outcomes, PairedComparison, compare_pair, outcomes_by_arm
from eval.report.facts import Selection, Totals, choose, sources_of
from eval.report.index import card_view, html_of, saved_config
from eval.report.pages import INDEX, check_output
from eval.report.rendering import render

logger = logging.getLogger(__name__)
STAGES = ("eval", "collect")
"""The stages whose rollouts are compared: the first that both runs have."""
PLACE = ("run", "runs_folder")
"""Settings that differ between any two runs."""
FIRST, SECOND = Arm("", "first", ""), Arm("", "second", "")
"""Stand for an arm in either run."""
BugVersion = tuple[str, str, str]
"""Benchmark, id, and the hash of all that makes the bug."""


@dataclass(frozen=True)
class ComparedRun:
    name: str
    folder: Path
    labels: Labels
    rows: Sequence[Rollout]
    totals: Totals

    @cached_property
    def bugs(self) -> set[BugVersion]:
        return {_bug(row) for row in self.rows}

    @cached_property
    def arms(self) -> dict[Arm, str]:
        """Its arms with their names."""
        keys = self.totals.outcomes
        return {arm: self.labels.name(arm, scripted) for _, arm, scripted, _ in keys}

    @cached_property
    def settings(self) -> dict[str, str]:
        """Its config's settings, with its folder as `{run}`."""
        config = saved_config(self.folder)
        folder = f"{config.get('runs_folder')}/{config.get('run')}"
        found = ((key, value.replace(folder, "{run}")) for key, value in _settings(config))
        return {key: value for key, value in found if key not in PLACE}

    def outcomes(self, shared: set[BugVersion]) -> Mapping[Arm, Outcomes]:
        return outcomes_by_arm(row for row in self.rows if _bug(row) in shared)


def _bug(row: Rollout) -> BugVersion:
    return row.benchmark, row.instance_id, row.instance_hash


def _settings(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _settings(value, f"{prefix}{key}.")
        else:
            is_line = isinstance(value, str) and "\n" not in value
            yield f"{prefix}{key}", value if is_line else json.dumps(value)


def write_comparison(folders: Sequence[Path], labels: Sequence[Labels], output: Path) -> Path:
    """Write a page that compares two runs; returns its path.

    Raises ConfigError if no stage has rollouts in both, or `output` holds anything but a report.
    """
    check_output(output)
    sources = [sources_of(folder) for folder in folders]
    stage = next((each for each in STAGES if all(each in found for found in sources)), None)
    if stage is None:
        raise ConfigError(
            f"{folders[0]} and {folders[1]} can't be compared: give two runs that were evaluated, "
            "or two that collected"
        )
    names = [folder.resolve().name for folder in folders]
    if names[0] == names[1]:
        names = [str(folder) for folder in folders]
    runs = []
    for name, folder, found, own in zip(names, folders, sources, labels, strict=True):
        chosen, totals = choose({stage: found[stage]}, Selection(limit=None))
        runs.append(ComparedRun(name, folder, own, [each.row for each in chosen], totals))
    first, second = runs
    saved = (saved_config(second.folder).get("eval") or {}).get("statistics") or {}
    kept = StatisticsConfig.model_fields.keys() & saved.keys() - {"comparisons"}
    statistics = StatisticsConfig.model_validate({key: saved[key] for key in kept})
    compared = compare_runs(first, second, statistics)
    if not first.bugs & second.bugs:
        logger.warning(f"{first.name} and {second.name} have no bug in common")
    arms = first.arms | second.arms
    places = {arms[arm]: place for place, arm in enumerate(compared)}
    settings = differing(first, second)
    page = render(
        "comparison.html.j2",
        title=f"{first.name} and {second.name}",
        runs=[(each.name, card_view(each.folder, each.totals, output)) for each in runs],
        bugs=_bugs_told(first, second),
        arms=html_of(table(_rows(first, second, compared)), places),
        settings=html_of(table([["Setting", first.name, second.name], *settings])),
        differ=len(settings),
        statistics=statistics,
    )
    output.mkdir(parents=True, exist_ok=True)
    write_text(output / INDEX, page)
    return output / INDEX


def compare_runs(
    first: ComparedRun, second: ComparedRun, statistics: StatisticsConfig
) -> dict[Arm, PairedComparison | None]:
    """The second run minus the first, by arm, on the bugs that both played; None for an arm that
    only one of them has."""
    shared = first.bugs & second.bugs
    before, after = first.outcomes(shared), second.outcomes(shared)
    compared: dict[Arm, PairedComparison | None] = {}
    for arm in ordered({*first.arms, *second.arms}):
        in_both = arm in before and arm in after
        outcomes = {FIRST: before.get(arm, {}), SECOND: after.get(arm, {})}
        compared[arm] = compare_pair(SECOND, FIRST, outcomes, statistics) if in_both else None
    return compared


def differing(first: ComparedRun, second: ComparedRun) -> list[list[str]]:
    """The settings that differ: name, and the value in each run."""
    both = (first.settings, second.settings)
    keys = dict.fromkeys([*both[0], *both[1]])
    rows = [[key, *(each.get(key, MISSING) for each in both)] for key in keys]
    return [[key, before, after] for key, before, after in rows if before != after]


def _bugs_told(first: ComparedRun, second: ComparedRun) -> str:
    shared = first.bugs & second.bugs
    told = f"Both played {counted(len(shared), 'bug')}"
    only = [
        f"{counted(len(bugs), 'bug')} only {run.name}: {first_of([b for _, b, _ in bugs])}"
        for run in (first, second)
        if (bugs := sorted(run.bugs - shared))
    ]
    if not only:
        return f"{told}, the same ones."
    return f"{told}. The bugs differ, and those of one run alone are left out: {'; '.join(only)}."


def _rows(
    first: ComparedRun, second: ComparedRun, compared: Mapping[Arm, PairedComparison | None]
) -> list[list[str]]:
    names = first.arms | second.arms
    head = ["Arm", "Bugs", "Attempts", f"{first.name} %", f"{second.name} %", "Difference"]
    rows = [[*head, "Interval", f"{first.name} better", f"{second.name} better"]]
    for arm, found in compared.items():
        if found is None:
            only = [run.name for run in (first, second) if arm in run.arms]
            told = f"only in {only[0]}" if len(only) == 1 else "no bug in common"
            rows.append([names[arm], told, *[MISSING] * 7])
            continue
        known = found.low is not None and found.high is not None
        rows.append(
            [
                *(names[arm], str(found.instances), str(found.attempts)),
                *(decimal(found.second_rate), decimal(found.first_rate)),
                decimal(found.difference, "{:+.1f}"),
                f"{found.low:+.1f} to {found.high:+.1f}" if known else MISSING,
                *(str(found.second_better), str(found.first_better)),
            ]
        )
    return rows
