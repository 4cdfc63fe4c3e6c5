"""All rollouts of a folder, replayed. A second start does only what is missing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from collect.agents.rollout_context import Player
from collect.benchmarks.images import require_images
from collect.config import Machinery, RunnerConfig
from collect.durable import locked
from collect.errors import TRIED_AGAIN, ConfigError, RolloutStopped
from collect.failures_in_a_row import FailuresInARow
from collect.faults import broke_sandbox
from collect.questions.workspace import reproducible
from collect.records import Conversation, Rollout
from collect.replaying.finding import Finder
from collect.replaying.records import FOLDER, ReplayRow, ReplayStatus, ReplayTable
from collect.replaying.replaying import verify
from collect.rollout import RolloutSettings, failure_of
from collect.runner import AsyncioRunner
from collect.store import RunStore
from collect.watching.progress_bar import ProgressBar
from sandbox import clean_up


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
    machinery: Machinery, finder: Finder, folder: Path, limit: int | None = None
) -> ReplayReport:
    """Replay what was not replayed yet, at most `limit` rollouts of it.

    Raises ConfigError where another process replays here, or a rollout's bug or question is gone,
    and ImageMissing where a bug's image is.
    """
    table = ReplayTable(folder)
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    with closing(locked(folder / FOLDER / ".lock")):
        table.open()
        replay = _Replay(reproducible(machinery), finder, RunStore(folder), table)
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
        self, machinery: Machinery, finder: Finder, store: RunStore, table: ReplayTable
    ) -> None:
        self._machinery, self._finder = machinery, finder
        self._store, self._table = store, table
        self._stop = threading.Event()
        self._reasons: dict[str, None] = {}
        self._failures = FailuresInARow(machinery.runner.give_up_after)
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
        require_images([bugs[key] for key in missing], self._machinery.sandbox)
        clean_up(self._machinery.sandbox)
        jobs = self._jobs(set(missing))
        with ProgressBar("rollouts", len(missing)) as bar:

            def replay(job: tuple[Rollout, list[Conversation]]) -> None:
                self._replay(*job)
                bar.advance()

            AsyncioRunner(rollouts_at_once(self._machinery.runner), self._stop).run(jobs, replay)

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

        def settings(players: dict[str, Player]) -> RolloutSettings:
            machinery = self._machinery
            return RolloutSettings(
                benchmark, machinery.sandbox, machinery.agents, players, self._stop
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
