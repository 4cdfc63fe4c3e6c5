"""A small model in this process, by transformers: its loading, and conversations with it."""

from __future__ import annotations

import importlib.util
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jinja2

from collect.control_tokens import ControlTokens
from collect.errors import ConfigError, ContextTooLong, LocalModelFailed
from collect.models.base import Completion, ConversationContext, Sampling, Usage
from collect.models.budget import Limits, MachineTime
from collect.models.config import AS_DATA, WEIGHTS, LocalConfig, check_model_folder
from collect.models.tool_parsing import broken_hermes_call, hermes_call, parse_calls
from collect.store.messages import Message, ToolCall, ToolSchema, arguments_object, to_openai
from collect.threads import result_unless_stopped
from sandbox.environment import install_command

if TYPE_CHECKING:
    from collect.models.constrained_calls import ConstrainedCalls
    from collect.models.local_generation import ContinuousGenerator

SHOWN = 1_000
"""Characters of an error that a message shows."""
TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a template of others may raise."""
_MARK = "stepinto_mark"
_FUNCTION = {"name": _MARK, "description": "", "parameters": {"type": "object", "properties": {}}}


class ChatFormat:
    """What a tokenizer knows of conversations. Thread-safe, unlike a fast tokenizer.

    A message holds no control tokens when the model reads it.
    """

    def __init__(self, tokenizer: Any, where: str) -> None:
        """`where` names the model in errors. Raises ConfigError without a template for tools."""
        self._tokenizer = tokenizer
        self._where = where
        self._lock = threading.Lock()
        self._control_tokens = ControlTokens(tokenizer, str(tokenizer.chat_template or ""))
        if not tokenizer.chat_template or _MARK not in self._render(
            [{"role": "user", "content": "hello"}], [{"type": "function", "function": _FUNCTION}]
        ):
            raise ConfigError(
                f"the chat template of {where} shows the model no tools; set `chat_template` to a "
                "Jinja file that does, the one which the model was trained with"
            )

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The text that the model continues. Raises LocalModelFailed."""
        plain = []
        for message in map(self._with_broken_calls, messages):
            # As chat templates expect it: content always text, arguments always an object.
            given = to_openai(message) | {"content": message.content}
            for call in given.get("tool_calls", ()):
                call["function"]["arguments"] = arguments_object(call["function"]["arguments"])
            if message.reasoning:
                given["reasoning_content"] = message.reasoning
            plain.append(self._control_tokens.marked(given))
        try:
            offered = [self._control_tokens.marked(each) for each in tools]
            with self._lock:
                return self._render(plain, offered)
        except TEMPLATE_ERRORS as error:
            raise LocalModelFailed(
                f"the chat template of {self._where} does not take this conversation: {error}. "
                "What to do: set `chat_template` to one that does"
            ) from error

    def _with_broken_calls(self, message: Message) -> Message:
        """The message with its broken calls in its text, as the model wrote them. If they were
        wrapped in valid ones, a small model would copy the wrapping."""
        broken = [call for call in message.tool_calls if not call.is_valid]
        if not broken or not self.writes_hermes():
            return message
        calls = tuple(call for call in message.tool_calls if call.is_valid)
        content = "\n".join(filter(None, (message.content, *map(broken_hermes_call, broken))))
        return replace(message, content=content, tool_calls=calls)

    def writes_hermes(self) -> bool:
        """Whether the template writes calls in the Hermes form."""
        said = Message("assistant", tool_calls=(ToolCall("1", _MARK, "{}"),))
        tools = [{"type": "function", "function": _FUNCTION}]
        return hermes_call(_MARK, "{}") in self.prompt([Message("user", "hello"), said], tools)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids, with no special tokens but those in the text."""
        with self._lock:
            return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, the special ones included."""
        with self._lock:
            text = self._tokenizer.decode(
                ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
            return str(text)

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
        text = self._control_tokens.unmarked(self.decode(ids))
        with self._lock:
            parsed = self._by_response_template(prompt, text, tools)
        content, calls = parse_calls(text, tools, id_prefix)
        if parsed is None:
            return Message("assistant", content, tool_calls=calls)
        parsed_calls = []
        for index, call in enumerate(parsed.get("tool_calls") or ()):
            function = call.get("function", call)
            arguments = function.get("arguments")
            raw = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
            parsed_calls.append(ToolCall(f"{id_prefix}{index}", function["name"], raw))
        content = parsed.get("content") or ""
        if not parsed_calls:  # the calls are in another form than the template's
            content, calls = parse_calls(content, tools, id_prefix)
        # The template gives decoded arguments; where both agree, keep the raw text.
        elif _decoded(parsed_calls) != _decoded(calls):
            calls = tuple(parsed_calls)
        reasoning = parsed.get("reasoning_content") or parsed.get("thinking")
        return Message("assistant", content.strip() if calls else content, reasoning, calls)

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

    def __init__(
        self, name: str, config: LocalConfig, limits: Limits, stop: threading.Event
    ) -> None:
        """Raises ConfigError where packages or files are missing; `open` loads the model."""
        self.name = name
        self.config = config
        self.limits = limits
        self.stop = stop
        self._lock = threading.Lock()
        self._loaded: LocalModel | None = None
        packages = [*PACKAGES]
        packages += ["peft"] if config.adapter is not None else []
        packages += ["llguidance"] if config.constrain_calls else []
        missing = [each for each in packages if importlib.util.find_spec(each) is None]
        if missing:
            raise ConfigError(
                f"model {config.model} runs in this process and needs {', '.join(missing)}: "
                f"{install_command('train')}, or choose another backend"
            )
        for path in (config.adapter, config.chat_template):
            if path is not None and not path.exists():
                raise ConfigError(f"model {config.model}: {path} does not exist")
        check_model_folder(config.model)

    def open(self, context: ConversationContext) -> LocalModel:
        """The same for every conversation; the first call loads it. Raises ConfigError."""
        with self._lock:
            if self._loaded is None:
                with LOADING:
                    self._loaded = _load(self.config, self.limits, self.stop)
            return self._loaded

    def close(self) -> None:
        """Let the model go from memory, after the token that it works on."""
        with self._lock:
            if self._loaded is not None:
                self._loaded.generator.close()
            self._loaded = None


@dataclass(frozen=True)
class LocalModel:
    """A model in memory, which keeps no conversation but for the cache of its prompts."""

    config: LocalConfig
    chat: ChatFormat
    generator: ContinuousGenerator
    max_context: int
    """Tokens of prompt and completion together."""
    limits: Limits
    stop: threading.Event
    constrained: ConstrainedCalls | None = None
    machine: MachineTime = field(default_factory=MachineTime)

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """See `collect.models.base.Model`. `seconds` includes the wait for a batch."""
        started = time.monotonic()
        model, limit, prices = self.config.model, self.max_context, self.config.prices
        text = self.chat.prompt(messages, tools)
        ids = self.chat.encode(text)
        if len(ids) >= limit:
            raise ContextTooLong(
                f"the context is too long for model {model}: {len(ids)} tokens, of at most "
                f"{limit}. Give the agent fewer steps or shorter outputs, or raise `max_context` "
                "if the model can read more"
            )
        constraint = None
        if self.constrained is not None and tools:
            offered = () if sampling.tool_choice == "none" else tools
            constraint = self.constrained.begin(offered, messages)
        if not prices.free:
            self.limits.check()
        wanted = sampling.max_tokens or self.config.sampling.max_tokens or limit
        begun = self.machine.begin()
        try:
            room = min(wanted, limit - len(ids))
            future = self.generator.submit(ids, room, sampling, constraint)
            generated = result_unless_stopped(future, self.stop)
        except RuntimeError as error:  # torch's own, out of memory included
            raise LocalModelFailed(
                f"model {model} failed to generate: {error}. "
                "What to do: lower `max_batch`, `max_context` or `prefix_cache` if memory ran out"
            ) from error
        finally:
            dollars = prices.dollars(Usage(), self.machine.end(begun))
            self.limits.add(dollars)
        message = self.chat.read(text, generated.ids, tools, f"call_{len(messages)}_")
        content, ended = message.content, generated.ended
        for stop in sampling.stop or ():
            content = content.partition(stop)[0]
        if content != message.content:
            message, ended = replace(message, content=content), True
        done = "tool_calls" if message.tool_calls else "stop"
        return Completion(
            message=message,
            usage=Usage(len(ids), len(generated.ids) + ended, generated.cached_tokens),
            dollars=dollars,
            seconds=time.monotonic() - started,
            finish_reason=done if ended else "length",
        )


def _chat_of(tokenizer: Any, where: str) -> tuple[ChatFormat, set[int]]:
    """A tokenizer's chat format, and what ends a turn in it. Raises ConfigError."""
    try:
        chat = ChatFormat(tokenizer, where)
        return chat, chat.end_ids()
    except TEMPLATE_ERRORS as error:
        raise ConfigError(
            f"the chat template of {where} can't be used: {error}; set `chat_template` to one that "
            "can"
        ) from error


def _load(config: LocalConfig, limits: Limits, stop: threading.Event) -> LocalModel:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    from collect.models.local_generation import ContinuousGenerator, PrefixCache, keeps_all_keys

    disable_progress_bar()  # it would run through StepInto's own
    adapter = config.adapter
    own = adapter is not None and (adapter / "tokenizer_config.json").is_file()
    try:
        auto = "cuda" if torch.cuda.is_available() else "cpu"
        device = torch.device(auto if config.device == "auto" else config.device)
    except RuntimeError as error:
        raise ConfigError(f"model {config.model}: no device {config.device!r}: {error}") from error
    dtype = config.dtype
    if dtype == "auto":
        dtype = "bfloat16" if device.type == "cuda" else "float32"
    what, source = "tokenizer", str(adapter) if own else config.model
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **AS_DATA)
        what, source = "model", config.model
        model: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=getattr(torch, dtype), **WEIGHTS
        )
        if adapter is not None:
            from peft import PeftModel

            what, source = "adapter", str(adapter)
            if not (adapter / "adapter_model.safetensors").is_file():
                raise ValueError("it has no adapter_model.safetensors.")
            model = PeftModel.from_pretrained(model, source).merge_and_unload()
    # Files of others hold anything, and transformers raises what it meets there.
    except Exception as error:
        raise ConfigError(
            f"no {what} at {source!r}: {error!s:.{SHOWN}} Give a folder written by "
            "`save_pretrained`, or an id on the hub, if it can be reached"
        ) from error
    if config.chat_template is not None:
        tokenizer.chat_template = config.chat_template.read_text(encoding="utf-8")
    model = model.to(device).eval()
    if not keeps_all_keys(model):
        raise ConfigError(
            f"model {config.model} has layers with a sliding window or a state, which this backend "
            "does not run. What to do: use the backend vllm, or another model"
        )
    chat, end_ids = _chat_of(tokenizer, f"model {config.model}")
    own_ids = model.generation_config.eos_token_id  # one or several
    end_ids |= {own_ids} if isinstance(own_ids, int) else set(own_ids or ())
    if not end_ids:
        raise ConfigError(f"model {config.model} has no token that ends a turn (eos_token)")
    constrained = None
    if config.constrain_calls:
        from collect.models.constrained_calls import ConstrainedCalls

        if not chat.writes_hermes():
            raise ConfigError(
                f"the chat template of model {config.model} writes calls in another form than "
                f"{hermes_call('NAME', '{}')!r}: set constrain_calls: false"
            )
        constrained = ConstrainedCalls(tokenizer, model.config.vocab_size, end_ids)
    prefixes = PrefixCache(model, config.prefix_cache)
    generator = ContinuousGenerator(
        model, end_ids, prefixes, max_batch=config.max_batch, stop=stop, decode=chat.decode
    )
    max_context = config.max_context or model.config.max_position_embeddings
    return LocalModel(config, chat, generator, max_context, limits, stop, constrained)
