"""Replays all rollouts of a folder. A second start does only what is missing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from itertools import groupby, zip_longest
from pathlib import Path

from collect.agents.config import Variant
from collect.agents.conversation import ConversationLog
from collect.agents.rollout_context import RoleModel
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.images import require_images
from collect.benchmarks.opening import open_benchmark
from collect.config import RunnerConfig, RuntimeConfig
from collect.errors import TRIED_AGAIN, ConfigError, ModelFailure, RolloutStopped
from collect.models.base import Sampling
from collect.models.replay import ReplayBackend, recording_of
from collect.question_records import Question, read_questions
from collect.questions.answering import hold_question
from collect.questions.episode import reproducible
from collect.questions.rows import VARIANT, question_spec, rollouts_of
from collect.rollouts.circuit_breaker import CircuitBreaker
from collect.rollouts.faults import broke_sandbox
from collect.rollouts.progress_bar import ProgressBar
from collect.rollouts.rollout import (
    RolloutSettings,
    RolloutSpec,
    RolloutTrace,
    failure_of,
    run_agents,
)
from collect.store.atomic_files import locked
from collect.store.normalising import normalised
from collect.store.records import Conversation, MessageRow, Rollout, StopReason
from collect.store.run_store import RunStore
from collect.store.schema import schema_of
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
    """The first line that differs, normalised; if nondeterministic, from the first replay."""
    replayed: str


class ReplayTable:
    """The results for a folder of rollouts, in `replay/` next to them. Resumable and crash-safe."""

    def __init__(self, folder: Path) -> None:
        self._table = Table(folder / FOLDER, schema_of(ReplayRow))
        self.repair = self._table.repair
        self.compact = self._table.compact

    def add(self, rollout_id: str, rows: list[ReplayRow]) -> None:
        """Store the rows of one rollout. Thread-safe for different rollouts."""
        table = self._table.arrow([asdict(row) for row in rows])
        self._table.write(rollout_id, table)

    def rollout_ids(self) -> set[str]:
        """The rollouts that were replayed."""
        return set(self._table.ids())

    def rows(self) -> Iterator[ReplayRow]:
        """All rows, in no particular order."""
        for row in self._table.rows():
            yield ReplayRow(**row | {"status": ReplayStatus(row["status"])})


def verified_conversations(folder: Path) -> dict[str, bool]:
    """Maps the id of each replayed conversation to whether it was verified."""
    rows = ReplayTable(folder).rows()
    return {row.conversation_id: row.status is ReplayStatus.VERIFIED for row in rows}


@dataclass(frozen=True)
class Difference:
    """The first difference between two conversations with the same calls."""

    message_index: int
    """Index in the recorded conversation."""
    recorded: str
    """The first line that differs, normalised; empty if there is none."""
    replayed: str


Observation = tuple[int, str | None, str]
"""The answer to a call: message index, status of the call, and normalised text."""


def first_difference(
    recorded: Sequence[MessageRow],
    replayed: Sequence[MessageRow],
    passed_over: Collection[str] = (),
) -> Difference | None:
    """Compare observation by observation, except answers to the call ids in `passed_over`."""

    def observations(rows: Sequence[MessageRow]) -> Iterator[Observation]:
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


Drive = Callable[[RolloutSettings, RolloutTrace], object]
"""Runs the rollout again with the models in the settings and writes the trace. A replay ignores the
result.
"""


@dataclass(frozen=True)
class Recorded:
    """A recorded rollout, ready to be run again in fresh sandboxes."""

    rollout_id: str
    models: tuple[str, ...]
    """The names of the models in the rollout."""
    conversations: tuple[Conversation, ...]
    drive: Drive

    def replay(
        self, settings: Callable[[dict[str, RoleModel]], RolloutSettings]
    ) -> list[ConversationLog]:
        """Run the rollout with models that repeat the recorded messages.

        Raises ConfigError, RolloutError other than the model's, RolloutStopped, SandboxError.
        """
        recordings = [recording_of(each) for each in self.conversations]
        role_models = {}
        for name in self.models:
            backend = ReplayBackend(name, recordings)
            role_models[name] = RoleModel(backend, Sampling(), backend.teacher)
        trace = RolloutTrace()
        # A record that ends early ended with a model failure, so its replay does too.
        with suppress(ModelFailure):
            self.drive(settings(role_models), trace)
        return trace.logs


def verify(
    recorded: Recorded, settings: Callable[[dict[str, RoleModel]], RolloutSettings]
) -> list[ReplayRow]:
    """Run the rollout once, and a second time if anything differs. Raises what `replay` raises."""

    def rows(conversation: Conversation, logs: Sequence[ConversationLog]) -> Sequence[MessageRow]:
        """The same conversation in a replay; empty if the replay did not reach it."""
        return logs[conversation.index].rows if conversation.index < len(logs) else ()

    conversations = recorded.conversations
    first = recorded.replay(settings)
    # If a subagent failed, its caller was told why. A replay can't repeat that text.
    failed = {
        each.parent_call_id or ""
        for each in conversations
        if each.stop_reason is StopReason.FAILURE
    }
    differences = [
        first_difference(each.messages, rows(each, first), failed) for each in conversations
    ]
    again = recorded.replay(settings) if any(differences) else first
    found = []
    for conversation, difference in zip(conversations, differences, strict=True):
        status, shown = ReplayStatus.VERIFIED, difference
        if difference is not None:
            unsteady = first_difference(rows(conversation, first), rows(conversation, again))
            status = ReplayStatus.NONDETERMINISTIC if unsteady else ReplayStatus.DIFFERENT
            shown = unsteady or difference
        found.append(
            ReplayRow(
                rollout_id=conversation.rollout_id,
                conversation_id=conversation.conversation_id,
                instance_id=conversation.instance_id,
                status=status,
                message_index=shown.message_index if shown else None,
                recorded=shown.recorded if shown else "",
                replayed=shown.replayed if shown else "",
            )
        )
    return found


WHOLE = {"split": "all", "limit": None, "instances": None, "shuffle_seed": None}
"""Benchmark settings that select every bug."""


class Bugs:
    """The bugs of some benchmarks, by name and id."""

    def __init__(self, configs: Iterable[BenchmarkConfig], sandbox: SandboxConfig) -> None:
        """Raises ConfigError if a benchmark's data is missing or broken."""
        self._found: dict[tuple[str, str, str], tuple[Benchmark, Instance]] = {}
        whole = [config.model_copy(update=WHOLE) for config in configs]
        for place, config in enumerate(whole):
            if config not in whole[:place]:
                benchmark = open_benchmark(config, sandbox)
                for instance in benchmark.instances():
                    key = (instance.benchmark, instance.id, instance.hash)
                    self._found.setdefault(key, (benchmark, instance))

    def of(self, row: Rollout) -> tuple[Benchmark, Instance]:
        """The row's benchmark and bug. Raises ConfigError if the bug is gone or changed."""
        found = self._found.get((row.benchmark, row.instance_id, row.instance_hash))
        if found is None:
            raise ConfigError(
                f"the bug {row.benchmark} {row.instance_id} of rollout {row.rollout_id} is not "
                "among those of the run's config, or has changed since; give the benchmark that "
                "it was of, e.g. collect.benchmark.path=FOLDER"
            )
        return found


class Finder:
    """Finds everything needed to run a rollout again."""

    def __init__(self, bugs: Bugs, questions: Iterable[Path]) -> None:
        """`questions` are question files. Raises ConfigError for one that can't be read."""
        self._bugs = bugs
        paths = [path for path in dict.fromkeys(questions) if path.is_file()]
        self._questions = [question for path in paths for question in read_questions(path)]
        self._by_rollout: dict[tuple[str, int], Mapping[str, Question]] = {}

    def check(self, row: Rollout) -> Instance:
        """The row's bug. Raises ConfigError if the bug or the row's question no longer exists."""
        if row.variant == VARIANT:
            self._question(row)
        return self._bugs.of(row)[1]

    def benchmark_of(self, row: Rollout) -> Benchmark:
        """The benchmark of the row's bug. Raises ConfigError if the bug is gone or changed."""
        return self._bugs.of(row)[0]

    def recorded(self, row: Rollout, conversations: Sequence[Conversation]) -> Recorded:
        """The rollout, ready to be replayed. Raises ConfigError."""
        instance = self._bugs.of(row)[1]
        drive: Drive
        models: tuple[str, ...]
        if row.variant == VARIANT:
            question, models = self._question(row), (row.sub_model,)
            asked = question_spec(question, instance, row.sub_model, row.attempt)
            drive = partial(hold_question, question, asked)
        else:
            main, sub = row.main_model, row.sub_model or None
            models = (main,) if sub is None else (main, sub)
            spec = RolloutSpec(instance, Variant(row.variant), main, sub, row.attempt)
            drive = partial(run_agents, spec)
        return Recorded(row.rollout_id, models, tuple(conversations), drive)

    def _question(self, row: Rollout) -> Question:
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
        """Number of replayed conversations."""
        return sum(self.counts.values())


def rollouts_at_once(runner: RunnerConfig) -> int:
    """Number of concurrent replays. They run on this machine only, so a cluster's limit per node
    applies.
    """
    if runner.backend == "ray":
        return min(runner.concurrency, runner.ray.per_node)
    return runner.concurrency


def replay_rollouts(
    runtime: RuntimeConfig, finder: Finder, folder: Path, limit: int | None = None
) -> ReplayReport:
    """Replay up to `limit` rollouts that have no result yet.

    Raises ConfigError if another process replays here or a rollout's bug or question no longer
    exists, and ImageMissing if a bug's image is missing.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    with closing(locked(folder / FOLDER / ".lock")):
        table, store = ReplayTable(folder), RunStore(folder)
        table.repair()
        every = list(store.read_rollouts())
        # If infrastructure failed or a call broke the sandbox, there is nothing to verify.
        rows = {
            row.rollout_id: row
            for row in every
            if row.failure_kind not in TRIED_AGAIN and not broke_sandbox(row.failure_type)
        }
        replay = _Replay(reproducible(runtime), finder, table)
        replay.run(store, rows, limit)
        table.compact()
        results = list(table.rows())
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

    def __init__(self, runtime: RuntimeConfig, finder: Finder, table: ReplayTable) -> None:
        self._runtime, self._finder, self._table = runtime, finder, table
        self._failures = CircuitBreaker(runtime.runner.give_up_after)
        self.stop = threading.Event()
        self.reasons: dict[str, None] = {}

    def run(self, store: RunStore, rows: Mapping[str, Rollout], limit: int | None) -> None:
        """Replay what has no result yet."""
        done = self._table.rollout_ids()
        bugs = {key: self._finder.check(row) for key, row in rows.items() if key not in done}
        missing = list(bugs)[:limit]
        if not missing:
            return
        require_images([bugs[key] for key in missing], self._runtime.sandbox)
        clean_up(self._runtime.sandbox)
        # Conversations are read as they are needed; those of a rollout are adjacent.
        held = store.read_conversations(only=set(missing), finished=set(missing))
        jobs = (
            (rows[rollout_id], sorted(group, key=lambda each: each.index))
            for rollout_id, group in groupby(held, key=lambda each: each.rollout_id)
        )
        with ProgressBar("rollouts", len(missing)) as bar:

            def replay(job: tuple[Rollout, list[Conversation]]) -> None:
                self._replay(*job)
                bar.advance()

            run_in_threads(jobs, replay, rollouts_at_once(self._runtime.runner), self.stop)

    def _replay(self, row: Rollout, conversations: list[Conversation]) -> None:
        runtime, recorded = self._runtime, self._finder.recorded(row, conversations)
        benchmark = self._finder.benchmark_of(row)

        def settings(role_models: dict[str, RoleModel]) -> RolloutSettings:
            return RolloutSettings(
                benchmark, runtime.sandbox, runtime.agents, role_models, self.stop
            )

        reason = None
        try:
            self._table.add(row.rollout_id, verify(recorded, settings))
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
