"""A small model in this process: many conversations, batched, by transformers."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from collect.errors import ConfigError, ContextTooLong, LocalModelFailed
from collect.models.base import Completion, ConversationContext, Sampling, Usage
from collect.models.config import LocalConfig
from collect.models.model_folders import check_model_folder
from collect.models.waiting import result_unless_stopped
from collect.store.messages import Message, ToolSchema
from sandbox.environment import install_command

if TYPE_CHECKING:
    from collect.models.chat_format import ChatFormat
    from collect.models.decoding import Generated, Prompt
    from collect.models.local_loading import Engine

PACKAGES = ("torch", "transformers")
LOADING = threading.Lock()
"""Held while a model is loaded: transformers sets the device that new weights are made on for all
threads, so that of two models loaded at once one would have none."""


class LocalBackend:
    """One model in memory, for all conversations of a run.

    Temperature None or 0 is greedy. Other rows draw from their own seed, so that what a request
    gets does not depend on its batch, save for rounding: sums over several rows are not bit by bit
    those of single ones. Settings of the model's own generation config are not used.
    """

    def __init__(self, name: str, config: LocalConfig, stop: threading.Event) -> None:
        """Raises ConfigError where packages or files are missing; `open` loads the model."""
        self._name = name
        self.config = config
        self.stop = stop
        self._lock = threading.Lock()
        self._loaded: LoadedModel | None = None
        _check(config)

    @property
    def name(self) -> str:
        """The model's name in the config."""
        return self._name

    def open(self, context: ConversationContext) -> LocalModel:
        """The first call loads the model. Raises ConfigError."""
        with self._lock:
            if self._loaded is None:
                with LOADING:
                    self._loaded = LoadedModel(self.config, self.stop)
            return LocalModel(self._loaded, self.config, self.stop)

    def close(self) -> None:
        """Let the model go from memory, after the token or batch that it works on."""
        with self._lock:
            if self._loaded is not None:
                self._loaded.engine.close()
            self._loaded = None


class LoadedModel:
    """The parts of a model in memory."""

    def __init__(self, config: LocalConfig, stop: threading.Event) -> None:
        from collect.models.local_loading import load

        self.chat: ChatFormat
        self.engine: Engine
        self.chat, self.engine, self.max_context = load(config, stop)


class LocalModel:
    """A conversation with a model in this process."""

    def __init__(self, loaded: LoadedModel, config: LocalConfig, stop: threading.Event) -> None:
        self._loaded = loaded
        self._config = config
        self._stop = stop

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """See `collect.models.base.Model`. `seconds` includes the wait for a batch."""
        started = time.monotonic()
        chat = self._loaded.chat
        text = chat.prompt(messages, tools)
        prompt = self._prompt(chat.encode(text), sampling)
        generated = self._generated(prompt)
        message = chat.read(text, generated.ids, tools, f"call_{len(messages)}_")
        content = until(sampling.stop or (), message.content)
        if content != message.content:
            message, generated = replace(message, content=content), replace(generated, ended=True)
        completion_tokens = len(generated.ids) + generated.ended
        return Completion(
            message=message,
            usage=Usage(len(prompt.ids), completion_tokens, generated.cached_tokens),
            dollars=0.0,
            seconds=time.monotonic() - started,
            finish_reason=_finish_reason(message, generated),
        )

    def _prompt(self, ids: tuple[int, ...], sampling: Sampling) -> Prompt:
        from collect.models.decoding import Prompt

        limit = self._loaded.max_context
        if len(ids) >= limit:
            raise ContextTooLong(
                f"the context is too long for model {self._config.model}: {len(ids)} tokens, of "
                f"at most {limit}. Give the agent fewer steps or shorter outputs, or raise "
                "`max_context` if the model can read more"
            )
        wanted = sampling.max_tokens or self._config.sampling.max_tokens or limit
        return Prompt(ids, min(wanted, limit - len(ids)), sampling)

    def _generated(self, prompt: Prompt) -> Generated:
        future = self._loaded.engine.submit(prompt)
        try:
            return result_unless_stopped(future, self._stop)
        except RuntimeError as error:  # torch's own, out of memory included
            raise LocalModelFailed(
                f"model {self._config.model} failed to generate: {error}. "
                "What to do: lower `max_batch`, `max_context` or `prefix_cache` if memory ran out"
            ) from error


def until(stops: Sequence[str], text: str) -> str:
    """A text up to the first of some stop texts."""
    places = [place for place in map(text.find, stops) if place >= 0]
    return text[: min(places)] if places else text


def _finish_reason(message: Message, generated: Generated) -> str:
    if not generated.ended:
        return "length"
    return "tool_calls" if message.tool_calls else "stop"


def _check(config: LocalConfig) -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if config.adapter is not None and importlib.util.find_spec("peft") is None:
        missing.append("peft")
    if missing:
        raise ConfigError(
            f"model {config.model} runs in this process and needs {', '.join(missing)}: "
            f"{install_command('train')}, or choose another backend"
        )
    for path in (config.adapter, config.chat_template):
        if path is not None and not path.exists():
            raise ConfigError(f"model {config.model}: {path} does not exist")
    check_model_folder(config.model)
