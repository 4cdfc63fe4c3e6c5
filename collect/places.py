"""Where rollouts are done."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from collect.agents.rollout_context import Player
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.images import require_images
from collect.benchmarks.workspace import open_instance_sandbox
from collect.config import Machinery
from collect.models.base import ModelBackend
from collect.models.budget import Budget
from collect.models.config import ModelConfig, OracleConfig
from collect.models.opening import open_models
from collect.models.replay import ReplayBackend
from collect.rollout import RolloutSettings
from collect.rollout_journal import journal_of, kept
from collect.work import Rows, Work
from sandbox import clean_up


class Place(Protocol):
    """Does rollouts, each in the thread that asks for it."""

    def prepare(self, works: Sequence[Work]) -> None:
        """Find out whether these can be done, before any is. Raises ConfigError, SandboxError."""

    def do(self, work: Work) -> Rows:
        """Do one. Raises RolloutStopped, ConfigError."""

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


class ThisMachine:
    """This process, with the models and sandboxes that it opens itself."""

    def __init__(self, setup: Setup, budget: Budget, stop: threading.Event) -> None:
        """Raises ConfigError where a model can't be opened."""
        self._setup = setup
        self._backends = open_models(setup.models, budget, stop, setup.folder)
        players = {}
        for name, config in setup.models.items():
            backend = self._backends[name]
            players[name] = Player(backend, config.sampling, is_oracle(config, backend))
        machinery = setup.machinery
        self._settings = RolloutSettings(
            setup.benchmark, machinery.sandbox, machinery.agents, players, stop
        )

    def prepare(self, works: Sequence[Work]) -> None:
        require_images((work.spec.instance for work in works), self._settings.sandbox)
        clean_up(self._settings.sandbox)
        self._try_out(works[0].spec.instance)

    def do(self, work: Work) -> Rows:
        journal = journal_of(self._setup.folder, work.spec, work.settings_hash)
        return work.do(kept(self._settings, journal))

    def close(self) -> None:
        for backend in self._backends.values():
            backend.close()

    def _try_out(self, instance: Instance) -> None:
        """Run one test of one bug, so that a sandbox that can't is told before work starts.

        A public one: private tests are not laid out where agents work.
        """
        with open_instance_sandbox(self._settings.sandbox, instance) as sandbox:
            self._settings.benchmark.prepare(instance, sandbox)
            self._settings.benchmark.run_tests(instance, sandbox, instance.public_tests[:1])


def is_oracle(config: ModelConfig, backend: ModelBackend) -> bool:
    """Whether it knows the gold patch: the oracle itself, or what plays its recordings."""
    return isinstance(config, OracleConfig) or (
        isinstance(backend, ReplayBackend) and backend.of_oracle
    )
