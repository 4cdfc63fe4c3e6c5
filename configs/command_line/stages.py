"""The stages: each takes a run's config, prints for the user, and returns an exit status."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from collect.errors import ConfigError
from collect.preflight import Finding
from collect.quantities import counted, dollars
from collect.rollouts.stage import RolloutsSummary
from configs.command_line.making import answer, make, questions
from configs.command_line.preflight import add_preflight, check_flags, check_sections, preflight
from configs.command_line.push import add_push, check_target, push_dataset
from configs.command_line.shared import (
    AGAIN,
    CONFIG_HELP,
    FAILED,
    add_overrides,
    console,
    heading,
    is_spent,
    stopped,
    tell_failures,
)
from configs.loading import config_saved, load_config
from configs.run_config import RunConfig
from train.processes import process_count
from train.report import LossPoint

if TYPE_CHECKING:
    from eval.end_to_end import InPlaceReport
    from eval.qualitative.judge import JudgeReport
    from eval.standalone.stage import AloneReport

logger = logging.getLogger(__name__)


# `--preflight` of collect, eval and run: all checks before rollouts, and no rollouts.


REFUSED = 2
"""Exit status if a check failed: a start would refuse."""


def add_checks(parser: argparse.ArgumentParser) -> None:
    """Add the flag to commands that run rollouts."""
    told = "look at images, disks, sandbox, models and limits, say what was found, and end"
    parser.add_argument("--preflight", action="store_true", help=told)


def check_collect(config: RunConfig) -> int:
    """Check all that the config's rollouts need, and print it; returns the exit status."""
    from collect.rollouts.stage import look_before_collect

    return _told(look_before_collect(config, config.collect, config.folder, config.held_out))


def check_eval(config: RunConfig) -> int:
    """Check the config's evaluation, each set of rollouts separately; returns the exit status."""
    from eval.stage import look_before_eval

    found = look_before_eval(config, config.eval, config.collect.benchmark, config.folder)
    return max(_told(findings, name) for name, findings in found.items())


def check_run(config: RunConfig) -> int:
    """Check each stage of `run` whose rollouts need nothing from an earlier one; of the others only
    their sections. Raises ConfigError if a section is invalid."""
    check_sections(config)
    console.print("the sections of all stages will do")
    there = takewhile(lambda name: name not in MAKERS, config.stages)
    now = [name for name in there if name in CHECKS]
    status = max((CHECKS[name](config) for name in now), default=0)
    for name in config.stages:
        if name == "answer":
            console.print("answer: its questions and models are looked at when its turn comes")
        elif name in CHECKS and name not in now:
            console.print(
                f"{name}: more can be looked at once the stages before it are done, with "
                f"`stepinto {name} CONFIG --preflight`"
            )
    return status


CHECKS: dict[str, Callable[[RunConfig], int]] = {
    "collect": check_collect,
    "eval": check_eval,
}
"""The stages that run rollouts."""
MAKERS = ("make", "questions", "train")
"""The stages that make bugs, questions or a model."""


def _told(findings: Sequence[Finding], name: str | None = None) -> int:
    table = Table("", "what", "found, or what to do", title=name)
    for finding in findings:
        mark = Text("ok", "green") if finding.ok else Text("no", "red")
        table.add_row(mark, finding.name, Text(finding.said))
    console.print(table)
    return 0 if all(finding.ok for finding in findings) else REFUSED


Stage = Callable[[RunConfig], int]
"""Runs one stage and returns the exit status."""


def collect(config: RunConfig) -> int:
    """Roll out the agents."""
    from collect.rollouts.stage import run_collect

    heading("collect")
    summary = run_collect(config, config.collect, config.folder, config.held_out)
    console.print(
        f"{summary.done} of {counted(summary.total, 'rollout')}, {summary.resolved} resolved, "
        f"{summary.failed} failed, {dollars(summary.dollars)}; in {summary.folder}/rollouts and "
        f"{summary.folder}/conversations"
    )
    return _status(summary)


def _status(summary: RolloutsSummary) -> int:
    tell_failures(summary.reasons, AGAIN)
    if summary.nothing_worked:
        logger.warning(summary.nothing_worked)
        return FAILED
    if summary.stopped:
        return stopped(summary.reasons)
    return 0


def format_rows(config: RunConfig) -> int:
    """Make training data from the rollouts."""
    from format.stage import run_format

    heading("format")
    report = run_format(config.format, config.folder, config.held_out, config.agents)
    table = Table("filter", "dropped", "left")
    table.add_row("conversations in the run", "", str(report.funnel.conversations))
    for step in report.funnel.steps:
        table.add_row(step.name, str(step.dropped), str(step.remaining))
    console.print(table)
    splits = ", ".join(
        f"{counted(split.rows, 'row')} to {name}" for name, split in report.splits.items()
    )
    console.print(f"{splits}; in {config.folder}/sft (README.md is the dataset card)")
    for name, counts in report.outputs.items():
        told = ", ".join(f"{count} to {split}" for split, count in counts.items())
        console.print(f"{told}; in {config.folder}/sft/{name}")
    if config.format.tokenized is not None:
        from train.tokenized import write_tokenized

        rows = write_tokenized(config.format.tokenized, config.folder / "sft")
        told = ", ".join(f"{counted(count, 'row')} of {name}" for name, count in rows.items())
        console.print(f"{told} as token ids; in {config.folder}/sft/tokenized")
    return 0


def format_and_push(config: RunConfig) -> int:
    """Make training data, and upload them if the config says so."""
    return format_rows(config) or push_dataset(config)


def train(config: RunConfig) -> int:
    """Fine-tune the small model."""
    from train.job import QuestionBench
    from train.stage import run_train

    heading("train")
    bench = QuestionBench(config, config.questions.benchmark, config.held_out)
    report = run_train(config.train, config.folder, on_step=_print_step, bench=bench)
    checked = report.preflight
    trained = counted(checked.pairs, "pair") if checked.pairs else counted(checked.rows, "row")
    console.print(
        f"{report.base_model}\n{counted(report.steps, 'step')} on {trained} of up to "
        f"{checked.longest} tokens in {report.seconds:.0f} s; "
        f"{report.trained_parameters:,} of {report.parameters:,} parameters trained; "
        f"model in {config.folder}/model (training.json has the curve)"
    )
    return 0


def _print_step(point: LossPoint, steps: int) -> None:
    reward = point.metrics.get("reward")
    told = f" reward {reward:.3f}" if reward is not None else ""
    console.print(f"step {point.step}/{steps} loss {point.loss:.3f}{told}")


def evaluate(config: RunConfig) -> int:
    """Evaluate pairs of models, and subagents alone."""
    from eval.stage import run_eval

    heading("eval")
    described = config.model_dump(mode="json")
    report = run_eval(config, config.eval, config.collect.benchmark, config.folder, described)
    console.print(report.summary, markup=False, highlight=False)
    for part in (report.in_place, report.alone):
        if part is not None and part.tables is not None:
            console.print(f"tables: {part.tables.markdown}, {part.tables.csv}, {part.tables.json}")
    if report.page is not None:
        console.print(f"for a browser: {report.page}")
    status = _in_place_status(report.in_place) if report.in_place is not None else 0
    return status or (_alone_status(report.alone) if report.alone is not None else 0)


def _in_place_status(report: InPlaceReport) -> int:
    status = _status(report.rollouts)
    judge = report.judge
    if status or judge is None:
        return status
    missing = counted(judge.missing, "item")
    return _asked_status(judge, f"{judge.model} has not judged {missing} yet")


def _alone_status(report: AloneReport) -> int:
    return _asked_status(report, f"no answer yet to {counted(report.missing, 'question')}")


def _asked_status(report: JudgeReport | AloneReport, missing: str) -> int:
    failed = tell_failures(report.reasons)
    if report.stopped and (not failed or is_spent(report.reasons)):
        return stopped(report.reasons)
    if report.missing:
        logger.warning(f"{missing}; the same command goes on")
    return FAILED if report.missing else 0


STAGES: dict[str, Stage] = {
    "make": make,
    "questions": questions,
    "answer": answer,
    "collect": collect,
    "format": format_and_push,
    "train": train,
    "eval": evaluate,
}
COMMANDS: dict[str, tuple[Stage, ...] | None] = {
    "collect": (collect,),
    "format": (format_rows,),
    "train": (train,),
    "eval": (evaluate,),
    "run": None,
}
"""The stages of each command; None for those that the config names."""
CHECKED: dict[str, Stage] = {**CHECKS, "run": check_run}
"""What `--preflight` does instead, of the commands that have it."""


def add_stages(command: argparse.ArgumentParser, name: str) -> None:
    """The arguments of a command that does stages of a config."""
    command.add_argument("config", type=Path, help=CONFIG_HELP)
    add_overrides(command)
    command.set_defaults(command=lambda options: _run_stages(options, COMMANDS[name]))
    if name in CHECKED:
        add_checks(command)
        command.set_defaults(command=lambda options: _do_or_check(options, name))
    if name == "format":
        add_preflight(command)
        add_push(command)
        command.set_defaults(command=_format_and_check)


def _format_and_check(options: argparse.Namespace) -> int:
    check_flags(options)
    stages = (
        lambda config: check_target(config, options),
        format_rows,
        lambda config: preflight(config, options),
        lambda config: push_dataset(config, options),
    )
    return _run_stages(options, stages)


def _do_or_check(options: argparse.Namespace, name: str) -> int:
    if options.preflight:
        return _run_stages(options, (CHECKED[name],), save=False)
    return _run_stages(options, COMMANDS[name])


def _run_stages(
    options: argparse.Namespace, stages: Sequence[Stage] | None, save: bool = True
) -> int:
    """Do some stages, or for None those that the config names; `save` the config in its folder."""
    config = load_config(options.config, options.overrides)
    if stages is None:
        check_sections(config)
        stages = [STAGES[name] for name in config.stages]
    if process_count() > 1 and list(stages) != [train]:
        raise ConfigError(
            f"{process_count()} processes were launched, and only `stepinto train` shares its work "
            "among them; start the other stages without `accelerate launch`"
        )
    with config_saved(config) if save else nullcontext():
        for stage in stages:
            status = stage(config)
            if status:
                return status
    return 0
