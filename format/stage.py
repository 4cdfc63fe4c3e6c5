"""The format stage: turns a run's trajectories into training data in `RUN/sft/`.

One pass over the conversations writes the rows to keep to a file. The mixture and the splits are
then computed from small facts about all rows, and the rows are written from the file. They are
never all in memory.
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
    """Write `RUN/sft/` from the run's conversations, replacing an earlier one.

    Conversations on bugs in `held_out` are dropped. `agents` define a Debug Subagent's prompt, for
    training with rewards. Raises ConfigError, without writing anything, if no conversation is left
    to train on, or if the config requests pairs and there are none.
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
    """The outcome of each of the run's rollouts, by id."""
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
    """The runtime questions that rollouts answered, if the config requests pairs of answers."""
    if config.preferences is None:
        return {}
    return question_ids(config.preferences, store.folder, store.read_rollouts())


def _select(judge: Judge, source: Candidates, kept: StagedRows, attempts: Attempts) -> Funnel:
    """Run the funnel; adds the rows that pass to `kept`, and possible sides of pairs to
    `attempts`."""
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
    """Name the filter that dropped most. `role` counts only if it left nothing."""
    counted = [step for step in funnel.steps if step.name != "role" or not step.remaining]
    worst = max(counted, key=lambda step: step.dropped)
    return (
        f"none of the {funnel.conversations} conversations in {run} is left to train on: the "
        f"filter {worst.name!r} dropped {worst.dropped}. It keeps where: {worst.rule} "
        "Collect more rollouts, or relax that filter in the config's `format` section"
    )
