"""All rollouts of a folder, replayed. A second start does only what is missing."""

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

import pyarrow as pa

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
from collect.rollouts.executor import run_in_threads
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
from collect.store.schema import INT, METADATA, TEXT
from collect.store.tables import Table
from sandbox import SandboxConfig, clean_up

# What replaying a conversation came to, and where it is kept.


FOLDER = "replay"


class ReplayStatus(StrEnum):
    """What a replay says about a recorded conversation."""

    VERIFIED = "verified"
    """The same calls showed the same."""
    DIFFERENT = "different"
    """Two replays showed the same as each other, and other than was recorded."""
    NONDETERMINISTIC = "nondeterministic"
    """Two replays showed different things: nothing is known of the record."""


@dataclass(frozen=True)
class ReplayRow:
    """One conversation that was replayed."""

    rollout_id: str
    conversation_id: str
    instance_id: str
    status: ReplayStatus
    message_index: int | None
    """Of the first observation that differs, in the record; None where all are the same."""
    recorded: str
    """The first line that differs, normalised; of a nondeterministic one, in the first replay."""
    replayed: str


REPLAYS = pa.schema(
    {
        "rollout_id": TEXT,
        "conversation_id": TEXT,
        "instance_id": TEXT,
        "status": TEXT,
        "message_index": INT,
        "recorded": TEXT,
        "replayed": TEXT,
    },
    metadata=METADATA,
)


class ReplayTable:
    """The rows of a folder of rollouts, in `replay/` beside them: resumable, and kept whole."""

    def __init__(self, folder: Path) -> None:
        self._table = Table(folder / FOLDER, REPLAYS)

    def open(self) -> None:
        """Make the folder, and mend what an interrupted writer left."""
        self._table.mend()

    def add(self, rollout_id: str, rows: list[ReplayRow]) -> None:
        """Keep the rows of one rollout. Thread-safe for different ones."""
        table = self._table.arrow([asdict(row) for row in rows])
        self._table.write(rollout_id, table)

    def compact(self) -> None:
        """Merge the part files into one."""
        self._table.compact()

    def rollout_ids(self) -> set[str]:
        """Of those that were replayed."""
        return set(self._table.ids())

    def rows(self) -> Iterator[ReplayRow]:
        """All, in no particular order."""
        for row in self._table.rows():
            yield ReplayRow(**row | {"status": ReplayStatus(row["status"])})


def verified_conversations(folder: Path) -> dict[str, bool]:
    """Whether each replayed conversation of a folder of rollouts was verified, by its id."""
    rows = ReplayTable(folder).rows()
    return {row.conversation_id: row.status is ReplayStatus.VERIFIED for row in rows}


# What a conversation observed, and where two of them differ.
#
# An observation is what a call was answered with, normalised (`collect.normalising`).


SHOWN = 400
"""Characters of a line that a difference shows."""


@dataclass(frozen=True)
class Difference:
    """The first thing that two conversations of the same calls saw differently."""

    message_index: int
    """In the recorded conversation."""
    recorded: str
    """The first line that differs, without what passes; empty where there is none."""
    replayed: str


def first_difference(
    recorded: Sequence[MessageRow],
    replayed: Sequence[MessageRow],
    passed_over: Collection[str] = (),
) -> Difference | None:
    """Compare observation by observation; those that answer `passed_over`, call ids, are not."""
    pairs = zip_longest(_observations(recorded, passed_over), _observations(replayed, passed_over))
    for ours, theirs in pairs:
        if ours is None or theirs is None:
            index = ours[0] if ours else len(recorded)
            return Difference(index, _first_line(ours), _first_line(theirs))
        if ours[1:] != theirs[1:]:
            return Difference(ours[0], *_unlike_lines(ours, theirs))
    return None


Observation = tuple[int, str | None, str]
"""Index of the message, what became of the call, and the normalised text."""


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


# One recorded rollout, driven again in fresh sandboxes.


Drive = Callable[[RolloutSettings, RolloutTrace], object]
"""Does the rollout once more with the models of the settings, into the trace. What comes of it is
no part of a replay."""


@dataclass(frozen=True)
class Recorded:
    """One rollout of a run."""

    rollout_id: str
    models: tuple[str, ...]
    """The names of those that play in it."""
    conversations: tuple[Conversation, ...]
    drive: Drive

    def role_models(self) -> dict[str, RoleModel]:
        """Models that say what was said."""
        recordings = [recording_of(each) for each in self.conversations]
        backends = {name: ReplayBackend(name, recordings) for name in self.models}
        return {
            name: RoleModel(backend, Sampling(), backend.of_oracle)
            for name, backend in backends.items()
        }


def verify(
    recorded: Recorded, settings: Callable[[dict[str, RoleModel]], RolloutSettings]
) -> list[ReplayRow]:
    """Drive the rollout once, and where anything differs once more.

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
    # Where the record ends early, the model's failure once ended it.
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
        # Where a subagent failed, its caller was told why, which no replay can say again.
        yield each.index, first_difference(each.messages, _rows(each, logs), failed)


def _between(
    conversation: Conversation, first: Sequence[ConversationLog], again: Sequence[ConversationLog]
) -> Difference | None:
    return first_difference(_rows(conversation, first), _rows(conversation, again))


def _rows(conversation: Conversation, logs: Sequence[ConversationLog]) -> Sequence[MessageRow]:
    """The same conversation in a replay; empty where it never came to that."""
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


# From a rollout's row to the bug or question that it was about.


WHOLE = {"split": "all", "limit": None, "instances": None, "shuffle_seed": None}
"""A benchmark's settings that choose among its bugs, so that none is chosen."""


class Bugs:
    """The bugs of some benchmarks, by name and id."""

    def __init__(self, configs: Iterable[BenchmarkConfig], sandbox: SandboxConfig) -> None:
        """Raises ConfigError where a benchmark's data is missing or broken."""
        self._found: dict[tuple[str, str, str], tuple[Benchmark, Instance]] = {}
        whole = [config.model_copy(update=WHOLE) for config in configs]
        for place, config in enumerate(whole):
            if config not in whole[:place]:
                benchmark = open_benchmark(config, sandbox)
                for instance in benchmark.instances():
                    key = (instance.benchmark, instance.id, instance.hash)
                    self._found.setdefault(key, (benchmark, instance))

    def of(self, row: Rollout) -> tuple[Benchmark, Instance] | None:
        """The row's bug as it was then, and how its tests are run; None where it is gone."""
        return self._found.get((row.benchmark, row.instance_id, row.instance_hash))


class Finder:
    """What is needed to do the rollouts of a run once more."""

    def __init__(self, bugs: Bugs, questions: Iterable[Path]) -> None:
        """`questions` are files of them. Raises ConfigError for one that can't be read."""
        self._bugs = bugs
        paths = [path for path in dict.fromkeys(questions) if path.is_file()]
        self._questions = [question for path in paths for question in read_questions(path)]
        self._by_rollout: dict[tuple[str, int], Mapping[str, Question]] = {}

    def check(self, row: Rollout) -> Instance:
        """The row's bug. Raises ConfigError where it is gone, or the row's question."""
        instance = self._bug(row)[1]
        if row.variant == VARIANT:
            self._question(row)
        return instance

    def benchmark_of(self, row: Rollout) -> Benchmark:
        """How the row's bug is laid out. Raises ConfigError where the bug is gone or another."""
        return self._bug(row)[0]

    def recorded(self, row: Rollout, conversations: Sequence[Conversation]) -> Recorded:
        """The rollout, ready to be driven again. Raises ConfigError."""
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
    """What is known of a folder's conversations."""

    folder: Path
    counts: Mapping[ReplayStatus, int]
    """Conversations, of this start and earlier ones."""
    unverified: tuple[ReplayRow, ...]
    """All that are not as recorded."""
    left: int
    """Rollouts that were not replayed: stopped before, or something failed around them."""
    failed_before: int
    """Rollouts that ended with their sandbox, or failed because of the infrastructure or the
    budget: none is replayed."""
    reasons: tuple[str, ...]
    """Why some could not be replayed."""
    stopped: bool

    @property
    def conversations(self) -> int:
        """How many were replayed."""
        return sum(self.counts.values())


def replay_rollouts(
    runtime: RuntimeConfig, finder: Finder, folder: Path, limit: int | None = None
) -> ReplayReport:
    """Replay what was not replayed yet, at most `limit` rollouts of it.

    Raises ConfigError where another process replays here, or a rollout's bug or question is gone,
    and ImageMissing where a bug's image is.
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
    """How many are replayed at once: on this machine alone, so with a cluster as many as a node of
    it does."""
    if runner.backend == "ray":
        return min(runner.concurrency, runner.ray.per_node)
    return runner.concurrency


def _has_a_record(row: Rollout) -> bool:
    """Whether there is something to verify: not where what failed around it ended it, nor where its
    calls broke their sandbox."""
    return row.failure_kind not in TRIED_AGAIN and not broke_sandbox(row.failure_type)


class _Replay:
    """One start."""

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
        """Replay what is missing."""
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
        """What is known now."""
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
        """Rollouts with their conversations, read as they are needed."""
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
