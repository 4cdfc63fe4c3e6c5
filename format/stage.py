"""The format stage: a run's trajectories become training data in `RUN/sft/`.

One pass over the conversations makes rows of those that stay, in a file; from all of them follow
the mixture and the repositories that the splits divide, and so where each row is written. None of
that holds them all.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from collect.agents.config import AgentsConfig
from collect.errors import ConfigError
from collect.held_out import HeldOut, HeldOutConfig
from collect.store import RunStore
from format.candidates import Candidate, Outcome
from format.card import write_card
from format.config import FormatConfig
from format.credit import Pairs
from format.difficulty import Asked, asked_of, levels
from format.filters import build_filters, characters
from format.kept import KeptRows
from format.labels import label_columns
from format.mixture import RULE as MIXTURE_RULE
from format.preferences.attempts import Attempts
from format.preferences.siblings import question_ids
from format.preferences.writing import PREFERENCES, write_preferences
from format.prompts import PROMPTS, choose_questions, write_prompts
from format.report import FormatReport, Funnel, FunnelStep
from format.rows import stored_row
from format.sources import Candidates
from format.splits import Splits
from format.writing import write_rows, write_trajectories


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
    attempts = _attempts(config, store)
    with _replacing(run / "sft") as folder:
        kept = KeptRows(folder, config.mixture)
        funnel = _select(config, source, bugs, kept, attempts)
        if not kept:
            raise ConfigError(_nothing_left(run, funnel))
        mixed = kept.mixed()
        funnel.add_step("mixture", MIXTURE_RULE, sum(mixed))
        splits = Splits(config, (facets.repository for facets in kept.facets))
        written = write_rows(config, kept, mixed, splits, folder)
        kept.remove()
        if config.atif:
            write_trajectories(source, written, folder)
        if attempts is not None:
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


def _attempts(config: FormatConfig, store: RunStore) -> Attempts | None:
    """Where pairs are asked for: an empty collection of what they can be made of."""
    if config.preferences is None:
        return None
    ids = question_ids(config.preferences, store.folder, store.read_rollouts())
    return Attempts(config, ids)


def _outcomes(config: FormatConfig, store: RunStore) -> dict[str, Outcome]:
    """How each of the run's rollouts ended, by its id."""
    pairs, asked = Pairs(), set[Asked]()
    for rollout in store.read_rollouts():
        pairs.add(rollout)
        by = asked_of(rollout)
        if by is not None:
            asked.add(by)
    difficulty = levels(config.questions, store.folder, asked)
    return {
        row.rollout_id: Outcome.of(row, pairs, difficulty.get(row.rollout_id))
        for row in store.read_rollouts()
    }


def _select(
    config: FormatConfig,
    source: Candidates,
    held_out: HeldOut,
    kept: KeptRows,
    attempts: Attempts | None,
) -> Funnel:
    """The funnel; the rows of what comes through it are added to `kept`, and what pairs can be
    made of to `attempts`."""
    filters = build_filters(held_out)
    funnel = Funnel(steps=[FunnelStep(name=each.name, rule=each.rule) for each in filters])
    for candidate in source:
        dropped_by = next(
            (i for i, each in enumerate(filters) if not each.keep(candidate, config)), None
        )
        funnel.count(dropped_by)
        if attempts is not None:
            attempts.add(candidate, None if dropped_by is None else filters[dropped_by].name)
        if dropped_by is None:
            kept.add(_row(candidate, config), characters(candidate.said))
    return funnel


def _row(candidate: Candidate, config: FormatConfig) -> dict[str, Any]:
    outcome, texts = candidate.outcome, candidate.texts
    assert texts is not None, "the filters have let it through"
    row = stored_row(candidate.said, texts, outcome.language, outcome.teacher, outcome.system)
    return row | label_columns(candidate, config)


def _nothing_left(run: Path, funnel: Funnel) -> str:
    """Name the filter that dropped most. `role` counts only where it left nothing."""
    counted = [step for step in funnel.steps if step.name != "role" or not step.remaining]
    worst = max(counted, key=lambda step: step.dropped)
    return (
        f"none of the {funnel.conversations} conversations in {run} is left to train on: the "
        f"filter {worst.name!r} dropped {worst.dropped}. It keeps where: {worst.rule} "
        "Collect more rollouts, or relax that filter in the config's `format` section"
    )


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A folder that takes the target's place when the block ends, and vanishes if it raises."""
    temporary = target.with_name(f".tmp-{target.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
