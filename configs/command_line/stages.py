"""The commands that do stages: each stage takes a run's config, prints for the user, and returns an
exit status."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from rich.box import MARKDOWN
from rich.table import Table
from rich.text import Text

from collect.console import visible
from collect.errors import ConfigError
from collect.preflight import Finding
from collect.quantities import counted, dollars, funnel_table
from collect.rollouts.progress import ProgressBar
from collect.rollouts.stage import RolloutsSummary
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
from configs.loading import SHIPPED, RunConfig, config_saved, load_config, nothing_saved
from format.config import PushConfig
from train.config import TrainConfig
from train.job import is_main_process, process_count
from train.report import LossPoint

logger = logging.getLogger(__name__)
Stage = Callable[[RunConfig], int]
"""Runs one stage and returns the exit status."""
REFUSED = 2
"""Exit status if a check failed: a start would refuse."""
CELL = 10
"""Least width of a table's column in a terminal."""
OVERRIDE = re.compile(r"[\w.]+=(?!=)")


def add_stages(command: argparse.ArgumentParser, name: str) -> None:
    """The arguments of a command that does stages of a config."""
    add = command.add_argument
    if name == "quickstart":
        command.set_defaults(config=SHIPPED["quickstart"])
        name = "run"
    else:
        add("config", type=Path, help=CONFIG_HELP)
    add_overrides(command)
    command.set_defaults(command=run_format if name == "format" else run_stages, stage=name)
    if name == "format":
        told = (
            "check the rows for training this model: a folder with a tokenizer, and with weights "
            "where embeddings are to be checked, or what train.base_model takes; without MODEL the "
            "config's own"
        )
        add("--preflight", nargs="?", const="", metavar="MODEL", help=told)
        told = "upload the dataset to this repository of the hub"
        add("--push", metavar="OWNER/NAME", help=told)
        add("--private", action="store_true", help="with --push: make it private")
    elif name != "train":
        told = "look at images, disks, sandbox, models and limits, say what was found, and end"
        add("--preflight", action="store_true", help=told)


def run_stages(options: argparse.Namespace) -> int:
    """`stepinto collect`, `train`, `eval`, or `run` with the stages that the config names; also
    `bench make`, `questions` and `answer`."""
    config = load_config(options.config, options.overrides)
    if getattr(options, "preflight", False):
        check = check_run if options.stage == "run" else CHECKS[options.stage]
        return do_stages(config, (check,), save=False)
    if options.stage != "run":
        # Bugs are made in a folder for many runs, whose config may be another one.
        return do_stages(config, (STAGES[options.stage],), save=options.stage != "make")
    check_sections(config)
    return do_stages(config, [STAGES[name] for name in config.stages])


def run_format(options: argparse.Namespace) -> int:
    """`stepinto format`, with the flags that check its rows or upload them."""
    if options.private and options.push is None:
        raise ConfigError("--private is for --push; give that too, or set format.push.private")
    if options.preflight and OVERRIDE.match(options.preflight):
        raise ConfigError(f"{options.preflight} is no model; give overrides before --preflight")
    config = load_config(options.config, options.overrides)
    push = None
    if options.push is not None:
        push = PushConfig(repository=options.push, private=options.private)
    return do_stages(config, (partial(make_dataset, push=push, preflight=options.preflight),))


def do_stages(config: RunConfig, stages: Sequence[Stage], save: bool = True) -> int:
    """Do the stages up to the first that fails; `save` the config in its folder."""
    if process_count() > 1 and list(stages) != [train]:
        raise ConfigError(
            f"{process_count()} processes were launched, and only `stepinto train` shares its work "
            "among them; start the other stages without `accelerate launch`"
        )
    with config_saved(config) if save else nothing_saved(config):
        for stage in stages:
            status = stage(config)
            if status:
                return status
    return 0


def make(config: RunConfig) -> int:
    """Make the bugs of the config's `factory` section."""
    from collect.synthesis.making import make_bugs, projects_table, yield_table

    heading("make")
    made = make_bugs(config, config.factory, config.folder)
    card = made.card
    if card is None:
        return stopped()
    console.print(projects_table(card))
    console.print(yield_table(card))
    console.print(funnel_table(card.steps, "edits tried"))
    console.print(
        f"{counted(card.bugs, 'bug')} in {made.folder}, {card.bugs_per_hour:.0f} an hour "
        f"with {card.concurrency} at once"
    )
    return 0


def questions(config: RunConfig) -> int:
    """Make the questions of the config's `questions` section."""
    from collect.questions.building import build, questions_path
    from collect.questions.building import funnel_table as questions_table

    heading("questions")
    card = build(config, config.questions, config.folder)
    if card is None:
        return stopped()
    console.print(questions_table(card))
    path = questions_path(config.questions, config.folder)
    console.print(f"{counted(card.questions, 'question')} in {path}")
    return 0


def answer(config: RunConfig) -> int:
    """Put the questions to all `questions.answerers`, and print their scores."""
    from collect.questions.answering import answer as answer_questions
    from collect.questions.answering import score_table

    for name in config.questions.answerers:
        heading(f"answer: {name}")
        answers = answer_questions(config, config.questions.answered_by(name), config.folder)
        console.print(score_table(answers.answered, name))
        if answers.conversations is not None:
            console.print(f"conversations in {answers.conversations}")
        told = f"no answer yet to {counted(answers.missing, 'question')}"
        status = asked_status(answers.missing, told, answers.reasons, answers.missing > 0)
        if status:
            return status
    return 0


def asked_status(missing: int, told: str, reasons: Sequence[str], was_stopped: bool) -> int:
    """Report on requests to a model of which some may be `missing`; returns the exit status."""
    failed = tell_failures(reasons)
    if was_stopped and (not failed or is_spent(reasons)):
        return stopped(reasons)
    if missing:
        logger.warning(f"{told}; the same command goes on")
    return FAILED if missing else 0


def collect(config: RunConfig) -> int:
    """Roll out the agents."""
    from collect.rollouts.stage import run_collect

    heading("collect")
    summary = run_collect(config, config.collect, config.folder, config.held_out)
    console.print(
        f"{summary.done:,} of {counted(summary.total, 'rollout')}, {summary.resolved:,} resolved, "
        f"{summary.failed:,} failed, {dollars(summary.dollars)}; in {summary.folder}/rollouts and "
        f"{summary.folder}/conversations"
    )
    return rollouts_status(summary)


def rollouts_status(summary: RolloutsSummary) -> int:
    """Report on the failures of rollouts; returns the exit status."""
    tell_failures(summary.reasons, AGAIN)
    if summary.nothing_worked:
        logger.warning(summary.nothing_worked)
        return FAILED
    return stopped(summary.reasons) if summary.stopped else 0


def make_dataset(
    config: RunConfig, push: PushConfig | None = None, preflight: str | None = None
) -> int:
    """Make training data from the rollouts. Check them for the model `preflight`, if one is given,
    and upload them if `push` or the config says where."""
    from format.push import check_push
    from format.push import push as upload
    from format.shipped import with_shipped
    from format.stage import run_format

    push = push or config.format.push
    check_push(push)
    # The dataset card says what is uploaded.
    format_config = config.format.model_copy(update={"push": push})
    heading("format")
    report = run_format(format_config, config.folder, config.held_out)
    title = counted(report.funnel.conversations, "conversation")
    console.print(funnel_table(report.funnel.steps, title))
    splits = ", ".join(
        f"{counted(split.rows, 'row')} to {name}" for name, split in report.splits.items()
    )
    console.print(f"{splits}; in {config.folder}/sft (README.md is the dataset card)")
    for name, counts in report.outputs.items():
        told = ", ".join(f"{count:,} to {split}" for split, count in counts.items())
        console.print(f"{told}; in {config.folder}/sft/{name}")
    status = 0 if preflight is None else check_rows(config, preflight)
    if push is not None and not status:
        push = PushConfig.model_validate(report.config["push"])
        heading("push")
        every = (config.folder, *with_shipped(config.format).runs)
        runs = [each for each in every if (each / "rollouts").is_dir()]
        console.print(upload(config.folder / "sft", push, runs), highlight=False)
    return status


def check_rows(config: RunConfig, model: str) -> int:
    """Check the run's train split for a model, by default the config's; print one line per check,
    and save the report in the run folder."""
    from format.dataset import split_file
    from train.base_model import load_tokenization, require
    from train.preflight import check_split

    require(("torch", "transformers", "trl"))
    heading("preflight")
    settings = config.train
    if model and model != settings.base_model:
        # The config's templates are those of its own model.
        own = {"base_model_sha256", "training_template", "serving_template"}
        other = settings.model_dump(exclude=own) | {"base_model": model}
        settings = TrainConfig.model_validate(other)
    split = split_file(config.folder / "sft", "train")
    report = check_split(split, settings, load_tokenization(settings))
    for line in report.lines():
        console.print(line, markup=False, highlight=False)
    path = config.folder / "preflight.json"
    path.write_text(report.model_dump_json(indent=2) + "\n")
    console.print(f"{report.looked_through} of {report.rows} rows looked through; {path}")
    return REFUSED if report.failures else 0


def train(config: RunConfig) -> int:
    """Fine-tune the small model."""
    from train.job import QuestionBench
    from train.stage import run_train

    def print_step(point: LossPoint, steps: int) -> None:
        reward = point.metrics.get("reward")
        told = f" reward {reward:.3f}" if reward is not None else ""
        console.print(f"step {point.step}/{steps} loss {point.loss:.3f}{told}")

    heading("train")
    if config.train.method != "grpo" and is_main_process():
        tell_older_rows(config)
    bench = QuestionBench(config, config.questions.benchmark, config.held_out)
    with ProgressBar("steps", None, console=console) as bar:
        report = run_train(config.train, config.folder, print_step, bench, bar.reach)
    checked = report.preflight
    trained = counted(checked.pairs, "pair") if checked.pairs else counted(checked.rows, "row")
    console.print(
        f"{counted(report.steps, 'step')} on {trained} of up to "
        f"{checked.longest} tokens in {report.seconds:.0f} s; "
        f"{report.trained_parameters:,} of {report.parameters:,} parameters trained; "
        f"model in {config.folder}/model (training.json has the curve)"
    )
    return 0


def tell_older_rows(config: RunConfig) -> None:
    """Warn if `format` would now write other rows than the run has."""
    from format.freshness import what_changed

    changes = what_changed(config.folder, config.format, config.held_out)
    if changes:
        logger.warning(
            f"training on the rows in {config.folder}/sft as they are, though since then "
            f"{'; '.join(changes)}. `stepinto format` makes them anew"
        )


def evaluate(config: RunConfig) -> int:
    """Evaluate pairs of models, and subagents alone."""
    from eval.stage import run_eval

    heading("eval")
    described = config.model_dump(mode="json")
    report = run_eval(config, config.eval, config.collect.benchmark, config.folder, described)
    in_place, alone = report.in_place, report.alone
    for part in (in_place, alone):
        if part is None:
            continue
        folded = print_summary(part.summary)
        if part.tables is not None:
            where = "tables, at their whole width" if folded else "tables"
            paths = (part.tables.markdown, part.tables.csv, part.tables.json)
            console.print(f"{where}: {', '.join(map(str, paths))}", highlight=False)
    if report.page is not None:
        console.print(f"for a browser: {report.page}")
    status = 0
    if in_place is not None:
        status = rollouts_status(in_place.rollouts)
        judge = in_place.judge
        if judge is not None and not status:
            told = f"{judge.model} has not judged {counted(judge.missing, 'item')} yet"
            status = asked_status(judge.missing, told, judge.reasons, judge.stopped)
    if alone is not None and not status:
        told = f"no answer yet to {counted(alone.missing, 'question')}"
        status = asked_status(alone.missing, told, alone.reasons, alone.stopped)
    return status


def print_summary(markdown: str) -> bool:
    """Print Markdown, with tables that are wider than the terminal folded to its width; of many
    columns, each is a line. Returns whether any was."""
    folded = False
    for is_table, group in groupby(markdown.split("\n"), key=lambda line: line.startswith("|")):
        lines = [*group]
        if not is_table or len(lines[0]) <= console.width:
            console.print("\n".join(lines), highlight=False)
            continue
        folded = True
        rows = [re.split(r" *(?<!\\)\| *", line)[1:-1] for line in (lines[0], *lines[2:])]
        if len(rows[0]) > console.width // CELL:
            rows = [*map(list, zip(*rows, strict=True))]
        table = Table(*rows[0], box=MARKDOWN)
        for row in rows[1:]:
            table.add_row(*(cell.strip("*") for cell in row))
        console.print(table, soft_wrap=False, highlight=False)
    return folded


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
        table.add_row(mark, finding.name, Text(visible(finding.said), overflow="fold"))
    console.print(table)
    return 0 if all(finding.ok for finding in findings) else REFUSED


CHECKS: dict[str, Stage] = {"collect": check_collect, "eval": check_eval}
"""The stages that run rollouts."""


def check_run(config: RunConfig) -> int:
    """Check each stage of `run` whose rollouts need nothing from an earlier one; of the others only
    their sections. Raises ConfigError if a section is invalid."""
    check_sections(config)
    console.print("the sections of all stages will do")
    status, later = 0, False
    for name in config.stages:
        later = later or name in ("make", "questions", "train")
        if name in CHECKS and not later:
            status = max(status, CHECKS[name](config))
        elif name in CHECKS:
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
        from collect.question_records import SOURCE_READER

        for name in config.questions.answerers:
            if name != SOURCE_READER:
                config.model_config_of(name)
    if "collect" in config.stages:
        config.model_config_of(config.collect.main)
        config.model_config_of(config.collect.sub)
    if "format" in config.stages:
        from format.push import check_push
        from format.stage import check_runs

        check_push(config.format.push)
        check_runs(config.format, config.folder)
    if "train" in config.stages:
        from train.adapters import look_at_adapters
        from train.job import QuestionBench
        from train.stage import check_train

        bench = QuestionBench(config, config.questions.benchmark, config.held_out)
        check_train(config.train, bench)
        look_at_adapters(config.train)
    if "eval" in config.stages:
        from eval.stage import check_eval

        check_eval(config, config.eval, config.collect.benchmark, config.folder)


STAGES: dict[str, Stage] = {
    "make": make,
    "questions": questions,
    "answer": answer,
    "collect": collect,
    "format": make_dataset,
    "train": train,
    "eval": evaluate,
}
