"""The commands that do stages: each stage takes a run's config, prints for the user, and returns an
exit status."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Callable, Mapping, Sequence
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
from format.config import PushConfig
from train.config import TrainConfig
from train.processes import process_count
from train.report import LossPoint

if TYPE_CHECKING:
    from eval.qualitative.judge import JudgeReport
    from eval.stage import InPlaceReport
    from eval.standalone.stage import AloneReport

logger = logging.getLogger(__name__)
Stage = Callable[[RunConfig], int]
"""Runs one stage and returns the exit status."""
REFUSED = 2
"""Exit status if a check failed: a start would refuse."""
PREFLIGHT_REPORT = "preflight.json"
OVERRIDE = re.compile(r"[\w.]+=(?!=)")
PREFLIGHT_FLAGS = {
    "template": "training_template",
    "serving_template": "serving_template",
    "tool_call_parser": "tool_call_parser",
    "max_length": "max_length",
}
"""Flags of `format --preflight`, with the setting of `train` that each replaces."""
MAKERS = ("make", "questions", "train")
"""The stages that make bugs, questions or a model."""


def add_stages(command: argparse.ArgumentParser, name: str) -> None:
    """The arguments of a command that does stages of a config."""
    command.add_argument("config", type=Path, help=CONFIG_HELP)
    add_overrides(command)
    command.set_defaults(command=run_format if name == "format" else run_stages, stage=name)
    if name == "format":
        _add_format_flags(command)
    elif name != "train":
        told = "look at images, disks, sandbox, models and limits, say what was found, and end"
        command.add_argument("--preflight", action="store_true", help=told)


def run_stages(options: argparse.Namespace) -> int:
    """`stepinto collect`, `train`, `eval`, or `run` with the stages that the config names."""
    config = load_config(options.config, options.overrides)
    if getattr(options, "preflight", False):
        checks: Mapping[str, Stage] = {"run": check_run, **CHECKS}
        return _do(config, (checks[options.stage],), save=False)
    if options.stage != "run":
        return _do(config, (STAGES[options.stage],))
    check_sections(config)
    return _do(config, [STAGES[name] for name in config.stages])


def run_format(options: argparse.Namespace) -> int:
    """`stepinto format`, with the flags that check its rows or upload them."""
    check_format_flags(options)
    config = load_config(options.config, options.overrides)
    push = config.format.push
    if options.push is not None:
        push = PushConfig(repository=options.push, private=options.private)

    def make_dataset(config: RunConfig) -> int:
        check_push_target(push)
        status = format_rows(config)
        if options.preflight is not None:
            status = status or check_rows(config, options)
        return status or push_dataset(config, push)

    return _do(config, (make_dataset,))


def _do(config: RunConfig, stages: Sequence[Stage], save: bool = True) -> int:
    """Do the stages up to the first that fails; `save` the config in its folder."""
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
    return _rollouts_status(summary)


def _rollouts_status(summary: RolloutsSummary) -> int:
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
        from train.rows import write_tokenized

        rows = write_tokenized(config.format.tokenized, config.folder / "sft")
        told = ", ".join(f"{counted(count, 'row')} of {name}" for name, count in rows.items())
        console.print(f"{told} as token ids; in {config.folder}/sft/tokenized")
    return 0


def format_and_push(config: RunConfig) -> int:
    """Make training data, and upload them if the config says so."""
    return format_rows(config) or push_dataset(config, config.format.push)


def check_push_target(push: PushConfig | None) -> None:
    """Raise ConfigError, before any work, if the dataset could not be uploaded."""
    from format.push import check_push

    if push is not None:
        check_push(push)


def push_dataset(config: RunConfig, push: PushConfig | None) -> int:
    """Upload the run's dataset to the hub, if `push` says where."""
    from format.push import push as upload

    if push is not None:
        heading("push")
        console.print(upload(config.folder / "sft", push), markup=False, highlight=False)
    return 0


def _add_format_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preflight",
        nargs="?",
        const="",
        metavar="MODEL",
        help="check the rows for training this model: a folder with a tokenizer, and with weights "
        "where embeddings are to be checked, or what train.base_model takes; without MODEL the "
        "config's own",
    )
    for (flag, setting), metavar in zip(
        PREFLIGHT_FLAGS.items(), ("FILE", "FILE", "NAME", "TOKENS"), strict=True
    ):
        parser.add_argument(
            f"--{flag.replace('_', '-')}",
            metavar=metavar,
            type=int if metavar == "TOKENS" else str,
            help=f"in place of the config's train.{setting}",
        )
    parser.add_argument(
        "--push", metavar="OWNER/NAME", help="upload the dataset to this repository of the hub"
    )
    parser.add_argument("--private", action="store_true", help="with --push: make it private")


def check_format_flags(options: argparse.Namespace) -> None:
    """Raise ConfigError if a flag has no effect, or the model is given by an override."""
    if options.private and options.push is None:
        raise ConfigError("--private is for --push; give that too, or set format.push.private")
    if options.preflight and OVERRIDE.match(options.preflight):
        raise ConfigError(f"{options.preflight} is no model; give overrides before --preflight")
    given = [name for name in PREFLIGHT_FLAGS if getattr(options, name) is not None]
    if given and options.preflight is None:
        raise ConfigError(f"--{given[0].replace('_', '-')} is for --preflight; give that too")


def check_rows(config: RunConfig, options: argparse.Namespace) -> int:
    """Check the run's train split for a model, print one line per check, and save the report in the
    run folder."""
    from format.dataset import split_file
    from train.base_model import require
    from train.rows import check_split
    from train.tokenization import load_tokenization

    require(("torch", "transformers", "trl"))
    heading("preflight")
    settings = checked_config(config.train, options)
    split = split_file(config.folder / "sft", "train")
    report = check_split(split, settings, load_tokenization(settings))
    for line in report.lines():
        console.print(line, markup=False, highlight=False)
    path = config.folder / PREFLIGHT_REPORT
    path.write_text(report.model_dump_json(indent=2) + "\n")
    console.print(f"{report.looked_through} of {report.rows} rows looked through; {path}")
    return REFUSED if report.failures else 0


def checked_config(train: TrainConfig, options: argparse.Namespace) -> TrainConfig:
    """The config's `train` section with the flags applied.

    With another model than the config's, the config's templates are not used.
    """
    settings = train.model_dump()
    model = options.preflight or train.base_model
    if model != train.base_model:
        for name in ("base_model_sha256", "training_template", "serving_template"):
            del settings[name]
    given = {setting: getattr(options, flag) for flag, setting in PREFLIGHT_FLAGS.items()}
    given["base_model"] = model
    return TrainConfig.model_validate(
        settings | {name: value for name, value in given.items() if value is not None}
    )


def train(config: RunConfig) -> int:
    """Fine-tune the small model."""
    from train.job import QuestionBench
    from train.stage import run_train

    def print_step(point: LossPoint, steps: int) -> None:
        reward = point.metrics.get("reward")
        told = f" reward {reward:.3f}" if reward is not None else ""
        console.print(f"step {point.step}/{steps} loss {point.loss:.3f}{told}")

    heading("train")
    bench = QuestionBench(config, config.questions.benchmark, config.held_out)
    report = run_train(config.train, config.folder, on_step=print_step, bench=bench)
    checked = report.preflight
    trained = counted(checked.pairs, "pair") if checked.pairs else counted(checked.rows, "row")
    console.print(
        f"{report.base_model}\n{counted(report.steps, 'step')} on {trained} of up to "
        f"{checked.longest} tokens in {report.seconds:.0f} s; "
        f"{report.trained_parameters:,} of {report.parameters:,} parameters trained; "
        f"model in {config.folder}/model (training.json has the curve)"
    )
    return 0


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
    status = _rollouts_status(report.rollouts)
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


def check_collect(config: RunConfig) -> int:
    """Check all that the config's rollouts need, and print it; returns the exit status."""
    from collect.rollouts.stage import look_before_collect

    return _found(look_before_collect(config, config.collect, config.folder, config.held_out))


def check_eval(config: RunConfig) -> int:
    """Check the config's evaluation, each set of rollouts separately; returns the exit status."""
    from eval.stage import look_before_eval

    found = look_before_eval(config, config.eval, config.collect.benchmark, config.folder)
    return max(_found(findings, name) for name, findings in found.items())


def _found(findings: Sequence[Finding], name: str | None = None) -> int:
    table = Table("", "what", "found, or what to do", title=name)
    for finding in findings:
        mark = Text("ok", "green") if finding.ok else Text("no", "red")
        table.add_row(mark, finding.name, Text(finding.said))
    console.print(table)
    return 0 if all(finding.ok for finding in findings) else REFUSED


CHECKS: dict[str, Stage] = {"collect": check_collect, "eval": check_eval}
"""The stages that run rollouts."""


def check_run(config: RunConfig) -> int:
    """Check each stage of `run` whose rollouts need nothing from an earlier one; of the others only
    their sections. Raises ConfigError if a section is invalid."""
    check_sections(config)
    console.print("the sections of all stages will do")
    now = [name for name in takewhile(lambda n: n not in MAKERS, config.stages) if name in CHECKS]
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


def check_sections(config: RunConfig) -> None:
    """Raise ConfigError if one of the config's stages would refuse its section. Files that earlier
    stages write are checked when the stage starts."""
    if "make" in config.stages:
        from collect.synthesis.making import check_factory

        check_factory(config.factory)
    if "answer" in config.stages:
        from collect.questions.config import SOURCE_READER

        for name in config.questions.answerers:
            if name != SOURCE_READER:
                config.model_config_of(name)
    if "collect" in config.stages:
        config.model_config_of(config.collect.main)
        config.model_config_of(config.collect.sub)
    if "format" in config.stages:
        check_push_target(config.format.push)
    if "train" in config.stages:
        from train.job import QuestionBench
        from train.stage import check_train

        bench = QuestionBench(config, config.questions.benchmark, config.held_out)
        check_train(config.train, bench)
    if "eval" in config.stages:
        from eval.stage import check_eval

        check_eval(config, config.eval, config.collect.benchmark, config.folder)


STAGES: dict[str, Stage] = {
    "make": make,
    "questions": questions,
    "answer": answer,
    "collect": collect,
    "format": format_and_push,
    "train": train,
    "eval": evaluate,
}
