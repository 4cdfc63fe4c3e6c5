"""Builds the command that starts vLLM from a server's config."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collect.errors import ConfigError
from collect.models.config import AUTO, ServerConfig
from collect.models.model_folders import check_model_folder, read_json, training_of
from sandbox.environment import install_command

# What the folders of models and adapters say about serving.


ADAPTER_CONFIG = "adapter_config.json"
TEMPLATE = "chat_template.jinja"
UNSERVED = ("modules_to_save", "use_dora", "alora_invocation_tokens")
"""Settings of peft adapters that vLLM does not support."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter as saved by peft."""

    folder: Path
    rank: int
    """The highest rank of its layers."""
    base: str
    """Its base model: a folder or an id on the hub; empty if unknown."""


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds only an adapter."""
    return (folder / ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file()


def read_adapter(folder: Path) -> Adapter:
    """Raises ConfigError if there is no adapter or vLLM can't serve it."""
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


def trained_parser(folder: Path) -> str | None:
    """The parser that a model was trained for. None: it calls no tools. AUTO: unknown."""
    config = training_of(folder).get("config")
    parser = config.get("tool_call_parser", AUTO) if isinstance(config, dict) else AUTO
    return parser if parser is None else str(parser)


def own_template(folder: Path) -> Path | None:
    """The chat-template file in the folder of a model or adapter."""
    path = folder / TEMPLATE
    return path if path.is_file() else None


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
class Launch:
    """How to start a server; its address is added later."""

    command: tuple[str, ...]
    takes_tools: bool


def plan_launch(server: ServerConfig) -> Launch:
    """Raises ConfigError if vLLM, a folder or a template is missing, or they don't fit together."""
    model, adapters = _what_is_served(server)
    parser = _parser(server)
    options = [
        *("--served-model-name", BASE_NAME if SERVED_NAME in adapters else SERVED_NAME),
        *("--dtype", server.dtype),
        *("--tensor-parallel-size", str(server.tensor_parallel)),
        *_option("--max-model-len", server.max_context),
        *_option("--gpu-memory-utilization", server.gpu_memory_utilization),
        *_option("--chat-template", _template(server, adapters)),
        *_adapter_options(adapters),
    ]
    if parser is not None:
        options += ["--enable-auto-tool-choice", "--tool-call-parser", parser]
    return Launch((*_command(server, model), *options, *server.arguments), parser is not None)


def _what_is_served(server: ServerConfig) -> tuple[str, dict[str, Adapter]]:
    """The model to load, and its adapters by name."""
    reserved = {SERVED_NAME, BASE_NAME} & set(server.adapters)
    if reserved:
        raise ConfigError(f"server.adapters: {reserved.pop()!r} can't be the name of an adapter")
    adapters = {name: read_adapter(folder) for name, folder in server.adapters.items()}
    model = server.model
    if is_adapter(Path(model)):
        adapter = read_adapter(Path(model))
        if not adapter.base:
            raise ConfigError(
                f"server.model: {model} is an adapter that does not say of which model; give that "
                "model, and the adapter under server.adapters"
            )
        adapters[SERVED_NAME] = adapter
        model = adapter.base
    check_model_folder(model)
    return model, adapters


def _parser(server: ServerConfig) -> str | None:
    """The config's parser, else the one in the folders."""
    if server.tool_call_parser != AUTO:
        return server.tool_call_parser
    folders = [Path(server.model), *server.adapters.values()]
    known = {str(folder): trained_parser(folder) for folder in folders}
    said = {parser for parser in known.values() if parser != AUTO}
    if len(said) > 1:
        raise ConfigError(
            f"what is served together was trained for different tool-call parsers: {known}; set "
            "server.tool_call_parser, or serve them apart"
        )
    return said.pop() if said else DEFAULT_PARSER


def _template(server: ServerConfig, adapters: Mapping[str, Adapter]) -> Path | None:
    """The server's single template. None: the model's own."""
    if server.chat_template is not None:
        if not server.chat_template.is_file():
            raise ConfigError(f"server.chat_template: there is no file {server.chat_template}")
        return server.chat_template
    found = [own_template(adapter.folder) for adapter in adapters.values()]
    files = [path for path in found if path is not None]
    if len({path.read_text(encoding="utf-8") for path in files}) > 1:
        raise ConfigError(
            "the adapters have different chat templates, and a server has one: "
            f"{', '.join(map(str, files))}; set server.chat_template, or serve them apart"
        )
    return files[0] if files else None


def _adapter_options(adapters: Mapping[str, Adapter]) -> list[str]:
    if not adapters:
        return []
    highest = max(adapter.rank for adapter in adapters.values())
    taken = next((rank for rank in LORA_RANKS if rank >= highest), None)
    if taken is None:
        raise ConfigError(
            f"an adapter's rank is {highest}, and vLLM serves up to {LORA_RANKS[-1]}; merge it "
            "into its model and serve that"
        )
    modules = [f"{name}={adapter.folder}" for name, adapter in adapters.items()]
    many = ["--max-loras", str(len(adapters)), "--max-lora-rank", str(taken)]
    return ["--enable-lora", *many, "--lora-modules", *modules]


def _command(server: ServerConfig, model: str) -> list[str]:
    """The program and its model, a positional argument of `vllm serve`."""
    command = list(server.command or _own_command())
    if shutil.which(command[0]) is None:
        raise ConfigError(f"server.command: there is no program {command[0]}; {INSTALL}")
    return [*command, "--model", model] if SERVER_MODULE in command else [*command, "serve", model]


def _own_command() -> Sequence[str]:
    # Run as a module: a build under a name other than vllm does not start by its command.
    if getattr(importlib.util.find_spec("vllm"), "origin", None):
        return [sys.executable, "-m", SERVER_MODULE]
    program = shutil.which("vllm")
    if program is None:
        raise ConfigError(f"there is no vLLM on this machine: {INSTALL}")
    return [program]


def _option(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]
