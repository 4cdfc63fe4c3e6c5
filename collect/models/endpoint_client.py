"""What all models behind a server share: the API's form, bounded replies, masked keys."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.errors import (
    ConfigError,
    ContentRefused,
    ContextTooLong,
    EndpointDown,
    EndpointFailure,
    InvalidReply,
    RateLimited,
    RolloutError,
    first_wrong_field,
)
from collect.models.base import Sampling, Usage
from collect.models.config import RemoteConfig
from collect.store.messages import BROKEN, Message, ReplyTokens, ToolSchema
from sandbox.text import storable

Config = TypeVar("Config", bound=RemoteConfig)


class Part(BaseModel):
    """Part of a reply; a server may add fields."""

    model_config = ConfigDict(strict=True, frozen=True)


class Reply(Part):
    """A reply whose message is not read yet."""

    model: Any = None
    """The server's own name for the model."""

    @property
    def tokens(self) -> Usage | None:
        """None if the server reports none."""
        raise NotImplementedError

    @property
    def finish_reason(self) -> str:
        """In the words of chat completions."""
        raise NotImplementedError

    def message(self, sampling: Sampling, id_prefix: str) -> Message:
        """The reply's message, with the raw arguments. Raises ValueError.

        `id_prefix` makes ids for calls without one.
        """
        raise NotImplementedError

    @property
    def sampled(self) -> ReplyTokens | None:
        """The reply in tokens, with its whole prompt; None if they did not all come."""
        return None


class Api(ABC, Generic[Config]):
    """One vendor's API: how a conversation is sent, and a reply read."""

    name: str
    """What a reply is called in errors."""
    reply: type[Reply]
    sdk: Any
    """The vendor's package, with `APIStatusError`, `APITimeoutError` and `APIConnectionError`."""
    client: Any
    """The class of its clients."""
    requests: Callable[[Any], Any]
    """The part of a client that has `create`."""
    address_variable = "OPENAI_BASE_URL"
    default_address = "https://api.openai.com/v1"

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def fields(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> dict[str, Any]:
        """The fields of one request; what is None is left to the server."""

    def open(self, key: str | None) -> Any:
        """The client, which does not retry and bounds replies. Raises ConfigError if the address is
        malformed.
        """
        config = self.config
        address = config.base_url or os.environ.get(self.address_variable) or self.default_address
        if not address.startswith(("http://", "https://")):
            raise ConfigError(
                f"model {config.model}: the base URL {address!r} does not begin with http:// or "
                "https://"
            )

        def set_deadline(request: Any) -> None:
            """For the whole reply; httpx's own timeout applies to each chunk."""
            request.extensions.setdefault("deadline", time.monotonic() + config.timeout)

        connect = min(CONNECT_SECONDS, config.timeout)
        return self.client(
            api_key=key or "none",
            base_url=address,
            timeout=self.sdk.Timeout(config.timeout, connect=connect),
            max_retries=0,
            http_client=self._http_client(
                # A proxy from the environment can't reach servers on this machine.
                trust_env=not is_loopback(urlsplit(address).hostname or ""),
                headers={"Accept-Encoding": "identity"},
                # Kept cookies would make each request longer.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                event_hooks={
                    "request": [set_deadline],
                    "response": [
                        _refuse_other_server,
                        partial(_read_bounded, mask=mask_of(address, key)),
                    ],
                },
            ),
        )

    def _http_client(self, **options: Any) -> Any:
        try:
            return self.sdk.DefaultHttpxClient(**options)
        except Exception as error:  # httpx has no class for them all
            raise ConfigError(
                f"model {self.config.model}: the environment's proxy can't be used: {error}. "
                "Correct HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, or unset them"
            ) from error

    def read(self, body: str) -> Reply:
        """Raises ValueError with the reason if it is no reply."""
        try:
            return self.reply.model_validate(json.loads(body))
        except ValidationError as error:
            raise ValueError(first_wrong_field(error, self.reply)) from error
        except BROKEN as error:
            raise ValueError(f"not JSON ({error})") from error


CONNECT_SECONDS = 20.0


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


MAX_REPLY_BYTES = 16 * 1024 * 1024
"""128,000 tokens take about half a megabyte; parsed JSON from a malicious reply can take twenty
times its size.
"""


class UnreadableReply(Exception):
    """A reply that can't be read, or not to its end."""


class RedirectRefused(Exception):
    """The server sends requests on to another one."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _refuse_other_server(response: Any) -> None:
    """Raise RedirectRefused if the request, with prompts and code, would go to another server."""
    if response.has_redirect_location:
        asked, location = response.request.url, response.headers["location"]
        try:
            there = asked.join(location)
        except Exception as error:  # two versions of httpx have a class of their own
            response.stream.close()
            raise UnreadableReply(f"it sends requests on to no address: {error}") from error
        servers = [f"{url.scheme}://{url.netloc.decode()}" for url in (asked, there)]
        if servers[0] != servers[1]:
            response.stream.close()
            raise RedirectRefused(
                response.status_code,
                f"{servers[0]} sends requests on to {servers[1]}, which would get what they hold",
            )


def api_key(config: RemoteConfig) -> str | None:
    """The key from its environment variable. Raises ConfigError if the variable is empty."""
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env)
    if not key:
        raise ConfigError(
            f"model {config.model}: the environment variable {config.api_key_env} holds no key; "
            "set it, or write `api_key_env: null` for a server that needs none"
        )
    return key


def _read_bounded(response: Any, mask: Mask) -> None:
    """Read the reply first, to bound its size and time.

    `response` comes from the httpx that openai uses; there are two. Raises UnreadableReply,
    TimeoutError, which some versions of openai wrap in an APIConnectionError; the connection is
    then closed.
    """
    deadline, body = response.request.extensions["deadline"], bytearray()
    encoding = response.headers.pop("content-encoding", "identity")
    try:
        if encoding.lower() not in ("", "identity"):  # a megabyte may hold gigabytes
            raise UnreadableReply(
                f"the reply's Content-Encoding was not asked for: {encoding[:80]!r}"
            )
        for piece in response.stream:
            body += piece
            if len(body) > MAX_REPLY_BYTES:
                raise UnreadableReply(f"the reply has more than {MAX_REPLY_BYTES} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError("the reply has not ended in time")
    finally:
        response.stream.close()
    said = mask(body.decode("utf-8", "replace")).encode()
    response.stream = type(response)(response.status_code, content=said).stream
    # JSON is UTF-8. A charset may name any Python codec, including those that decompress.
    response.headers.pop("content-type", None)


# Errors of a model's server: their cause, and whether to retry.


MESSAGE_LIMIT = 600
"""Characters of a server's message that are quoted in an error."""
TOO_MANY = 429
RETRIED_STATUSES = frozenset({408, 409, 425, TOO_MANY})
BAD_REQUESTS = frozenset({400, 413, 422})
INVALID = "invalid_reply"
"""Code for a response with status 200 that is no reply."""
QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
CONTEXT_TEXTS = (
    "maximum context length",  # OpenAI, vLLM, SGLang, Mistral
    "longer than the maximum model length",  # vLLM
    "longer than the model's context length",  # SGLang
    "prompt is too long",  # Anthropic
    "exceed context limit",  # Anthropic, with max_tokens counted
    "exceeds the available context size",  # llama.cpp
    "input token count",  # Gemini
    "`max_new_tokens` must be <=",  # text-generation-inference
    "context window",
)
REFUSAL_CODES = frozenset(
    {"content_filter", "content_policy_violation", "invalid_prompt", "responsibleaipolicyviolation"}
)
ADVICE = {
    401: "check the key in the environment variable that `api_key_env` names",
    402: "the account has no credit",
    403: "the key may not use this model; ask its owner, or choose another model",
    404: "check `model` and `base_url` (which usually ends in /v1)",
    **dict.fromkeys(
        BAD_REQUESTS, "check `extra_body`, `max_tokens_field` and the sampling in the config"
    ),
    **dict.fromkeys(
        (301, 302, 303, 307, 308), "name that server in `base_url`, if it is the one that you mean"
    ),
    429: "lower `concurrency`, or raise `retries.max_retries`",
}
SERVER_ADVICE = "check that the server runs and is reachable, then start the run again"


@dataclass(frozen=True)
class Refusal:
    """A request that the server did not answer with a completion."""

    status: int | None
    """None if there was no answer at all."""
    message: str
    code: str = ""
    retry_after: float = 0.0
    """Seconds to wait, as asked by the server."""

    @property
    def retried(self) -> bool:
        """Whether the same request may succeed later."""
        if self.code in QUOTA_CODES:
            return False
        return self.status is None or self.status in RETRIED_STATUSES or self.status >= 500

    @property
    def failure(self) -> type[RolloutError]:
        """What it is if retries don't help."""
        if self.code in QUOTA_CODES:
            return EndpointFailure
        if self.status in BAD_REQUESTS:
            text = self.message.lower()
            if self.code in CONTEXT_CODES or any(known in text for known in CONTEXT_TEXTS):
                return ContextTooLong
            return ContentRefused if self.code.lower() in REFUSAL_CODES else EndpointFailure
        if self.status == TOO_MANY:
            return RateLimited
        if self.code == INVALID:
            return InvalidReply
        return EndpointDown if self.status is None or self.status >= 500 else EndpointFailure

    @property
    def advice(self) -> str:
        """What the user can do."""
        status = 402 if self.code in QUOTA_CODES else self.status
        return ADVICE.get(status or 0, SERVER_ADVICE)

    def __str__(self) -> str:
        status = "no answer" if self.status is None else f"HTTP {self.status}"
        return f"{status}: {self.message}"


def read_refusal(status: int, body: str, headers: Mapping[str, str]) -> Refusal:
    """Read an error response of any server: OpenAI's {"error": {...}}, vLLM's older plain object,
    or any text.
    """
    try:
        decoded = json.loads(body)
    except BROKEN:
        decoded = None
    error = decoded.get("error", decoded) if isinstance(decoded, dict) else {}
    if not isinstance(error, dict):
        error = {"message": error}
    message = error.get("message") or error.get("detail") or body or "an empty body"
    code = error.get("code") or error.get("type") or ""
    try:
        retry_after = float(headers.get("retry-after", ""))
    except ValueError:  # there is none, or a date
        retry_after = 0.0
    return Refusal(status, bounded(str(message)), bounded(str(code)), max(0.0, retry_after))


def bounded(text: str) -> str:
    """One line of at most MESSAGE_LIMIT storable characters."""
    line = " ".join(storable(text).split())
    return line if len(line) <= MESSAGE_LIMIT else f"{line[:MESSAGE_LIMIT]} ..."


# The bytes of a reply are masked before anything else reads them, so no message, tool call, error,
# log, journal or row contains a key. A malicious server can still hide one.


MASK = "[key]"
SHORTEST = 8
"""Characters of a key. A shorter one, such as `EMPTY` for a server without keys, may be an ordinary
word.
"""
Mask = Callable[[str], str]


def mask_of(address: str, key: str | None) -> Mask:
    """Masks the credentials that are sent to the server: as they are, and with any characters
    escaped for JSON (also twice) or URLs."""
    secrets = (each for each in (key, urlsplit(address).password) if each)
    forms = ["".join(map(_forms_of, each)) for each in secrets if len(each) >= SHORTEST]
    return partial(re.compile("|".join(forms)).sub, MASK) if forms else str


def _forms_of(character: str) -> str:
    """A pattern for one character, plain or escaped. It reads four backslashes at most, since
    reading all of a million from each of them would never end."""
    plain, units = re.escape(character), character.encode("utf-16-be", "surrogatepass").hex()
    points = "".join(rf"\\{{1,4}}u{units[at : at + 4]}" for at in range(0, len(units), 4))
    url = "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    return rf"(?:\\{{0,4}}{plain}|(?i:{points}|{url}))"
