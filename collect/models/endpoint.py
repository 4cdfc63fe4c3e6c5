"""Models behind an OpenAI-compatible server: a vendor's, vLLM, SGLang, llama.cpp ..."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import openai
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collect.errors import ContentRefused, ContextTooLong, EndpointFailure, InvalidReply
from collect.field_errors import first_wrong_field
from collect.models.base import Completion, ConversationContext, Sampling, Tokens, Usage
from collect.models.budget import Limits
from collect.models.config import OpenAIConfig, Retries
from collect.models.endpoint_client import (
    INVALID,
    EndpointCircuitBreaker,
    Refusal,
    UnreadableReply,
    api_key,
    bounded,
    mask_of,
    open_client,
    read_refusal,
    shortened,
)
from collect.models.tool_parsing import BROKEN, arguments_object
from collect.models.waiting import (
    call_unless_stopped,
    sleep_unless_stopped,
    slot_unless_stopped,
)
from collect.quantities import counted, duration
from collect.rollout_log import NO_LOG, RolloutLog
from collect.store.messages import Message, ToolCall, ToolSchema, to_openai
from sandbox.text import storable

logger = logging.getLogger(__name__)

# Requests and replies in OpenAI's chat-completions format.


EXCERPT = 200
"""Characters of an invalid call that an error quotes."""


class _Part(BaseModel):
    """Part of a reply; a server may add fields."""

    model_config = ConfigDict(strict=True, frozen=True)


class _Details(_Part):
    cached_tokens: Tokens | None = None


class _Usage(_Part):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    prompt_tokens_details: _Details | None = None


class _Choice(_Part):
    message: dict[str, Any]
    finish_reason: str | None = None


class Reply(_Part):
    """A chat completion whose message is not parsed yet."""

    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None

    @property
    def message(self) -> Mapping[str, Any]:
        """The raw message."""
        return self.choices[0].message

    @property
    def finish_reason(self) -> str:
        """The server's word."""
        return storable(self.choices[0].finish_reason or "stop")

    @property
    def tokens(self) -> Usage | None:
        """None if the server reports none. Cached tokens are capped at the tokens sent: a wrong
        count would lower the reply's cost.
        """
        counted = self.usage
        if counted is None or counted.prompt_tokens is None:
            return None
        details = counted.prompt_tokens_details or _Details()
        cached = min(details.cached_tokens or 0, counted.prompt_tokens)
        return Usage(counted.prompt_tokens, counted.completion_tokens or 0, cached)


def read_reply(body: str) -> Reply:
    """Raises ValueError with the reason if it is no chat completion."""
    try:
        decoded = json.loads(body)
    except BROKEN as error:
        raise ValueError(f"not JSON ({error})") from error
    try:
        return Reply.model_validate(decoded)
    except ValidationError as error:
        raise ValueError(first_wrong_field(error, Reply)) from error


def request_fields(
    config: OpenAIConfig,
    messages: Sequence[Message],
    tools: Sequence[ToolSchema],
    sampling: Sampling,
) -> dict[str, Any]:
    """The fields of one request; None values are left to the server."""
    fields: dict[str, Any] = {
        "model": config.model,
        "messages": [_sent(message, config.reasoning_field) for message in messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "stop": list(sampling.stop) if sampling.stop else None,
        "seed": sampling.seed,
        config.max_tokens_field: sampling.max_tokens,
    }
    if tools:
        fields["tools"] = list(tools)
        fields["tool_choice"] = sampling.tool_choice or config.tool_choice
        fields["parallel_tool_calls"] = config.parallel_tool_calls
    return {name: value for name, value in fields.items() if value is not None}


def _sent(message: Message, reasoning_field: str | None) -> dict[str, Any]:
    sent = to_openai(message)
    for call in sent.get("tool_calls", ()):
        function = call["function"]
        decoded = arguments_object(function["arguments"])
        if "malformed_arguments" in decoded or not function["arguments"]:
            function["arguments"] = json.dumps(decoded)
    if reasoning_field and message.reasoning:
        sent[reasoning_field] = message.reasoning
    return sent


def read_message(plain: Mapping[str, Any], id_prefix: str) -> Message:
    """The reply's message, with storable text and the raw arguments. Raises ValueError.

    `id_prefix` makes ids for calls without one.
    """
    content, calls = plain.get("content"), plain.get("tool_calls")
    if not isinstance(content, str | list | None):
        raise ValueError(f"the content is no text: {type(content).__name__}")
    if not isinstance(calls, list | None):
        raise ValueError(f"the tool calls are no list: {type(calls).__name__}")
    return Message(
        role="assistant",
        content=_text(content) or _text(plain.get("refusal")),
        reasoning=_text(plain.get("reasoning_content") or plain.get("reasoning")) or None,
        tool_calls=tuple(
            _read_call(call, f"{id_prefix}{index}") for index, call in enumerate(calls or ())
        ),
    ).storable()


def _read_call(plain: Any, fallback_id: str) -> ToolCall:
    function = plain.get("function") if isinstance(plain, dict) else None
    if not isinstance(function, dict):
        raise ValueError(f"a tool call is no function call: {_excerpt(plain)}")
    call_id, name = plain.get("id"), function.get("name")
    if not isinstance(call_id, str | int | None) or not isinstance(name, str | None):
        raise ValueError(f"a tool call has an id or a name that is none: {_excerpt(plain)}")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments)
        except RecursionError as error:
            raise ValueError("the arguments of a tool call are nested too deeply") from error
    return ToolCall(str(call_id or fallback_id), name or "", arguments)


def _excerpt(plain: Any) -> str:
    try:
        return repr(plain)[:EXCERPT]
    except RecursionError:
        return "nested too deeply"


def _text(content: Any) -> str:
    """Content as text; some servers send it as a list of parts."""
    if isinstance(content, list):
        parts = (part.get("text", "") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


class EndpointBackend:
    """One model of one server, for all conversations of a run."""

    def __init__(
        self,
        name: str,
        config: OpenAIConfig,
        limits: Limits,
        stop: threading.Event,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises ConfigError if the key or the address is missing or malformed.

        `ready` is called before each request: it returns once the request may be sent, or raises.
        """
        self._name = name
        self.config = config
        self._limits = limits
        self._stop = stop
        self._ready = ready
        key = api_key(config)
        self._client = open_client(config, key)
        self._mask = mask_of(str(self._client.base_url), key)
        self._slots = limits.slots(name, config.concurrency)
        self._outage = EndpointCircuitBreaker(
            f"{name} ({self.where})", config.retries.outage_wait, stop
        )
        self._telling = threading.Lock()
        self._told: set[tuple[int | None, str]] = set()

    @property
    def name(self) -> str:
        """The model's name in the config."""
        return self._name

    def open(self, context: ConversationContext) -> EndpointModel:
        """The same for every conversation: the server keeps no state."""
        return EndpointModel(self, context.log)

    def close(self) -> None:
        self._client.close()

    def complete(self, fields: dict[str, Any], log: RolloutLog) -> Reply:
        """Send one request until it is answered. Raises like `Model.complete`."""
        retry, retries = 0, self.config.retries
        sent_at = refused_at = time.monotonic()
        while isinstance(answer := self._send(fields), Refusal):
            said = self._said(answer)
            if self._outage.ended_since(refused_at):
                retry = 0  # it has waited for the server's return
            wait = _wait_seconds(answer, retry, retries)
            if retry >= retries.max_retries or not self._is_retried(answer):
                if not self._outage.covers(answer, said, sent_at, refused_at):
                    raise self._failure(answer, retry)
                retry, wait = 0, shortened(wait)
            else:
                self._tell_once(answer, said)
            log.note("retried", why=said, wait=wait)
            refused_at, retry = time.monotonic(), retry + 1
            sleep_unless_stopped(wait, self._stop)
        return answer

    def charge(self, usage: Usage | None) -> float:
        """Add a reply's cost in dollars to the budget."""
        prices = self.config.prices
        if usage is None and not prices.free:
            raise EndpointFailure(
                f"{self.where} reports no token usage, so that its prices can't be counted; "
                "remove `prices`, or use a server that reports usage"
            )
        dollars = prices.dollars(usage or Usage())
        self._limits.add(dollars)
        return dollars

    @property
    def where(self) -> str:
        """The model and its server, for error messages."""
        return f"model {self.config.model} at {self.address}"

    @property
    def address(self) -> str:
        """The server's address, without a password."""
        return str(self._client.base_url.copy_with(userinfo=b""))

    def _send(self, fields: dict[str, Any]) -> Reply | Refusal:
        """Send one request as soon as it may be sent."""
        with self._outage.passage(), slot_unless_stopped(self._slots, self._stop):
            self._ready()
            if not self.config.prices.free:
                self._limits.check()
            answer = self._answer(fields)
            if isinstance(answer, Refusal) and answer.retried:
                self._outage.refused(answer)
            else:
                self._outage.answered()
            return answer

    def _answer(self, fields: dict[str, Any]) -> Reply | Refusal:
        """One request: the reply's JSON, or why there is none.

        A server may send nothing past the timeout. Such a request is left to end by itself and
        holds no slot.
        """
        seconds = self.config.timeout
        try:
            return call_unless_stopped(lambda: self._request(fields), self._stop, seconds)
        except TimeoutError:
            return Refusal(None, f"no whole reply within {seconds:g} s (`timeout`)")

    def _request(self, fields: dict[str, Any]) -> Reply | Refusal:
        """See `_answer`. Raises TimeoutError."""
        try:
            raw = self._client.chat.completions.with_raw_response.create(
                **fields, extra_body=self.config.extra_body or None
            )
        except openai.APIStatusError as error:
            return read_refusal(error.status_code, error.response.text, error.response.headers)
        except openai.APITimeoutError as error:
            raise TimeoutError from error
        except (UnreadableReply, openai.APIConnectionError) as error:
            cause = error.__cause__
            if isinstance(cause, TimeoutError):
                raise cause from error
            code = INVALID if UnreadableReply in (type(error), type(cause)) else ""
            # Masked before it is cut, since half a key would not be recognised.
            return Refusal(None, bounded(self._mask(f"{error} {cause or ''}")), code)
        return _read_reply(raw.http_response.text)

    def _is_retried(self, refusal: Refusal) -> bool:
        return refusal.retried and (refusal.retry_after or 0) <= self.config.retries.retry_after_max

    def _tell_once(self, refusal: Refusal, said: str) -> None:
        """Report the first retried refusal of each kind."""
        kind, retries = (refusal.status, refusal.code), self.config.retries
        with self._telling:
            if kind in self._told:
                return
            self._told.add(kind)
        times = counted(retries.max_retries, "time")
        waits = duration(_longest_waits(refusal, retries))
        told = f"such a request is sent again, {times} at most, with waits of {waits} in all"
        if retries.outage_wait:
            longest = duration(retries.outage_wait)
            told += f", and waits {longest} at most for a server that has answered before"
        logger.warning(f"{self._name} ({self.where}): {said}; {told} (retries)")

    def _failure(self, refusal: Refusal, retry: int) -> Exception:
        """The error of a request whose last retry was refused."""
        said = self._said(refusal)
        if refusal.context_exceeded:
            return ContextTooLong(f"the context is too long for {self.where}: {said}")
        if refusal.content_refused:
            return ContentRefused(f"the content was refused by {self.where}: {said}")
        too_long = (refusal.retry_after or 0) > self.config.retries.retry_after_max
        asked = f" It asks to wait {refusal.retry_after:.0f} s." if too_long else ""
        tried = f" after {retry + 1} requests" if retry else ""
        return refusal.failure(
            f"{self.where} failed{tried}: {said}.{asked} What to do: {refusal.advice}"
        )

    def _said(self, refusal: Refusal) -> str:
        """The server's message, without the key."""
        return self._mask(str(refusal))


class EndpointModel:
    """A conversation with a server that keeps no state."""

    def __init__(self, backend: EndpointBackend, log: RolloutLog = NO_LOG) -> None:
        self._backend, self._log = backend, log

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """See `collect.models.base.Model`. `seconds` includes retries and waits for a slot or for
        the server's return.
        """
        backend = self._backend
        started = time.monotonic()
        fields = request_fields(backend.config, messages, tools, sampling)
        reply = backend.complete(fields, self._log)
        usage, finish_reason = reply.tokens, reply.finish_reason
        dollars = backend.charge(usage)
        try:
            message = read_message(reply.message, f"call_{len(messages)}_")
        except ValueError as error:
            raise InvalidReply(
                f"{backend.where} gave an invalid reply: {error}. "
                "What to do: check the server's tool-call parser"
            ) from error
        if finish_reason == "content_filter":
            raise ContentRefused(f"the reply was withheld by {backend.where}: content_filter")
        seconds = time.monotonic() - started
        return Completion(message, usage or Usage(), dollars, seconds, finish_reason)


def _read_reply(body: str) -> Reply | Refusal:
    """Parse a chat completion; anything else with status 200 is retried like a 5xx."""
    try:
        return read_reply(body)
    except ValueError as error:
        said = bounded(body) or "an empty body"
        wrong = f"the reply is no chat completion: {said}; {bounded(str(error))}"
        return Refusal(None, wrong, INVALID)


def _wait_seconds(refusal: Refusal, retry: int, retries: Retries) -> float:
    return max(_backoff(retry, retries) * random.uniform(0.5, 1.0), refusal.retry_after or 0.0)


def _longest_waits(refusal: Refusal, retries: Retries) -> float:
    """Seconds of all retries if a request is refused each time."""
    each = (_backoff(retry, retries) for retry in range(retries.max_retries))
    return sum(max(wait, refusal.retry_after or 0.0) for wait in each)


def _backoff(retry: int, retries: Retries) -> float:
    return min(retries.backoff_max, retries.backoff_base * 2.0**retry)
