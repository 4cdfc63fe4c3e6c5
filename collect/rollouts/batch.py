"""One start of a set of rollouts: do what is missing, and store it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property, partial

from collect.benchmarks.base import Benchmark
from collect.config import RuntimeConfig
from collect.errors import (
    TRIED_AGAIN,
    ConfigError,
    FailureKind,
    RolloutStopped,
    RowRefused,
)
from collect.models.budget import Budget, read_spent, spent_elsewhere
from collect.models.config import ModelConfig
from collect.preflight import Check, Finding, look_at_all, room_for_rows
from collect.rollout_log import RolloutLog, log_file
from collect.rollouts.circuit_breaker import CircuitBreaker
from collect.rollouts.cost import CostReporter, Forecast, check_dollars
from collect.rollouts.executor import (
    Executor,
    Setup,
    ThisMachine,
    Work,
    models_of,
    tool_users,
)
from collect.rollouts.faults import attribute_failure
from collect.rollouts.heartbeat import beating
from collect.rollouts.journal import forget_replies, kept_dollars, replies_of
from collect.rollouts.progress import Progress
from collect.rollouts.rollout import RolloutSpec
from collect.rollouts.settings import note_settings, settings_facts, what_differs
from collect.rollouts.tracking import Tally, followed, metrics, public, require_wandb
from collect.store.records import Conversation, Rollout
from collect.store.run_store import RunStore
from collect.threads import run_in_threads


class Batch:
    """The rollouts that a config asks for, and which of them have no row yet."""

    def __init__(
        self, runtime: RuntimeConfig, benchmark: Benchmark, works: Sequence[Work], store: RunStore
    ) -> None:
        """Raises ConfigError if the store holds rollouts made with other settings."""
        self.stop = threading.Event()
        self.failures = CircuitBreaker(runtime.runner.give_up_after)
        self.over_budget: tuple[str, ...] = ()
        """The failure that ended this start if it was the budget's, as `type: message`."""
        self._runtime, self._benchmark = runtime, benchmark
        self._works = {work.spec.id: work for work in works}
        self._failed: dict[str, Rollout] = {}
        self._beside = 0
        self._store = store
        self.missing = self._without_row()

    def run(self) -> None:
        """Do the missing rollouts. Raises ConfigError, SandboxError."""
        if not self.missing:
            return
        require_wandb(self._runtime.runner.wandb)
        budget = self._budget()
        with closing(self._executor(budget)) as executor:
            for check in self._checks(executor):
                check.look()
            self._note_settings()
            total = len(self._works)
            progress = Progress(total, total - len(self.missing), beside=self._beside)
            progress.add_earlier(row for row in self.rows() if row.rollout_id not in self._failed)
            costs = self._costs(budget, progress)
            with (
                self._tracked(progress, executor) as tally,
                progress,
                beating(self._store.folder, progress, executor.nodes),
            ):
                costs.begin()
                do = partial(self._do, executor, progress, costs, tally)
                runner, works = self._runtime.runner, self.missing
                run_in_threads(works, do, runner.concurrency, self.stop)
                for _ in range(runner.again):
                    # Repeat what failed because of the infrastructure.
                    works = [] if self.stop.is_set() else self._without_row()
                    if works:
                        progress.to_do_again(len(works))
                        run_in_threads(works, do, runner.concurrency, self.stop)

    def preflight(self) -> list[Finding]:
        """The checks of a start; no rollout is done."""
        if not self.missing:
            return [Finding("rollouts", True, f"all {len(self._works)} are done")]
        with closing(self._executor(self._budget())) as executor:
            return look_at_all(self._checks(executor))

    @contextmanager
    def _tracked(self, progress: Progress, executor: Executor) -> Iterator[Tally]:
        """Send metrics to wandb meanwhile, if the config asks for it; yields the tally of the
        rows."""
        runner = self._runtime.runner
        tally = Tally(self.rows() if runner.wandb is not None else ())
        facts = public(self._runtime.model_dump(mode="json"))
        with followed(
            runner,
            self._store.folder,
            facts,
            lambda: metrics(progress, tally, executor.nodes()),
        ):
            yield tally

    def compact(self) -> None:
        """Merge the files of rows."""
        self._store.compact()

    def rows(self) -> Iterator[Rollout]:
        """The stored rows of the rollouts that were asked for, one at a time."""
        return (row for row in self._store.read_rollouts() if row.rollout_id in self._works)

    def _executor(self, budget: Budget) -> Executor:
        """The executor that the config names."""
        folder, setup = self._store.folder, self._setup
        if self._runtime.runner.backend == "ray":
            from collect.rollouts.ray_cluster.cluster import RayCluster

            return RayCluster(setup, budget, self.stop)
        replies, log = partial(replies_of, folder), partial(log_file, folder)
        return ThisMachine(setup, budget, self.stop, replies, log)

    def _checks(self, executor: Executor) -> Sequence[Check]:
        """Everything that the missing rollouts need."""
        missing, runner = len(self.missing), self._runtime.runner
        spent = self._spent() + spent_elsewhere(self._store.folder)
        return (
            Check("rollouts", lambda: f"{missing} of {len(self._works)} to do"),
            Check("dollars", partial(check_dollars, runner, self._models().values(), spent)),
            Check("disk of the run", partial(room_for_rows, self._store, missing, runner)),
            *executor.checks(self.missing),
        )

    def _do(
        self, executor: Executor, progress: Progress, costs: CostReporter, tally: Tally, work: Work
    ) -> None:
        """Do one rollout and store its row. Raises ConfigError, OSError."""
        if self.stop.is_set():
            return
        progress.started(work.spec.id, work.label)
        text = log_file(self._store.folder, work.spec.id)
        log = RolloutLog(text if self._runtime.runner.logs else None)
        try:
            row, conversations = executor.do(work)
        except RolloutStopped:
            log.note("stopped")
            progress.stopped(work.spec.id)
            return
        except (ConfigError, OSError):
            raise
        except Exception as error:
            # A defect of StepInto must not lose the other rollouts. The row has the details.
            row, conversations = self._setup.failed(work, error)
        row = attribute_failure(row, self._failed.get(row.rollout_id))
        row = self._keep(work, row, conversations)
        if row.failure_kind is not None:
            log.note(
                "failed",
                kind=row.failure_kind.value,
                type=row.failure_type,
                message=row.failure_message,
            )
        if row.tampered is not None:
            log.note("tampered", what=row.tampered)
        log.note("ended", resolved=row.resolved, seconds=row.seconds, dollars=row.dollars)
        log.flush()
        forget_replies(self._store.folder, row)
        progress.finished(row)
        tally.add(row)
        self._stop_by(row)
        costs.ended(row)

    def _keep(self, work: Work, row: Rollout, conversations: Sequence[Conversation]) -> Rollout:
        """Store a row; returns the row as stored."""
        try:
            self._store.add(row, conversations)
        except RowRefused as error:
            failed, _ = self._setup.failed(work, error)
            row = replace(failed, dollars=row.dollars, seconds=row.seconds)
            self._store.add(row, ())
        return row

    def _stop_by(self, row: Rollout) -> None:
        """Stop the start if going on is pointless."""
        if row.failure_kind is FailureKind.BUDGET:
            self.over_budget = (row.failure,)
        if self.over_budget or self.failures.too_many(row):
            self.stop.set()

    def _without_row(self) -> list[Work]:
        done = set()
        by_models = {(each.main, each.sub or ""): each.id for each in self._specs}
        for row in self._store.read_rollouts():
            alike = self._works.get(by_models.get((row.main_model, row.sub_model), ""))
            work = self._works.get(row.rollout_id, alike)
            self._beside += row.rollout_id not in self._works
            if row.failure_kind in TRIED_AGAIN:
                self._failed[row.rollout_id] = row
            elif work is not None:
                self._check_same_settings(row, work)
                done.add(row.rollout_id)
        return [work for key, work in self._works.items() if key not in done]

    def _check_same_settings(self, row: Rollout, work: Work) -> None:
        """`work` is the row's own, or, if that is not asked for, any with the same models."""
        same = work.spec.id == row.rollout_id
        if same and row.instance_hash != work.spec.instance.hash:
            changed = f"another version of the bug {row.instance_id}"
        elif row.config_hash != work.settings_hash:
            facts = settings_facts(self._runtime, work.spec)
            changed = what_differs(self._store.folder, row.config_hash, facts)
        else:
            return
        raise ConfigError(
            f"{self._store.folder} holds rollouts made with {changed}; they must not be mixed. "
            "Choose another `run` name, or remove that folder"
        )

    def _note_settings(self) -> None:
        for work in {work.settings_hash: work for work in self.missing}.values():
            note_settings(self._store.folder, settings_facts(self._runtime, work.spec))

    @cached_property
    def _setup(self) -> Setup:
        users = tool_users(self._runtime, self._specs)
        folder = self._store.folder
        return Setup(self._runtime, self._benchmark, self._models(), folder, users)

    def _models(self) -> Mapping[str, ModelConfig]:
        return models_of(self._runtime, self._specs)

    @property
    def _specs(self) -> list[RolloutSpec]:
        return [work.spec for work in self._works.values()]

    def _budget(self) -> Budget:
        limit = self._runtime.runner.budget_dollars
        return Budget(limit, self._spent(), self._store.folder)

    def _spent(self) -> float:
        """Dollars of all starts so far."""
        columns = ("rollout_id", "dollars")
        of_rows = sum(row["dollars"] for row in self._store.rollouts.rows(columns=columns))
        return read_spent(self._store.folder, of_rows)

    def _costs(self, budget: Budget, progress: Progress) -> CostReporter:
        runner = self._runtime.runner
        folder, missing = self._store.folder, self.missing
        kept = sum(kept_dollars(replies_of(folder, work.spec.id)) for work in missing)
        forecast = Forecast(self._specs, self.rows(), budget.spent - kept, runner.estimate_after)
        return CostReporter(forecast, progress, runner.budget_dollars, folder)
