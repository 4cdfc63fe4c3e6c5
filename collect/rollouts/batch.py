"""One start of a set of rollouts: do what is missing, and store it.

A run folder keeps the settings of its rows as `settings/HASH.json`, so that a start with other
settings can say what differs. The cost of the whole run is estimated from its first rollouts.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import instructions_of
from collect.benchmarks.base import Benchmark
from collect.config import RunnerConfig, RuntimeConfig
from collect.console import log_name
from collect.errors import TRIED_AGAIN, ConfigError, FailureKind, RolloutStopped, RowRefused
from collect.models.budget import Budget, read_spent, spent_elsewhere
from collect.models.config import (
    EndpointConfig,
    LocalConfig,
    ModelConfig,
    VllmConfig,
    file_stamps,
    trained_on,
)
from collect.preflight import Check, Finding, look_at_all, room_for_rows
from collect.quantities import dollars, duration, tokens
from collect.rollouts.executor import (
    Executor,
    RolloutWork,
    Setup,
    ThisMachine,
    models_of,
    tool_users,
    with_players,
)
from collect.rollouts.faults import CircuitBreaker, attribute_failure
from collect.rollouts.journal import forget_replies
from collect.rollouts.progress import Progress
from collect.rollouts.rollout import RolloutSpec
from collect.rollouts.status import beating
from collect.rollouts.tracking import followed, metrics, public, require_wandb
from collect.store.files import SETTINGS, TextFile, write_text
from collect.store.records import Role, Rollout, digest
from collect.store.run_store import RunStore
from collect.threads import run_in_threads
from sandbox.environment import install_command

logger = logging.getLogger(__name__)

SILENT = 10
"""Rollouts without a tool call after which the run says so."""
MAX_SHOWN = 5
"""Differing settings."""
# What does not change the output of a model, of its server, and of a sandbox.
NOT_OF_A_MODELS_IDENTITY = {
    *("prices", "concurrency", "timeout", "retries", "api_key_env", "base_url", "device"),
    *("max_batch", "prefix_cache", "check_tools"),
}
NOT_OF_A_SERVERS_IDENTITY = {
    *("tensor_parallel", "gpu_memory_utilization", "command", "environment"),
    *("start_timeout", "restarts"),
}
NOT_OF_A_SANDBOXES_IDENTITY = {"starts_at_once", "engine_wait"}
Facts = dict[str, Any]


class Batch:
    """The rollouts that a config asks for, and which of them have no row yet."""

    def __init__(
        self,
        runtime: RuntimeConfig,
        benchmark: Benchmark,
        works: Sequence[RolloutWork],
        store: RunStore,
    ) -> None:
        """Raises ConfigError if the store holds rollouts made with other settings."""
        self.stop = threading.Event()
        self.failures = CircuitBreaker(runtime.runner.give_up_after)
        self.over_budget: tuple[str, ...] = ()
        """The failure that ended this start if it was the budget's, as `type: message`."""
        self._runtime, self._store = runtime, store
        self._works = {work.spec.id: work for work in works}
        self._specs = [work.spec for work in works]
        self._failed: dict[str, Rollout] = {}
        self._telling = threading.Lock()
        self._silent = 0.0
        self.missing = self._without_row()
        # Models of what is done need no server.
        to_do = [work.spec for work in self.missing]
        models, users = models_of(runtime, to_do), tool_users(runtime, to_do)
        self._setup = Setup(runtime, benchmark, models, store.folder, users)

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
            progress = Progress(total, total - len(self.missing))
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
                run_in_threads(self.missing, do, runner.concurrency, self.stop)
                for _ in range(runner.again):
                    # Repeat what failed because of the infrastructure.
                    if not self.stop.is_set() and (works := self._without_row()):
                        progress.to_do_again(len(works))
                        run_in_threads(works, do, runner.concurrency, self.stop)

    def _executor(self) -> Executor:
        """The executor that the config names."""
        folder, setup = self._store.folder, self._setup
        budget = Budget(self._runtime.runner.budget_dollars, self._spent(), folder)
        if self._runtime.runner.backend == "ray":
            if find_spec("ray") is None:
                told = f"runner.backend=ray needs Ray: {install_command('ray')}"
                raise ConfigError(f"{told}, or set runner.backend=threads")
            from collect.rollouts.ray_cluster.cluster import RayCluster

            return RayCluster(setup, budget, self.stop)
        return ThisMachine(setup, budget, self.stop, lambda name: TextFile(folder / name))

    def _checks(self, executor: Executor) -> Sequence[Check]:
        """Everything that the missing rollouts need."""
        missing, runner, models = len(self.missing), self._runtime.runner, self._setup.models
        spent = self._spent() + spent_elsewhere(self._store.folder)
        specs = [work.spec for work in self.missing]
        subs = {spec.sub for spec in specs if spec.system.subagent is Role.DEBUG_SUBAGENT}
        return (
            Check("rollouts", lambda: f"{missing} of {len(self._works)} to do"),
            Check("dollars", partial(check_dollars, runner, models.values(), spent)),
            Check("instructions", partial(check_instructions, self._runtime.agents, models, subs)),
            Check("disk of the run", partial(room_for_rows, self._store, missing, runner)),
            *executor.checks(self.missing),
        )

    def _do(
        self, executor: Executor, progress: Progress, forecast: Forecast, work: RolloutWork
    ) -> None:
        """Do one rollout and store its row. Raises ConfigError, OSError."""
        if self.stop.is_set():
            return
        log_path = self._store.folder / log_name(work.spec.id)
        progress.started(work.spec.id, work.label, log_path)
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
            why = {"type": row.failure_type, "message": row.failure_message}
            log.note("failed", kind=row.failure_kind.value, **why)
        if row.tampered is not None:
            log.note("tampered", what=row.tampered)
        log.note("ended", resolved=row.resolved, seconds=row.seconds, dollars=row.dollars)
        forget_replies(self._store.folder, row)
        progress.finished(row)
        if row.failure_kind is FailureKind.BUDGET:
            self.over_budget = (row.failure,)
        if self.over_budget or self.failures.too_many(row):
            self.stop.set()
        self._tell_cost(forecast, progress, row)
        self._tell_silence(progress, work, row)

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
            paid = f"{dollars(estimate.dollars)} and " if estimate.dollars else ""
            told = f"the whole run: about {paid}{tokens(estimate.tokens)} tokens{rest}; by {basis}"
            if budget is not None and (
                estimate.dollars > budget - spent_elsewhere(self._store.folder)
            ):
                told += f"; runner.budget_dollars={budget:g} ends it before"
            progress.tell(told)

    def _tell_silence(self, progress: Progress, work: RolloutWork, row: Rollout) -> None:
        """Say so once if the first rollouts have no tool call."""
        if work.spec.system.editor is not Role.MAIN or row.failure_kind in TRIED_AGAIN:
            return
        with self._telling:
            if json.loads(row.actions) or row.invalid_tool_calls:
                self._silent = -math.inf
            self._silent += 1
            if self._silent == SILENT:
                names = " or ".join(filter(None, (work.spec.main, work.spec.sub)))
                progress.tell(
                    f"no tool was called in {SILENT} rollouts: check that the server of {names} "
                    "parses tool calls (vLLM: --enable-auto-tool-choice and --tool-call-parser)"
                )

    def _without_row(self) -> list[RolloutWork]:
        done = set()
        by_models = {(each.main, each.sub or ""): each.id for each in self._specs}
        for row in self._store.read_rollouts():
            work = self._works.get(row.rollout_id)
            if work is None:
                # It is no longer asked for; any with the same models must have the same settings.
                work = self._works.get(by_models.get((row.main_model, row.sub_model), ""))
            if row.failure_kind in TRIED_AGAIN:
                self._failed[row.rollout_id] = row
            elif work is not None:
                self._check_same_settings(row, work)
                done.add(row.rollout_id)
        return [work for key, work in self._works.items() if key not in done]

    def _check_same_settings(self, row: Rollout, work: RolloutWork) -> None:
        """`work` is the row's own, or, if that is not asked for, any with the same models."""
        folder, spec = self._store.folder, work.spec
        if spec.id == row.rollout_id and row.instance_hash != spec.instance.hash:
            changed = f"another version of the bug {row.instance_id}"
        elif row.config_hash != work.settings_hash:
            changed = what_differs(folder, row.config_hash, settings_facts(self._runtime, spec))
        else:
            return
        raise ConfigError(
            f"{folder} holds rollouts made with {changed}; they must not be mixed. "
            "Choose another `run` name, or remove that folder"
        )

    def _spent(self) -> float:
        """Dollars of all starts so far."""
        columns = ("rollout_id", "dollars")
        of_rows = sum(row["dollars"] for row in self._store.rollouts.rows(columns=columns))
        return read_spent(self._store.folder, of_rows)


class Cost(NamedTuple):
    """The cost of some rollouts."""

    dollars: float
    tokens: float
    rollouts: int = 1
    """How many it is known from."""


class Forecast:
    """Estimates what a run costs from its first rollouts in order, two or more for each kind, once
    all have ended, because those that end first are the short ones: each kind at its own mean, or
    at that of all if none is known. Repeats whenever their number has doubled. Not thread-safe."""

    def __init__(
        self, specs: Sequence[RolloutSpec], rows: Iterable[Rollout], spent: float, after: int
    ) -> None:
        """`specs` are all rollouts of the run, `rows` those of earlier starts, `spent` the dollars
        of all starts. The first estimate uses `after` rollouts, or more until each variant is among
        them twice."""
        # Rollouts of one kind cost about the same.
        self._kinds = {spec.id: (spec.variant, spec.main, spec.sub) for spec in specs}
        self._costs: dict[str, Cost] = {}
        self._ended: set[str] = set()
        self._due_at = max(after, 2 * len({*self._kinds.values()}))
        for row in rows:
            if row.failure_kind not in TRIED_AGAIN:
                self.ended(row)
        self._sunk = max(0.0, spent - sum(cost.dollars for cost in self._costs.values()))

    def ended(self, row: Rollout) -> None:
        """Count a rollout."""
        self._ended.add(row.rollout_id)
        # Infrastructure failures say little about a rollout's cost.
        if row.failure_kind not in TRIED_AGAIN:
            self._costs[row.rollout_id] = Cost(row.dollars, row.tokens)

    def estimate(self) -> Cost | None:
        """Of the whole run; None if there is nothing new to say."""
        first = list(takewhile(self._ended.__contains__, self._kinds))
        known = [key for key in first if key in self._costs]
        if len(known) < self._due_at:
            return None
        self._due_at = 2 * len(known)
        left = Counter(kind for key, kind in self._kinds.items() if key not in self._costs)
        if not left:
            return None
        spent = self._sunk + sum(cost.dollars for cost in self._costs.values())
        used = float(sum(cost.tokens for cost in self._costs.values()))
        for kind, count in left.items():
            of_kind = [key for key in known if self._kinds[key] == kind]
            sample = [self._costs[key] for key in of_kind or known]
            spent += count * fmean(cost.dollars for cost in sample)
            used += count * fmean(cost.tokens for cost in sample)
        return Cost(spent, used, len(known))


def check_dollars(runner: RunnerConfig, models: Iterable[ModelConfig], spent: float) -> str:
    """Text on what is spent and on the budget. Raises ConfigError for one without effect."""
    budget = runner.budget_dollars
    if budget is None:
        return f"{dollars(spent)} spent; no limit is set"
    priced = [model for model in models if isinstance(model, EndpointConfig | LocalConfig)]
    endpoints = any(isinstance(model, EndpointConfig) for model in priced)
    if endpoints and all(model.prices.free for model in priced):
        raise ConfigError(
            "runner.budget_dollars is set, but no model has prices, so it would never be reached: "
            "set models.NAME.prices, or runner.budget_dollars=null"
        )
    return f"{dollars(spent)} spent; budget_dollars is {budget:g}"


def check_instructions(
    agents: AgentsConfig, models: Mapping[str, ModelConfig], subs: Collection[str | None]
) -> str:
    """Warn of Debug Subagents that were trained with another system prompt or other tools."""
    learned = {
        name: {each for path in config.folders for each in trained_on(path, "instructions")}
        for name, config in models.items()
        if name in subs and isinstance(config, LocalConfig | VllmConfig)
    }
    given = set(instructions_of(agents).values()) if any(learned.values()) else set()
    others = [name for name, known in learned.items() if known and given.isdisjoint(known)]
    if not others:
        return "those of the training data, as far as is known"
    told = (
        f"{', '.join(others)} learned with another system prompt or other tools than this run "
        "gives the Debug Subagent; set agents.subagent_form, sub_file_tools, start_session, "
        "sub_max_steps and debug_run_code as they were for the training data"
    )
    logger.warning(told)
    return told


def settings_facts(runtime: RuntimeConfig, spec: RolloutSpec) -> Facts:
    """Every setting that can change what a rollout does."""
    names = with_players(runtime, [name for name in (spec.main, spec.sub) if name])
    return {
        "seed": runtime.seed,
        "sandbox": runtime.sandbox.model_dump(mode="json", exclude=NOT_OF_A_SANDBOXES_IDENTITY),
        "agents": runtime.agents.model_dump(mode="json"),
        "models": [model_facts(runtime.model_config_of(name)) for name in names],
    }


def model_facts(config: ModelConfig) -> Facts:
    """The settings of a model that can change its output, and the state of its files."""
    facts = config.model_dump(mode="json", exclude=NOT_OF_A_MODELS_IDENTITY)
    folders: list[str | Path] = [config.model] if isinstance(config, LocalConfig) else []
    if isinstance(config, VllmConfig):
        for name in NOT_OF_A_SERVERS_IDENTITY:
            del facts["server"][name]
        folders = [config.server.model]
        if config.model is not None:
            folders.append(config.server.adapters[config.model])
    files = [each for folder in folders for each in file_stamps(Path(folder))]
    return facts | {"files": files} if files else facts


def note_settings(folder: Path, facts: Facts) -> None:
    """Store settings in a run folder, under their hash: 16 hex digits, `digest`."""
    path = folder / SETTINGS / f"{digest(facts)}.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(facts, indent=2, sort_keys=True) + "\n")


def what_differs(folder: Path, noted_hash: str, facts: Facts) -> str:
    """Differences from settings with that hash, such as `agents.sub_max_steps: was 25, is 12`."""
    path = folder / SETTINGS / f"{noted_hash}.json"
    if not path.is_file():
        return "another sandbox, agents, seed or models section"
    try:
        before = _flat(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError):
        return f"other settings (which can't be told: {path} is not what a run writes there)"
    now, unset = _flat(facts), "not set"
    keys = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    told = [f"{key}: was {before.get(key, unset)}, is {now.get(key, unset)}" for key in keys]
    if len(told) > MAX_SHOWN:
        told[MAX_SHOWN:] = [f"{len(told) - MAX_SHOWN} more"]
    return f"other settings ({'; '.join(told)})"


def _flat(value: Any, key: str = "") -> dict[str, str]:
    """The leaves of nested settings as JSON, by dotted key; `models[0]` is the main model."""
    if isinstance(value, dict) and value:
        inner = {f"{key}.{name}" if key else name: each for name, each in value.items()}
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        inner = {f"{key}[{index}]": each for index, each in enumerate(value)}
    else:
        return {key: json.dumps(value)}
    return dict(leaf for name, each in inner.items() for leaf in _flat(each, name).items())
