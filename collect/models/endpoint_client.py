"""To a server of chat completions: its address, its key, and which models it has."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import openai

from collect.errors import ConfigError
from collect.models.config import OpenAIConfig
from collect.models.endpoint_errors import SERVER_ADVICE, read_refusal

CONNECT_SECONDS = 20.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
        http_client=openai.DefaultHttpxClient(trust_env=by_proxy),
    )


def list_models(config: OpenAIConfig) -> list[str]:
    """The models that a server says it has. Raises ConfigError where it does not say."""
    with open_client(config, api_key(config)) as client:
        try:
            return [each.id for each in client.models.list()]
        except openai.APIStatusError as error:
            refusal = read_refusal(error.status_code, error.response.text, error.response.headers)
            said, advice = str(refusal), refusal.advice
        except openai.APIConnectionError as error:
            said, advice = f"{error} {error.__cause__ or ''}", SERVER_ADVICE
    raise ConfigError(f"the server at {config.base_url} lists no models: {said}. {advice}")
