"""Replays all rollouts of a folder. A second start does only what is missing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import groupby, zip_longest
from pathlib import Path
from typing import NamedTuple

from collect.agents.conversation import ConversationLog
from collect.agents.rollout_context import RoleModel
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.marks import require_images
from collect.benchmarks.opening import open_benchmark
from collect.config import RuntimeConfig
from collect.errors import TRIED_AGAIN, ConfigError, ModelFailure, RolloutStopped
from collect.models.base import Sampling
from collect.models.replay import ReplayBackend, recording_of
from collect.question_records import Question, read_questions
from collect.questions.answering import hold_question
from collect.questions.asking import VARIANT, question_spec, reproducible, rollouts_of
from collect.rollouts.faults import BROKE_SANDBOX, CircuitBreaker
from collect.rollouts.progress import ProgressBar
from collect.rollouts.rollout import (
    RolloutSettings,
    RolloutSpec,
    RolloutTrace,
    failure_of,
    run_agents,
)
from collect.store.files import locked
from collect.store.normalising import normalised
from collect.store.records import Conversation, MessageRow, Rollout, StopReason
from collect.store.run_store import RunStore, schema_of
from collect.store.tables import Table
from collect.threads import run_in_threads
from sandbox import SandboxConfig, clean_up

FOLDER = "replay"
SHOWN = 400
"""Characters of a differing line that are shown."""


class ReplayStatus(StrEnum):
    """What a replay says about a recorded conversation."""

    VERIFIED = "verified"
    """The same calls gave the same observations."""
    DIFFERENT = "different"
    """Two replays agreed with each other, but not with the record."""
    NONDETERMINISTIC = "nondeterministic"
    """Two replays differed, so the record can be neither confirmed nor refuted."""


@dataclass(frozen=True)
class ReplayRow:
    """The result of replaying one conversation."""

    rollout_id: str
    conversation_id: str
    instance_id: str
    status: ReplayStatus
    message_index: int | None
    """The first observation in the record that differs, or None if all are the same."""
    recorded: str
    """The first line that differs, normalised; empty if there is none. If nondeterministic, it is
    from the first replay.
    """
    replayed: str


def replay_table(folder: Path) -> Table:
    """The results for a folder of rollouts, in `replay/` next to them. Resumable and crash-safe."""
    return Table(folder / FOLDER, schema_of(ReplayRow))


def replay_rows(folder: Path) -> Iterator[ReplayRow]:
    """All results, in no particular order."""
    for row in replay_table(folder).rows():
        yield ReplayRow(**row | {"status": ReplayStatus(row["status"])})


def verified_conversations(folder: Path) -> dict[str, bool]:
    """Maps the id of each replayed conversation to whether it was verified."""
    rows = replay_rows(folder)
    return {row.conversation_id: row.status is ReplayStatus.VERIFIED for row in rows}


class Difference(NamedTuple):
    """The first difference, as in a `ReplayRow`."""

    message_index: int | None = None
    recorded: str = ""
    replayed: str = ""


def first_difference(
    recorded: Sequence[MessageRow],
    replayed: Sequence[MessageRow],
    passed_over: Collection[str] = (),
) -> Difference | None:
    """Compare two conversations with the same calls, observation by observation, except answers
    to the call ids in `passed_over`.
    """

    def observations(rows: Sequence[MessageRow]) -> Iterator[tuple[int, str | None, str]]:
        """The answers to calls: message index, status of the call, and normalised text."""
        for index, row in enumerate(rows):
            answers_call = row.message.role == "tool" or row.tool_outcome is not None
            if answers_call and row.message.tool_call_id not in passed_over:
                outcome = row.tool_outcome.value if row.tool_outcome else None
                yield index, outcome, normalised(row.message.content)

    for ours, theirs in zip_longest(observations(recorded), observations(replayed)):
        if ours is None or theirs is None:
            index = ours[0] if ours else len(recorded)
            first = [each[2].partition("\n")[0][:SHOWN] if each else "" for each in (ours, theirs)]
            return Difference(index, *first)
        if ours[1:] != theirs[1:]:
            lines = zip_longest(ours[2].splitlines(), theirs[2].splitlines(), fillvalue="")
            unlike = ((left[:SHOWN], right[:SHOWN]) for left, right in lines if left != right)
            return Difference(ours[0], *next(unlike, (f"({ours[1]})", f"({theirs[1]})")))
    return None


class Finder:
    """Finds what is needed to run rollouts again: their bugs and their questions."""

    def __init__(
        self,
        benchmarks: Iterable[BenchmarkConfig],
        sandbox: SandboxConfig,
        questions: Iterable[Path],
    ) -> None:
        """`questions` are question files. Raises ConfigError if a benchmark's data or a question
        file is broken.
        """
        self._bugs: dict[tuple[str, str, str], tuple[Benchmark, Instance]] = {}
        # Settings that select every bug.
        whole = {"split": "all", "limit": None, "instances": None, "shuffle_seed": None}
        configs = [each.model_copy(update=whole) for each in benchmarks]
        for place, config in enumerate(configs):
            if config in configs[:place]:
                continue
            benchmark = open_benchmark(config, sandbox)
            for bug in benchmark.instances():
                self._bugs.setdefault((bug.benchmark, bug.id, bug.hash), (benchmark, bug))
        paths = [path for path in dict.fromkeys(questions) if path.is_file()]
        self._questions = [question for path in paths for question in read_questions(path)]
        self._by_rollout: dict[tuple[str, int], Mapping[str, Question]] = {}

    def bug(self, row: Rollout) -> tuple[Benchmark, Instance]:
        """The row's benchmark and bug. Raises ConfigError if the bug is gone or changed."""
        found = self._bugs.get((row.benchmark, row.instance_id, row.instance_hash))
        if found is None:
            raise ConfigError(
                f"the bug {row.benchmark} {row.instance_id} of rollout {row.rollout_id} is not "
                "among those of the run's config, or has changed since; give the benchmark that "
                "it was of, e.g. collect.benchmark.path=FOLDER"
            )
        return found

    def question(self, row: Rollout) -> Question | None:
        """The question that the row answers; None if it answers none. Raises ConfigError if it is
        in no file.
        """
        if row.variant != VARIANT:
            return None
        by = (row.sub_model, row.attempt)
        if by not in self._by_rollout:
            self._by_rollout[by] = dict(rollouts_of(self._questions, [by]))
        question = self._by_rollout[by].get(row.rollout_id)
        if question is None:
            raise ConfigError(
                f"rollout {row.rollout_id} answers a question about {row.instance_id} that is in "
                "none of the run's files; give the one it is in with --questions FILE"
            )
        return question


@dataclass(frozen=True)
class ReplayReport:
    """The replay results of a folder."""

    folder: Path
    counts: Mapping[ReplayStatus, int]
    """Number of conversations by status, including earlier starts."""
    unverified: tuple[ReplayRow, ...]
    """All conversations that differ from their record."""
    left: int
    """Rollouts that were not replayed because of a stop or an infrastructure failure."""
    failed_before: int
    """Rollouts that are never replayed: their sandbox broke, or infrastructure or budget failed."""
    reasons: tuple[str, ...]
    """Why some rollouts could not be replayed."""
    stopped: bool

    @property
    def conversations(self) -> int:
        return sum(self.counts.values())


def replay_rollouts(
    runtime: RuntimeConfig, finder: Finder, folder: Path, limit: int | None = None
) -> ReplayReport:
    """Replay up to `limit` rollouts that have no result yet.

    Raises ConfigError if another process replays here or a rollout's bug or question no longer
    exists, and ImageMissing if a bug's image is missing.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    with closing(locked(folder / FOLDER / ".lock")):
        table, store = replay_table(folder), RunStore(folder)
        table.repair()
        every = list(store.read_rollouts())
        # If infrastructure failed or a call broke the sandbox, there is nothing to verify.
        rows = {
            row.rollout_id: row
            for row in every
            if row.failure_kind not in TRIED_AGAIN and row.failure_type not in BROKE_SANDBOX
        }
        replay = _Replay(reproducible(runtime), finder, table)
        replay.run(store, rows, limit)
        table.compact()
        results = list(replay_rows(folder))
        return ReplayReport(
            folder=folder,
            counts=Counter(result.status for result in results),
            unverified=tuple(r for r in results if r.status is not ReplayStatus.VERIFIED),
            left=len(rows.keys() - {result.rollout_id for result in results}),
            failed_before=len(every) - len(rows),
            reasons=tuple(replay.reasons),
            stopped=replay.stop.is_set(),
        )


class _Replay:
    """One start of a replay."""

    def __init__(self, runtime: RuntimeConfig, finder: Finder, table: Table) -> None:
        self._runtime, self._finder, self._table = runtime, finder, table
        self._failures = CircuitBreaker(runtime.runner.give_up_after)
        self.stop = threading.Event()
        self.reasons: dict[str, None] = {}

    def run(self, store: RunStore, rows: Mapping[str, Rollout], limit: int | None) -> None:
        """Replay what has no result yet."""
        done = set(self._table.ids())
        missing = [key for key in rows if key not in done]
        # A bug or question that is gone is told before anything is done.
        for key in missing:
            self._finder.question(rows[key])
            self._finder.bug(rows[key])
        missing = missing[:limit]
        if not missing:
            return
        require_images([self._finder.bug(rows[key])[1] for key in missing], self._runtime.sandbox)
        clean_up(self._runtime.sandbox)
        # Conversations are read as they are needed; those of a rollout are adjacent.
        held = store.read_conversations(only=set(missing), finished=set(missing))
        jobs = (
            (rows[rollout_id], sorted(group, key=lambda each: each.index))
            for rollout_id, group in groupby(held, key=lambda each: each.rollout_id)
        )
        runner = self._runtime.runner
        # All run on this machine, so a cluster's limit per node applies.
        per_node = runner.ray.per_node if runner.backend == "ray" else runner.concurrency
        with ProgressBar("rollouts", len(missing)) as bar:

            def replay(job: tuple[Rollout, list[Conversation]]) -> None:
                self._replay(*job)
                bar.advance()

            run_in_threads(jobs, replay, min(runner.concurrency, per_node), self.stop)

    def _replay(self, row: Rollout, conversations: list[Conversation]) -> None:
        reason = None
        try:
            found = [asdict(each) for each in self._verify(row, conversations)]
            self._table.write(row.rollout_id, self._table.arrow(found))
        except RolloutStopped:
            return
        except ConfigError:
            raise
        except Exception as error:
            failure = failure_of(error)
            reason = f"{failure.type}: {failure.message}"
            self.reasons[reason] = None
        if self._failures.count(reason):
            self.stop.set()

    def _verify(self, row: Rollout, conversations: list[Conversation]) -> list[ReplayRow]:
        """Run the rollout once, and a second time if anything differs."""

        def rows(conversation: Conversation, logs: Sequence[ConversationLog]) -> list[MessageRow]:
            """The same conversation in a replay; empty if the replay did not reach it."""
            return list(logs[conversation.index].rows) if conversation.index < len(logs) else []

        first = self._run_again(row, conversations)
        # If a subagent failed, its caller was told why. A replay can't repeat that text.
        failures = (each for each in conversations if each.stop_reason is StopReason.FAILURE)
        failed = {each.parent_call_id or "" for each in failures}
        differences = [
            first_difference(each.messages, rows(each, first), failed) for each in conversations
        ]
        again = self._run_again(row, conversations) if any(differences) else first
        found = []
        for conversation, difference in zip(conversations, differences, strict=True):
            status, shown = ReplayStatus.VERIFIED, difference or Difference()
            if difference is not None:
                unsteady = first_difference(rows(conversation, first), rows(conversation, again))
                status = ReplayStatus.NONDETERMINISTIC if unsteady else ReplayStatus.DIFFERENT
                shown = unsteady or difference
            ids = (conversation.rollout_id, conversation.conversation_id, conversation.instance_id)
            found.append(ReplayRow(*ids, status, *shown))
        return found

    def _run_again(self, row: Rollout, conversations: list[Conversation]) -> list[ConversationLog]:
        """Run the rollout in fresh sandboxes, with models that repeat the recorded messages.

        Raises ConfigError, RolloutError other than the model's, RolloutStopped, SandboxError.
        """
        (benchmark, instance), runtime = self._finder.bug(row), self._runtime
        main, sub = row.main_model, row.sub_model or None
        recordings = [recording_of(each) for each in conversations]
        backends = [ReplayBackend(name, recordings) for name in (main, sub) if name]
        models = {each.name: RoleModel(each, Sampling()) for each in backends}
        settings = RolloutSettings(benchmark, runtime.sandbox, runtime.agents, models, self.stop)
        trace, question = RolloutTrace(), self._finder.question(row)
        # A record that ends early ended with a model failure, so its replay does too.
        with suppress(ModelFailure):
            if question is not None:
                asked = question_spec(question, instance, row.sub_model, row.attempt)
                hold_question(question, asked, settings, trace)
            else:
                spec = RolloutSpec(instance, row.variant, main, sub, row.attempt)
                run_agents(spec, settings, trace)
        return trace.logs
