"""Executors do rollouts: on this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from collect.agents.rollout_context import RoleModel
from collect.benchmarks.base import Benchmark
from collect.benchmarks.marks import require_images, required_images
from collect.benchmarks.workspace import open_instance_sandbox
from collect.config import RuntimeConfig
from collect.console import RolloutLog, log_name
from collect.errors import ConfigError
from collect.models.base import ModelBackend
from collect.models.budget import Budget, Limits
from collect.models.config import (
    LocalConfig,
    ManualConfig,
    ModelConfig,
    OracleConfig,
    RelayConfig,
    RemoteConfig,
    ReplayConfig,
    VllmConfig,
)
from collect.models.replay import ReplayBackend
from collect.preflight import Check, room_for_sandboxes
from collect.relay import RelayBackend
from collect.rollouts.journal import Journal, journal_header, journal_name, journaled
from collect.rollouts.rollout import (
    RolloutSettings,
    RolloutSpec,
    RolloutTrace,
    failure_of,
    run_rollout,
)
from collect.rollouts.rows import RunIdentity, rows_of
from collect.rollouts.status import NodeStatus
from collect.store.files import RunText, TextFile
from collect.store.records import (
    MODEL_TEACHER,
    ORACLE_TEACHER,
    PLAYED_TEACHER,
    Conversation,
    Rollout,
)
from sandbox import clean_up
from sandbox.languages.python.interpreters import too_old

Rows = tuple[Rollout, list[Conversation]]
"""What is stored of a rollout."""


@dataclass(frozen=True)
class RolloutWork:
    """A rollout of agents on a bug, to do. Can be pickled."""

    spec: RolloutSpec
    identity: RunIdentity
    settings_hash: str
    """Of `collect.rollouts.batch`."""

    @property
    def label(self) -> str:
        """For people: the bug, the variant and the models, main before sub."""
        models = " → ".join(filter(None, (self.spec.main, self.spec.sub)))
        return f"{self.spec.instance.id} {self.spec.variant} {models}"

    def do(self, settings: RolloutSettings) -> Rows:
        """Do the rollout; its failures are in the rows. Raises RolloutStopped, and ConfigError if a
        model can't be loaded."""
        return self.rows(run_rollout(self.spec, settings), settings)

    def failed(self, error: Exception, settings: RolloutSettings) -> Rows:
        """The rows of a rollout that could not be done."""
        return self.rows(RolloutTrace(failure=failure_of(error)), settings)

    def rows(self, trace: RolloutTrace, settings: RolloutSettings) -> Rows:
        return rows_of(self.spec, trace, settings, self.identity, self.settings_hash)


class Executor(Protocol):
    """Does rollouts, each in the caller's thread."""

    def checks(self, works: Sequence[RolloutWork]) -> Sequence[Check]:
        """What these rollouts need here. They can be done once all checks pass."""

    def do(self, work: RolloutWork) -> Rows:
        """Do one rollout. Raises RolloutStopped, ConfigError."""

    def nodes(self) -> Sequence[NodeStatus]:
        """The machines; empty unless it is a cluster."""

    def close(self) -> None:
        """Free all resources."""


@dataclass(frozen=True)
class Setup:
    """What all rollouts of a start share. Can be pickled."""

    runtime: RuntimeConfig
    benchmark: Benchmark
    models: Mapping[str, ModelConfig]
    """The models of all roles, by name."""
    folder: Path
    """The run folder."""
    tool_users: frozenset[str] = frozenset()
    """The models that agents send tools to."""

    @property
    def opened(self) -> Mapping[str, ModelConfig]:
        """The models that have a backend of their own: all but relays."""
        models = self.models.items()
        return {name: each for name, each in models if not isinstance(each, RelayConfig)}

    def settings(
        self, backends: Mapping[str, ModelBackend], stop: threading.Event
    ) -> RolloutSettings:
        """The settings of rollouts, with the models opened."""
        role_models = {
            name: RoleModel(
                backends[name],
                config.sampling,
                teacher_of(config, backends[name]),
                must_be_true=isinstance(config, OracleConfig) and config.answer == "full",
            )
            for name, config in self.opened.items()
        }
        for name, config in self.models.items():
            if isinstance(config, RelayConfig):
                student, teacher = role_models[config.student], role_models[config.teacher]
                relay = RelayBackend(name, student, teacher)
                must, whose = teacher.must_be_true, config.student
                role_models[name] = replace(
                    student, backend=relay, must_be_true=must, student=whose
                )
        runtime = self.runtime
        return RolloutSettings(self.benchmark, runtime.sandbox, runtime.agents, role_models, stop)

    def log(self, work: RolloutWork) -> RolloutLog:
        """The log of a rollout in the run folder."""
        return RolloutLog(TextFile(self.folder / log_name(work.spec.id)))

    def failed(self, work: RolloutWork, error: Exception) -> Rows:
        """The rows of a rollout that no node could do; opens no models."""
        stop, backends = threading.Event(), dict[str, ModelBackend]()
        for name, config in self.opened.items():
            # Only a recording's backend is looked at; oracles stand in for all others.
            opened = config if isinstance(config, ReplayConfig) else OracleConfig(backend="oracle")
            backends[name] = open_model(name, opened, Budget(None), stop)
        return work.failed(error, self.settings(backends, stop))


class ThisMachine:
    """Does rollouts in this process, with its own models and sandboxes."""

    def __init__(
        self,
        setup: Setup,
        limits: Limits,
        stop: threading.Event,
        text: Callable[[str], RunText],
    ) -> None:
        """`text` gives a journal or a log by its path in the run folder."""
        self._setup, self._limits, self._stop = setup, limits, stop
        self._text = text
        self._backends: dict[str, ModelBackend] = {}
        self._settings: RolloutSettings | None = None

    def checks(self, works: Sequence[RolloutWork]) -> Sequence[Check]:
        setup, runtime, first = self._setup, self._setup.runtime, works[0].spec.instance
        config, benchmark = runtime.sandbox, setup.benchmark

        def images() -> str:
            instances = [work.spec.instance for work in works]
            require_images(instances, config)
            count = len(required_images(instances, config))
            return f"{count} of {count} are on this machine" if count else "none are needed"

        def try_out() -> str:
            clean_up(config)
            with open_instance_sandbox(config, first) as sandbox:
                old = too_old(sandbox) if first.language == "python" else ""
                if old and config.backend == "local":
                    raise ConfigError(f"{old}: set sandbox.python to another")
                benchmark.prepare(first, sandbox)
                # Private tests are never in the sandboxes of agents.
                benchmark.run_tests(first, sandbox, first.public_tests[:1])
            # Other bugs have other images.
            told = f"; {old}: `stepinto bench verify` marks such bugs" if old else ""
            return f"{config.backend}, one test of {first.id} was run in it{told}"

        def open_named(name: str) -> str:
            """Open a model. An endpoint is sent one request, with a tool call if agents send it
            tools."""
            model = setup.models[name]
            backend = open_model(name, model, self._limits, self._stop, setup.folder)
            self._backends[name] = backend
            if isinstance(backend, ReplayBackend):
                # Of a main agent's alone: no subagent need be asked.
                backend.check({each.spec.instance.id for each in works if each.spec.main == name})
            if len(self._backends) == len(setup.opened):
                self._settings = setup.settings(self._backends, self._stop)
            if not isinstance(model, RemoteConfig):
                return str(model.backend)
            from collect.models.endpoint import EndpointBackend

            assert isinstance(backend, EndpointBackend), backend
            key = f"key of ${model.api_key_env}" if model.api_key_env else "without a key"
            where = f"{model.model} at {backend.address.rstrip('/')}, {key}"
            return f"{where}; {backend.ask_first(name in setup.tool_users)}"

        return (
            Check("images", images),
            Check("disk of sandboxes", partial(room_for_sandboxes, first, runtime)),
            Check("sandbox", try_out),
            # Last, because a model's server takes minutes to start.
            *(Check(f"model {name}", partial(open_named, name)) for name in setup.opened),
        )

    def do(self, work: RolloutWork) -> Rows:
        assert self._settings is not None, "checked before"
        spec = work.spec
        log = RolloutLog(self._text(log_name(spec.id)))
        what = {"instance": spec.instance.id, "variant": spec.variant}
        who = {"main": spec.main, "sub": spec.sub, "host": platform.node()}
        log.note("begun", **what, attempt=spec.attempt, **who, process=os.getpid())
        try:
            settings = replace(self._settings, log=log)
            return do_with_journal(work, settings, self._text(journal_name(spec.id)))
        finally:
            self._limits.note()

    def nodes(self) -> Sequence[NodeStatus]:
        return ()

    def close(self) -> None:
        for backend in self._backends.values():
            backend.close()


def do_with_journal(work: RolloutWork, settings: RolloutSettings, text: RunText) -> Rows:
    """Do a rollout with journaled models; see `RolloutWork.do`. Its seconds include those that
    replayed replies took in an earlier start."""
    journal = Journal(text, journal_header(work.settings_hash, work.spec))
    role_models = journaled(settings.role_models, journal)
    row, conversations = work.do(replace(settings, role_models=role_models))
    return replace(row, seconds=row.seconds + journal.seconds_given_back), conversations


def models_of(runtime: RuntimeConfig, specs: Iterable[RolloutSpec]) -> dict[str, ModelConfig]:
    """The models of all roles in these rollouts, by name."""
    names = {name for spec in specs for name in (spec.main, spec.sub) if name is not None}
    return {name: runtime.model_config_of(name) for name in with_players(runtime, sorted(names))}


def with_players(runtime: RuntimeConfig, names: Iterable[str]) -> list[str]:
    """These models, and those that relays among them consist of."""
    found = list(names)
    for relay in map(runtime.model_config_of, tuple(found)):
        if isinstance(relay, RelayConfig):
            found += [relay.student, relay.teacher]
    return list(dict.fromkeys(found))


def tool_users(runtime: RuntimeConfig, specs: Sequence[RolloutSpec]) -> frozenset[str]:
    """The models that agents send tools to."""
    names = set[str]()
    for spec in specs:
        by_tools = spec.system.tool_users(runtime.agents)
        if spec.system.editor in by_tools:
            names.add(spec.main)
        if spec.sub is not None and spec.system.subagent in by_tools:
            names.add(spec.sub)
    return frozenset(with_players(runtime, names))


def teacher_of(config: ModelConfig, backend: ModelBackend) -> str:
    """The `teacher` of a model's conversations; a replay's is that of its recordings."""
    if isinstance(backend, ReplayBackend):
        return backend.teacher
    if isinstance(config, OracleConfig):
        return ORACLE_TEACHER
    return PLAYED_TEACHER if isinstance(config, ManualConfig) else MODEL_TEACHER


def open_model(
    name: str,
    config: ModelConfig,
    limits: Limits,
    stop: threading.Event,
    folder: Path | None = None,
) -> ModelBackend:
    """Open one backend. Imports only what this kind needs.

    Missing keys, packages and files, and servers that don't start, raise ConfigError here; a local
    model is loaded for its first conversation, and can still raise it then. Once `stop` is set, all
    waiting and later requests raise RolloutStopped. `folder` is for the logs of servers and the
    requests of manual models.
    """
    if isinstance(config, RemoteConfig):
        from collect.models.endpoint import EndpointBackend

        return EndpointBackend(name, config, limits, stop)
    if isinstance(config, VllmConfig):
        from collect.models.serving.server import VllmBackend

        return VllmBackend(name, config, limits, stop, folder)
    if isinstance(config, LocalConfig):
        from collect.models.local import LocalBackend

        return LocalBackend(name, config, limits, stop)
    if isinstance(config, ReplayConfig):
        return ReplayBackend.from_config(name, config)
    if isinstance(config, ManualConfig):
        from collect.models.manual import ManualBackend

        if folder is None:
            raise ConfigError(f"the model {name} is played by hand, which only rollouts can be")
        return ManualBackend(name, folder, stop)
    if isinstance(config, RelayConfig):
        raise ConfigError(
            f"models.{name}: a relay can play the Debug Subagent alone; take another model here"
        )
    from collect.oracle import OracleBackend

    return OracleBackend(name, config)
