"""Where rollouts are done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from collect.agents.rollout_context import Player
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.images import require_images
from collect.benchmarks.workspace import open_instance_sandbox
from collect.config import Machinery
from collect.heartbeat import NodeStatus
from collect.log_lines import LogText, note_begin, open_log
from collect.models.base import ConversationContext, Model, ModelBackend
from collect.models.budget import Budget, Limits
from collect.models.config import ModelConfig, OracleConfig, ReplayConfig
from collect.models.journal import JournalText
from collect.models.opening import open_model, open_models
from collect.models.replay import ReplayBackend
from collect.rollout import RolloutSettings
from collect.rollout_journal import kept
from collect.work import Rows, Work
from sandbox import clean_up


class Place(Protocol):
    """Does rollouts, each in the thread that asks for it."""

    def prepare(self, works: Sequence[Work]) -> None:
        """Find out whether these can be done, before any is. Raises ConfigError, SandboxError."""

    def do(self, work: Work) -> Rows:
        """Do one. Raises RolloutStopped, ConfigError."""

    def nodes(self) -> Sequence[NodeStatus]:
        """The machines, where there are several."""

    def close(self) -> None:
        """Free what it holds."""


@dataclass(frozen=True)
class Setup:
    """What all rollouts of a start are done with. Can be pickled."""

    machinery: Machinery
    benchmark: Benchmark
    models: Mapping[str, ModelConfig]
    """Those that play in them, by name."""
    folder: Path
    """The run's."""

    def settings(
        self, backends: Mapping[str, ModelBackend], stop: threading.Event
    ) -> RolloutSettings:
        """The same for the rollouts, with the models opened."""
        players = {
            name: Player(backends[name], config.sampling, is_oracle(config, backends[name]))
            for name, config in self.models.items()
        }
        machinery = self.machinery
        return RolloutSettings(self.benchmark, machinery.sandbox, machinery.agents, players, stop)

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
        self._backends: Mapping[str, ModelBackend] = {}
        self._settings: RolloutSettings | None = None

    def prepare(self, works: Sequence[Work]) -> None:
        sandbox = self._setup.machinery.sandbox
        require_images((work.spec.instance for work in works), sandbox)
        clean_up(sandbox)
        self._try_out(works[0].spec.instance)
        # The last of it: a server of a model takes minutes to start.
        setup = self._setup
        self._backends = open_models(setup.models, self._limits, self._stop, setup.folder)
        self._settings = setup.settings(self._backends, self._stop)

    def do(self, work: Work) -> Rows:
        assert self._settings is not None, "prepared before"
        log = open_log(self._setup.machinery.runner, self._log(work.spec.id))
        note_begin(log, work.spec)
        try:
            settings = kept(self._settings, work, self._replies(work.spec.id))
            return work.do(replace(settings, log=log))
        finally:
            log.flush()
            self._limits.note()

    def nodes(self) -> Sequence[NodeStatus]:
        return ()

    def close(self) -> None:
        for backend in self._backends.values():
            backend.close()

    def _try_out(self, instance: Instance) -> None:
        """Run one test of one bug, so that a sandbox that can't is told before work starts.

        A public one: private tests are not laid out where agents work.
        """
        benchmark = self._setup.benchmark
        with open_instance_sandbox(self._setup.machinery.sandbox, instance) as sandbox:
            benchmark.prepare(instance, sandbox)
            benchmark.run_tests(instance, sandbox, instance.public_tests[:1])


def is_oracle(config: ModelConfig, backend: ModelBackend) -> bool:
    """Whether it knows the gold patch: the oracle itself, or what plays its recordings."""
    return isinstance(config, OracleConfig) or (
        isinstance(backend, ReplayBackend) and backend.of_oracle
    )
