"""Where rollouts are done: on this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from collect.agents.rollout_context import RoleModel
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.images import require_images, required_images
from collect.benchmarks.workspace import open_instance_sandbox
from collect.config import RuntimeConfig
from collect.models.base import ConversationContext, Model, ModelBackend
from collect.models.budget import Budget, Limits
from collect.models.config import ModelConfig, OracleConfig, ReplayConfig
from collect.models.replay import ReplayBackend
from collect.preflight import Check, room_for_sandboxes
from collect.rollouts.heartbeat import NodeStatus
from collect.rollouts.journal import Journal, JournalText, journaled
from collect.rollouts.models import open_and_ask, open_model
from collect.rollouts.progress import LogText, note_begin, open_log
from collect.rollouts.rollout import (
    RolloutSettings,
    RolloutSpec,
    RolloutTrace,
    failure_of,
    run_rollout,
)
from collect.rollouts.rows import RunIdentity, rows_of
from collect.store.records import Conversation, Rollout
from sandbox import clean_up

Rows = tuple[Rollout, list[Conversation]]
"""What is kept of a rollout."""


class Work(Protocol):
    """A rollout with an id of its own. Can be pickled."""

    @property
    def spec(self) -> RolloutSpec:
        """Which one."""

    @property
    def settings_hash(self) -> str:
        """Of its settings, see `collect.rollouts.settings`."""

    @property
    def label(self) -> str:
        """What a display calls it."""

    def do(self, settings: RolloutSettings) -> Rows:
        """Do it; what fails within is in its rows.

        Raises RolloutStopped, and ConfigError where a model can't be loaded.
        """

    def failed(self, error: Exception, settings: RolloutSettings) -> Rows:
        """The rows of one that could not be done."""


@dataclass(frozen=True)
class RolloutWork:
    """A rollout of agents on a bug."""

    spec: RolloutSpec
    identity: RunIdentity
    settings_hash: str

    @property
    def label(self) -> str:
        return f"{self.spec.instance.id} {self.spec.variant}"

    def do(self, settings: RolloutSettings) -> Rows:
        return self._rows(run_rollout(self.spec, settings), settings)

    def failed(self, error: Exception, settings: RolloutSettings) -> Rows:
        return self._rows(RolloutTrace(failure=failure_of(error)), settings)

    def _rows(self, trace: RolloutTrace, settings: RolloutSettings) -> Rows:
        return rows_of(self.spec, trace, settings, self.identity, self.settings_hash)


class Executor(Protocol):
    """Does rollouts, each in the thread that asks for it."""

    def checks(self, works: Sequence[Work]) -> Sequence[Check]:
        """What these need here. Once all are well, they can be done."""

    def do(self, work: Work) -> Rows:
        """Do one. Raises RolloutStopped, ConfigError."""

    def nodes(self) -> Sequence[NodeStatus]:
        """The machines, where there are several."""

    def close(self) -> None:
        """Free what it holds."""


@dataclass(frozen=True)
class Setup:
    """What all rollouts of a start are done with. Can be pickled."""

    runtime: RuntimeConfig
    benchmark: Benchmark
    models: Mapping[str, ModelConfig]
    """Those that play in them, by name."""
    folder: Path
    """The run's."""
    tool_users: frozenset[str] = frozenset()
    """Those of the models that agents send tools to."""

    def settings(
        self, backends: Mapping[str, ModelBackend], stop: threading.Event
    ) -> RolloutSettings:
        """The same for the rollouts, with the models opened."""
        role_models = {
            name: RoleModel(backends[name], config.sampling, is_oracle(config, backends[name]))
            for name, config in self.models.items()
        }
        runtime = self.runtime
        return RolloutSettings(self.benchmark, runtime.sandbox, runtime.agents, role_models, stop)

    def failed(self, work: Work, error: Exception) -> Rows:
        """The rows of a rollout for which there was no place, and no models were opened."""
        stop = threading.Event()
        backends: dict[str, ModelBackend] = {}
        for name, config in self.models.items():
            scripted = isinstance(config, OracleConfig | ReplayConfig)
            opened = open_model(name, config, Budget(None), stop) if scripted else None
            backends[name] = opened or NotOpened(name)
        return work.failed(error, self.settings(backends, stop))


@dataclass(frozen=True)
class NotOpened:
    """Stands for a model that does not play."""

    name: str

    def open(self, context: ConversationContext) -> Model:
        """Never called."""
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to close."""


class ThisMachine:
    """This process, with the models and sandboxes that it opens itself."""

    def __init__(
        self,
        setup: Setup,
        limits: Limits,
        stop: threading.Event,
        replies: Callable[[str], JournalText],
        log: Callable[[str], LogText],
    ) -> None:
        """`replies` has the journal's text of a rollout by its id, and `log` its log's."""
        self._setup, self._limits, self._stop = setup, limits, stop
        self._replies, self._log = replies, log
        self._backends: dict[str, ModelBackend] = {}
        self._settings: RolloutSettings | None = None

    def checks(self, works: Sequence[Work]) -> Sequence[Check]:
        runtime, first = self._setup.runtime, works[0].spec.instance
        return (
            Check("images", partial(self._images, [work.spec.instance for work in works])),
            Check("disk of sandboxes", partial(room_for_sandboxes, first, runtime)),
            Check("sandbox", partial(self._try_out, first)),
            # The last of it: a server of a model takes minutes to start.
            *(Check(f"model {name}", partial(self._open, name)) for name in self._setup.models),
        )

    def do(self, work: Work) -> Rows:
        assert self._settings is not None, "checked before"
        log = open_log(self._setup.runtime.runner, self._log(work.spec.id))
        note_begin(log, work.spec)
        try:
            settings = replace(self._settings, log=log)
            return do_with_journal(work, settings, self._replies(work.spec.id))
        finally:
            log.flush()
            self._limits.note()

    def nodes(self) -> Sequence[NodeStatus]:
        return ()

    def close(self) -> None:
        for backend in self._backends.values():
            backend.close()

    def _images(self, instances: Sequence[Instance]) -> str:
        sandbox = self._setup.runtime.sandbox
        require_images(instances, sandbox)
        count = len(required_images(instances, sandbox))
        return f"{count} of {count} are on this machine" if count else "none are needed"

    def _try_out(self, instance: Instance) -> str:
        """Run one test of one bug, so that a sandbox that can't is told before work starts.

        A public one: private tests are not laid out where agents work.
        """
        config, benchmark = self._setup.runtime.sandbox, self._setup.benchmark
        clean_up(config)
        with open_instance_sandbox(config, instance) as sandbox:
            benchmark.prepare(instance, sandbox)
            benchmark.run_tests(instance, sandbox, instance.public_tests[:1])
        return f"{config.backend}, one test of {instance.id} was run in it"

    def _open(self, name: str) -> str:
        """Open a model, and ask it once where it is an endpoint's."""
        setup = self._setup
        self._backends[name], said = open_and_ask(
            name,
            setup.models[name],
            self._limits,
            self._stop,
            setup.folder,
            tools=name in setup.tool_users,
        )
        if len(self._backends) == len(setup.models):
            self._settings = setup.settings(self._backends, self._stop)
        return said


def do_with_journal(work: Work, settings: RolloutSettings, text: JournalText) -> Rows:
    """Do it with models whose replies are kept; see `Work.do`.

    Its seconds are also those that the models took, in an earlier start, for what was given back.
    """
    journal = Journal(text, f"{work.settings_hash} {work.spec.instance.hash}")
    role_models = journaled(settings.role_models, journal)
    row, conversations = work.do(replace(settings, role_models=role_models))
    return replace(row, seconds=row.seconds + journal.seconds_given_back), conversations


def models_of(runtime: RuntimeConfig, specs: Iterable[RolloutSpec]) -> dict[str, ModelConfig]:
    """The models that play in rollouts, by name."""
    names = {name for spec in specs for name in (spec.main, spec.sub) if name is not None}
    return {name: runtime.model_config_of(name) for name in sorted(names)}


def tool_users(runtime: RuntimeConfig, specs: Sequence[RolloutSpec]) -> frozenset[str]:
    """Those of the models that agents send tools to."""
    agents = runtime.agents
    mains = {spec.main for spec in specs if agents.main_has_tools(spec.variant)}
    subs = {spec.sub for spec in specs if spec.sub and agents.sub_has_tools(spec.variant)}
    return frozenset(mains | subs)


def is_oracle(config: ModelConfig, backend: ModelBackend) -> bool:
    """Whether it knows the gold patch: the oracle itself, or what plays its recordings."""
    return isinstance(config, OracleConfig) or (
        isinstance(backend, ReplayBackend) and backend.of_oracle
    )
