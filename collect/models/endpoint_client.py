"""To a server of chat completions: its address, its key, its bounded replies, and its models."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import openai
from pydantic import BaseModel, ValidationError

from collect.errors import ConfigError
from collect.models.config import OpenAIConfig
from collect.models.endpoint_errors import SERVER_ADVICE, bounded, read_refusal
from collect.models.key_masking import Mask, key_mask

CONNECT_SECONDS = 20.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")
MAX_REPLY_BYTES = 16 * 1024 * 1024
"""Of a reply without its compression. 128,000 tokens take about half a megabyte; read as JSON, a
hostile reply takes some twenty times its bytes."""
PIECE_BYTES = 64 * 1024
COMPRESSIONS = ("gzip", "deflate")
"""Those that a server is offered."""
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class UnreadableReply(Exception):
    """A reply whose bytes are not read, or not further."""


def api_key(config: OpenAIConfig) -> str | None:
    """The key of its environment variable. Raises ConfigError where that holds none."""
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env)
    if not key:
        raise ConfigError(
            f"model {config.model}: the environment variable {config.api_key_env} holds no key; "
            "set it, or write `api_key_env: null` for a server that needs none"
        )
    return key


def open_client(config: OpenAIConfig, key: str | None) -> openai.OpenAI:
    """Raises ConfigError where the address is malformed."""
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
        http_client=openai.DefaultHttpxClient(
            trust_env=by_proxy,
            headers={"Accept-Encoding": ", ".join(COMPRESSIONS)},
            event_hooks={
                "request": [partial(_set_deadline, seconds=config.timeout)],
                "response": [partial(_read_bounded, mask=mask_of(address, key))],
            },
        ),
    )


def _set_deadline(request: Any, seconds: float) -> None:
    """Of the whole reply; httpx's own time-out is for each piece of it."""
    request.extensions.setdefault("deadline", time.monotonic() + seconds)


def mask_of(address: str, key: str | None) -> Mask:
    """What masks all that a server was sent to know its user by."""
    return key_mask((key, urlsplit(address).password))


def _read_bounded(response: Any, mask: Mask) -> None:
    """Read a reply before anyone else does, so that neither its size nor its time is without end.

    `response` is that of the httpx which openai uses, of which there are two. Raises
    UnreadableReply, TimeoutError, which some versions of openai hide in an APIConnectionError; the
    connection is closed then.
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
    # JSON is UTF-8. A charset can name any codec of Python's, those that decompress among them.
    response.headers.pop("content-type", None)


def _decompressed(stream: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Piece by piece: a megabyte may hold gigabytes. Raises UnreadableReply."""
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
        yield b""  # so that the time is looked at also where nothing comes of it


class _Listed(BaseModel):
    id: str


class _Models(BaseModel):
    data: list[_Listed]


def list_models(config: OpenAIConfig) -> list[str]:
    """The models that a server says it has. Raises ConfigError where it does not say."""
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
