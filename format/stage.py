"""The format stage: a run's trajectories become training data in `RUN/sft/`.

Two passes over the conversations, neither of which holds them all: the first decides which stay
and so which repositories the splits divide, the second writes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from collect.agents.config import AgentsConfig
from collect.errors import ConfigError
from collect.held_out import HeldOut, HeldOutConfig
from collect.store import RunStore
from format.candidates import Outcome
from format.card import write_card
from format.config import FormatConfig
from format.credit import Pairs
from format.dataset import SplitWriter
from format.filters import build_filters, characters
from format.labels import label_columns
from format.parts import PartReport
from format.preferences.attempts import Attempts
from format.preferences.siblings import question_ids
from format.preferences.writing import PREFERENCES, write_preferences
from format.prompts import PROMPTS, choose_questions, write_prompts
from format.report import FormatReport, Funnel, FunnelStep, SplitStatistics
from format.rows import to_row
from format.sources import Candidates
from format.splits import Splits


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
    pairs = Pairs.of(store.read_rollouts())
    outcomes = {row.rollout_id: Outcome.of(row, pairs) for row in store.read_rollouts()}
    if not outcomes:
        raise ConfigError(f"{run} has no rollouts; run `stepinto collect` on this run folder first")
    held_out = held_out or HeldOutConfig()
    source, bugs = Candidates(config, store, outcomes), HeldOut.of(held_out)
    questions = choose_questions(config.prompts, run, bugs) if config.prompts else []
    attempts = _attempts(config, store)
    funnel, kept = _select(config, source, bugs, attempts)
    if not kept:
        raise ConfigError(_nothing_left(run, funnel))
    splits = Splits(config, kept.values())
    with _replacing(run / "sft") as folder:
        statistics = _write_splits(config, source, kept, splits, folder)
        parts: dict[str, PartReport] = {}
        if attempts is not None:
            found = write_preferences(config, attempts, source, splits, folder)
            parts[PREFERENCES.name] = found
        if questions:
            written = write_prompts(config, questions, agents or AgentsConfig(), splits, folder)
            parts[PROMPTS.name] = written
        report = FormatReport(
            funnel=funnel,
            splits=statistics,
            parts={name: part.rows for name, part in parts.items()},
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


def _select(
    config: FormatConfig, source: Candidates, held_out: HeldOut, attempts: Attempts | None
) -> tuple[Funnel, dict[str, str]]:
    """The funnel, and the repository of each kept conversation by its id."""
    filters = build_filters(held_out)
    funnel = Funnel(steps=[FunnelStep(name=each.name, rule=each.rule) for each in filters])
    kept: dict[str, str] = {}
    for candidate in source:
        dropped_by = next(
            (i for i, each in enumerate(filters) if not each.keep(candidate, config)), None
        )
        funnel.count(dropped_by)
        if attempts is not None:
            attempts.add(candidate, None if dropped_by is None else filters[dropped_by].name)
        if dropped_by is None:
            conversation = candidate.conversation
            kept[conversation.conversation_id] = conversation.repository
    return funnel, kept


def _nothing_left(run: Path, funnel: Funnel) -> str:
    """Name the filter that dropped most. `role` counts only where it left nothing."""
    counted = [step for step in funnel.steps if step.name != "role" or not step.remaining]
    worst = max(counted, key=lambda step: step.dropped)
    return (
        f"none of the {funnel.conversations} conversations in {run} is left to train on: the "
        f"filter {worst.name!r} dropped {worst.dropped}. It keeps where: {worst.rule} "
        "Collect more rollouts, or relax that filter in the config's `format` section"
    )


def _write_splits(
    config: FormatConfig,
    source: Candidates,
    kept: Mapping[str, str],
    splits: Splits,
    folder: Path,
) -> dict[str, SplitStatistics]:
    names = {splits.of(repository) for repository in kept.values()}
    statistics = {name: SplitStatistics() for name in sorted(names, reverse=True)}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(closing(SplitWriter(folder, name))) for name in statistics
        }
        for candidate in source:
            repository = kept.get(candidate.conversation.conversation_id)
            if repository is None:
                continue
            split = splits.of(repository)
            outcome, said = candidate.outcome, candidate.as_row
            assert said is not None, "the filters have let it through"
            row = to_row(said, outcome.language, outcome.teacher, outcome.system)
            row |= label_columns(candidate, config)
            writers[split].add(row)
            statistics[split].add(row, characters(said))
    return statistics


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
