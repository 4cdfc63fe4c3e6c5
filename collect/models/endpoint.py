"""Models behind a server: a vendor's, vLLM, SGLang, llama.cpp ..."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from collect.errors import ContentRefused, ContextTooLong, EndpointFailure, InvalidReply
from collect.models.base import Completion, ConversationContext, Sampling, Usage
from collect.models.budget import Limits
from collect.models.config import (
    AnthropicConfig,
    ChatConfig,
    RemoteConfig,
    ResponsesConfig,
    Retries,
)
from collect.models.endpoint_client import (
    INVALID,
    EndpointCircuitBreaker,
    Refusal,
    Reply,
    UnreadableReply,
    api_key,
    bounded,
    mask_of,
    read_refusal,
    shortened,
)
from collect.models.tool_parsing import parse_written
from collect.models.waiting import (
    call_unless_stopped,
    sleep_unless_stopped,
    slot_unless_stopped,
)
from collect.quantities import counted, duration
from collect.rollout_log import NO_LOG, RolloutLog
from collect.store.messages import Message, ToolSchema

logger = logging.getLogger(__name__)


class Api(Protocol):
    """One vendor's API: how a conversation is sent, and a reply read."""

    name: str
    """What a reply is called in errors."""
    sdk: Any
    """The vendor's package, with `APIStatusError`, `APITimeoutError` and `APIConnectionError`."""

    def open(self, key: str | None) -> Any:
        """The SDK's client. Raises ConfigError if the address is malformed."""

    def fields(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> dict[str, Any]:
        """The fields of one request; what is None is left to the server."""

    def send(self, client: Any, fields: dict[str, Any]) -> str:
        """The reply's body. Raises the SDK's errors."""

    def read(self, body: str) -> Reply:
        """Raises ValueError with the reason if it is no reply."""

    def message(self, reply: Reply, sampling: Sampling, id_prefix: str) -> Message:
        """The reply's message, with storable text and the raw arguments. Raises ValueError.

        `id_prefix` makes ids for calls without one.
        """


def api_of(config: RemoteConfig) -> Api:
    """The API that a config names; imports its SDK."""
    if isinstance(config, AnthropicConfig):
        from collect.models.anthropic_messages import AnthropicMessages

        return AnthropicMessages(config)
    if isinstance(config, ResponsesConfig):
        from collect.models.openai_responses import OpenAIResponses

        return OpenAIResponses(config)
    from collect.models.chat_completions import ChatCompletions

    return ChatCompletions(config)


class EndpointBackend:
    """One model of one server, for all conversations of a run."""

    def __init__(
        self,
        name: str,
        config: RemoteConfig,
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
        self.api = api_of(config)
        self._client = self.api.open(key)
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
        """One request: the reply, or why there is none.

        A server may send nothing past the timeout. Such a request is left to end by itself and
        holds no slot.
        """
        seconds = self.config.timeout
        try:
            return call_unless_stopped(lambda: self._request(fields), self._stop, seconds)
        except TimeoutError:
            return Refusal(None, f"no whole reply within {seconds:g} s (`timeout`)")

    def _request(self, fields: dict[str, Any]) -> Reply | Refusal:
        """See `_answer`. Raises TimeoutError. Anything with status 200 that is no reply is retried
        like a 5xx.
        """
        sdk = self.api.sdk
        try:
            body = self.api.send(self._client, fields)
        except sdk.APIStatusError as error:
            return read_refusal(error.status_code, error.response.text, error.response.headers)
        except sdk.APITimeoutError as error:
            raise TimeoutError from error
        except (UnreadableReply, sdk.APIConnectionError) as error:
            cause = error.__cause__
            if isinstance(cause, TimeoutError):
                raise cause from error
            code = INVALID if UnreadableReply in (type(error), type(cause)) else ""
            # Masked before it is cut, since half a key would not be recognised.
            return Refusal(None, bounded(self._mask(f"{error} {cause or ''}")), code)
        try:
            return self.api.read(body)
        except ValueError as error:
            said = bounded(body) or "an empty body"
            wrong = f"the reply is no {self.api.name}: {said}; {bounded(str(error))}"
            return Refusal(None, wrong, INVALID)

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
        fields = backend.api.fields(messages, tools, sampling)
        reply = backend.complete(fields, self._log)
        usage, finish_reason = reply.tokens, reply.finish_reason
        dollars = backend.charge(usage)
        try:
            message = backend.api.message(reply, sampling, f"call_{len(messages)}_")
        except ValueError as error:
            raise InvalidReply(
                f"{backend.where} gave an invalid reply: {error}. "
                "What to do: check the server's tool-call parser"
            ) from error
        if finish_reason == "content_filter":
            raise ContentRefused(f"the reply was withheld by {backend.where}: content_filter")
        message, text_calls = _with_text_calls(backend.config, message, tools, len(messages))
        seconds = time.monotonic() - started
        return Completion(
            message,
            usage or Usage(),
            dollars,
            seconds,
            finish_reason,
            reply.served_model,
            text_calls,
        )


def _with_text_calls(
    config: RemoteConfig, message: Message, tools: Sequence[ToolSchema], index: int
) -> tuple[Message, int]:
    """The reply with the calls that its text holds, if they are to be read; and their number."""
    if not isinstance(config, ChatConfig) or not config.text_calls or message.tool_calls:
        return message, 0
    names = {tool["function"]["name"] for tool in tools}
    content, calls = parse_written(message.content, names, f"call_{index}_")
    return replace(message, content=content, tool_calls=calls), len(calls)


def _wait_seconds(refusal: Refusal, retry: int, retries: Retries) -> float:
    return max(_backoff(retry, retries) * random.uniform(0.5, 1.0), refusal.retry_after or 0.0)


def _longest_waits(refusal: Refusal, retries: Retries) -> float:
    """Seconds of all retries if a request is refused each time."""
    each = (_backoff(retry, retries) for retry in range(retries.max_retries))
    return sum(max(wait, refusal.retry_after or 0.0) for wait in each)


def _backoff(retry: int, retries: Retries) -> float:
    return min(retries.backoff_max, retries.backoff_base * 2.0**retry)
