"""A server that is started, watched, started again where it dies, and stopped."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from collect.errors import ConfigError, EndpointDown
from collect.models.config import ServerConfig
from collect.models.serving.addresses import check_port, free_port, health, reachable
from collect.models.serving.diagnosis import explain
from collect.models.serving.launch import plan_launch
from collect.models.serving.process import ServerProcess
from collect.models.waiting import raise_if_stopped
from collect.quantities import counted, duration
from collect.telling import tell

POLL_SECONDS = 0.2
HEALTH_EVERY = 10.0
"""Seconds between two looks at a running server's health."""
UNHEALTHY = 3
"""Looks in a row that found it broken, after which it counts as dead."""
STEADY_SECONDS = 600.0
"""After which a server's earlier deaths are forgotten."""
BACKOFF_SECONDS, BACKOFF_MAX = 1.0, 60.0
"""Wait before the first start again, doubled with each in a row."""


class _NotStarted(Exception):
    """One start failed; the message says why."""


class VllmServer:
    """One `vllm serve`, from `start` to `close`. Thread-safe."""

    def __init__(self, config: ServerConfig, log: Path) -> None:
        """Raises ConfigError where something that it needs is missing."""
        self.config = config
        self.log = log
        self.launch = plan_launch(config)
        self.checked: set[str] = set()
        """Models whose tool calls were looked at."""
        self.proven = threading.Event()
        """To be set once it has answered a request. Before, it is not started again: what it dies
        of at once, it would die of each time."""
        self._port = config.port or free_port(config.host)
        self._process: ServerProcess | None = None
        self._ready = threading.Event()
        self._closed = threading.Event()
        self._given_up: str | None = None
        self._watcher: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL of its chat completions."""
        host = reachable(self.config.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self._port}/v1"

    @property
    def given_up(self) -> bool:
        """Whether it died more often than it may be started again."""
        return self._given_up is not None

    @property
    def pid(self) -> int | None:
        """Its guard's; None where it does not run."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it and wait until it answers. Raises ConfigError where it does not."""
        check_port(self.config.host, self._port)
        tell(f"vLLM is started with {self.config.model}; its log is {self.log}")
        began = time.monotonic()
        try:
            self._start_once()
        except _NotStarted as error:
            raise ConfigError(str(error)) from error
        tell(f"vLLM answers at {self.url} after {duration(time.monotonic() - began)}")
        self._watcher = threading.Thread(target=self._keep, name="vllm-watcher", daemon=True)
        self._watcher.start()

    def wait_until_ready(self, stop: threading.Event) -> None:
        """Return as soon as requests can be sent, which is at once but after it died.

        Raises EndpointDown where it is given up, and RolloutStopped.
        """
        while not (self._ready.is_set() and self._runs()):
            raise_if_stopped(stop)
            if self._given_up is not None:
                raise EndpointDown(self._given_up)
            if self._closed.is_set():
                raise EndpointDown(f"the server at {self.url} was stopped")
            stop.wait(POLL_SECONDS)

    def close(self) -> None:
        """Stop it. Returns once nothing of it runs any more."""
        self._closed.set()
        self._ready.clear()
        if self._watcher is not None:
            self._watcher.join()
        self._stop_process()

    def _runs(self) -> bool:
        return self._process is not None and self._process.exit_status is None

    def _start_once(self) -> None:
        """One start, until it answers. Raises _NotStarted."""
        address = ("--host", self.config.host, "--port", str(self._port))
        command = (*self.launch.command, *address)
        process = ServerProcess(command, self.config.environment, self.log)
        self._process = process
        try:
            trouble = self._await_health(process)
        except BaseException:  # Ctrl-C while a large model is read into memory
            self._stop_process()
            raise
        if trouble is not None:
            self._stop_process()
            raise _NotStarted(explain(trouble, process.output(), self.log))
        self._ready.set()

    def _await_health(self, process: ServerProcess) -> str | None:
        """None once it answers, else what is wrong."""
        timeout = self.config.start_timeout
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if process.exit_status is not None:
                return f"vLLM ended with status {process.exit_status} before it was ready"
            if health(self.config.host, self._port) == 200:
                return None
            if self._closed.wait(POLL_SECONDS):
                return "vLLM was stopped before it was ready"
        return (
            f"vLLM was not ready after {timeout:g} s; raise server.start_timeout if it only needs "
            "longer, to download a model for instance"
        )

    def _keep(self) -> None:
        try:
            self._watch()
        except Exception as error:  # without a watcher, requests would wait for ever
            self._given_up = f"the server at {self.url} is not watched any more: {error!r}"
            raise

    def _watch(self) -> None:
        """Start it again as often as it may be, each time that it dies."""
        deaths, began = 0, time.monotonic()
        while (trouble := self._await_death()) is not None:
            deaths = 1 if time.monotonic() - began > STEADY_SECONDS else deaths + 1
            allowed = self.config.restarts if self.proven.is_set() else 0
            while deaths <= allowed:
                short = trouble.partition(": ")[0]
                tell(f"{short}; it is started again ({deaths} of {allowed}), see {self.log}")
                backoff = min(BACKOFF_MAX, BACKOFF_SECONDS * 2.0 ** (deaths - 1))
                if self._closed.wait(backoff):
                    return
                try:
                    self._start_once()
                    began = time.monotonic()
                    break
                except (_NotStarted, OSError) as error:
                    trouble = str(error)
                    deaths += 1
            else:
                again = f"\nIt was started again {counted(allowed, 'time')}." if allowed else ""
                self._given_up = f"{trouble}{again}"
                return

    def _await_death(self) -> str | None:
        """What it died of; None where it was closed."""
        process = self._process
        assert process is not None
        sick = 0
        next_look = time.monotonic() + HEALTH_EVERY
        while not self._closed.wait(POLL_SECONDS):
            if process.exit_status is not None:
                self._ready.clear()
                trouble = f"vLLM ended with status {process.exit_status} while it was in use"
                return explain(trouble, process.output(), self.log)
            if time.monotonic() >= next_look:
                status = health(self.config.host, self._port)
                # No answer in time is no sign: a busy server answers late.
                sick = sick + 1 if status is not None and status >= 500 else 0
                next_look = time.monotonic() + HEALTH_EVERY
            if sick >= UNHEALTHY:
                self._ready.clear()
                self._stop_process()
                return explain("vLLM's engine is dead", process.output(), self.log)
        return None

    def _stop_process(self) -> None:
        if self._process is not None:
            self._process.stop()
