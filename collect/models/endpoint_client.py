"""Talks to a model's server: address, key, bounded replies, model list, outages."""

from __future__ import annotations

import base64
import email.utils
import json
import logging
import math
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import openai
from pydantic import BaseModel, ValidationError

from collect.errors import ConfigError, EndpointDown, EndpointFailure, InvalidReply, RateLimited
from collect.models.base import Usage
from collect.models.config import OpenAIConfig, RemoteConfig, ResponsesConfig
from collect.models.tool_parsing import BROKEN
from collect.models.waiting import POLL_SECONDS, sleep_unless_stopped
from collect.quantities import duration
from sandbox.text import storable

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reply:
    """A reply whose message is not read yet."""

    tokens: Usage | None
    """None if the server reports none."""
    finish_reason: str
    """In the words of chat completions."""
    served_model: str | None
    raw: Mapping[str, Any]
    """What the message is read from."""


# Errors of a model's server: their cause, and whether to retry.


MESSAGE_LIMIT = 600
"""Characters of a server's message that are quoted in an error."""
TOO_MANY = 429
RETRIED_STATUSES = frozenset({408, 409, 425, TOO_MANY})
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
    429: "lower `concurrency`, or raise `retries.max_retries`",
}
BAD_REQUEST_ADVICE = "check `extra_body`, `max_tokens_field` and the sampling in the config"
SERVER_ADVICE = "check that the server runs and is reachable, then start the run again"


@dataclass(frozen=True)
class Refusal:
    """A request that the server did not answer with a completion."""

    status: int | None
    """None if there was no answer at all."""
    message: str
    code: str = ""
    retry_after: float | None = None
    """Seconds to wait, as asked by the server."""

    @property
    def retried(self) -> bool:
        """Whether the same request may succeed later."""
        if self.code in QUOTA_CODES:
            return False
        return self.status is None or self.status in RETRIED_STATUSES or self.status >= 500

    @property
    def passing(self) -> bool:
        """Whether the server is down or limits the rate, regardless of the client."""
        return self.failure in (EndpointDown, RateLimited)

    @property
    def context_exceeded(self) -> bool:
        """Whether the conversation is too long for the model."""
        text = self.message.lower()
        return self._bad_request and (
            self.code in CONTEXT_CODES or any(known in text for known in CONTEXT_TEXTS)
        )

    @property
    def content_refused(self) -> bool:
        """Whether the server rejects this content."""
        return self._bad_request and self.code.lower() in REFUSAL_CODES

    @property
    def failure(self) -> type[EndpointFailure]:
        """The failure's type if retries don't help."""
        if self.code in QUOTA_CODES:
            return EndpointFailure
        if self.status == TOO_MANY:
            return RateLimited
        if self.code == INVALID:
            return InvalidReply
        return EndpointDown if self.status is None or self.status >= 500 else EndpointFailure

    @property
    def advice(self) -> str:
        """What the user can do."""
        if self.code in QUOTA_CODES:
            return ADVICE[402]
        if self.status in ADVICE:
            return ADVICE[self.status]
        return BAD_REQUEST_ADVICE if self._bad_request else SERVER_ADVICE

    @property
    def _bad_request(self) -> bool:
        return self.status in (400, 413, 422)

    def __str__(self) -> str:
        status = "no answer" if self.status is None else f"HTTP {self.status}"
        return f"{status}: {self.message}"


def read_refusal(status: int, body: str, headers: Mapping[str, str]) -> Refusal:
    """Read an error response of any server."""
    error = _error_object(body)
    message = error.get("message") or error.get("detail") or body or "an empty body"
    code = error.get("code") or error.get("type") or ""
    return Refusal(status, bounded(str(message)), str(code), retry_after(headers))


def _error_object(body: str) -> dict[str, Any]:
    """OpenAI's {"error": {...}}, vLLM's older plain object, or {}."""
    try:
        decoded = json.loads(body)
    except BROKEN:
        return {}
    if not isinstance(decoded, dict):
        return {}
    inner = decoded.get("error", decoded)
    return inner if isinstance(inner, dict) else {"message": inner}


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The Retry-After header in seconds from now, given as a number or as a date (RFC 9110)."""
    value = headers.get("retry-after", "")
    try:
        if value.strip()[:1].isdigit():
            return float(value)
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def bounded(text: str) -> str:
    """One line of at most MESSAGE_LIMIT storable characters."""
    line = " ".join(storable(text).split())
    return line if len(line) <= MESSAGE_LIMIT else f"{line[:MESSAGE_LIMIT]} ..."


# Masks keys in everything that is read from a server, in their usual encodings.
#
# The bytes of a reply are masked before anything else reads them, so no message, tool call, error,
# log, journal or row contains a key. A malicious server can still hide one in other ways.


MASK = "[key]"
SHORTEST = 8
"""Characters of a key. A shorter one, such as `EMPTY` for a server without keys, may be an ordinary
word.
"""
Mask = Callable[[str], str]


def key_mask(keys: Iterable[str | None]) -> Mask:
    """Masks these keys in a text: plain, escaped for JSON or URLs, in hexadecimal, and in base64
    (also after a user name, as in HTTP Basic).
    """
    forms = [form for key in keys if key and len(key) >= SHORTEST for form in _forms(key)]
    if not forms:
        return str
    return partial(re.compile("|".join(forms)).sub, MASK)


def _forms(key: str) -> Iterable[str]:
    yield "".join(map(_escaped_or_not, key))
    data = key.encode("utf-8", "surrogateescape")
    yield f"(?i:{data.hex()})"
    for offset in range(3):
        # Base64 digits hold 6 bits each; the outermost may include bits of the neighbouring bytes.
        packed = base64.b64encode(bytes(offset) + data + bytes(2)).decode()
        first, last = -(-offset * 8 // 6), (offset + len(data)) * 8 // 6
        yield "".join(map(_digit, packed[first:last]))


def _escaped_or_not(character: str) -> str:
    """The character or its escape; backslashes may be doubled, and percent signs escaped, again."""
    code = "".join(f"%(?:25){{0,4}}{byte:02x}" for byte in character.encode("utf-8", "replace"))
    plain = f"\\\\{{0,8}}{re.escape(character)}" if character in '/"\\' else re.escape(character)
    return f"(?:{plain}|(?i:\\\\{{1,8}}u{ord(character):04x}|{code}))"


def _digit(digit: str) -> str:
    """A base64 digit in both alphabets."""
    alike = {"+": "+-", "/": "/_"}.get(digit, digit)
    return f"(?:{'|'.join(map(_escaped_or_not, alike))})"


CONNECT_SECONDS = 20.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")
MAX_REPLY_BYTES = 16 * 1024 * 1024
"""Uncompressed size. 128,000 tokens take about half a megabyte; parsed JSON from a malicious reply
can take twenty times its size.
"""
PIECE_BYTES = 64 * 1024
COMPRESSIONS = ("gzip", "deflate")
"""Encodings offered to the server."""
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class UnreadableReply(Exception):
    """A reply that can't be read, or not to its end."""


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


def open_client(config: OpenAIConfig | ResponsesConfig, key: str | None) -> openai.OpenAI:
    """Raises ConfigError if the address is malformed."""
    address = config.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    return openai.OpenAI(
        api_key=key or "none",
        **connection(config, address, key, openai.Timeout, openai.DefaultHttpxClient),
    )


def connection(
    config: RemoteConfig,
    address: str,
    key: str | None,
    timeout: Callable[..., Any],
    http_client: Callable[..., Any],
) -> dict[str, Any]:
    """The arguments of a vendor's client: address, time-outs, no retries, bounded replies. The last
    two parameters are its SDK's classes. Raises ConfigError if the address is malformed.
    """
    if not address.startswith(("http://", "https://")):
        raise ConfigError(
            f"model {config.model}: the base URL {address!r} does not begin with http:// or https://"
        )
    return {
        "base_url": address,
        "timeout": timeout(config.timeout, connect=min(CONNECT_SECONDS, config.timeout)),
        "max_retries": 0,
        "http_client": http_client(
            # A proxy from the environment can't reach servers on this machine.
            trust_env=urlsplit(address).hostname not in LOOPBACK,
            headers={"Accept-Encoding": ", ".join(COMPRESSIONS)},
            event_hooks={
                "request": [partial(_set_deadline, seconds=config.timeout)],
                "response": [partial(_read_bounded, mask=mask_of(address, key))],
            },
        ),
    }


def _set_deadline(request: Any, seconds: float) -> None:
    """A deadline for the whole reply; httpx's own timeout applies to each chunk."""
    request.extensions.setdefault("deadline", time.monotonic() + seconds)


def mask_of(address: str, key: str | None) -> Mask:
    """Masks the credentials that are sent to the server."""
    return key_mask((key, urlsplit(address).password))


def _read_bounded(response: Any, mask: Mask) -> None:
    """Read the reply first, to bound its size and time.

    `response` comes from the httpx that openai uses; there are two. Raises UnreadableReply,
    TimeoutError, which some versions of openai wrap in an APIConnectionError; the connection is
    then closed.
    """
    deadline, body = response.request.extensions["deadline"], bytearray()
    try:
        for piece in _decompressed(response.stream, response.headers.get("content-encoding", "")):
            body += piece
            if len(body) > MAX_REPLY_BYTES:
                raise UnreadableReply(f"the reply has more than {MAX_REPLY_BYTES} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError("the reply has not ended in time")
    finally:
        response.stream.close()
    said = mask(body.decode("utf-8", "replace")).encode()
    response.stream = type(response)(response.status_code, content=said).stream
    response.headers.pop("content-encoding", None)
    # JSON is UTF-8. A charset may name any Python codec, including those that decompress.
    response.headers.pop("content-type", None)


def _decompressed(stream: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Decompress in pieces, since a megabyte may hold gigabytes. Raises UnreadableReply."""
    if encoding.lower() in ("", "identity"):
        yield from stream
        return
    if encoding.lower() not in COMPRESSIONS:
        raise UnreadableReply(f"the reply's Content-Encoding was not asked for: {encoding[:80]!r}")
    inflater = zlib.decompressobj(GZIP_OR_ZLIB)
    for piece in stream:
        rest = piece
        while rest and not inflater.eof:
            try:
                yield inflater.decompress(rest, PIECE_BYTES)
            except zlib.error as error:
                raise UnreadableReply(f"the reply is no {encoding}: {error}") from error
            rest = inflater.unconsumed_tail
        yield b""  # so that the deadline is checked even if there is no output


class _Listed(BaseModel):
    id: str


class _Models(BaseModel):
    data: list[_Listed]


def list_models(config: OpenAIConfig) -> list[str]:
    """The models that a server lists. Raises ConfigError if it does not answer with a list."""
    with open_client(config, api_key(config)) as client:
        try:
            body = client.models.with_raw_response.list().http_response.text
            return [each.id for each in _Models.model_validate_json(body).data]
        except ValidationError:
            said, advice = f"its answer is no list of models: {bounded(body)}", SERVER_ADVICE
        except openai.APIStatusError as error:
            refusal = read_refusal(error.status_code, error.response.text, error.response.headers)
            said, advice = str(refusal), refusal.advice
        except (UnreadableReply, TimeoutError, openai.APIConnectionError) as error:
            mask = mask_of(config.base_url or "", api_key(config))
            said, advice = mask(f"{error} {error.__cause__ or ''}"), SERVER_ADVICE
    raise ConfigError(f"the server at {config.base_url} lists no models: {said}. {advice}")


# When a model's server is down, its requests wait together for its return.


FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds between two requests to a server that is down."""


class EndpointCircuitBreaker:
    """For one model in one process. Thread-safe.

    During an outage one request at a time is sent, after longer and longer waits, and all others
    wait for its result. The first answer ends the outage. After `patience` seconds, requests are
    sent and fail as without a breaker until one is answered.
    """

    def __init__(self, where: str, patience: float, stop: threading.Event) -> None:
        """`where` names the model and its server in messages."""
        self._where, self._patience, self._stop = where, patience, stop
        self._lock = threading.Lock()
        self._answered_at: float | None = None
        self._ended_at = -math.inf
        self._began_at: float | None = None
        """None if there is no outage."""
        self._wait = self._next_at = 0.0
        self._asking: int | None = None
        """The thread whose request is being sent during an outage."""

    @contextmanager
    def passage(self) -> Iterator[None]:
        """Held while a request is sent. Raises RolloutStopped during the wait."""
        while not self._may_pass():
            sleep_unless_stopped(POLL_SECONDS, self._stop)
        try:
            yield
        finally:
            with self._lock:
                if self._asking == threading.get_ident():
                    self._asking = None

    def answered(self) -> None:
        """Record that the server answered."""
        with self._lock:
            self._answered_at = time.monotonic()
            began_at, self._began_at = self._began_at, None
            if began_at is not None:
                self._ended_at = self._answered_at
        if began_at is not None:
            logger.info(
                f"{self._where} is back in service, after {duration(time.monotonic() - began_at)}"
            )

    def refused(self, refusal: Refusal) -> None:
        """Record that the server refused a request for now or did not answer."""
        with self._lock:
            if self._asking == threading.get_ident():
                self._wait = min(2 * self._wait, LONGEST_WAIT)
                self._next_at = time.monotonic() + max(self._wait, shortened(refusal.retry_after))

    def ended_since(self, moment: float) -> bool:
        """Whether an outage has ended since a moment of the monotonic clock."""
        with self._lock:
            return self._ended_at > moment

    def covers(self, refusal: Refusal, said: str, sent_at: float, refused_at: float) -> bool:
        """Whether to resend a request that has used up its retries.

        True if the server has answered nobody since `refused_at`, when this request was last
        refused, but answered before: an address that never worked is no outage. If it answers
        others, a rate limit may let this request pass within `patience` seconds after `sent_at`.
        """
        now = time.monotonic()
        too_long = (refusal.retry_after or 0.0) >= self._patience
        with self._lock:
            if not refusal.passing or self._answered_at is None or too_long:
                return False
            if self._began_at is not None:
                return not self._is_over_long(now)
            if self._answered_at > refused_at:
                return refusal.failure is RateLimited and now < sent_at + self._patience
            self._began_at, self._wait = now, FIRST_WAIT
            self._next_at = now + max(FIRST_WAIT, shortened(refusal.retry_after))
        longest = duration(self._patience)
        logger.warning(
            f"{self._where} is out of service: {said}; its requests wait, for {longest} at most "
            "(retries.outage_wait)"
        )
        return True

    def _may_pass(self) -> bool:
        now = time.monotonic()
        with self._lock:
            if self._began_at is None or self._is_over_long(now):
                return True
            if self._asking is not None or now < self._next_at:
                return False
            self._asking = threading.get_ident()
            return True

    def _is_over_long(self, now: float) -> bool:
        return self._began_at is not None and now >= self._began_at + self._patience


def shortened(wait: float | None) -> float:
    """The seconds that a server asks for, shortened during an outage since it may end sooner."""
    return min(wait or 0.0, LONGEST_WAIT)
