"""What all models behind a server share: the API's form, bounded replies, masked keys."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from collect.errors import ConfigError, first_wrong_field
from collect.models.base import Sampling, Tokens, Usage
from collect.models.config import RemoteConfig
from collect.models.event_streams import LAST_EVENT, is_stream, joined
from collect.models.finish_reasons import MALFORMED_CALL, finish_reason
from collect.store.messages import BROKEN, Message, ReplyTokens, ToolSchema

Config = TypeVar("Config", bound=RemoteConfig)


def _whole(count: Any) -> Any:
    return math.ceil(count) if isinstance(count, float) and math.isfinite(count) else count


Count = Annotated[Tokens, BeforeValidator(_whole)]
"""Tokens as a server counts them; some send floats."""


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
    def ended(self) -> str | None:
        """Why it ended, in the server's word."""
        raise NotImplementedError

    @property
    def finish_reason(self) -> str | None:
        """Why it ended, in a word of `collect.models.finish_reasons`; None if it broke off."""
        return finish_reason(self.ended)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it, not even a token that ends it."""
        return False

    def message(self, sampling: Sampling, id_prefix: str) -> Message:
        """The reply's message, with the raw arguments. Raises ValueError.

        `id_prefix` makes ids for calls without one.
        """
        raise NotImplementedError

    @property
    def sampled(self) -> ReplyTokens | None:
        """The reply in tokens, with its whole prompt; None if they did not all come."""
        return None


class MalformedCall(Reply):
    """Stands for the reply of a server that answers a call of the model's with an error, since it
    can't read it.
    """

    generated: str
    """What the model wrote, if the server quotes it."""

    @property
    def tokens(self) -> Usage:
        return Usage()

    @property
    def ended(self) -> str:
        return MALFORMED_CALL

    def message(self, sampling: Sampling, id_prefix: str) -> Message:
        return Message("assistant", self.generated)


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
    streaming: Mapping[str, Any] = {"stream": True}
    """The fields that ask for a stream."""

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

    def read(self, plain: Any) -> Reply:
        """A reply from its JSON. Raises ValueError with the reason if it is none."""
        try:
            return self.reply.model_validate(plain)
        except ValidationError as error:
            raise ValueError(first_wrong_field(error, self.reply)) from error


def decoded(body: str) -> Any:
    """A body's JSON; of a stream, what it adds up to. Raises ValueError if it has none."""
    try:
        if is_stream(body):
            return joined(body)
        # Some gateways end the whole object of a server as they would end a stream.
        return json.loads(body.rstrip().removesuffix(LAST_EVENT))
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
