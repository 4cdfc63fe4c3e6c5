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

# The results of replays, and their table.


FOLDER = "replay"


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

    def open(self) -> None:
        """Make the folder, and repair what an interrupted writer left."""
        self._table.repair()

    def add(self, rollout_id: str, rows: list[ReplayRow]) -> None:
        """Store the rows of one rollout. Thread-safe for different rollouts."""
        table = self._table.arrow([asdict(row) for row in rows])
        self._table.write(rollout_id, table)

    def compact(self) -> None:
        """Merge the part files into one."""
        self._table.compact()

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


# Compares the observations of two conversations.
#
# An observation is the answer to a call, normalised (`collect.store.normalising`).


SHOWN = 400
"""Characters of a differing line that are shown."""


@dataclass(frozen=True)
class Difference:
    """The first difference between two conversations with the same calls."""

    message_index: int
    """Index in the recorded conversation."""
    recorded: str
    """The first line that differs, normalised; empty if there is none."""
    replayed: str


def first_difference(
    recorded: Sequence[MessageRow],
    replayed: Sequence[MessageRow],
    passed_over: Collection[str] = (),
) -> Difference | None:
    """Compare observation by observation, except answers to the call ids in `passed_over`."""
    pairs = zip_longest(_observations(recorded, passed_over), _observations(replayed, passed_over))
    for ours, theirs in pairs:
        if ours is None or theirs is None:
            index = ours[0] if ours else len(recorded)
            return Difference(index, _first_line(ours), _first_line(theirs))
        if ours[1:] != theirs[1:]:
            return Difference(ours[0], *_unlike_lines(ours, theirs))
    return None


Observation = tuple[int, str | None, str]
"""Message index, status of the call, and normalised text."""


def _observations(
    rows: Sequence[MessageRow], passed_over: Collection[str]
) -> Iterator[Observation]:
    for index, row in enumerate(rows):
        answers_call = row.message.role == "tool" or row.tool_outcome is not None
        if answers_call and row.message.tool_call_id not in passed_over:
            outcome = row.tool_outcome.value if row.tool_outcome else None
            yield index, outcome, normalised(row.message.content)


def _unlike_lines(ours: Observation, theirs: Observation) -> tuple[str, str]:
    lines = zip_longest(ours[2].splitlines(), theirs[2].splitlines(), fillvalue="")
    for left, right in lines:
        if left != right:
            return left[:SHOWN], right[:SHOWN]
    return f"({ours[1]})", f"({theirs[1]})"


def _first_line(observation: Observation | None) -> str:
    return observation[2].partition("\n")[0][:SHOWN] if observation else ""


# One recorded rollout, run again in fresh sandboxes.


Drive = Callable[[RolloutSettings, RolloutTrace], object]
"""Runs the rollout again with the models in the settings and writes the trace. A replay ignores the
result.
"""


@dataclass(frozen=True)
class Recorded:
    rollout_id: str
    models: tuple[str, ...]
    """The names of the models in the rollout."""
    conversations: tuple[Conversation, ...]
    drive: Drive

    def role_models(self) -> dict[str, RoleModel]:
        """Models that repeat the recorded messages."""
        recordings = [recording_of(each) for each in self.conversations]
        backends = {name: ReplayBackend(name, recordings) for name in self.models}
        return {
            name: RoleModel(backend, Sampling(), backend.of_oracle)
            for name, backend in backends.items()
        }


def verify(
    recorded: Recorded, settings: Callable[[dict[str, RoleModel]], RolloutSettings]
) -> list[ReplayRow]:
    """Run the rollout once, and a second time if anything differs.

    Raises ConfigError, RolloutError other than the model's, RolloutStopped, SandboxError.
    """
    first = _driven(recorded, settings)
    differences = dict(_differences(recorded, first))
    again = _driven(recorded, settings) if any(differences.values()) else first
    return [
        _row(conversation, differences[conversation.index], _between(conversation, first, again))
        for conversation in recorded.conversations
    ]


def _driven(
    recorded: Recorded, settings: Callable[[dict[str, RoleModel]], RolloutSettings]
) -> list[ConversationLog]:
    trace = RolloutTrace()
    # A record that ends early ended with a model failure, so its replay does too.
    with suppress(ModelFailure):
        recorded.drive(settings(recorded.role_models()), trace)
    return trace.logs


def _differences(
    recorded: Recorded, logs: Sequence[ConversationLog]
) -> Iterator[tuple[int, Difference | None]]:
    failed = {
        each.parent_call_id or ""
        for each in recorded.conversations
        if each.stop_reason is StopReason.FAILURE
    }
    for each in recorded.conversations:
        # If a subagent failed, its caller was told why. A replay can't repeat that text.
        yield each.index, first_difference(each.messages, _rows(each, logs), failed)


def _between(
    conversation: Conversation, first: Sequence[ConversationLog], again: Sequence[ConversationLog]
) -> Difference | None:
    return first_difference(_rows(conversation, first), _rows(conversation, again))


def _rows(conversation: Conversation, logs: Sequence[ConversationLog]) -> Sequence[MessageRow]:
    """The same conversation in a replay; empty if the replay did not reach it."""
    return logs[conversation.index].rows if conversation.index < len(logs) else ()


def _row(
    conversation: Conversation, difference: Difference | None, unsteady: Difference | None
) -> ReplayRow:
    status, shown = ReplayStatus.VERIFIED, difference
    if difference is not None:
        status = ReplayStatus.NONDETERMINISTIC if unsteady else ReplayStatus.DIFFERENT
        shown = unsteady or difference
    return ReplayRow(
        rollout_id=conversation.rollout_id,
        conversation_id=conversation.conversation_id,
        instance_id=conversation.instance_id,
        status=status,
        message_index=shown.message_index if shown else None,
        recorded=shown.recorded if shown else "",
        replayed=shown.replayed if shown else "",
    )


# Finds the bug or question of a rollout's row.


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

    def of(self, row: Rollout) -> tuple[Benchmark, Instance] | None:
        """The bug as the row recorded it and its benchmark, or None if it no longer exists."""
        return self._found.get((row.benchmark, row.instance_id, row.instance_hash))


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
        instance = self._bug(row)[1]
        if row.variant == VARIANT:
            self._question(row)
        return instance

    def benchmark_of(self, row: Rollout) -> Benchmark:
        """The benchmark of the row's bug. Raises ConfigError if the bug is gone or changed."""
        return self._bug(row)[0]

    def recorded(self, row: Rollout, conversations: Sequence[Conversation]) -> Recorded:
        """The rollout, ready to be replayed. Raises ConfigError."""
        instance = self._bug(row)[1]
        if row.variant == VARIANT:
            question = self._question(row)
            asked = question_spec(question, instance, row.sub_model, row.attempt)
            return Recorded(
                row.rollout_id,
                (row.sub_model,),
                tuple(conversations),
                partial(hold_question, question, asked),
            )
        main, sub = row.main_model, row.sub_model or None
        spec = RolloutSpec(instance, Variant(row.variant), main, sub, row.attempt)
        return Recorded(
            row.rollout_id,
            (main,) if sub is None else (main, sub),
            tuple(conversations),
            partial(run_agents, spec),
        )

    def _bug(self, row: Rollout) -> tuple[Benchmark, Instance]:
        found = self._bugs.of(row)
        if found is None:
            raise ConfigError(
                f"the bug {row.benchmark} {row.instance_id} of rollout {row.rollout_id} is not "
                "among those of the run's config, or has changed since; give the benchmark that "
                "it was of, e.g. collect.benchmark.path=FOLDER"
            )
        return found

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


def replay_rollouts(
    runtime: RuntimeConfig, finder: Finder, folder: Path, limit: int | None = None
) -> ReplayReport:
    """Replay up to `limit` rollouts that have no result yet.

    Raises ConfigError if another process replays here or a rollout's bug or question no longer
    exists, and ImageMissing if a bug's image is missing.
    """
    table = ReplayTable(folder)
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    with closing(locked(folder / FOLDER / ".lock")):
        table.open()
        replay = _Replay(reproducible(runtime), finder, RunStore(folder), table)
        replay.run(limit)
        table.compact()
        return replay.report()


def rollouts_at_once(runner: RunnerConfig) -> int:
    """Number of concurrent replays. They run on this machine only, so a cluster's limit per node
    applies.
    """
    if runner.backend == "ray":
        return min(runner.concurrency, runner.ray.per_node)
    return runner.concurrency


def _has_a_record(row: Rollout) -> bool:
    """Whether there is something to verify: not if infrastructure failed or a call broke the
    sandbox.
    """
    return row.failure_kind not in TRIED_AGAIN and not broke_sandbox(row.failure_type)


class _Replay:
    """One start of a replay."""

    def __init__(
        self, runtime: RuntimeConfig, finder: Finder, store: RunStore, table: ReplayTable
    ) -> None:
        self._runtime, self._finder = runtime, finder
        self._store, self._table = store, table
        self._stop = threading.Event()
        self._reasons: dict[str, None] = {}
        self._failures = CircuitBreaker(runtime.runner.give_up_after)
        rows = {row.rollout_id: row for row in store.read_rollouts()}
        self._rows = {key: row for key, row in rows.items() if _has_a_record(row)}
        self._failed_before = len(rows) - len(self._rows)

    def run(self, limit: int | None) -> None:
        """Replay what has no result yet."""
        done = self._table.rollout_ids()
        bugs = {key: self._finder.check(row) for key, row in self._rows.items() if key not in done}
        missing = list(bugs)[:limit]
        if not missing:
            return
        require_images([bugs[key] for key in missing], self._runtime.sandbox)
        clean_up(self._runtime.sandbox)
        jobs = self._jobs(set(missing))
        with ProgressBar("rollouts", len(missing)) as bar:

            def replay(job: tuple[Rollout, list[Conversation]]) -> None:
                self._replay(*job)
                bar.advance()

            run_in_threads(jobs, replay, rollouts_at_once(self._runtime.runner), self._stop)

    def report(self) -> ReplayReport:
        rows = list(self._table.rows())
        done = {row.rollout_id for row in rows}
        return ReplayReport(
            folder=self._store.folder,
            counts=Counter(row.status for row in rows),
            unverified=tuple(row for row in rows if row.status is not ReplayStatus.VERIFIED),
            left=len(self._rows.keys() - done),
            failed_before=self._failed_before,
            reasons=tuple(self._reasons),
            stopped=self._stop.is_set(),
        )

    def _jobs(self, missing: set[str]) -> Iterator[tuple[Rollout, list[Conversation]]]:
        """Rollouts with their conversations, read lazily."""
        held = self._store.read_conversations(only=missing, finished=missing)
        for rollout_id, group in groupby(held, key=lambda each: each.rollout_id):
            yield self._rows[rollout_id], sorted(group, key=lambda each: each.index)

    def _replay(self, row: Rollout, conversations: list[Conversation]) -> None:
        recorded = self._finder.recorded(row, conversations)
        benchmark = self._finder.benchmark_of(row)

        def settings(role_models: dict[str, RoleModel]) -> RolloutSettings:
            runtime = self._runtime
            return RolloutSettings(
                benchmark, runtime.sandbox, runtime.agents, role_models, self._stop
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
            self._reasons[reason] = None
        if self._failures.count(reason):
            self._stop.set()
