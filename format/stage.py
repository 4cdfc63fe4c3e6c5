"""The format stage: a run's trajectories become training data in `RUN/sft/`.

One pass over the conversations makes rows of those that stay, in a file; from all of them follow
the mixture and the repositories that the splits divide, and so where each row is written. None of
that holds them all.
"""

from __future__ import annotations

from pathlib import Path

from collect.agents.config import AgentsConfig
from collect.benchmarks.held_out import HeldOut, HeldOutConfig
from collect.errors import ConfigError
from collect.store.atomic_files import replacing_folder
from collect.store.run_store import RunStore
from format.attempts import Attempts, question_ids
from format.candidates import Outcome
from format.card import write_card
from format.config import FormatConfig
from format.duplicates import RULES, Duplicates
from format.judging import Judge
from format.mixture import RULE as MIXTURE_RULE
from format.preferences import PREFERENCES, write_preferences
from format.prompts import PROMPTS, choose_questions, write_prompts
from format.report import FormatReport, Funnel, FunnelStep
from format.sources import Candidates
from format.splits import Splits
from format.workers import judging
from format.worth import Asked, Pairs, asked_of, levels
from format.writing import StagedRows, write_rows, write_trajectories


def run_format(
    config: FormatConfig,
    run: Path,
    held_out: HeldOutConfig | None = None,
    agents: AgentsConfig | None = None,
) -> FormatReport:
    """Write `RUN/sft/` from the run's conversations, in place of an earlier one.

    Conversations on bugs of `held_out` are left out. `agents` say what a Debug Subagent is given,
    in prompts for training by rewards. Raises ConfigError where no conversation is left to train
    on, or no pair is found that the config asks for; nothing is written then.
    """
    store = RunStore(run)
    outcomes = _outcomes(config, store)
    if not outcomes:
        raise ConfigError(f"{run} has no rollouts; run `stepinto collect` on this run folder first")
    held_out = held_out or HeldOutConfig()
    source, bugs = Candidates(config, store, outcomes), HeldOut.of(held_out)
    questions = choose_questions(config.prompts, run, bugs) if config.prompts else []
    attempts, judge = Attempts(), Judge(config, bugs, source.gold)
    with replacing_folder(run / "sft") as folder:
        kept = StagedRows(folder, config.mixture)
        funnel = _select(judge, source, kept, attempts)
        if not kept:
            raise ConfigError(_nothing_left(run, funnel))
        mixed = kept.mixed()
        funnel.add_step("mixture", MIXTURE_RULE, sum(mixed))
        splits = Splits(config, (facets.repository for facets in kept.facets))
        written = write_rows(config, kept, mixed, splits, folder)
        kept.remove()
        if config.atif:
            write_trajectories(source, written, folder)
        if config.preferences is not None:
            pairs = write_preferences(config, attempts, source, splits, folder)
            written.outputs[PREFERENCES.name] = pairs.totals
        if questions:
            prompts = write_prompts(config, questions, agents or AgentsConfig(), splits, folder)
            written.outputs[PROMPTS.name] = prompts.totals
        report = FormatReport(
            funnel=funnel,
            splits=written.statistics,
            mixture=kept.shares(mixed),
            outputs=written.outputs,
            config=config.model_dump(mode="json"),
            held_out=held_out.model_dump(mode="json"),
        )
        (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n")
        write_card(folder, report)
    return report


def _outcomes(config: FormatConfig, store: RunStore) -> dict[str, Outcome]:
    """How each of the run's rollouts ended, by its id."""
    pairs, asked = Pairs(), set[Asked]()
    for rollout in store.read_rollouts():
        pairs.add(rollout)
        by = asked_of(rollout)
        if by is not None:
            asked.add(by)
    difficulty = levels(config.questions, store.folder, asked)
    questions = _question_ids(config, store)
    return {
        row.rollout_id: Outcome.of(
            row, pairs, difficulty.get(row.rollout_id), questions.get(row.rollout_id)
        )
        for row in store.read_rollouts()
    }


def _question_ids(config: FormatConfig, store: RunStore) -> dict[str, str]:
    """The runtime questions that rollouts answered, where pairs of answers are asked for."""
    if config.preferences is None:
        return {}
    return question_ids(config.preferences, store.folder, store.read_rollouts())


def _select(judge: Judge, source: Candidates, kept: StagedRows, attempts: Attempts) -> Funnel:
    """The funnel; the rows of what comes through it are added to `kept`, and what pairs can be
    made of to `attempts`."""
    rules = {each.name: each.rule for each in judge.filters} | RULES
    funnel = Funnel(steps=[FunnelStep(name=name, rule=rule) for name, rule in rules.items()])
    duplicates, places = Duplicates(judge.config), {name: i for i, name in enumerate(rules)}
    with judging(judge, judge.config.workers) as judged:
        for each in judged(source.chunks()):
            if each.attempt is not None:
                attempts.add(each.attempt)
            dropped_by = each.dropped_by
            if each.row is not None:
                dropped_by = duplicates.dropped_by(each.row.mark)
            funnel.count(places[dropped_by] if dropped_by is not None else None)
            if each.row is not None and dropped_by is None:
                kept.add(each.row.columns, each.row.characters)
    return funnel


def _nothing_left(run: Path, funnel: Funnel) -> str:
    """Name the filter that dropped most. `role` counts only where it left nothing."""
    counted = [step for step in funnel.steps if step.name != "role" or not step.remaining]
    worst = max(counted, key=lambda step: step.dropped)
    return (
        f"none of the {funnel.conversations} conversations in {run} is left to train on: the "
        f"filter {worst.name!r} dropped {worst.dropped}. It keeps where: {worst.rule} "
        "Collect more rollouts, or relax that filter in the config's `format` section"
    )
