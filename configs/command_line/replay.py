"""`stepinto replay`: whether the calls that a run recorded show again what it recorded."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from collect.benchmarks.config import BenchmarkConfig
from collect.errors import ConfigError
from collect.quantities import counted
from collect.rollouts.status import has_begun
from configs.command_line.shared import (
    FAILED,
    SHOWN_REASONS,
    add_overrides,
    add_questions,
    console,
    heading,
    question_files,
    stopped,
)
from configs.loading import load_config
from configs.run_config import RunConfig

if TYPE_CHECKING:
    from collect.replay import ReplayReport

SHOWN = 10
"""Conversations that are not as recorded."""


def add_replay(parser: argparse.ArgumentParser) -> None:
    """The options of `stepinto replay`."""
    parser.add_argument("run", type=Path, help="a run folder")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="at most so many more rollouts of each stage"
    )
    add_questions(parser)
    add_overrides(parser)
    parser.set_defaults(command=replay)


def replay(options: argparse.Namespace) -> int:
    """Replay what was not replayed yet of the rollouts of collect and of eval."""
    from eval.report.facts import SOURCES

    run: Path = options.run
    if options.limit is not None and options.limit < 1:
        raise ConfigError(f"--limit {options.limit}: give a number from 1 on")
    folders = {stage: run / below for stage, below in SOURCES if _has_rollouts(run / below)}
    if not folders:
        raise ConfigError(f"{run} has no rollouts; give the folder of a run that collected some")
    config = load_config(run, options.overrides)
    _tell_where(config)
    for stage, folder in folders.items():
        heading(stage)
        report = _replay(config, stage, folder, options)
        _show(report)
        if report.stopped:
            return FAILED if report.reasons else stopped()
    return 0


def _has_rollouts(folder: Path) -> bool:
    from collect.store.run_store import RunStore

    return has_begun(folder) and bool(RunStore(folder).rollouts.ids())


def _tell_where(config: RunConfig) -> None:
    from collect.replay import rollouts_at_once

    if config.runner.backend == "ray":
        console.print(
            "replay works on this machine alone, not on the Ray cluster; rollouts at once: "
            f"{rollouts_at_once(config.runner)} (runner.ray.per_node)"
        )


def _replay(
    config: RunConfig, stage: str, folder: Path, options: argparse.Namespace
) -> ReplayReport:
    from collect.replay import Bugs, Finder, replay_rollouts

    files = question_files(options, options.run, config)
    finder = Finder(Bugs(_benchmarks(config, stage), config.sandbox), files)
    return replay_rollouts(config, finder, folder, options.limit)


def _benchmarks(config: RunConfig, stage: str) -> Iterator[BenchmarkConfig]:
    """Where a stage's bugs come from."""
    evaluated = config.eval.benchmark or config.collect.benchmark
    if stage == "collect":
        yield config.collect.benchmark
        yield config.questions.benchmark
    elif stage == "eval":
        yield evaluated
    elif config.eval.questions is not None:
        yield config.eval.questions.benchmark or evaluated


def _show(report: ReplayReport) -> None:
    table = Table("conversations", "", "")
    for status, count in report.counts.items():
        table.add_row(status.value, f"{count}", f"{count / report.conversations:.1%}")
    console.print(table)
    for row in report.unverified[:SHOWN]:
        console.print(
            f"{row.status.value}: {row.conversation_id} of {row.instance_id}, message "
            f"{row.message_index}\n  - {row.recorded}\n  + {row.replayed}",
            highlight=False,
        )
    if len(report.unverified) > SHOWN:
        console.print(
            f"and {len(report.unverified) - SHOWN} more; all are in {report.folder}/replay"
        )
    for reason in report.reasons[:SHOWN_REASONS]:
        console.print(f"not replayed: {reason}", highlight=False)
    if report.left:
        console.print(f"{counted(report.left, 'rollout')} left; the same command goes on")
    if report.failed_before:
        console.print(f"{counted(report.failed_before, 'rollout')} had failed: nothing to verify")
