"""Do a set of rollouts and keep them: what collect and eval have in common.

A second start on the same folder does only what is missing, or failed for the sake of the
infrastructure or the budget.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from collect.agents.rollout_context import Player
from collect.benchmarks.base import Benchmark
from collect.benchmarks.images import require_images
from collect.benchmarks.workspace import open_instance_sandbox
from collect.config import Machinery
from collect.errors import (
    TRIED_AGAIN,
    ConfigError,
    FailureKind,
    RolloutStopped,
)
from collect.heartbeat import beating
from collect.models.base import ModelBackend
from collect.models.budget import Budget, read_spent
from collect.models.config import EndpointConfig, ModelConfig, OracleConfig
from collect.models.opening import open_models
from collect.models.replay import ReplayBackend
from collect.progress import Progress
from collect.records import Rollout
from collect.rollout import RolloutSettings, RolloutSpec, run_rollout
from collect.rollout_journal import RolloutJournal
from collect.rollout_rows import RunIdentity, rows_of
from collect.runner import AsyncioRunner
from collect.settings import note_settings, settings_facts, settings_hash, what_differs
from collect.store import RunStore
from sandbox import clean_up


@dataclass(frozen=True)
class RolloutsSummary:
    """What a start came to."""

    folder: Path
    total: int
    """Rollouts that the config asks for."""
    done: int
    """Rows there are now."""
    resolved: int
    failed: int
    """Rows with a failure of any kind."""
    infrastructure_failures: int
    """Rows that the next start does again."""
    stopped: bool
    """Whether the user, the budget or `gave_up` ended it before the end."""
    gave_up: str | None
    """What kept failing, where too many rollouts in a row failed for the infrastructure's sake."""
    dollars: float
    reasons: tuple[str, ...]
    """Different failures of the infrastructure or the budget, as `type: message`."""

    @property
    def nothing_worked(self) -> str | None:
        """Why there is not one verdict on a model, or too many failures in a row; else None."""
        if self.gave_up is None and 0 < self.done == self.infrastructure_failures:
            return f"all {self.done} rollouts failed for the infrastructure's sake"
        return self.gave_up


def do_rollouts(
    machinery: Machinery,
    benchmark: Benchmark,
    specs: Sequence[RolloutSpec],
    identity: RunIdentity,
    folder: Path,
) -> RolloutsSummary:
    """Do the rollouts that `folder` does not have yet.

    Raises ConfigError where the folder holds rollouts made with other settings, and SandboxError
    where the sandbox does not work.
    """
    with closing(RunStore.open(folder)) as store:
        batch = _Batch(machinery, benchmark, specs, identity, store)
        batch.run()
        store.compact()
        return batch.summary()


class FailuresInARow:
    """Notices when nothing works any more. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self.gave_up: str | None = None
        self._limit = limit
        self._count = 0
        self._lock = threading.Lock()

    def too_many(self, row: Rollout) -> bool:
        """Count a finished rollout; whether it is time to give up."""
        failed = row.failure_kind is FailureKind.INFRASTRUCTURE
        return self.count(f"{row.failure_type}: {row.failure_message}" if failed else None)

    def count(self, reason: str | None) -> bool:
        """Count one that failed for a reason, or did not; whether it is time to give up."""
        with self._lock:
            self._count = 0 if reason is None else self._count + 1
            if self._count >= self._limit and self.gave_up is None:
                self.gave_up = f"{self._count} rollouts in a row failed, the last with {reason}"
            return self.gave_up is not None


class _Batch:
    """One start: the rollouts to do, and what they share."""

    def __init__(
        self,
        machinery: Machinery,
        benchmark: Benchmark,
        specs: Sequence[RolloutSpec],
        identity: RunIdentity,
        store: RunStore,
    ) -> None:
        self.machinery, self.benchmark, self.identity = machinery, benchmark, identity
        self.specs, self.store = specs, store
        self.stop = threading.Event()
        _refuse_unfit(specs)
        _refuse_unknown_to_oracle(specs, self._models())
        self._failures = FailuresInARow(machinery.runner.give_up_after)
        self.facts = {spec.id: settings_facts(machinery, spec) for spec in specs}
        self.hashes = {key: settings_hash(facts) for key, facts in self.facts.items()}
        self.todo = self._missing()
        self.budget = Budget(machinery.runner.budget_dollars, self._spent())

    def run(self) -> None:
        """Do what is missing."""
        if not self.todo:
            return
        self._check_budget()
        for facts in {self.hashes[spec.id]: self.facts[spec.id] for spec in self.todo}.values():
            note_settings(self.store.folder, facts)
        require_images((spec.instance for spec in self.todo), self.machinery.sandbox)
        clean_up(self.machinery.sandbox)
        self._try_out()
        done_before = len(self.specs) - len(self.todo)
        backends = open_models(self._models(), self.budget, self.stop, self.store.folder)
        players = {
            name: Player(backend, config.sampling, is_oracle(config, backend))
            for (name, config), backend in zip(
                self._models().items(), backends.values(), strict=True
            )
        }
        settings = RolloutSettings(
            self.benchmark, self.machinery.sandbox, self.machinery.agents, players, self.stop
        )
        runner = AsyncioRunner(self.machinery.runner.concurrency, self.stop)
        try:
            with (
                Progress(len(self.specs), done_before) as progress,
                beating(self.store.folder, progress),
            ):
                runner.run(self.todo, lambda spec: self._do(spec, settings, progress))
        finally:
            for backend in backends.values():
                backend.close()

    def summary(self) -> RolloutsSummary:
        """What the folder holds of what was asked for."""
        rows = [row for row in self.store.read_rollouts() if row.rollout_id in self.hashes]
        return RolloutsSummary(
            folder=self.store.folder,
            total=len(self.specs),
            done=len(rows),
            resolved=sum(row.resolved for row in rows),
            failed=sum(row.failure_kind is not None for row in rows),
            infrastructure_failures=sum(
                row.failure_kind is FailureKind.INFRASTRUCTURE for row in rows
            ),
            stopped=self.stop.is_set(),
            gave_up=self._failures.gave_up,
            dollars=sum(row.dollars for row in rows),
            reasons=tuple(
                dict.fromkeys(
                    f"{row.failure_type}: {row.failure_message}"
                    for row in rows
                    if row.failure_kind in TRIED_AGAIN
                )
            ),
        )

    def _check_budget(self) -> None:
        """Refuse a budget that nothing would ever be counted against."""
        endpoints = [m for m in self._models().values() if isinstance(m, EndpointConfig)]
        limited = self.machinery.runner.budget_dollars is not None
        if limited and endpoints and all(model.prices.free for model in endpoints):
            raise ConfigError(
                "runner.budget_dollars is set, but no model has prices, so it would never be "
                "reached: set models.NAME.prices, or runner.budget_dollars=null"
            )

    def _try_out(self) -> None:
        """Run one test of one bug, so that a sandbox that can't is told before work starts.

        A public one: private tests are not laid out where agents work.
        """
        instance = self.todo[0].instance
        with open_instance_sandbox(self.machinery.sandbox, instance) as sandbox:
            self.benchmark.prepare(instance, sandbox)
            self.benchmark.run_tests(instance, sandbox, instance.public_tests[:1])

    def _do(self, spec: RolloutSpec, settings: RolloutSettings, progress: Progress) -> None:
        progress.started(spec.id, f"{spec.instance.id} {spec.variant}")
        journal = RolloutJournal.of(self.store.folder, spec, self.hashes[spec.id])
        try:
            trace = run_rollout(spec, journal.kept(settings))
        except RolloutStopped:
            progress.stopped(spec.id)
            return
        finally:
            self.budget.note(self.store.folder)
        row, conversations = rows_of(spec, trace, settings, self.identity, self.hashes[spec.id])
        self.store.add(row, conversations)
        journal.has_row(row)
        progress.finished(row)
        if row.failure_kind is FailureKind.BUDGET or self._failures.too_many(row):
            self.stop.set()

    def _missing(self) -> list[RolloutSpec]:
        done = set()
        instances = {spec.id: spec.instance for spec in self.specs}
        for row in self.store.read_rollouts():
            if row.rollout_id not in self.hashes or row.failure_kind in TRIED_AGAIN:
                continue
            self._check_same_settings(row, instances[row.rollout_id].hash)
            done.add(row.rollout_id)
        return [spec for spec in self.specs if spec.id not in done]

    def _check_same_settings(self, row: Rollout, instance_hash: str) -> None:
        if row.instance_hash != instance_hash:
            changed = f"another version of the bug {row.instance_id}"
        elif row.config_hash != self.hashes[row.rollout_id]:
            facts = self.facts[row.rollout_id]
            changed = what_differs(self.store.folder, row.config_hash, facts)
        else:
            return
        raise ConfigError(
            f"{self.store.folder} holds rollouts made with {changed}; they must not be mixed. "
            "Choose another `run` name, or remove that folder"
        )

    def _models(self) -> dict[str, ModelConfig]:
        names = {name for spec in self.specs for name in (spec.main, spec.sub) if name is not None}
        return {name: self.machinery.model_config_of(name) for name in sorted(names)}

    def _spent(self) -> float:
        rows = sum(row.dollars for row in self.store.read_rollouts())
        return read_spent(self.store.folder, rows)


def _refuse_unfit(specs: Sequence[RolloutSpec]) -> None:
    """Refuse bugs that a system can't work on, before any work starts."""
    for spec in specs:
        if spec.variant.repairs_one_file and not spec.instance.solution:
            raise ConfigError(
                f"{spec.variant} repairs Python programs of one file, and "
                f"{spec.instance.benchmark} {spec.instance.id} is not one; take the benchmark "
                "self_repair or humanevalfix (Python), or one of Debug2Fix's variants"
            )


def _refuse_unknown_to_oracle(
    specs: Sequence[RolloutSpec], models: Mapping[str, ModelConfig]
) -> None:
    """Refuse to have bugs mended by an oracle that has no gold patch to know.

    Of programs of one file that comes as each one's failure, for some of them have a correct one.
    """
    for spec in specs:
        played = [name for name in (spec.main, spec.sub) if name is not None]
        oracles = [name for name in played if isinstance(models[name], OracleConfig)]
        if oracles and not spec.instance.gold_patch and not spec.variant.repairs_one_file:
            raise ConfigError(
                f"{spec.instance.benchmark} {spec.instance.id} has no gold patch, which is all "
                f"that the oracle knows (the model {oracles[0]!r}): set main and sub to models of "
                "another backend, or leave the bug out"
            )


def is_oracle(config: ModelConfig, backend: ModelBackend) -> bool:
    """Whether it knows the gold patch: the oracle itself, or what plays its recordings."""
    return isinstance(config, OracleConfig) or (
        isinstance(backend, ReplayBackend) and backend.of_oracle
    )
