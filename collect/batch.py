"""One start of a set of rollouts: what is missing is done, and kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial

from collect.benchmarks.base import Benchmark
from collect.config import Machinery
from collect.copying.run_copy import copy_of_this_run
from collect.errors import TRIED_AGAIN, ConfigError, FailureKind, RolloutStopped
from collect.failures_in_a_row import FailuresInARow
from collect.heartbeat import beating
from collect.models.budget import Budget, read_spent
from collect.models.config import EndpointConfig, ModelConfig
from collect.places import Place, Setup, ThisMachine
from collect.progress import Progress
from collect.records import Rollout
from collect.rollout import RolloutSpec
from collect.rollout_journal import forget_replies, replies_of
from collect.runner import AsyncioRunner
from collect.settings import note_settings, settings_facts, what_differs
from collect.store import RunStore
from collect.work import Work


def models_of(machinery: Machinery, specs: Iterable[RolloutSpec]) -> dict[str, ModelConfig]:
    """The models that play in rollouts, by name."""
    names = {name for spec in specs for name in (spec.main, spec.sub) if name is not None}
    return {name: machinery.model_config_of(name) for name in sorted(names)}


class Batch:
    """The rollouts that a config asks for, and those of them that have no row yet."""

    def __init__(
        self, machinery: Machinery, benchmark: Benchmark, works: Sequence[Work], store: RunStore
    ) -> None:
        """Raises ConfigError where the store holds rollouts made with other settings."""
        self.stop = threading.Event()
        self.failures = FailuresInARow(machinery.runner.give_up_after)
        self._machinery, self._benchmark = machinery, benchmark
        self._works = {work.spec.id: work for work in works}
        self._store, self._copy = store, copy_of_this_run()
        self.missing = self._without_row()

    def run(self) -> None:
        """Do what is missing. Raises ConfigError, SandboxError."""
        if not self.missing:
            return
        budget = self._budget()
        self._note_settings()
        with closing(self._place(budget)) as place:
            place.prepare(self.missing)
            progress = Progress(len(self._works), len(self._works) - len(self.missing))
            runner = AsyncioRunner(self._machinery.runner.concurrency, self.stop)
            with progress, beating(self._store.folder, progress, place.nodes):
                self._passes(runner, lambda work: self._do(work, place, progress), progress)

    def compact(self) -> None:
        """Merge the files of the rows; not before the copy has them, which takes each as it is."""
        if self._copy is None or self._copy.up_to_date():
            self._store.compact()

    def _passes(
        self, runner: AsyncioRunner, do: Callable[[Work], None], progress: Progress
    ) -> None:
        """Do what is missing, and once more what has failed for the infrastructure's sake."""
        runner.run(self.missing, do)
        for _ in range(self._machinery.runner.again):
            failed = [] if self.stop.is_set() else self._without_row()
            if failed:
                progress.to_do_again(len(failed))
                runner.run(failed, do)

    def rows(self) -> list[Rollout]:
        """The rows that there are now of what was asked for."""
        return [row for row in self._store.read_rollouts() if row.rollout_id in self._works]

    def _place(self, budget: Budget) -> Place:
        """Where the rollouts are done."""
        folder = self._store.folder
        setup = Setup(self._machinery, self._benchmark, self._models(), folder)
        if self._machinery.runner.backend == "ray":
            from collect.cluster.cluster import RayCluster

            return RayCluster(setup, budget, self.stop)
        return ThisMachine(setup, budget, self.stop, partial(replies_of, folder))

    def _do(self, work: Work, place: Place, progress: Progress) -> None:
        if self._copy is not None:
            self._copy.hold(self.stop)
        progress.started(work.spec.id, work.label)
        try:
            row, conversations = place.do(work)
        except RolloutStopped:
            progress.stopped(work.spec.id)
            return
        self._store.add(row, conversations)
        forget_replies(self._store.folder, row)
        progress.finished(row)
        if row.failure_kind is FailureKind.BUDGET or self.failures.too_many(row):
            self.stop.set()

    def _without_row(self) -> list[Work]:
        done = set()
        for row in self.rows():
            if row.failure_kind not in TRIED_AGAIN:
                self._check_same_settings(row, self._works[row.rollout_id])
                done.add(row.rollout_id)
        return [work for key, work in self._works.items() if key not in done]

    def _check_same_settings(self, row: Rollout, work: Work) -> None:
        if row.instance_hash != work.spec.instance.hash:
            changed = f"another version of the bug {row.instance_id}"
        elif row.config_hash != work.settings_hash:
            facts = settings_facts(self._machinery, work.spec)
            changed = what_differs(self._store.folder, row.config_hash, facts)
        else:
            return
        raise ConfigError(
            f"{self._store.folder} holds rollouts made with {changed}; they must not be mixed. "
            "Choose another `run` name, or remove that folder"
        )

    def _note_settings(self) -> None:
        for work in {work.settings_hash: work for work in self.missing}.values():
            note_settings(self._store.folder, settings_facts(self._machinery, work.spec))

    def _models(self) -> Mapping[str, ModelConfig]:
        return models_of(self._machinery, (work.spec for work in self._works.values()))

    def _budget(self) -> Budget:
        """Refuses one that nothing would ever be counted against."""
        limit = self._machinery.runner.budget_dollars
        endpoints = [m for m in self._models().values() if isinstance(m, EndpointConfig)]
        if limit is not None and endpoints and all(model.prices.free for model in endpoints):
            raise ConfigError(
                "runner.budget_dollars is set, but no model has prices, so it would never be "
                "reached: set models.NAME.prices, or runner.budget_dollars=null"
            )
        of_rows = sum(row.dollars for row in self._store.read_rollouts())
        return Budget(limit, read_spent(self._store.folder, of_rows), self._store.folder)
