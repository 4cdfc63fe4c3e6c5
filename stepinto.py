"""The command line: `stepinto collect | format | train | eval | run | bench | view | doctor`."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from collect.errors import ConfigError
from collect.rollouts import RolloutsSummary
from configs.command_line.bench import add_bench
from configs.command_line.making import answer, make, questions
from configs.command_line.preflight import add_preflight, check_flags, preflight
from configs.command_line.push import add_push, check_target, push_dataset
from configs.command_line.shared import (
    CONFIG_HELP,
    FAILED,
    SHOWN_REASONS,
    STOPPED,
    add_overrides,
    console,
    stopped,
)
from configs.command_line.view import add_view
from configs.loading import config_saved, load_config
from configs.processes import process_count
from configs.run_config import RunConfig
from sandbox.errors import SandboxError
from train.report import LossPoint

if TYPE_CHECKING:
    from eval.alone.stage import AloneReport
    from eval.qualitative.judge import JudgeReport

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
Stage = Callable[[RunConfig], int]
"""Does one stage, and gives the exit status."""
KEPT = "rollouts that were finished before are kept"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 where it did what it was asked."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except (ConfigError, SandboxError) as error:
        print(f"stepinto: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # Before or after the rollouts, which stop at their next step by themselves.
        return STOPPED
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        print(f"stepinto: {error}; mend that, and start again: {KEPT}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stepinto",
        description="Collect debugger trajectories, train a debug subagent on them, measure it.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (stages, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("config", type=Path, help=CONFIG_HELP)
        add_overrides(command)
        command.set_defaults(command=lambda options, stages=stages: _run_stages(options, stages))
        if name == "format":
            add_preflight(command)
            add_push(command)
            command.set_defaults(command=_format_and_check)
    add_bench(
        commands.add_parser(
            "bench",
            help="list a config's bugs, show or verify them, get their images, or make some",
        )
    )
    add_view(commands.add_parser("view", help="show a run's numbers and conversations as pages"))
    doctor = commands.add_parser("doctor", help="what this machine has, and what is missing")
    doctor.set_defaults(command=_doctor)
    return parser


def _format_and_check(options: argparse.Namespace) -> int:
    check_flags(options)
    stages = (
        lambda config: check_target(config, options),
        _format,
        lambda config: preflight(config, options),
        lambda config: push_dataset(config, options),
    )
    return _run_stages(options, stages)


def _run_stages(options: argparse.Namespace, stages: Sequence[Stage] | None) -> int:
    """Do some stages, or for None those that the config names."""
    config = load_config(options.config, options.overrides)
    if stages is None:
        stages = [check_target, *(STAGES[name] for name in config.stages)]
    if process_count() > 1 and list(stages) != [_train]:
        raise ConfigError(
            f"{process_count()} processes were launched, and only `stepinto train` shares its work "
            "among them; start the other stages without `accelerate launch`"
        )
    with config_saved(config):
        for stage in stages:
            status = stage(config)
            if status:
                return status
    return 0


def _collect(config: RunConfig) -> int:
    from collect.stage import run_collect

    console.rule("collect")
    summary = run_collect(config, config.collect, config.folder, config.held_out)
    console.print(
        f"{summary.done} of {summary.total} rollouts, {summary.resolved} resolved, "
        f"{summary.failed} failed, ${summary.dollars:.2f}; in {summary.folder}/rollouts and "
        f"{summary.folder}/conversations"
    )
    return _status(summary)


def _status(summary: RolloutsSummary) -> int:
    for reason in summary.reasons[:SHOWN_REASONS]:
        print(
            f"stepinto: failed, and done again by the next start: {reason[:500]}", file=sys.stderr
        )
    if summary.nothing_worked:
        print(f"stepinto: {summary.nothing_worked}", file=sys.stderr)
        return FAILED
    if summary.stopped:
        return stopped()
    return 0


def _format(config: RunConfig) -> int:
    from format.stage import run_format

    console.rule("format")
    report = run_format(config.format, config.folder, config.held_out, config.agents)
    table = Table("filter", "dropped", "left")
    table.add_row("conversations in the run", "", str(report.funnel.conversations))
    for step in report.funnel.steps:
        table.add_row(step.name, str(step.dropped), str(step.remaining))
    console.print(table)
    splits = ", ".join(f"{split.rows} rows to {name}" for name, split in report.splits.items())
    console.print(f"{splits}; in {config.folder}/sft (README.md is the dataset card)")
    for name, counts in report.outputs.items():
        told = ", ".join(f"{count} to {split}" for split, count in counts.items())
        console.print(f"{told}; in {config.folder}/sft/{name}")
    if config.format.tokenized is not None:
        from train.tokenized import write_tokenized

        rows = write_tokenized(config.format.tokenized, config.folder / "sft")
        told = ", ".join(f"{count} rows of {name}" for name, count in rows.items())
        console.print(f"{told} as token ids; in {config.folder}/sft/tokenized")
    return 0


def _format_and_push(config: RunConfig) -> int:
    return _format(config) or push_dataset(config)


def _train(config: RunConfig) -> int:
    from train.question_bench import QuestionBench
    from train.stage import run_train

    console.rule("train")
    bench = QuestionBench(config, config.questions.benchmark, config.held_out)
    report = run_train(config.train, config.folder, on_step=_print_step, bench=bench)
    console.print(
        f"{report.base_model}\n{report.steps} steps on {report.preflight.rows} rows of up to "
        f"{report.preflight.longest} tokens in {report.seconds:.0f} s; "
        f"{report.trained_parameters:,} of {report.parameters:,} parameters trained; "
        f"model in {config.folder}/model (training.json has the curve)"
    )
    return 0


def _print_step(point: LossPoint, steps: int) -> None:
    reward = point.metrics.get("reward")
    told = f" reward {reward:.3f}" if reward is not None else ""
    console.print(f"step {point.step}/{steps} loss {point.loss:.3f}{told}")


def _eval(config: RunConfig) -> int:
    from eval.stage import run_eval

    console.rule("eval")
    described = config.model_dump(mode="json")
    report = run_eval(config, config.eval, config.collect.benchmark, config.folder, described)
    console.print(report.summary, markup=False, highlight=False)
    alone = report.alone
    for tables in (report.tables, alone.tables if alone is not None else None):
        if tables is not None:
            console.print(f"tables: {tables.markdown}, {tables.csv}, {tables.json}")
    if report.page is not None:
        console.print(f"for a browser: {report.page}")
    status = _status(report.rollouts) if report.rollouts is not None else 0
    if report.judge is not None:
        status = status or _judge_status(report.judge)
    return status or (_alone_status(alone) if alone is not None else 0)


def _judge_status(judge: JudgeReport) -> int:
    for reason in judge.reasons[:SHOWN_REASONS]:
        print(f"stepinto: failed: {reason[:500]}", file=sys.stderr)
    if judge.stopped and not judge.reasons:
        return stopped()
    if judge.missing:
        told = f"{judge.model} has not judged {judge.missing} items yet; the same command goes on"
        print(f"stepinto: {told}", file=sys.stderr)
    return FAILED if judge.missing else 0


def _alone_status(report: AloneReport) -> int:
    for reason in report.reasons[:SHOWN_REASONS]:
        print(f"stepinto: failed: {reason[:500]}", file=sys.stderr)
    if report.stopped and not report.reasons:
        return stopped()
    if report.missing:
        told = f"{report.missing} questions have no answer yet; the same command goes on"
        print(f"stepinto: {told}", file=sys.stderr)
    return FAILED if report.missing else 0


STAGES: dict[str, Stage] = {
    "make": make,
    "questions": questions,
    "answer": answer,
    "collect": _collect,
    "format": _format_and_push,
    "train": _train,
    "eval": _eval,
}
COMMANDS: dict[str, tuple[tuple[Stage, ...] | None, str]] = {
    "collect": ((_collect,), "roll out the agents on the bugs"),
    "format": ((_format,), "make fine-tuning data from the rollouts"),
    "train": ((_train,), "fine-tune the small model"),
    "eval": ((_eval,), "measure pairs of models on held-out bugs"),
    "run": (None, "the config's stages in a row: collect, format, train and eval by default"),
}
"""The stages of each command; None for those that the config names."""


def _doctor(options: argparse.Namespace) -> int:
    from sandbox.doctor import check_machine, render

    console.print(render(check_machine()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
