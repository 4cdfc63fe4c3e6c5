"""From a `local` model's config to a model in memory."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from collect.errors import ConfigError
from collect.models.batching import Batcher
from collect.models.chat_format import ChatFormat
from collect.models.config import LocalConfig
from collect.models.continuous import ContinuousGenerator
from collect.models.decoding import Decode, Generated, Prompt
from collect.models.generation import Generator
from collect.models.prefix_cache import PrefixCache, supports_prefix_cache


class Engine(Protocol):
    """A loaded model that works in a thread of its own."""

    def submit(self, prompt: Prompt) -> Future[Generated]:
        """Ask for one reply. The future raises what the model raised."""
        ...

    def close(self) -> None:
        """End as soon as may be; whoever still waits gets RolloutStopped."""
        ...


def load(config: LocalConfig, stop: threading.Event) -> tuple[ChatFormat, Engine, int]:
    """Format, engine, and the longest context in tokens. Raises ConfigError."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    disable_progress_bar()  # it would run through StepInto's own
    tokenizer = _tokenizer(config)
    model = _model(config)
    chat = ChatFormat(tokenizer, f"model {config.model}")
    end_ids = chat.end_ids() | _own_end_ids(model)
    if not end_ids:
        raise ConfigError(f"model {config.model} has no token that ends a turn (eos_token)")
    engine = _engine(config, model, sorted(end_ids), stop, chat.decode)
    return chat, engine, config.max_context or model.config.max_position_embeddings


def _engine(
    config: LocalConfig, model: Any, end_ids: list[int], stop: threading.Event, decode: Decode
) -> Engine:
    if supports_prefix_cache(model):
        prefixes = PrefixCache(model, config.prefix_cache)
        return ContinuousGenerator(
            model, end_ids, prefixes, max_batch=config.max_batch, stop=stop, decode=decode
        )
    generator = Generator(model, end_ids, stop=stop, decode=decode)
    return Batcher(generator.generate, config.max_batch, config.batch_wait_seconds)


def _tokenizer(config: LocalConfig) -> Any:
    adapter = config.adapter
    own = adapter is not None and (adapter / "tokenizer_config.json").is_file()
    source = str(adapter) if own else config.model
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise ConfigError(_not_loadable("tokenizer", source, error)) from error
    if config.chat_template is not None:
        tokenizer.chat_template = _read(config.chat_template)
    return tokenizer


def _model(config: LocalConfig) -> Any:
    device = _device(config)
    try:
        model = AutoModelForCausalLM.from_pretrained(config.model, dtype=_dtype(config, device))
    except (OSError, ValueError) as error:
        raise ConfigError(_not_loadable("model", config.model, error)) from error
    if config.adapter is not None:
        model = _merged(model, config.adapter)
    return model.to(device).eval()


def _merged(model: Any, adapter: Path) -> Any:
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(_not_loadable("adapter", str(adapter), error)) from error


def _device(config: LocalConfig) -> torch.device:
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(config.device)
    except RuntimeError as error:
        raise ConfigError(f"model {config.model}: no device {config.device!r}: {error}") from error


def _dtype(config: LocalConfig, device: torch.device) -> torch.dtype:
    name = config.dtype
    if name == "auto":
        name = "bfloat16" if device.type == "cuda" else "float32"
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def _own_end_ids(model: Any) -> set[int]:
    """The end tokens that the model's folder names, one or several."""
    ids = model.generation_config.eos_token_id
    return {ids} if isinstance(ids, int) else set(ids or ())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the chat template {path} can't be read: {error}") from error


def _not_loadable(what: str, source: str, error: Exception) -> str:
    return (
        f"no {what} at {source!r}: {error} Give a folder written by `save_pretrained`, or an id "
        "on the hub, if it can be reached"
    )
