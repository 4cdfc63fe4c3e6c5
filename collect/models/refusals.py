"""What it means if a server refuses a request: the cause, and whether to send it again."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any

from collect.errors import (
    ContentRefused,
    ContextTooLong,
    EndpointDown,
    EndpointFailure,
    InvalidReply,
    RateLimited,
    RequestRefused,
    RolloutError,
)
from collect.models.base import Usage
from collect.store.messages import BROKEN
from sandbox.text import storable

MESSAGE_LIMIT = 600
"""Characters of a server's message that are quoted in an error."""
READ_LIMIT = 5_000
"""Characters of a server's message that are searched for what it means."""
TOO_LARGE = 413
TOO_MANY = 429
RETRIED_STATUSES = frozenset({408, 409, 425, TOO_MANY})
BAD_REQUESTS = frozenset({400, TOO_LARGE, 422})
ABOUT_THE_ACCOUNT = frozenset({401, 402, 403, 404})
INVALID = "invalid_reply"
"""Code for a response with status 200 that is no reply."""
UNREACHABLE = "unreachable"
"""Code for a connection that was refused, or an address that is none."""
ADVICE = {
    401: "check the key in the environment variable that `api_key_env` names",
    402: "the account has no credit",
    403: "the key may not use this model; ask its owner, or choose another model",
    404: "check `model` and `base_url` (which usually ends in /v1)",
    **dict.fromkeys(
        BAD_REQUESTS,
        "check `extra_body`, `max_tokens_field` and the sampling in the config; `stream: true` is "
        "for servers that answer in no other way",
    ),
    **dict.fromkeys(
        (301, 302, 303, 307, 308), "name that server in `base_url`, if it is the one that you mean"
    ),
    429: "lower `concurrency`, or raise `retries.max_retries`",
}
SERVER_ADVICE = "check that the server runs and is reachable, then start the run again"


class Cause(Enum):
    """Why a server refuses a request, beyond its status."""

    FULL_CONTEXT = auto()
    """The conversation is too long."""
    MALFORMED_CALL = auto()
    """The model wrote a call that the server can't read."""
    TOOL_CHOICE = auto()
    """The server does not take this `tool_choice`."""
    CONTENT = auto()
    QUOTA = auto()
    OTHER = auto()


FAILURES: Mapping[Cause, type[RolloutError]] = {
    Cause.FULL_CONTEXT: ContextTooLong,
    Cause.CONTENT: ContentRefused,
    Cause.QUOTA: EndpointFailure,
}
CODES: Mapping[str, Cause] = {
    **dict.fromkeys(
        (
            "context_length_exceeded",
            "context_window_exceeded",
            "exceed_context_size_error",
            "model_context_window_exceeded",
            "tokens_limit_reached",
            "request_too_large",
            "prompt_too_long",
            "input_too_long",
            "contextwindowexceedederror",
            "1261",
        ),
        Cause.FULL_CONTEXT,
    ),
    **dict.fromkeys(("tool_use_failed", "output_parse_failed"), Cause.MALFORMED_CALL),
    **dict.fromkeys(
        (
            "content_filter",
            "content_policy_violation",
            "invalid_prompt",
            "responsibleaipolicyviolation",
            "data_inspection_failed",
        ),
        Cause.CONTENT,
    ),
    **dict.fromkeys(
        (
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "exceeded_current_quota_error",
            "insufficient_balance",
            "arrearage",
        ),
        Cause.QUOTA,
    ),
}
"""What servers' codes and types of errors mean, in lower case."""

FULL = re.compile(
    "|".join(
        (
            r"\bcontext.{0,12}(length|window|size|limit|overflow)",
            r"\b(prompts?|inputs?|messages?|conversation|requests?|sequence|payload|tokens)\b.{0,60}"
            r"\b(too (long|large|big|many)|exceed|longer than|greater than|larger than|beyond)",
            r"\bmax(imum)? (allowed |supported )?(prompt|input|sequence|model|total)\w* "
            r"(length|size|tokens?)",
            r"\binput length should be",
            r"`inputs` (tokens \+|must have)",
            r"too many (input |prompt |total )?tokens",
            r"\btokens? limit|\blimit of \d+ (input |prompt )?tokens",
            r"\breduce (the |your )?(length|size|number|amount|messages?|prompt|input)",
            r"\btrying to keep the first \d+ tokens",
            # What is left for the reply, computed from the context: `max_tokens must be ... -5`.
            r"max_\w*tokens\b.{0,60}-\d",
            r"超长|上下文|长度.{0,10}超|超[过出].{0,20}(长度|上限|限制)",
        )
    )
)
NOT_FULL = re.compile(
    r"string too long|array too long|(?<!request )\bid\b|call_?id|(?<!model )\bnames?\b|\btools?\[|"
    r"per (minute|day|second)|rate.?limit|too many requests|concurren|\bqueue|\bretries\b|"
    r"deadline|time-?out|timed out"
)
"""What else is too long, or too many: ids, names, requests, seconds."""
TOO_LARGE_ALONE = re.compile(r"request (is )?too large|reduce (the |your )?(message|prompt|input)")
"""A rate limit that one request exceeds, so that waiting does not help."""
MALFORMED = re.compile(
    r"(fail\w*|errors?|unable|could not|cannot|invalid).{0,20}pars\w*.{0,30}"
    r"(tool.?call|function.?call|model output|generated|input at pos)|failed to call a function|"
    r"tool.?call validation failed|generated.{0,40}could not be parsed"
)
STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": TOO_LARGE,
    "rate_limit_error": TOO_MANY,
    "rate_limit_exceeded": TOO_MANY,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
}
"""The statuses that errors without one would have had."""


@dataclass(frozen=True)
class Refusal:
    """A request that the server did not answer with a whole reply."""

    status: int | None
    """None if there was no answer at all."""
    message: str
    code: str = ""
    retry_after: float = 0.0
    """Seconds to wait, as asked by the server."""
    cause: Cause = Cause.OTHER
    generated: str = ""
    """What the model wrote, as the server quotes it."""
    tokens: Usage | None = None
    """Of a reply that broke off, if the server reports them."""

    @property
    def retried(self) -> bool:
        """Whether the same request may succeed later."""
        if self.cause is not Cause.OTHER:
            return False
        return self.status is None or self.status in RETRIED_STATUSES or self.status >= 500

    @property
    def failure(self) -> type[RolloutError]:
        """What it is if retries don't help."""
        if self.cause in FAILURES:
            return FAILURES[self.cause]
        if self.status == TOO_MANY:
            return RateLimited
        if self.code == INVALID:
            return InvalidReply
        if self.status in BAD_REQUESTS:
            return RequestRefused
        return EndpointDown if self.status is None or self.status >= 500 else EndpointFailure

    @property
    def advice(self) -> str:
        """What the user can do."""
        status = 402 if self.cause is Cause.QUOTA else self.status
        return ADVICE.get(status or 0, SERVER_ADVICE)

    def __str__(self) -> str:
        status = "no answer" if self.status is None else f"HTTP {self.status}"
        return f"{status}: {self.message}"


def read_refusal(status: int, body: str, headers: Mapping[str, str]) -> Refusal:
    """Read an error response of any server: OpenAI's {"error": {...}}, vLLM's older plain object,
    Gemini's list, or any text.
    """
    return _read_error(status, _error_of(body), body, headers)


def _error_of(body: str) -> Mapping[str, Any]:
    """The object in a body that tells of the error; empty if there is none."""
    try:
        decoded = json.loads(body)
    except BROKEN:
        return {}
    if isinstance(decoded, list):
        decoded = next(iter(decoded), None)
    error = decoded.get("error") or decoded if isinstance(decoded, dict) else {}
    return error if isinstance(error, dict) else {"message": error}


def refusal_in(decoded: Any, headers: Mapping[str, str]) -> Refusal | None:
    """The error in the body of a response with status 200, which gateways send that had begun to
    answer before the server behind them failed; None if there is none.
    """
    if not isinstance(decoded, dict):
        return None
    choices = decoded.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    error = decoded.get("error") or (choice.get("error") if isinstance(choice, dict) else None)
    if not error:
        return None
    if not isinstance(error, dict):
        error = {"message": error}
    return _read_error(_status_of(error), error, json.dumps(error), headers)


def _status_of(error: Mapping[str, Any]) -> int:
    """The status that an error names, or would have had."""
    for key in ("code", "status_code", "type"):
        word = str(error.get(key))
        status = int(word) if word.isdecimal() else STATUS_OF_TYPE.get(word, 0)
        if 400 <= status < 600:
            return status
    return 500


def _read_error(
    status: int, error: Mapping[str, Any], body: str, headers: Mapping[str, str]
) -> Refusal:
    message = str(error.get("message") or error.get("detail") or body or "an empty body")
    metadata = error.get("metadata")
    behind: Mapping[str, Any] = {}
    if isinstance(metadata, dict) and metadata.get("raw"):  # of the server behind OpenRouter
        raw = str(metadata["raw"])
        behind = _error_of(raw)
        message = f"{message}: {behind.get('message') or raw}"
    named = [source.get(key) for source in (error, behind) for key in ("code", "type")]
    codes = [str(code).lower() for code in named if code]
    cause = _cause(status, codes, f"{message[:READ_LIMIT]} {error.get('param') or ''}".lower())
    generated = ""
    if cause is Cause.MALFORMED_CALL:
        of_ollama = message.partition("raw='")[2].rpartition("', err")[0]
        generated = str(error.get("failed_generation") or of_ollama)
    return Refusal(
        status,
        bounded(message),
        bounded(str(error.get("code") or error.get("type") or "")),
        retry_after(headers, error),
        cause,
        generated,
    )


def _cause(status: int, codes: Collection[str], text: str) -> Cause:
    """From the codes, else from the words, both in lower case."""
    cause = next((CODES[code] for code in codes if code in CODES), Cause.OTHER)
    if cause is not Cause.OTHER or status in ABOUT_THE_ACCOUNT:
        return cause
    is_full = bool(FULL.search(text)) and not NOT_FULL.search(text)
    if status == TOO_MANY:
        is_full = bool(TOO_LARGE_ALONE.search(text))
    elif MALFORMED.search(text):
        return Cause.MALFORMED_CALL
    elif "tool_choice" in text or "tool choice" in text:
        return Cause.TOOL_CHOICE
    return Cause.FULL_CONTEXT if is_full or status == TOO_LARGE else Cause.OTHER


def retry_after(headers: Mapping[str, str], error: Mapping[str, Any]) -> float:
    """The seconds that a server asks to wait, in its headers or, as Google does, in its error; 0 if
    it asks for none.
    """
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, factor * float(headers.get(name, "")))
        except ValueError:  # there is none, or a date
            pass
    try:
        now = _seconds(headers["date"]) if "date" in headers else time.time()
        return max(0.0, _seconds(headers.get("retry-after", "")) - now)
    except (ValueError, TypeError, OverflowError):
        pass
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and re.fullmatch(r"\d{1,9}(\.\d{1,9})?s", delay):
            return float(delay[:-1])
    return 0.0


def _seconds(date: str) -> float:
    """Unix time of a date as in headers. Raises ValueError, TypeError, OverflowError."""
    read: datetime = parsedate_to_datetime(date)
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def bounded(text: str) -> str:
    """One line of at most MESSAGE_LIMIT storable characters."""
    line = " ".join(storable(text).split())
    return line if len(line) <= MESSAGE_LIMIT else f"{line[:MESSAGE_LIMIT]} ..."
