"""`stepinto bench` for generated data: bugs, questions about them, and a model's answers.

The last three are also stages of `stepinto run`, if a config's `stages` name them.
"""

from __future__ import annotations

import argparse
import logging

from collect.quantities import counted, dollars
from configs.command_line.shared import (
    AGAIN,
    FAILED,
    console,
    is_spent,
    stopped,
    tell_failures,
)
from configs.loading import config_saved, load_config
from configs.run_config import RunConfig

logger = logging.getLogger(__name__)


def bench_self_repair(options: argparse.Namespace) -> int:
    from collect.funnel import funnel_table
    from collect.synthesis.self_repair.building import build

    config = load_config(options.config, options.overrides)
    built = build(config, config.self_repair, config.folder)
    if built.card is None:
        reasons = [built.reason] if built.reason else []
        return FAILED if tell_failures(reasons, AGAIN) else stopped(reasons)
    console.print(funnel_table(built.card.steps))
    card = built.card
    console.print(
        f"{counted(card.bugs, 'bug')} in {built.path}; {card.passed} of "
        f"{counted(card.problems, 'problem')} solved at once; {dollars(card.dollars)}"
    )
    return 0


def bench_make(options: argparse.Namespace) -> int:
    return make(load_config(options.config, options.overrides))


def bench_questions(options: argparse.Namespace) -> int:
    return questions(load_config(options.config, options.overrides))


def bench_answer(options: argparse.Namespace) -> int:
    config = load_config(options.config, options.overrides)
    with config_saved(config):
        return answer(config)


def make(config: RunConfig) -> int:
    """Make the bugs of the config's `factory` section; returns the exit status."""
    from collect.funnel import funnel_table
    from collect.synthesis.making import make_bugs, projects_table

    made = make_bugs(config, config.factory, config.folder)
    if made.card is None:
        return stopped()
    console.print(projects_table(made.card))
    console.print(funnel_table(made.card.steps, "edits tried"))
    console.print(
        f"{counted(made.card.bugs, 'bug')} in {made.folder}, {made.card.bugs_per_hour:.0f} an hour "
        f"with {made.card.concurrency} at once"
    )
    return 0


def questions(config: RunConfig) -> int:
    """Make the questions of the config's `questions` section; returns the exit status."""
    from collect.questions.building import build, funnel_table

    built = build(config, config.questions, config.folder)
    if built.card is None:
        return stopped()
    console.print(funnel_table(built.card))
    console.print(f"{counted(built.card.questions, 'question')} in {built.path}")
    return 0


def answer(config: RunConfig) -> int:
    """Put the questions to all `questions.answerers`; returns the exit status."""
    for name in config.questions.answerers:
        status = _answer(config, name)
        if status:
            return status
    return 0


def _answer(config: RunConfig, name: str) -> int:
    """Let one model answer, and print its scores."""
    from collect.questions.answering import answer as answer_questions
    from collect.questions.building import score_table

    answers = answer_questions(config, config.questions.answered_by(name), config.folder)
    console.print(score_table(answers.answered, name))
    if answers.conversations is not None:
        console.print(f"conversations in {answers.conversations}")
    failed = tell_failures(answers.reasons)
    if answers.missing and (not failed or is_spent(answers.reasons)):
        return stopped(answers.reasons)
    if answers.missing:
        missing = counted(answers.missing, "question")
        logger.warning(f"no answer yet to {missing}; the same command goes on")
    return FAILED if answers.missing else 0
