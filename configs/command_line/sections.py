"""What `stepinto run` looks at before its first stage: whether the sections of all stages will do.

What a stage needs of the files that earlier ones write is looked at when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable

from configs.command_line.push import check_target
from configs.run_config import RunConfig, StageName


def check_sections(config: RunConfig) -> None:
    """Raise ConfigError where a stage that the config names would refuse its section."""
    for name in config.stages:
        if name in SECTIONS:
            SECTIONS[name](config)


def _make(config: RunConfig) -> None:
    from collect.factory.building import check_factory

    check_factory(config.factory)


def _answer(config: RunConfig) -> None:
    from collect.questions.config import SOURCE_READER

    for name in config.questions.answerers:
        if name != SOURCE_READER:
            config.model_config_of(name)


def _collect(config: RunConfig) -> None:
    for name in (config.collect.main, config.collect.sub):
        config.model_config_of(name)


def _format(config: RunConfig) -> None:
    check_target(config)


def _train(config: RunConfig) -> None:
    from train.question_bench import QuestionBench
    from train.stage import check_train

    check_train(config.train, QuestionBench(config, config.questions.benchmark, config.held_out))


def _eval(config: RunConfig) -> None:
    from eval.stage import check_eval

    check_eval(config, config.eval, config.collect.benchmark, config.folder)


SECTIONS: dict[StageName, Callable[[RunConfig], None]] = {
    "make": _make,
    "answer": _answer,
    "collect": _collect,
    "format": _format,
    "train": _train,
    "eval": _eval,
}
"""The check of each stage that has one."""
