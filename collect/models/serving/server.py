"""vLLM servers: how one is planned, started, watched, restarted if it dies, and stopped, and the
models that they serve."""

from __future__ import annotations

import http.client
import importlib.util
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from collect.errors import ConfigError, EndpointDown
from collect.models.budget import Limits
from collect.models.config import (
    AUTO,
    ChatConfig,
    OpenAIConfig,
    ServerConfig,
    VllmConfig,
    check_model_folder,
    read_json,
    training_of,
)
from collect.models.endpoint import EndpointBackend
from collect.models.serving import guard
from collect.quantities import counted, duration
from collect.store.files import file_name, regular
from collect.threads import raise_if_stopped
from sandbox.environment import install_command

logger = logging.getLogger(__name__)

ADAPTER_CONFIG = "adapter_config.json"
TEMPLATE = "chat_template.jinja"
UNSERVED = ("modules_to_save", "use_dora", "alora_invocation_tokens")
"""Settings of peft adapters that vLLM does not support."""
DEFAULT_PARSER = "hermes"
SERVED_NAME = "served"
"""The server's name for the model in `server.model`."""
BASE_NAME = "served-base"
"""The server's name for the base model if `server.model` is only an adapter."""
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values that `--max-lora-rank` accepts (vLLM 0.32)."""
SERVER_MODULE = "vllm.entrypoints.openai.api_server"
INSTALL = (
    f"{install_command('serve')}, or name another environment's in `server.command`, such as "
    "[/opt/vllm/bin/vllm]"
)


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter as saved by peft."""

    folder: Path
    rank: int
    """The highest rank of its layers."""
    base: str
    """Its base model: a folder or an id on the hub; empty if unknown."""


def plan_launch(server: ServerConfig) -> list[str]:
    """The command that starts the server, without its address.

    Raises ConfigError if vLLM, a folder or a template is missing, or they don't fit together.
    """
    model, adapters = _what_is_served(server)
    parser = _parser(server)
    options: dict[str, object] = {
        "--served-model-name": BASE_NAME if SERVED_NAME in adapters else SERVED_NAME,
        "--dtype": server.dtype,
        "--tensor-parallel-size": server.tensor_parallel,
        "--max-model-len": server.max_context,
        "--gpu-memory-utilization": server.gpu_memory_utilization,
        "--chat-template": _template(server, adapters),
    }
    arguments = [
        text for name, value in options.items() if value is not None for text in (name, str(value))
    ]
    if adapters:
        highest = max(adapter.rank for adapter in adapters.values())
        taken = next((rank for rank in LORA_RANKS if rank >= highest), None)
        if taken is None:
            raise ConfigError(
                f"an adapter's rank is {highest}, and vLLM serves up to {LORA_RANKS[-1]}; merge it "
                "into its model and serve that"
            )
        arguments += ["--enable-lora", "--max-loras", str(len(adapters))]
        arguments += ["--max-lora-rank", str(taken), "--lora-modules"]
        arguments += [f"{name}={adapter.folder}" for name, adapter in adapters.items()]
    if parser is not None:
        arguments += ["--enable-auto-tool-choice", "--tool-call-parser", parser]
        if server.constrain_calls:
            arguments += ["--tool-strict-level", "parameter"]
    return [*_command(server, model), *arguments, *server.arguments]


def _what_is_served(server: ServerConfig) -> tuple[str, dict[str, Adapter]]:
    """The model to load, and its adapters by name."""
    reserved = {SERVED_NAME, BASE_NAME} & set(server.adapters)
    if reserved:
        raise ConfigError(f"server.adapters: {reserved.pop()!r} can't be the name of an adapter")
    adapters = {name: _read_adapter(folder) for name, folder in server.adapters.items()}
    model, folder = server.model, Path(server.model)
    if (folder / ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file():
        adapters[SERVED_NAME] = _read_adapter(folder)
        model = adapters[SERVED_NAME].base
        if not model:
            raise ConfigError(
                f"server.model: {folder} is an adapter that does not say of which model; give that "
                "model, and the adapter under server.adapters"
            )
    for name in (model, *adapters, server.tool_call_parser or ""):
        refuse_option(name)
    check_model_folder(model)
    return model, adapters


def refuse_option(name: str) -> None:
    """Raise ConfigError for a name that vLLM would read as one of its options, which can name
    programs. Folders and runs of others have such names to choose."""
    if name.startswith("-"):
        raise ConfigError(f"{name!a} is no name of a model, an adapter or a parser, but an option")


def _read_adapter(folder: Path) -> Adapter:
    facts = read_json(folder / ADAPTER_CONFIG)
    if facts is None:
        raise ConfigError(
            f"{folder} is no adapter: it has no {ADAPTER_CONFIG}; give a folder that peft wrote, "
            "as `stepinto train` does with `train.merge: false`"
        )
    unserved = [name for name in UNSERVED if facts.get(name)]
    if facts.get("peft_type") != "LORA" or unserved:
        what = f"{', '.join(unserved)} set" if unserved else f"peft_type {facts.get('peft_type')}"
        raise ConfigError(
            f"the adapter {folder} has {what}, which vLLM does not serve; merge it into its model "
            "(`train.merge: true`) and serve that"
        )
    ranks = [facts.get("r"), *(facts.get("rank_pattern") or {}).values()]
    rank = max(int(each) for each in ranks if each)
    return Adapter(folder, rank, str(facts.get("base_model_name_or_path") or ""))


def _parser(server: ServerConfig) -> str | None:
    """The config's parser, else the one that the folders' models were trained for."""
    if server.tool_call_parser != AUTO:
        return server.tool_call_parser
    known: dict[str, str | None] = {}
    for folder in [Path(server.model), *server.adapters.values()]:
        config = training_of(folder).get("config")
        if isinstance(config, dict) and config.get("tool_call_parser", AUTO) != AUTO:
            parser = config["tool_call_parser"]
            refuse_option(str(parser))
            known[str(folder)] = parser if parser is None else str(parser)
    if len(set(known.values())) > 1:
        raise ConfigError(
            f"what is served together was trained for different tool-call parsers: {known}; set "
            "server.tool_call_parser, or serve them apart"
        )
    return next(iter(known.values()), DEFAULT_PARSER)


def _template(server: ServerConfig, adapters: dict[str, Adapter]) -> Path | None:
    """The server's single template. None: the model's own."""
    if server.chat_template is not None:
        if not server.chat_template.is_file():
            raise ConfigError(f"server.chat_template: there is no file {server.chat_template}")
        return server.chat_template
    paths = [adapter.folder / TEMPLATE for adapter in adapters.values()]
    files = [path for path in paths if path.is_file()]
    if len({path.read_text(encoding="utf-8") for path in files}) > 1:
        raise ConfigError(
            "the adapters have different chat templates, and a server has one: "
            f"{', '.join(map(str, files))}; set server.chat_template, or serve them apart"
        )
    return files[0] if files else None


def _command(server: ServerConfig, model: str) -> list[str]:
    """The program and its model, a positional argument of `vllm serve`."""
    if server.command:
        command = list(server.command)
    elif getattr(importlib.util.find_spec("vllm"), "origin", None):
        # Run as a module: a build under a name other than vllm does not start by its command. `-P`:
        # not one of the current folder.
        command = [sys.executable, "-P", "-m", SERVER_MODULE]
    else:
        command = ["vllm"]
    if shutil.which(command[0]) is None:
        raise ConfigError(f"server.command: there is no program {command[0]}; {INSTALL}")
    return [*command, "--model", model] if SERVER_MODULE in command else [*command, "serve", model]


# One server, and its process.


GRACE_SECONDS = 15.0
"""Seconds between the signal to end and the kill."""
TAIL_BYTES = 256 * 1024


class ServerProcess:
    """A running server with its output in a file. It always ends with this process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start it and append its output to the log. Raises OSError if the log can't be written."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with open(log, "ab", opener=regular) as output:
            output.write(f"\n$ {' '.join(command)}\n".encode())
            output.flush()
            self._begins = output.tell()
            self._guard = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, str(GRACE_SECONDS), *command],
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
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        try:
            self._guard.wait(timeout=2 * GRACE_SECONDS + 5)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()


HOST = "127.0.0.1"
HEALTH_TIMEOUT = 5.0
"""Seconds."""


def free_port() -> int:
    """vLLM shares its port with other servers (SO_REUSEPORT): two on one would answer in turn."""
    with socket.create_server((HOST, 0)) as held:
        return int(held.getsockname()[1])


def is_healthy(port: int) -> bool:
    """Whether the server's /health says so. Uses no proxy."""
    connection = http.client.HTTPConnection(HOST, port, timeout=HEALTH_TIMEOUT)
    with closing(connection), suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    return False


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
STEADY_SECONDS = 600.0
"""Seconds of uptime after which earlier deaths are forgotten."""
BACKOFF_SECONDS, BACKOFF_MAX = 1.0, 60.0
"""Wait before the first restart; it doubles with each further one."""


class VllmServer:
    """One `vllm serve`, from `start` to `close`. Thread-safe."""

    def __init__(self, config: ServerConfig, log: Path) -> None:
        """Raises ConfigError if something that it needs is missing."""
        self.config = config
        self.log = log
        self._command = plan_launch(config)
        self.takes_tools = "--tool-call-parser" in self._command
        self.users = 0
        """How many models of the pool use it."""
        self.proven = threading.Event()
        """Set after its first answered request. Before that it is not restarted: it would die
        again.
        """
        self.given_up: str | None = None
        """What happened if it died more often than it may be restarted."""
        self._port = free_port()
        self._process: ServerProcess | None = None
        self._ready = threading.Event()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="vllm-watcher", daemon=True)

    @property
    def url(self) -> str:
        """The base URL of its chat completions."""
        return f"http://{HOST}:{self._port}/v1"

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
        command = [*self._command, "--host", HOST, "--port", str(self._port)]
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
            if is_healthy(self._port):
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
        # A server whose engine has died ends by itself.
        while process.exit_status is None:
            if self._closed.wait(POLL_SECONDS):
                return None
        self._ready.clear()
        process.stop()
        trouble = f"vLLM ended with status {process.exit_status} while it was in use"
        return explain(trouble, process.output(), self.log)


STARTED_ADVICE = "set server.tool_call_parser to the parser of the model's family"
LOGS = "servers"
"""Folder for server logs in a run's folder."""


class ServerPool:
    """The servers of this process: starts each for its first user and stops it after its last.
    Models with the same server settings share one. Thread-safe.
    """

    def __init__(self) -> None:
        self._servers: dict[str, VllmServer] = {}
        self._keepers = 0
        self._lock = threading.Lock()

    def acquire(self, config: ServerConfig, log: Path) -> VllmServer:
        """The running server of a config; started if there is none. Raises ConfigError."""
        key = config.model_dump_json()
        with self._lock:
            server = self._servers.get(key)
            if server is None or (server.given_up is not None and not server.users):
                # Unused servers may hold the memory that this one needs.
                self._stop_unused()
                server = VllmServer(config, log)
                server.start()
                self._servers[key] = server
            server.users += 1
            return server

    def release(self, server: VllmServer) -> None:
        """Remove one user."""
        with self._lock:
            server.users -= 1
            if not self._keepers:
                self._stop_unused()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While this is open, a server without users stays up, unless another one starts. Also a
        decorator.
        """
        with self._lock:
            self._keepers += 1
        try:
            yield
        finally:
            with self._lock:
                self._keepers -= 1
                if not self._keepers:
                    self._stop_unused()

    def _stop_unused(self) -> None:
        for key, server in list(self._servers.items()):
            if not server.users:
                del self._servers[key]
                server.close()


POOL = ServerPool()


class VllmBackend(EndpointBackend):
    """Chat completions from a vLLM server that StepInto starts."""

    def __init__(
        self,
        name: str,
        config: VllmConfig,
        limits: Limits,
        stop: threading.Event,
        folder: Path | None = None,
    ) -> None:
        """Start the server unless it runs, and check that tool calls work.

        `folder` is for the server's log; None: a temporary one. Raises ConfigError.
        """
        log = (folder or Path(tempfile.gettempdir()) / "stepinto") / LOGS / f"{file_name(name)}.log"
        self.server: VllmServer | None = POOL.acquire(config.server, log)
        server, model = self.server, config.model or SERVED_NAME
        try:
            shared = {name: getattr(config, name) for name in ChatConfig.model_fields}
            endpoint = OpenAIConfig(
                backend="openai", model=model, base_url=server.url, api_key_env=None, **shared
            )
            super().__init__(name, endpoint, limits, stop, partial(server.wait_until_ready, stop))
            if config.check_tools and server.takes_tools:
                self.calls_tool(STARTED_ADVICE)
            server.proven.set()
        except BaseException:
            POOL.release(server)
            raise

    def close(self) -> None:
        """Close the connections, and stop the server unless others use it."""
        super().close()
        server, self.server = self.server, None
        if server is not None:
            POOL.release(server)
