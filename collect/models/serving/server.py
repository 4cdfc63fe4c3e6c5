"""Starts a vLLM server, watches it, restarts it if it dies, and stops it."""

from __future__ import annotations

import http.client
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from collect.errors import ConfigError, EndpointDown
from collect.models.config import ServerConfig
from collect.models.serving import guard
from collect.models.serving.launch import plan_launch
from collect.models.waiting import raise_if_stopped
from collect.quantities import counted, duration

logger = logging.getLogger(__name__)

GRACE_SECONDS = 15.0
"""Seconds between the signal to end and the kill."""
TAIL_BYTES = 256 * 1024


class ServerProcess:
    """A running server with its output in a file. It always ends with this process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start it and append its output to the log. Raises OSError if the log can't be written."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._grace = GRACE_SECONDS
        with log.open("ab") as output:
            output.write(f"\n$ {' '.join(command)}\n".encode())
            output.flush()
            self._begins = output.tell()
            self._guard = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, str(self._grace), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is for StepInto, which then stops its servers
            )

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._guard.poll()

    def output(self) -> str:
        """The end of this start's output."""
        with self._log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._begins, size - TAIL_BYTES))
            return file.read().decode(errors="replace")

    def stop(self) -> None:
        """End it and everything that it started. Returns once all of that has ended."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            self._guard.wait(timeout=2 * self._grace + 5)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()


EVERYWHERE = ("0.0.0.0", "::", "")
HEALTH_TIMEOUT = 5.0
"""Seconds."""


def usable_port(host: str, port: int) -> int:
    """The port; 0 gives a free one. Raises ConfigError if something listens there.

    vLLM shares its port with other servers (SO_REUSEPORT): two of them on one port would answer in
    turn.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as held:
        # A port in TIME_WAIT is free; one with a listener is not.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"server.port: {host}:{port} can't be had ({error.strerror or error}); stop what "
                "listens there, choose another port, or leave `port` out for a free one"
            ) from error
        return int(held.getsockname()[1])


def health(host: str, port: int) -> int | None:
    """The status of the server's /health, or None if it does not answer. Uses no proxy."""
    connection = http.client.HTTPConnection(host, port, timeout=HEALTH_TIMEOUT)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


SHOWN_LINES = 12
ERROR = r"(?m)(?:^|\] )([A-Z]\w*(?:Error|Exception): [^\n]+)"
"""At the start of a line or after a logger's prefix: elsewhere an error is only mentioned."""
LINE_LIMIT = 400
"""Characters of a log line that an error quotes."""


def explain(trouble: str, output: str, log: Path) -> str:
    """What went wrong, with the first error and the last lines of the server's output."""
    error = re.search(ERROR, output)  # the first one caused the others
    cause = f"its first error is {error[1][:LINE_LIMIT]!r}" if error else "see what it said"
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    last = [f"  {line[:LINE_LIMIT]}" for line in lines[-SHOWN_LINES:]] or ["  (nothing)"]
    return "\n".join([f"{trouble}: {cause}. Its log is {log}, and ends with:", *last])


POLL_SECONDS = 0.2
HEALTH_EVERY = 10.0
"""Seconds between two health checks."""
UNHEALTHY = 3
"""Failed checks in a row after which the server counts as dead."""
STEADY_SECONDS = 600.0
"""Seconds of uptime after which earlier deaths are forgotten."""
BACKOFF_SECONDS, BACKOFF_MAX = 1.0, 60.0
"""Wait before the first restart; it doubles with each further one."""


class VllmServer:
    """One `vllm serve`, from `start` to `close`. Thread-safe."""

    def __init__(self, config: ServerConfig, log: Path) -> None:
        """Raises ConfigError if something that it needs is missing, or its port is taken."""
        self.config = config
        self.log = log
        self.launch = plan_launch(config)
        self.users = 0
        """How many models of the pool use it."""
        self.checked: set[str] = set()
        """Models whose tool calls were checked."""
        self.proven = threading.Event()
        """Set after its first answered request. Before that it is not restarted: it would die
        again.
        """
        self.given_up: str | None = None
        """What happened if it died more often than it may be restarted."""
        self._host = "127.0.0.1" if config.host in EVERYWHERE else config.host
        self._port = usable_port(config.host, config.port or 0)
        self._process: ServerProcess | None = None
        self._ready = threading.Event()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="vllm-watcher", daemon=True)

    @property
    def url(self) -> str:
        """The base URL of its chat completions."""
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}/v1"

    def start(self) -> None:
        """Start it and wait until it answers. Raises ConfigError if it does not."""
        logger.info(f"vLLM is started with {self.config.model}; its log is {self.log}")
        began = time.monotonic()
        self._start_once()
        logger.info(f"vLLM answers at {self.url} after {duration(time.monotonic() - began)}")
        self._watcher.start()

    def wait_until_ready(self, stop: threading.Event) -> None:
        """Return as soon as requests can be sent: at once, except after a crash.

        Raises EndpointDown if it is given up or closed, and RolloutStopped.
        """
        while not (
            self._ready.is_set() and self._process is not None and self._process.exit_status is None
        ):
            raise_if_stopped(stop)
            if not self._watcher.is_alive():
                raise EndpointDown(self.given_up or f"the server at {self.url} was stopped")
            stop.wait(POLL_SECONDS)

    def close(self) -> None:
        """Stop it. Returns once nothing of it runs."""
        self._closed.set()
        self._ready.clear()
        if self._watcher.is_alive():
            self._watcher.join()
        if self._process is not None:
            self._process.stop()

    def _start_once(self) -> None:
        """Start it once and wait until it answers. Raises ConfigError."""
        address = ("--host", self.config.host, "--port", str(self._port))
        command = (*self.launch.command, *address)
        process = ServerProcess(command, self.config.environment, self.log)
        self._process = process
        try:
            trouble = self._await_health(process)
        except BaseException:  # Ctrl-C while a large model is loaded into memory
            process.stop()
            raise
        if trouble is not None:
            process.stop()
            raise ConfigError(explain(trouble, process.output(), self.log))
        self._ready.set()

    def _await_health(self, process: ServerProcess) -> str | None:
        """None once it answers, else what is wrong."""
        timeout = self.config.start_timeout
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if process.exit_status is not None:
                return f"vLLM ended with status {process.exit_status} before it was ready"
            if health(self._host, self._port) == 200:
                return None
            if self._closed.wait(POLL_SECONDS):
                return "vLLM was stopped before it was ready"
        return (
            f"vLLM was not ready after {timeout:g} s; raise server.start_timeout if it only needs "
            "longer, to download a model for instance"
        )

    def _watch(self) -> None:
        """Restart it each time that it dies, up to the limit."""
        deaths, began = 0, time.monotonic()
        while (trouble := self._await_death()) is not None:
            deaths = 1 if time.monotonic() - began > STEADY_SECONDS else deaths + 1
            allowed = self.config.restarts if self.proven.is_set() else 0
            while deaths <= allowed:
                short = trouble.partition(": ")[0]
                logger.warning(
                    f"{short}; it is started again ({deaths} of {allowed}), see {self.log}"
                )
                backoff = min(BACKOFF_MAX, BACKOFF_SECONDS * 2.0 ** (deaths - 1))
                if self._closed.wait(backoff):
                    return
                try:
                    self._start_once()
                    began = time.monotonic()
                    break
                except (ConfigError, OSError) as error:
                    trouble = str(error)
                    deaths += 1
            else:
                again = f"\nIt was started again {counted(allowed, 'time')}." if allowed else ""
                self.given_up = f"{trouble}{again}"
                return

    def _await_death(self) -> str | None:
        """The cause of its death, or None if it was closed."""
        process = self._process
        assert process is not None
        sick, next_look = 0, time.monotonic() + HEALTH_EVERY
        while not self._closed.wait(POLL_SECONDS):
            trouble = None
            if process.exit_status is not None:
                trouble = f"vLLM ended with status {process.exit_status} while it was in use"
            elif time.monotonic() >= next_look:
                status = health(self._host, self._port)
                # A check that times out doesn't count: a busy server answers late.
                sick = sick + 1 if status is not None and status >= 500 else 0
                next_look = time.monotonic() + HEALTH_EVERY
                if sick >= UNHEALTHY:
                    trouble = "vLLM's engine is dead"
            if trouble is not None:
                self._ready.clear()
                process.stop()
                return explain(trouble, process.output(), self.log)
        return None
