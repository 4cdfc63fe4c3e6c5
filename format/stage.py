"""The format stage: a run's trajectories become training data in `RUN/sft/`.

Two passes over the conversations, neither of which holds them all: the first decides which stay
and so which repositories the splits divide, the second writes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from collect.benchmarks.splits import held_out
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
from format.report import FormatReport, Funnel, FunnelStep, SplitStatistics
from format.rows import to_row
from format.sources import Candidates

TRAIN, TEST = "train", "test"


def run_format(
    config: FormatConfig, run: Path, held_out: HeldOutConfig | None = None
) -> FormatReport:
    """Write `RUN/sft/` from the run's conversations, in place of an earlier one.

    Conversations on bugs of `held_out` are left out. Raises ConfigError where no conversation is
    left to train on; nothing is written then.
    """
    store = RunStore(run)
    pairs = Pairs.of(store.read_rollouts())
    outcomes = {row.rollout_id: Outcome.of(row, pairs) for row in store.read_rollouts()}
    if not outcomes:
        raise ConfigError(f"{run} has no rollouts; run `stepinto collect` on this run folder first")
    held_out = held_out or HeldOutConfig()
    source = Candidates(config, store, outcomes)
    funnel, kept = _select(config, source, HeldOut.of(held_out))
    if not kept:
        raise ConfigError(_nothing_left(run, funnel))
    splits = _split(config, kept)
    with _replacing(run / "sft") as folder:
        statistics = _write_splits(config, source, splits, folder)
        report = FormatReport(
            funnel=funnel,
            splits=statistics,
            config=config.model_dump(mode="json"),
            held_out=held_out.model_dump(mode="json"),
        )
        (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n")
        write_card(folder, report)
    return report


def _select(
    config: FormatConfig, source: Candidates, held_out: HeldOut
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


def _split(config: FormatConfig, kept: Mapping[str, str]) -> dict[str, str]:
    """The split of each kept conversation; no repository is in both."""
    repositories = set(kept.values())
    test = set(held_out(repositories, config.test_fraction, config.split_seed))
    if repositories <= test:
        raise ConfigError(
            f"format.test_fraction = {config.test_fraction} puts all {len(repositories)} "
            "repositories into the test split; lower it, or collect on more repositories"
        )
    return {key: TEST if name in test else TRAIN for key, name in kept.items()}


def _write_splits(
    config: FormatConfig, source: Candidates, splits: Mapping[str, str], folder: Path
) -> dict[str, SplitStatistics]:
    statistics = {name: SplitStatistics() for name in sorted(set(splits.values()), reverse=True)}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(closing(SplitWriter(folder, name))) for name in statistics
        }
        for candidate in source:
            split = splits.get(candidate.conversation.conversation_id)
            if split is None:
                continue
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
