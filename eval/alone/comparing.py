"""Paired statistics between the models that answered the same questions."""

from __future__ import annotations

from collections.abc import Sequence

from collect.questions.rows import VARIANT
from eval.alone.metrics import ModelAnswers, bug_of
from eval.metrics import InstanceKey
from eval.paired.choosing import Standing, all_pairs
from eval.paired.config import StatisticsConfig
from eval.paired.outcomes import Outcomes
from eval.paired.report import PairedReport, report_on


def paired_answers(models: Sequence[ModelAnswers], config: StatisticsConfig) -> PairedReport:
    """Each model against the baseline and the frontier model that the config names.

    Where it names none of those that answered: every model against every other. The source reader
    is compared where it is named. `comparisons` is about arms with a main agent, and says nothing
    here.
    """
    outcomes = {model.arm: outcomes_of(model) for model in models}
    named = (config.baseline, config.frontier)
    arms = [m.arm for m in models if not m.is_source_reader or m.model in named]
    standing = Standing(arms, config, VARIANT)
    scripted = [model.arm for model in models if model.scripted]
    pairs = standing.pairs() or all_pairs(arms)
    return report_on(outcomes, pairs, standing.gains(), config, scripted=scripted, trial="question")


def outcomes_of(model: ModelAnswers) -> Outcomes:
    """Right or not, by bug and question."""
    outcomes: dict[InstanceKey, dict[str, bool]] = {}
    for each in model.answered:
        outcomes.setdefault(bug_of(each), {})[each.question.id] = each.verdict.correct
    return outcomes
