"""Builds the command that starts vLLM from a server's config."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from collect.errors import ConfigError
from collect.models.config import AUTO, ServerConfig
from collect.models.model_folders import check_model_folder, read_json, training_of
from sandbox.environment import install_command

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


@dataclass(frozen=True)
class Launch:
    """How to start a server; its address is added later."""

    command: tuple[str, ...]
    takes_tools: bool


def plan_launch(server: ServerConfig) -> Launch:
    """Raises ConfigError if vLLM, a folder or a template is missing, or they don't fit together."""
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
    command = (*_command(server, model), *arguments, *server.arguments)
    return Launch(command, parser is not None)


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
    check_model_folder(model)
    return model, adapters


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
            known[str(folder)] = config["tool_call_parser"]
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
        # Run as a module: a build under a name other than vllm does not start by its command.
        command = [sys.executable, "-m", SERVER_MODULE]
    else:
        command = ["vllm"]
    if shutil.which(command[0]) is None:
        raise ConfigError(f"server.command: there is no program {command[0]}; {INSTALL}")
    return [*command, "--model", model] if SERVER_MODULE in command else [*command, "serve", model]
