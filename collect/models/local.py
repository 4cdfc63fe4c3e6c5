"""A small model in this process, by transformers: its loading, and conversations with it."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collect.errors import ConfigError, ContextTooLong, LocalModelFailed
from collect.models.base import Completion, ConversationContext, Sampling, Usage
from collect.models.config import LocalConfig
from collect.models.model_folders import check_model_folder
from collect.models.waiting import result_unless_stopped
from collect.store.messages import Message, ToolSchema
from sandbox.environment import install_command

if TYPE_CHECKING:
    import torch

    from collect.models.local_generation import ContinuousGenerator, Generated, Prompt
import json

import jinja2

from collect.models.tool_parsing import arguments_object, parse_hermes
from collect.store.messages import ToolCall, to_openai

_MARK = "stepinto_mark"
_PROBE_TOOL: ToolSchema = {
    "type": "function",
    "function": {
        "name": _MARK,
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    },
}


class ChatFormat:
    """What a tokenizer knows of conversations. Thread-safe, unlike a fast tokenizer."""

    def __init__(self, tokenizer: Any, where: str) -> None:
        """`where` names the model in errors. Raises ConfigError without a template for tools."""
        self._tokenizer = tokenizer
        self._where = where
        self._lock = threading.Lock()
        if not tokenizer.chat_template or _MARK not in self._render(
            [{"role": "user", "content": "hello"}], [_PROBE_TOOL]
        ):
            raise ConfigError(
                f"the chat template of {where} shows the model no tools; set `chat_template` to a "
                "Jinja file that does, the one which the model was trained with"
            )

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The text that the model continues. Raises LocalModelFailed."""
        plain = [_template_message(message) for message in messages]
        try:
            with self._lock:
                return self._render(plain, tools)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise LocalModelFailed(
                f"the chat template of {self._where} does not take this conversation: {error}. "
                "What to do: set `chat_template` to one that does"
            ) from error

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids, with no special tokens but those in the text."""
        with self._lock:
            return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, the special ones included."""
        with self._lock:
            return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    def end_ids(self) -> set[int]:
        """The tokens that end a turn: the tokenizer's, and what the template writes after one."""
        ids = {self._tokenizer.eos_token_id} - {None}
        turn = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": _MARK}]
        rendered = self._render(turn, [], add_generation_prompt=False)
        following = self.encode(rendered.rpartition(_MARK)[2])
        special = set(self._tokenizer.added_tokens_decoder)
        return ids | ({following[0]} & special if following else set())

    def read(
        self, prompt: str, ids: Sequence[int], tools: Sequence[ToolSchema], id_prefix: str
    ) -> Message:
        """The message that the generated tokens are."""
        with self._lock:
            text = self._tokenizer.decode(
                ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
            by_template = self._by_response_template(prompt, text, tools)
        content, calls = parse_hermes(text, id_prefix)
        hermes = Message("assistant", content, tool_calls=calls)
        if by_template is None:
            return hermes
        message = _message(by_template, id_prefix)
        # The template gives decoded arguments; where both agree, keep the raw text.
        same = _decoded(message.tool_calls) == _decoded(calls)
        raw_calls = calls if same else message.tool_calls
        return Message("assistant", message.content, message.reasoning, raw_calls)

    def _by_response_template(
        self, prompt: str, text: str, tools: Sequence[ToolSchema]
    ) -> dict[str, Any] | None:
        """The reply by the tokenizer's own response template (transformers >= 5.13).

        None where it has none, or where the reply does not fit it: broken calls, mostly.
        """
        if getattr(self._tokenizer, "response_template", None) is None:
            return None
        try:
            parsed = self._tokenizer.parse_response(text, prefix=prompt, tools=list(tools))
        except (ValueError, KeyError, TypeError):
            return None
        calls = parsed.get("tool_calls") or []
        named = all(isinstance(call.get("function", call).get("name"), str) for call in calls)
        return parsed if named else None

    def _render(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[ToolSchema],
        add_generation_prompt: bool = True,
    ) -> str:
        rendered: str = self._tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) or None,
            add_generation_prompt=add_generation_prompt,
            tokenize=False,
        )
        return rendered


def _template_message(message: Message) -> dict[str, Any]:
    """As chat templates expect it: content always text, arguments always an object."""
    plain = to_openai(message) | {"content": message.content}
    for call in plain.get("tool_calls", ()):
        call["function"]["arguments"] = arguments_object(call["function"]["arguments"])
    if message.reasoning:
        plain["reasoning_content"] = message.reasoning
    return plain


def _message(parsed: dict[str, Any], id_prefix: str) -> Message:
    """From the plain message of `parse_response`."""
    calls = []
    for index, call in enumerate(parsed.get("tool_calls") or ()):
        function = call.get("function", call)
        arguments = function.get("arguments")
        raw = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
        calls.append(ToolCall(f"{id_prefix}{index}", function["name"], raw))
    reasoning = parsed.get("reasoning_content") or parsed.get("thinking")
    content = parsed.get("content") or ""
    return Message("assistant", content.strip() if calls else content, reasoning, tuple(calls))


def _decoded(calls: Sequence[ToolCall]) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, arguments_object(call.arguments)) for call in calls]


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
        self.name = name
        self.config = config
        self.stop = stop
        self._lock = threading.Lock()
        self._loaded: LoadedModel | None = None
        _check(config)

    def open(self, context: ConversationContext) -> LocalModel:
        """The first call loads the model. Raises ConfigError."""
        with self._lock:
            if self._loaded is None:
                with LOADING:
                    self._loaded = _load(self.config, self.stop)
            return LocalModel(self._loaded, self.config, self.stop)

    def close(self) -> None:
        """Let the model go from memory, after the token that it works on."""
        with self._lock:
            if self._loaded is not None:
                self._loaded.generator.close()
            self._loaded = None


@dataclass(frozen=True)
class LoadedModel:
    """The parts of a model in memory."""

    chat: ChatFormat
    generator: ContinuousGenerator
    max_context: int
    """Tokens of prompt and completion together."""


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
        from collect.models.local_generation import Prompt

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
        future = self._loaded.generator.submit(prompt)
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


def _load(config: LocalConfig, stop: threading.Event) -> LoadedModel:
    import torch
    from transformers.utils.logging import disable_progress_bar

    from collect.models.local_cache import PrefixCache, keeps_all_keys
    from collect.models.local_generation import ContinuousGenerator

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    disable_progress_bar()  # it would run through StepInto's own
    tokenizer = _tokenizer(config)
    model = _model(config)
    if not keeps_all_keys(model):
        raise ConfigError(
            f"model {config.model} has layers with a sliding window or a state, which this backend "
            "does not run. What to do: use the backend vllm, or another model"
        )
    chat = ChatFormat(tokenizer, f"model {config.model}")
    end_ids = chat.end_ids() | _own_end_ids(model)
    if not end_ids:
        raise ConfigError(f"model {config.model} has no token that ends a turn (eos_token)")
    generator = ContinuousGenerator(
        model,
        end_ids,
        PrefixCache(model, config.prefix_cache),
        max_batch=config.max_batch,
        stop=stop,
        decode=chat.decode,
    )
    max_context = config.max_context or model.config.max_position_embeddings
    return LoadedModel(chat, generator, max_context)


def _tokenizer(config: LocalConfig) -> Any:
    from transformers import AutoTokenizer

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
    from transformers import AutoModelForCausalLM

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
    import torch

    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(config.device)
    except RuntimeError as error:
        raise ConfigError(f"model {config.model}: no device {config.device!r}: {error}") from error


def _dtype(config: LocalConfig, device: torch.device) -> torch.dtype:
    import torch

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
