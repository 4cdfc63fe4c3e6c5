"""`stepinto format --preflight`: check how the rows would train with a model."""

from __future__ import annotations

import argparse
import re

from collect.errors import ConfigError
from configs.command_line.push import check_target
from configs.command_line.shared import console, heading
from configs.run_config import RunConfig
from train.config import TrainConfig

REFUSED = 2
"""Exit status if a check failed: `stepinto train` would refuse."""
REPORT = "preflight.json"
CONFIGURED = ""
OVERRIDE = re.compile(r"[\w.]+=(?!=)")


def add_preflight(parser: argparse.ArgumentParser) -> None:
    """The flags of `stepinto format` that check its rows for a model."""
    parser.add_argument(
        "--preflight",
        nargs="?",
        const=CONFIGURED,
        metavar="MODEL",
        help="check the rows for training this model: a folder with a tokenizer, and with weights "
        "where embeddings are to be checked, or what train.base_model takes; without MODEL the "
        "config's own",
    )
    for flag, metavar, setting in (
        ("--template", "FILE", "training_template"),
        ("--serving-template", "FILE", "serving_template"),
        ("--tool-call-parser", "NAME", "tool_call_parser"),
    ):
        parser.add_argument(flag, metavar=metavar, help=f"in place of the config's train.{setting}")
    parser.add_argument(
        "--max-length", type=int, metavar="TOKENS", help="in place of the config's train.max_length"
    )


def check_flags(options: argparse.Namespace) -> None:
    """Raise ConfigError if a flag has no effect, or the model is given by an override."""
    if options.preflight and OVERRIDE.match(options.preflight):
        raise ConfigError(f"{options.preflight} is no model; give overrides before --preflight")
    flags = ("template", "serving_template", "tool_call_parser", "max_length")
    given = [name for name in flags if getattr(options, name) is not None]
    if given and options.preflight is None:
        raise ConfigError(f"--{given[0].replace('_', '-')} is for --preflight; give that too")


def preflight(config: RunConfig, options: argparse.Namespace) -> int:
    """Check the run's train split, print one line per check, and save the report in the run
    folder."""
    if options.preflight is None:
        return 0
    from format.dataset import split_file
    from train.requirements import require
    from train.rows import check_split
    from train.tokenization import load_tokenization

    require(("torch", "transformers", "trl"))
    heading("preflight")
    settings = checked_config(config.train, options)
    split = split_file(config.folder / "sft", "train")
    report = check_split(split, settings, load_tokenization(settings))
    for line in report.lines():
        console.print(line, markup=False, highlight=False)
    path = config.folder / REPORT
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
    given = {
        "base_model": model,
        "training_template": options.template,
        "serving_template": options.serving_template,
        "tool_call_parser": options.tool_call_parser,
        "max_length": options.max_length,
    }
    return TrainConfig.model_validate(
        settings | {name: value for name, value in given.items() if value is not None}
    )


def check_sections(config: RunConfig) -> None:
    """Raise ConfigError if one of the config's stages would refuse its section. Files that earlier
    stages write are checked when the stage starts."""
    if "make" in config.stages:
        from collect.synthesis.building import check_factory

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
        check_target(config)
    if "train" in config.stages:
        from train.job import QuestionBench
        from train.stage import check_train

        bench = QuestionBench(config, config.questions.benchmark, config.held_out)
        check_train(config.train, bench)
    if "eval" in config.stages:
        from eval.stage import check_eval

        check_eval(config, config.eval, config.collect.benchmark, config.folder)
