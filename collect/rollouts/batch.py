"""One start of a set of rollouts: do what is missing, and store it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from collect.benchmarks.base import Benchmark
from collect.config import RuntimeConfig
from collect.errors import TRIED_AGAIN, ConfigError, FailureKind, RolloutStopped, RowRefused
from collect.models.budget import Budget, read_spent, spent_elsewhere
from collect.preflight import Check, Finding, look_at_all, room_for_rows
from collect.quantities import duration
from collect.rollout_log import log_file
from collect.rollouts.circuit_breaker import CircuitBreaker
from collect.rollouts.cost import Forecast, check_dollars
from collect.rollouts.executor import Executor, Setup, ThisMachine, Work, models_of, tool_users
from collect.rollouts.faults import attribute_failure
from collect.rollouts.journal import forget_replies, replies_of
from collect.rollouts.progress import Progress
from collect.rollouts.settings import note_settings, settings_facts, what_differs
from collect.rollouts.status import beating
from collect.rollouts.tracking import followed, metrics, public, require_wandb
from collect.store.records import Rollout
from collect.store.run_store import RunStore
from collect.threads import run_in_threads
from sandbox.environment import install_command


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
        self._runtime, self._store = runtime, store
        self._works = {work.spec.id: work for work in works}
        self._specs = [work.spec for work in works]
        models, users = models_of(runtime, self._specs), tool_users(runtime, self._specs)
        self._setup = Setup(runtime, benchmark, models, store.folder, users)
        self._failed: dict[str, Rollout] = {}
        self._beside = 0
        """Rows of rollouts that are no longer asked for."""
        self._telling = threading.Lock()
        self.missing = self._without_row()

    def run(self) -> None:
        """Do the missing rollouts, and merge the files of rows. Raises ConfigError,
        SandboxError."""
        if self.missing:
            self._do_missing()
        self._store.compact()

    def preflight(self) -> list[Finding]:
        """The checks of a start; no rollout is done."""
        if not self.missing:
            return [Finding("rollouts", True, f"all {len(self._works)} are done")]
        with closing(self._executor()) as executor:
            return look_at_all(self._checks(executor))

    def rows(self) -> Iterator[Rollout]:
        """The stored rows of the rollouts that were asked for, one at a time."""
        return (row for row in self._store.read_rollouts() if row.rollout_id in self._works)

    def _do_missing(self) -> None:
        runner, folder = self._runtime.runner, self._store.folder
        require_wandb(runner.wandb)
        with closing(self._executor()) as executor:
            for check in self._checks(executor):
                check.look()
            for work in {work.settings_hash: work for work in self.missing}.values():
                note_settings(folder, settings_facts(self._runtime, work.spec))
            total = len(self._works)
            progress = Progress(total, total - len(self.missing), beside=self._beside)
            progress.add_earlier(self.rows())
            forecast = Forecast(self._specs, self.rows(), self._spent(), runner.estimate_after)
            facts = public(self._runtime.model_dump(mode="json"))
            with (
                followed(runner, folder, facts, lambda: metrics(progress, executor.nodes())),
                progress,
                beating(folder, progress, executor.nodes),
            ):
                self._tell_cost(forecast, progress)
                do = partial(self._do, executor, progress, forecast)
                works = self.missing
                run_in_threads(works, do, runner.concurrency, self.stop)
                for _ in range(runner.again):
                    # Repeat what failed because of the infrastructure.
                    works = [] if self.stop.is_set() else self._without_row()
                    if works:
                        progress.to_do_again(len(works))
                        run_in_threads(works, do, runner.concurrency, self.stop)

    def _executor(self) -> Executor:
        """The executor that the config names."""
        folder, setup = self._store.folder, self._setup
        budget = Budget(self._runtime.runner.budget_dollars, self._spent(), folder)
        if self._runtime.runner.backend == "ray":
            if find_spec("ray") is None:
                raise ConfigError(
                    f"runner.backend=ray needs Ray: {install_command('ray')}, or set "
                    "runner.backend=threads"
                )
            from collect.rollouts.ray_cluster.cluster import RayCluster

            return RayCluster(setup, budget, self.stop)
        replies, log = partial(replies_of, folder), partial(log_file, folder)
        return ThisMachine(setup, budget, self.stop, replies, log)

    def _checks(self, executor: Executor) -> Sequence[Check]:
        """Everything that the missing rollouts need."""
        missing, runner, models = len(self.missing), self._runtime.runner, self._setup.models
        spent = self._spent() + spent_elsewhere(self._store.folder)
        return (
            Check("rollouts", lambda: f"{missing} of {len(self._works)} to do"),
            Check("dollars", partial(check_dollars, runner, models.values(), spent)),
            Check("disk of the run", partial(room_for_rows, self._store, missing, runner)),
            *executor.checks(self.missing),
        )

    def _do(self, executor: Executor, progress: Progress, forecast: Forecast, work: Work) -> None:
        """Do one rollout and store its row. Raises ConfigError, OSError."""
        if self.stop.is_set():
            return
        progress.started(work.spec.id, work.label)
        log = self._setup.log(work)
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
        try:
            self._store.add(row, conversations)
        except RowRefused as error:
            failed, _ = self._setup.failed(work, error)
            row = replace(failed, dollars=row.dollars, seconds=row.seconds)
            self._store.add(row, ())
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
        if row.failure_kind is FailureKind.BUDGET:
            self.over_budget = (row.failure,)
        if self.over_budget or self.failures.too_many(row):
            # Going on is pointless.
            self.stop.set()
        self._tell_cost(forecast, progress, row)

    def _tell_cost(
        self, forecast: Forecast, progress: Progress, ended: Rollout | None = None
    ) -> None:
        """Print what the run is estimated to cost, if there is a new estimate."""
        with self._telling:
            if ended is not None:
                forecast.ended(ended)
            estimate = forecast.estimate()
            if estimate is None:
                return
            seconds, budget = progress.seconds_left(), self._runtime.runner.budget_dollars
            rest = "" if seconds is None else f", {duration(seconds)} left at the present rate"
            basis = f"the first {estimate.rollouts} of {progress.total} rollouts"
            told = f"the whole run: about {estimate.text}{rest}; by {basis}"
            if budget is not None:
                left = budget - spent_elsewhere(self._store.folder)
                if estimate.dollars > left:
                    told += f"; runner.budget_dollars={budget:g} ends it before"
            progress.tell(told)

    def _without_row(self) -> list[Work]:
        done = set()
        self._beside = 0
        by_models = {(each.main, each.sub or ""): each.id for each in self._specs}
        for row in self._store.read_rollouts():
            work = self._works.get(row.rollout_id)
            if work is None:
                # Any with the same models must have the same settings.
                self._beside += 1
                work = self._works.get(by_models.get((row.main_model, row.sub_model), ""))
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

    def _spent(self) -> float:
        """Dollars of all starts so far."""
        columns = ("rollout_id", "dollars")
        of_rows = sum(row["dollars"] for row in self._store.rollouts.rows(columns=columns))
        return read_spent(self._store.folder, of_rows)
