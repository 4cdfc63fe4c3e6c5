"""What a chat-completions server's refusals mean: who is to blame, and whether to try again."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collect.errors import EndpointDown, EndpointFailure, InvalidReply, RateLimited
from collect.models.tool_parsing import BROKEN
from sandbox.text import storable

MESSAGE_LIMIT = 600
"""Characters of a server's message that an error quotes."""
TOO_MANY = 429
RETRIED_STATUSES = frozenset({408, 409, 425, TOO_MANY})
INVALID = "invalid_reply"
"""The code of a response with status 200 that is none."""
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
    """One request that a server did not answer with a completion."""

    status: int | None
    """None: no answer at all."""
    message: str
    code: str = ""
    retry_after: float | None = None
    """Seconds that the server asks to wait."""

    @property
    def retried(self) -> bool:
        """Whether the same request may succeed later."""
        if self.code in QUOTA_CODES:
            return False
        return self.status is None or self.status in RETRIED_STATUSES or self.status >= 500

    @property
    def passing(self) -> bool:
        """Whether it is the server that is out of order, or limits the rate, whoever asks."""
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
        """Whether the server does not want this content."""
        return self._bad_request and self.code.lower() in REFUSAL_CODES

    @property
    def failure(self) -> type[EndpointFailure]:
        """What it is, where it stays."""
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
    """Read an error response of whatever server."""
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
