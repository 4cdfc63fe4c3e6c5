"""Models behind an OpenAI-compatible server: a vendor's, vLLM, SGLang, llama.cpp ..."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import openai

from collect.errors import (
    ConfigError,
    ContentRefused,
    ContextTooLong,
    EndpointFailure,
    InvalidReply,
)
from collect.messages import Message, ToolSchema
from collect.models.base import Completion, ConversationContext, Sampling, Usage
from collect.models.budget import Limits
from collect.models.config import OpenAIConfig, Retries
from collect.models.endpoint_errors import INVALID, SERVER_ADVICE, Refusal, bounded, read_refusal
from collect.models.endpoint_wire import read_message, read_usage, request_fields
from collect.models.waiting import (
    call_unless_stopped,
    sleep_unless_stopped,
    slot_unless_stopped,
)
from collect.watching.rollout_log import NO_LOG, RolloutLog

CONNECT_SECONDS = 20.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
        """Raises ConfigError where the key or the address is missing or malformed.

        `ready` is called before each request, and returns or raises once it may be sent.
        """
        self._name = name
        self.config = config
        self._limits = limits
        self._stop = stop
        self._ready = ready
        self._key = _key(config)
        self._client = _client(config, self._key)
        self._slots = limits.slots(name, config.concurrency)

    @property
    def name(self) -> str:
        """The model's name in the config."""
        return self._name

    def open(self, context: ConversationContext) -> EndpointModel:
        """The same for every conversation: the server keeps no state."""
        return EndpointModel(self, context.log)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def complete(self, fields: dict[str, Any], log: RolloutLog) -> dict[str, Any]:
        """Send one request until it is answered. Raises like `Model.complete`."""
        retries = self.config.retries
        for retry in range(retries.max_retries + 1):
            with slot_unless_stopped(self._slots, self._stop):
                self._ready()
                if not self.config.prices.free:
                    self._limits.check()
                answer = self._answer(fields)
            if not isinstance(answer, Refusal):
                return answer
            self._raise_if_final(answer, retry)
            wait = _wait_seconds(answer, retry, retries)
            log.note("retried", why=self._said(answer), wait=wait)
            sleep_unless_stopped(wait, self._stop)
        raise AssertionError("unreachable: the last refusal is final")

    def charge(self, usage: Usage | None) -> float:
        """Count a reply's dollars in the budget."""
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
        """The model and its server, for error messages: no password of the address in them."""
        address = self._client.base_url.copy_with(userinfo=b"")
        return f"model {self.config.model} at {address}"

    def _answer(self, fields: dict[str, Any]) -> dict[str, Any] | Refusal:
        """One request: the reply's JSON, or why there is none.

        The client's own time-out is for each piece of a reply, and a server whose model hangs may
        send blanks for ever.
        """
        seconds = self.config.timeout
        try:
            return call_unless_stopped(lambda: self._request(fields), self._stop, seconds)
        except TimeoutError:
            return Refusal(None, f"no whole reply within {seconds:g} s (`timeout`)")

    def _request(self, fields: dict[str, Any]) -> dict[str, Any] | Refusal:
        """See `_answer`. Raises TimeoutError."""
        try:
            raw = self._client.chat.completions.with_raw_response.create(
                **fields, extra_body=self.config.extra_body or None
            )
        except openai.APIStatusError as error:
            return read_refusal(error.status_code, error.response.text, error.response.headers)
        except openai.APITimeoutError as error:
            raise TimeoutError from error
        except openai.APIConnectionError as error:
            return Refusal(None, bounded(f"{error} {error.__cause__ or ''}"))
        return _read_reply(raw.http_response.text)

    def _raise_if_final(self, refusal: Refusal, retry: int) -> None:
        retries, said = self.config.retries, self._said(refusal)
        if refusal.context_exceeded:
            raise ContextTooLong(f"the context is too long for {self.where}: {said}")
        if refusal.content_refused:
            raise ContentRefused(f"the content was refused by {self.where}: {said}")
        too_long = (refusal.retry_after or 0) > retries.retry_after_max
        if refusal.retried and not too_long and retry < retries.max_retries:
            return
        asked = f" It asks to wait {refusal.retry_after:.0f} s." if too_long else ""
        tried = f" after {retry + 1} requests" if retry else ""
        raise refusal.failure(
            f"{self.where} failed{tried}: {said}.{asked} What to do: {refusal.advice}"
        )

    def _said(self, refusal: Refusal) -> str:
        """What the server said, without the key."""
        said = str(refusal)
        return said.replace(self._key, "[key]") if self._key else said


class EndpointModel:
    """A conversation with a server that keeps no state."""

    def __init__(self, backend: EndpointBackend, log: RolloutLog = NO_LOG) -> None:
        self._backend, self._log = backend, log

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """See `collect.models.base.Model`. `seconds` includes retries and the wait for a slot."""
        backend = self._backend
        started = time.monotonic()
        fields = request_fields(backend.config, messages, tools, sampling)
        reply = backend.complete(fields, self._log)
        usage = read_usage(reply.get("usage"))
        dollars = backend.charge(usage)
        choice = reply["choices"][0]
        finish_reason = str(choice.get("finish_reason") or "stop")
        try:
            message = read_message(choice["message"], f"call_{len(messages)}_")
        except ValueError as error:
            raise InvalidReply(
                f"{backend.where} gave an invalid reply: {error}. "
                "What to do: check the server's tool-call parser"
            ) from error
        if finish_reason == "content_filter":
            raise ContentRefused(f"the reply was withheld by {backend.where}: content_filter")
        seconds = time.monotonic() - started
        return Completion(message, usage or Usage(), dollars, seconds, finish_reason)


def list_models(config: OpenAIConfig) -> list[str]:
    """The models that a server says it has. Raises ConfigError where it does not say."""
    with _client(config, _key(config)) as client:
        try:
            return [each.id for each in client.models.list()]
        except openai.APIStatusError as error:
            refusal = read_refusal(error.status_code, error.response.text, error.response.headers)
            said, advice = str(refusal), refusal.advice
        except openai.APIConnectionError as error:
            said, advice = f"{error} {error.__cause__ or ''}", SERVER_ADVICE
    raise ConfigError(f"the server at {config.base_url} lists no models: {said}. {advice}")


def _read_reply(body: str) -> dict[str, Any] | Refusal:
    """The JSON of a chat completion; anything else with status 200 is tried again like a 5xx."""
    try:
        reply = json.loads(body)
        dict(reply["choices"][0]["message"])
    except (ValueError, LookupError, TypeError):
        said = bounded(body) or "an empty body"
        return Refusal(None, f"the reply is no chat completion: {said}", INVALID)
    return dict(reply)


def _wait_seconds(refusal: Refusal, retry: int, retries: Retries) -> float:
    backoff = min(retries.backoff_max, retries.backoff_base * 2.0**retry)
    return max(backoff * random.uniform(0.5, 1.0), refusal.retry_after or 0.0)


def _key(config: OpenAIConfig) -> str | None:
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env)
    if not key:
        raise ConfigError(
            f"model {config.model}: the environment variable {config.api_key_env} holds no key; "
            "set it, or write `api_key_env: null` for a server that needs none"
        )
    return key


def _client(config: OpenAIConfig, key: str | None) -> openai.OpenAI:
    address = config.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    if not address.startswith(("http://", "https://")):
        raise ConfigError(
            f"model {config.model}: the base URL {address!r} does not begin with http:// or https://"
        )
    timeout = openai.Timeout(config.timeout, connect=min(CONNECT_SECONDS, config.timeout))
    # A proxy that the environment names does not lead to this machine's own servers.
    by_proxy = urlsplit(address).hostname not in LOOPBACK
    return openai.OpenAI(
        api_key=key or "none",
        base_url=address,
        timeout=timeout,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(trust_env=by_proxy),
    )
