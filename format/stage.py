"""The format stage: turns a run's trajectories into training data in `RUN/sft/`.

One pass over the conversations writes the rows to keep to a file. The mixture and the splits are
then computed from small facts about all rows, and the rows are written from the file. They are
never all in memory.
"""

from __future__ import annotations

import logging
import shutil
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from collect.benchmarks.held_out import HeldOut, HeldOutConfig
from collect.errors import ConfigError
from collect.quantities import first_of
from collect.rollouts.status import running_start
from collect.store.files import LOCK, locked, refuse_links, replacing_folder
from collect.store.run_store import RunStore
from format.atif import FOLDER as ATIF
from format.atif import write_trajectories
from format.candidates import (
    FILTERS,
    Candidates,
    Outcome,
    read_outcomes,
    role,
    rule_of,
)
from format.config import FormatConfig
from format.dataset import (
    TEST,
    TRAIN,
    Splits,
    SplitWriter,
    read_rows,
    split_file,
)
from format.duplicates import RULES, Duplicates
from format.freshness import refusal_noted, rollouts_read
from format.judging import Row, judge_all, process_count
from format.llama_factory import FOLDER as LLAMA_FACTORY
from format.llama_factory import write_llama_factory
from format.mixture import RULE as MIXED
from format.mixture import Facets, drawn, effort, mixed
from format.preferences import PREFERENCES, Attempts, write_preferences
from format.report import FormatReport, Funnel, SplitStatistics, write_card
from format.shipped import DEMONSTRATIONS, with_shipped
from format.token_ids import FOLDER as TOKEN_IDS
from format.token_ids import write_token_ids

logger = logging.getLogger(__name__)


def check_runs(config: FormatConfig, run: Path) -> None:
    """Raise ConfigError if a folder of `format.runs` can't be added to the run."""
    names = {run.resolve().name: run}
    for folder in with_shipped(config).runs:
        refuse_links(folder)
        name = folder.resolve().name
        if not (folder / "rollouts").is_dir():
            raise ConfigError(
                f"format.runs: {folder} is no folder of a run with rollouts; it must lie in "
                f"{Path.cwd()} or be an absolute path. {DEMONSTRATIONS.name} is what StepInto ships"
            )
        if name in names:
            why = "ids of conversations begin with it, so rename one of the folders"
            raise ConfigError(f"format.runs: {folder} has the same name as {names[name]}; {why}")
        names[name] = folder


def run_format(
    config: FormatConfig, run: Path, held_out: HeldOutConfig | None = None
) -> FormatReport:
    """Write `RUN/sft/` from the conversations of the run and of `format.runs`, replacing an earlier
    one.

    Conversations on bugs in `held_out` are dropped. Raises ConfigError if no conversation is left
    to train on, or if the config requests pairs and there are none. Then an earlier `RUN/sft/`
    stays, with a note for who trains on it.
    """
    held_out = held_out or HeldOutConfig()
    bugs = HeldOut.of(held_out)
    check_runs(config, run)
    # What is written names the runs as the config does.
    as_given = {"runs": config.runs, "questions": config.questions}
    config = with_shipped(config)
    read = rollouts_read((run, *config.runs))
    stores = [RunStore(folder) for folder in (run, *config.runs)]
    runs = [(store, read_outcomes(config, store, bugs)) for store in stores]
    # A run of other runs' conversations alone need not have collected any itself.
    empty = [store.folder for store, outcomes in runs[bool(config.runs) :] if not outcomes]
    if empty:
        first = empty[0]
        remedy = "run `stepinto collect` on this run folder first"
        if running_start(first) is not None:
            remedy = "the collect there is still running and has finished none, so wait for it"
        raise ConfigError(f"{first} has no rollouts; {remedy}")
    _tell_running(runs)
    held = any(outcome.held_out for _, outcomes in runs for outcome in outcomes.values())
    if held and config.push is not None and config.push.records:
        logger.warning("the runs' records are not pushed: they hold bugs of `held_out`")
        push_rows = config.push.model_copy(update={"records": False})
        config = config.model_copy(update={"push": push_rows})
    source = Candidates(config, runs)
    attempts: Attempts = {}
    # Another start would remove what this one has written, and have its own taken for whole.
    run.mkdir(parents=True, exist_ok=True)
    with (
        closing(locked(run / f".format{LOCK}")),
        refusal_noted(run / "sft"),
        replacing_folder(run / "sft") as folder,
    ):
        kept = StagedRows(folder, config.mixture.seed)
        processes = process_count(config.processes, sum(len(outcomes) for _, outcomes in runs))
        funnel = _select(config, source, kept, attempts, processes)
        if not kept.facets:
            raise ConfigError(_nothing_left(source, funnel, (run, *config.runs)))
        for facet, named in (*config.mixture.weights.items(), *config.mixture.least_shares.items()):
            there = {row.value(facet) for row in kept.facets}
            if absent := set(named) - there:
                logger.warning(
                    f"format.mixture: no row has {facet}: {first_of(sorted(absent))}; there are "
                    f"{first_of(sorted(there))}"
                )
        chosen = mixed(config.mixture, kept.facets, kept.numbers, kept.efforts)
        funnel.add_step("mixture", MIXED, sum(chosen))
        # A right attempt that repeats an earlier one is no row, but may be a side of a pair.
        right = {attempt.repository for attempt in attempts.values() if attempt.right}
        splits = Splits(config, {facets.repository for facets in kept.facets} | right)
        written = write_rows(config, kept, chosen, splits, folder)
        kept.remove()
        _write_other_forms(config, source, written, folder)
        if config.preferences is not None:
            pairs = write_preferences(config, attempts, source, splits, folder)
            written.outputs[PREFERENCES] = pairs
        report = FormatReport(
            funnel=funnel,
            splits=written.statistics,
            outputs=written.outputs,
            config=config.model_copy(update=as_given).model_dump(mode="json"),
            held_out=held_out.model_dump(mode="json"),
            rollouts=read,
        )
        (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n")
        write_card(folder, report)
    return report


def _write_other_forms(
    config: FormatConfig, source: Candidates, written: Written, folder: Path
) -> None:
    if config.atif:
        written.outputs[ATIF] = write_trajectories(source, written.conversations, folder)
    if config.token_ids:
        written.outputs[TOKEN_IDS] = write_token_ids(source, written.conversations, folder)
    if config.llama_factory:
        written.outputs[LLAMA_FACTORY] = write_llama_factory(folder, written.statistics)


def _tell_running(runs: Sequence[tuple[RunStore, Mapping[str, Outcome]]]) -> None:
    """Warn of runs whose rollouts are still being done, and say how many are taken."""
    for store, outcomes in runs:
        start = running_start(store.folder)
        if start is not None:
            logger.warning(
                f"the collect in {store.folder} is still running: {start.done:,} of its "
                f"{start.total:,} rollouts are done. The rows are made from the {len(outcomes):,} "
                "rollouts that are stored there now; run `stepinto format` again when it has ended "
                "to take all of them"
            )


def _nothing_left(source: Candidates, funnel: Funnel, runs: Sequence[Path]) -> str:
    dropped = [
        f"{step.name!r} dropped {step.dropped}. Its rule: {step.rule}"
        for step in funnel.steps
        if step.dropped
    ]
    lines = "\n  ".join(["The filters, in order:", *dropped])
    return (
        f"none of the {funnel.conversations} conversations in {' and '.join(map(str, runs))} is "
        f"left to train on. {lines}\n{_remedy(source, funnel)}"
    )


def _remedy(source: Candidates, funnel: Funnel) -> str:
    """What to do if no conversation is left."""
    by_role = next(step for step in funnel.steps if step.name == role.__name__)
    if not funnel.conversations or by_role.remaining:
        return "Collect more rollouts, or relax a filter in the config's `format` section"
    candidates = chain.from_iterable(source.rollouts())
    roles = ", ".join(sorted({candidate.conversation.role for candidate in candidates}))
    return f"All of them are of the roles {roles}: to keep these, set format.roles=[{roles}]"


def _select(
    config: FormatConfig, source: Candidates, kept: StagedRows, attempts: Attempts, processes: int
) -> Funnel:
    """Run the funnel; adds the rows that pass to `kept`, and possible sides of pairs to
    `attempts`."""
    duplicates = Duplicates(config)
    dropped: Counter[str | None] = Counter()
    for judged in judge_all(source.chunks(), processes):
        attempt, dropped_by = judged.attempt, judged.dropped_by
        if attempt is not None:
            attempts.setdefault((attempt.question, attempt.said), attempt)
        if judged.row is not None:
            dropped_by = duplicates.dropped_by(judged.key, judged.signature)
            if dropped_by is None:
                kept.add(judged.row, judged.characters)
        dropped[dropped_by] += 1
    return Funnel.of({keep.__name__: rule_of(keep) for keep in FILTERS} | RULES, dropped)


# The rows that passed the filters, and those of them that the mixture chooses.


class StagedRows:
    """Rows that passed the filters, in a temporary file until the mixture and the splits are known;
    only their facets and other small facts are in memory."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Store the rows in a subfolder of this folder, until `remove`; `seed` is the mixture's."""
        self._folder, self._seed = folder / "kept", seed
        self._writer = SplitWriter(self._folder, "kept")
        self._known: dict[Facets, Facets] = {}
        self._characters = array("L")
        self.facets: list[Facets] = []
        self.numbers, self.efforts = array("Q"), array("Q")

    def add(self, row: Row, characters: int) -> None:
        facets = Facets.of(row)
        self.facets.append(self._known.setdefault(facets, facets))
        self.numbers.append(drawn(self._seed, row["conversation_id"]))
        self.efforts.append(effort(row))
        self._characters.append(characters)
        self._writer.add(row)

    def rows(self) -> Iterator[tuple[Row, int]]:
        """The rows once more, with JSON columns as texts, and the number of characters of each."""
        self._writer.close()
        stored = read_rows(split_file(self._folder, "kept"), decoded=False)
        yield from zip(stored, self._characters, strict=True)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class Written:
    statistics: dict[str, SplitStatistics]
    outputs: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of rows of each additional format, by folder and split."""
    conversations: dict[str, str] = field(default_factory=dict)
    """The split of each conversation, if an additional format needs it."""


def write_rows(
    config: FormatConfig, kept: StagedRows, mixed: bytearray, splits: Splits, folder: Path
) -> Written:
    """Write the rows of the mixture. Raises ConfigError if no rows are left to train on."""
    sides = [
        splits.of(facets.repository) if stays else None
        for facets, stays in zip(kept.facets, mixed, strict=True)
    ]
    if TRAIN not in sides:
        raise ConfigError(
            f"of {len(kept.facets)} rows none is left to train on: format.mixture drops "
            f"{sides.count(None)}, and the test split takes {sides.count(TEST)}; drop fewer, or "
            "lower format.test_fraction (in a round of `stepinto iterate`, "
            "iterate.teacher_share=null drops none)"
        )
    names = [name for name in (TRAIN, TEST) if name in sides]
    written = Written({name: SplitStatistics() for name in names})
    with ExitStack() as stack:
        opened = {name: SplitWriter(folder, name, arguments=config.arguments) for name in names}
        writers = {name: stack.enter_context(closing(each)) for name, each in opened.items()}
        for (row, characters), split in zip(kept.rows(), sides, strict=True):
            if split is None:
                continue
            writers[split].add(row)
            written.statistics[split].add(row, characters)
            if config.atif or config.token_ids:
                written.conversations[row["conversation_id"]] = split
    return written
